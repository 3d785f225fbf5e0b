"""How soon three allocations reach an accuracy (Mohammad and Sorour, Fig. 3).

Learners around an access point share a data set in cycles of 15 s: with as little staleness as
there can be, with the same number of epochs for all, or with the same number of samples. Repeats
are seeds: of the model, of the shards drawn, and of where the learners are.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from axon.data.datasets import Dataset
from axon.experiments.async_trial import PERIOD_S, SCHEMES, Trial, conduct
from axon.experiments.parallel import spread
from axon.experiments.result import Claim, Result, Row, bounds
from axon.experiments.runs import Records, Repeats, accuracy, line, seeds
from axon.experiments.settings import Settings, load_dataset
from axon.intervals import Interval, mean_interval
from axon.report.figures import Figure, Panel
from axon.report.tables import Cell, shown
from axon.values import DeviceRecord

NAME = "async-accuracy"
LEARNERS = (10, 15, 20)
LEVELS = (95, 97)
"""Accuracies in per cent of which the paper tells when they are reached."""
CYCLES, REPEATS = 6, 3
QUICK_CYCLES, QUICK_REPEATS = 12, 1
SLOWER = 0.01
"""Another learning rate, since the paper gives none."""
FEWER = (
    (10, 95, "synchronous", 4, 8),
    (15, 95, "synchronous", 3, 4),
    (15, 95, "ETA", 3, 4),
    (15, 97, "synchronous", 8, 10),
    (15, 97, "ETA", 8, 10),
    (20, 97, "synchronous", 7, 8),
    (20, 97, "ETA", 7, 11),
)
"""What the paper says: K, an accuracy, another scheme, our scheme's cycles and the other's."""


@dataclass(frozen=True, slots=True)
class Found:
    """The repeats of every scheme and number of learners."""

    runs: Mapping[tuple[int, str], Repeats]
    shard_samples: int

    def cycles_to(self, learners: int, scheme: str, level: int) -> list[int]:
        """After how many cycles each repeat was that good; never counts as one more than all."""
        return [_first(records, level) for records in self.runs[learners, scheme].runs]

    def epochs(self, learners: int, scheme: str) -> list[list[int]]:
        """Every learner's epochs in a cycle, repeat by repeat."""
        return [
            [self._passes(device) for device in records[0].devices]
            for records in self.runs[learners, scheme].runs
        ]

    def _passes(self, device: DeviceRecord) -> int:
        return device.samples // max(1, device.shards * self.shard_samples)


def _first(records: Records, level: int) -> int:
    good = (each.cycle for each in records if (accuracy(each) or 0.0) >= level)
    return next(good, len(records) + 1)


def run(settings: Settings) -> Result:
    """Train every scheme with every number of learners, and hold the paper's sentences to it."""
    dataset, note = load_dataset(settings)
    repeats = settings.repeated(REPEATS, QUICK_REPEATS)
    cycles = QUICK_CYCLES if settings.quick else CYCLES
    found = measure(dataset, cycles, repeats, settings)
    return Result(
        name=NAME,
        title="Accuracy of three allocations, cycle by cycle",
        claims=claims_of(found, cycles),
        rows=tuple(_row(found, cycles, *key) for key in found.runs),
        figure=_figure(found),
        repeats=repeats,
        dataset=dataset.name,
        notes=tuple(filter(None, (note, _assumed(dataset, found, cycles)))),
    )


def measure(
    dataset: Dataset,
    cycles: int,
    repeats: int,
    settings: Settings,
    learning_rate: float | None = None,
) -> Found:
    """The repeats of every scheme; schemes share seeds, and so placements, models and shards."""
    trials = [
        Trial(
            dataset=dataset,
            scheme=scheme,
            learners=learners,
            cycles=cycles,
            seed=seed,
            learning_rate=learning_rate,
        )
        for learners in LEARNERS
        for scheme in SCHEMES
        for seed in seeds(settings, repeats)
    ]
    runs: dict[tuple[int, str], tuple[Records, ...]] = {}
    # A quick look is over before other processes have started.
    workers = 1 if settings.quick else None
    for trial, records in zip(trials, spread(conduct, trials, workers), strict=True):
        settings.progress(f"{trial.learners} learners, {trial.scheme}")
        key = trial.learners, trial.scheme
        runs[key] = (*runs.get(key, ()), records)
    shard_samples = trials[0].shard_samples
    return Found({key: Repeats(each) for key, each in runs.items()}, shard_samples)


def claims_of(found: Found, cycles: int) -> tuple[Claim, ...]:
    """Every sentence of the paper about Fig. 3, and one of our own."""
    fewer = [_fewer(found, cycles, *said) for said in FEWER]
    return (fewer[0], _never(found, cycles), *fewer[1:], _in_time(found))


def _fewer(found: Found, cycles: int, learners: int, level: int, other: str, *said: int) -> Claim:
    """That the asynchronous scheme is sooner at an accuracy than another."""
    few, many = said
    ours = found.cycles_to(learners, "asynchronous", level)
    theirs = found.cycles_to(learners, other, level)
    saved = mean_interval([late - soon for soon, late in zip(ours, theirs, strict=True)])
    known = bounds(saved)
    holds = saved.value > 0 if known is None else known[0] > 0
    missed = [f"{name} never in {len(runs)} runs" for name, runs in ()]
    why = f"{_mean(ours, cycles)} cycles against {_mean(theirs, cycles)}"
    return Claim(
        claim=f"{learners} learners: {level} % sooner than {other} ({few} against {many} cycles)",
        paper=float(many - few),
        measured=saved.value,
        unit="cycles sooner",
        holds=holds,
        interval=known,
        why="; ".join([why, *missed]),
    )
