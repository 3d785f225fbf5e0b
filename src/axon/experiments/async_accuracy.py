"""How soon three allocations reach an accuracy (Mohammad and Sorour, Fig. 3).

Learners around an access point share a data set in cycles of 15 s: with as little staleness as
there can be, with the same number of epochs for all, or with the same number of samples. Repeats
are seeds: of the model, of the shards drawn, and of where the learners are.
"""

from __future__ import annotations

from collections.abc import Sequence

from axon.data.datasets import Dataset
from axon.experiments.async_claims import LEVELS, Found, claims_of, shown_cycles
from axon.experiments.async_trial import PERIOD_S, SCHEMES, Trial, conduct
from axon.experiments.parallel import spread
from axon.experiments.result import Result, Row, line
from axon.experiments.runs import Records, Repeats, accuracy, seeds
from axon.experiments.settings import Settings, load_dataset
from axon.intervals import mean_interval
from axon.report.figures import Figure, Panel
from axon.report.tables import Cell, shown

NAME = "async-accuracy"
LEARNERS = (10, 15, 20)
CYCLES, REPEATS = 12, 6
"""A run ends before, with the cycle in which it is as accurate as anything is said of. Fewer than
six repeats would give no interval of a median."""
QUICK_CYCLES, QUICK_REPEATS = 3, 2
SLOWER, SLOWER_LEARNERS, SLOWER_CYCLES = 0.01, 10, 6
"""Another learning rate, since the paper gives none, with the fewest learners."""


def run(settings: Settings) -> Result:
    """Train every scheme with every number of learners, and hold the paper's sentences to it."""
    dataset, note = load_dataset(settings)
    repeats = settings.repeated(REPEATS, QUICK_REPEATS)
    cycles = QUICK_CYCLES if settings.quick else CYCLES
    found = measure(_trials(dataset, LEARNERS, cycles, seeds(settings, repeats)), settings)
    notes = [note, _assumed(dataset, cycles)]
    if not settings.quick:
        notes.append(_dependence(dataset, settings))
    return Result(
        name=NAME,
        title="Accuracy of three allocations, cycle by cycle",
        claims=claims_of(found),
        rows=tuple(_row(found, *key) for key in found.runs),
        figure=_figure(found),
        repeats=repeats,
        dataset=dataset.name,
        notes=tuple(filter(None, notes)),
    )


def _trials(
    dataset: Dataset,
    learners: Sequence[int],
    cycles: int,
    seeds: Sequence[int],
    learning_rate: float | None = None,
) -> list[Trial]:
    """Every scheme from every seed: schemes share placements, first models and shards."""
    return [
        Trial(
            dataset=dataset,
            scheme=scheme,
            learners=count,
            cycles=cycles,
            seed=seed,
            enough=max(LEVELS),
            learning_rate=learning_rate,
        )
        for count in learners
        for scheme in SCHEMES
        for seed in seeds
    ]


def measure(trials: Sequence[Trial], settings: Settings) -> Found:
    """What came of these trials, the repeats of each scheme and number of learners together."""
    runs: dict[tuple[int, str], tuple[Records, ...]] = {}
    # A quick look is over before other processes have begun.
    results = spread(conduct, trials, 1 if settings.quick else None)
    for at, (trial, records) in enumerate(zip(trials, results, strict=True), 1):
        settings.progress(
            f"{trial.learners} learners, {trial.scheme}: {at} of {len(trials)} runs done"
        )
        key = trial.learners, trial.scheme
        runs[key] = (*runs.get(key, ()), records)
    return Found(
        {key: Repeats(each) for key, each in runs.items()}, trials[0].shard_samples, PERIOD_S
    )


def _row(found: Found, learners: int, scheme: str) -> Row:
    epochs = found.epochs(learners, scheme)
    seen = [
        sum(device.samples for device in first.devices) for first in found.firsts(learners, scheme)
    ]
    cells: dict[str, Cell] = {
        "K": learners,
        "scheme": scheme,
        "epochs": f"{min(map(min, epochs))} to {max(map(max, epochs))}",
        "staleness": mean_interval([max(each) - min(each) for each in epochs]),
        "samples x epochs": mean_interval(seen),
    }
    for level in LEVELS:
        cells[f"cycles to {level} %"] = shown_cycles(found.cycles_to(learners, scheme, level))
    together = Repeats(found.alike(learners, scheme, found.common))
    cells[f"% after {found.common} cycles"] = together.last(accuracy)
    return cells


def _figure(found: Found) -> Figure:
    """Each curve over the cycles that all of its repeats had."""
    panels = []
    for count in LEARNERS:
        series = tuple(
            line(scheme, Repeats(found.alike(count, scheme)).curve(accuracy)) for scheme in SCHEMES
        )
        panels.append(Panel(f"K = {count}", "cycles", "accuracy [%]", series))
    return Figure("Accuracy, cycle by cycle", tuple(panels))


def _assumed(dataset: Dataset, cycles: int) -> str:
    """What the paper does not say, and what was cut."""
    trial = Trial(dataset=dataset, scheme="ETA", learners=LEARNERS[0], cycles=cycles, seed=0)
    spec, size = trial.spec, trial.shard_samples
    told = (
        f"Assumed, as the paper does not say: {spec.optimiser.upper()} with a learning rate of "
        f"{spec.learning_rate:g} and batches of {spec.batch_size}, the learners and the bounds on "
        "their samples as in `staleness`, and updates that weigh as many batches as are behind "
        f"them. All samples are dealt out anew in every cycle, in shards of {size}. A run ends "
        f"with the cycle in which it reaches {max(LEVELS)} %, or after {cycles} cycles."
    )
    if trial.stands_for == 1.0:
        return told
    return f"{told} Each sample stands for {trial.stands_for:g} of MNIST's and takes as long."


def _dependence(dataset: Dataset, settings: Settings) -> str:
    """How much hangs on the learning rate."""
    trials = _trials(dataset, [SLOWER_LEARNERS], SLOWER_CYCLES, seeds(settings, 1), SLOWER)
    found = measure(trials, settings)
    ends = ", ".join(
        f"{scheme} {shown(found.runs[SLOWER_LEARNERS, scheme].last(accuracy).value)} %"
        for scheme in SCHEMES
    )
    return (
        f"At a learning rate of {SLOWER:g}, {SLOWER_LEARNERS} learners have come to this after "
        f"{SLOWER_CYCLES} cycles in one run: {ends}."
    )
