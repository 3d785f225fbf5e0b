"""DAB and CSA cycle by cycle, on two devices and on four (DAB thesis, Fig. 3.4 and 3.5).

DAB's learners decide how many shards they do in five passes by a deadline of 15 s. CSA deals out
all 120 shards once a cycle and gives each learner the passes that fit. Repeats are seeds.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace

from axon.allocation.csa import StalenessAware
from axon.data.datasets import Dataset
from axon.experiments.dab_cycles_claims import claims_of, samples, took_s
from axon.experiments.mnist import shard_samples
from axon.experiments.result import Result, Row, line
from axon.experiments.runs import (
    Measure,
    Records,
    accuracy,
    loss,
    repeated,
    simulate,
    untrained,
)
from axon.experiments.settings import Settings, load_dataset
from axon.experiments.thesis import BELIEVED, LOSSES, SUMMED_UP, Pair, csa, dab
from axon.report.figures import Figure, Panel
from axon.report.tables import Cell
from axon.rounds.settings import Run, Scheme
from axon.values import TaskSpec

NAME = "dab-cycles"
FLEETS: Mapping[str, str] = {
    "pair": "Pi1 and Jetson Nano",
    "thesis": "Pi1, Pi2, Pi3 and Jetson Nano",
}
CYCLES, QUICK_CYCLES = 10, 4
REPEATS, QUICK_REPEATS = 6, 2
PASSES = 5
DEADLINE_S = 15.0
SMALL = 30_000
"""A data set with fewer samples than this gets a tenth of the deadline, or everybody would do all
of it."""
THESIS = "softmax twice"
MEASURES: Mapping[str, Measure] = {
    "loss": loss,
    "accuracy [%]": accuracy,
    "samples": samples,
    "time [s]": took_s,
}
READING = (
    "How it was read: the deadline is what shares are reckoned for, and nobody is cut off at it "
    "(a grace of four deadlines), because CSA is to do its fixed amount of data whatever that "
    "takes. Batches of 32, which the thesis does not give. CSA's shards are dealt out, so that no "
    "two learners hold the same one in a cycle; DAB's learners each draw from all of them. The "
    "benchmark that comes before the first cycle is in no cycle's time."
)


@dataclass(frozen=True, slots=True)
class Setting:
    """What is trained on, and for how long."""

    dataset: Dataset
    cycles: int

    @property
    def deadline_s(self) -> float:
        """Of each cycle."""
        return DEADLINE_S if len(self.dataset.train) >= SMALL else DEADLINE_S / 10

    def run(self, net: str, seed: int) -> Run:
        """A run in which nobody is cut off."""
        dataset = self.dataset
        return Run(
            spec=TaskSpec(net=net, inputs=dataset.shape, classes=dataset.classes),
            cycles=self.cycles,
            deadline_s=self.deadline_s,
            grace_s=4 * self.deadline_s,
            shard_samples=shard_samples(len(dataset.train)),
            seed=seed,
        )

    def trained(self, fleet: str, net: str, scheme: Scheme) -> Callable[[int], Records]:
        """A run of that fleet by that scheme, from any seed."""
        return lambda seed: simulate(self.run(net, seed), self.dataset, fleet, scheme)


Found = dict[tuple[str, str], Pair]
"""Both schemes, by the fleet and the loss."""


def run(settings: Settings) -> Result:
    """Train both schemes on both fleets, and hold the thesis's sentences against it."""
    dataset, note = load_dataset(settings)
    setting = Setting(dataset, QUICK_CYCLES if settings.quick else CYCLES)
    repeats = settings.repeated(REPEATS, QUICK_REPEATS)
    found = _measure(setting, repeats, settings)
    notes = [READING, BELIEVED, _with_slack(setting), SUMMED_UP, *([note] if note else [])]
    if setting.deadline_s != DEADLINE_S:
        notes.append(
            f"{len(dataset.train):,} samples in shards of {shard_samples(len(dataset.train))}, "
            f"and a deadline of {setting.deadline_s:g} s: not the thesis's regime, in which no "
            "device can do all of the data."
        )
    return Result(
        name=NAME,
        title="DAB and CSA over the global updates",
        claims=claims_of({fleet: found[fleet, THESIS] for fleet in FLEETS}),
        rows=tuple(row for key in found for row in _rows(*key, found[key])),
        figure=_figure(found),
        repeats=repeats,
        dataset=dataset.name,
        notes=tuple(notes),
    )


def _measure(setting: Setting, repeats: int, settings: Settings) -> Found:
    found: Found = {}
    for reading, suffix in LOSSES.items():
        # The second reading is there to compare with, and half as many repeats show as much.
        times = repeats if reading == THESIS else (repeats + 1) // 2
        for fleet in FLEETS:
            label = f"on {FLEETS[fleet]}, {reading}"
            ours, theirs = (
                setting.trained(fleet, f"twonn{suffix}", scheme) for scheme in (dab(PASSES), csa())
            )
            found[fleet, reading] = Pair(
                repeated(ours, times, settings, f"DAB {label}"),
                repeated(theirs, times, settings, f"CSA {label}"),
            )
    return found


def _rows(fleet: str, reading: str, pair: Pair) -> list[Row]:
    curves = {
        f"{name} {label}": repeats.curve(measure)
        for label, measure in MEASURES.items()
        for name, repeats in (("DAB", pair.dab), ("CSA", pair.csa))
    }
    rows: list[Row] = []
    for at in range(len(pair.dab.runs[0])):
        cells: dict[str, Cell] = {"fleet": fleet, "loss of": reading, "cycle": at + 1}
        rows.append(cells | {label: curve[at] for label, curve in curves.items()})
    return rows


def _with_slack(setting: Setting) -> str:
    """What the same CSA does as it is shipped; its time and its work, which need no training."""
    scheme, parts = csa(slack=StalenessAware().slack), []
    for fleet in FLEETS:
        run = replace(setting.run("twonn", 0), cycles=1, evaluate_every=0)
        (record,) = simulate(run, setting.dataset, fleet, scheme, trainer=untrained)
        parts.append(f"{fleet}: {samples(record):,.0f} samples in {took_s(record):.4g} s")
    return (
        "CSA plans for the whole deadline here, as its paper does. As Axon ships it, it keeps a "
        f"slack of {100 * StalenessAware().slack:g} %, which can cost everybody a whole pass; "
        f"then a cycle of it is {'; '.join(parts)}."
    )


def _figure(found: Found) -> Figure:
    panels = [
        Panel(
            FLEETS[fleet],
            "global update",
            label,
            (line("DAB", pair.dab.curve(measure)), line("CSA", pair.csa.curve(measure))),
        )
        for label, measure in (("loss", loss), ("accuracy [%]", accuracy))
        for fleet in FLEETS
        for pair in (found[fleet, THESIS],)
    ]
    return Figure("DAB and CSA over the global updates", tuple(panels))
