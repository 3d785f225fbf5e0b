"""What Mohammad and Sorour say of Fig. 3, held against what was found."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from axon.experiments.result import Claim, bounds
from axon.experiments.runs import Repeats, accuracy
from axon.intervals import Interval, mean_interval
from axon.report.tables import Cell, shown
from axon.values import RoundRecord

OURS = "asynchronous"
LEVELS = (95, 97)
"""Accuracies in per cent of which the paper tells when they are reached."""
SOONER = (
    (10, 95, "synchronous", 4, 8),
    (15, 95, "synchronous", 3, 4),
    (15, 95, "ETA", 3, 4),
    (15, 97, "synchronous", 8, 10),
    (15, 97, "ETA", 8, 10),
    (20, 97, "synchronous", 7, 8),
    (20, 97, "ETA", 7, 11),
)
"""What the paper says: learners, an accuracy, another scheme, our cycles and the other's."""


@dataclass(frozen=True, slots=True)
class Found:
    """The repeats of every number of learners and every scheme."""

    runs: Mapping[tuple[int, str], Repeats]
    shard_samples: int
    period_s: float

    def firsts(self, learners: int, scheme: str) -> list[RoundRecord]:
        """The first cycle of every repeat; all cycles of a run are planned alike."""
        return [records[0] for records in self.runs[learners, scheme].runs]

    def epochs(self, learners: int, scheme: str) -> list[list[int]]:
        """Every learner's epochs in a cycle, repeat by repeat."""
        return [
            [each.samples // (each.shards * self.shard_samples) for each in first.devices]
            for first in self.firsts(learners, scheme)
        ]

    def cycles_to(self, learners: int, scheme: str, level: int) -> list[int | None]:
        """After how many cycles each repeat was that good; None where it never was."""
        return [
            next((each.cycle for each in records if (accuracy(each) or 0.0) >= level), None)
            for records in self.runs[learners, scheme].runs
        ]

    @property
    def cycles(self) -> int:
        """How many each run had."""
        return max(len(records) for each in self.runs.values() for records in each.runs)


def claims_of(found: Found) -> tuple[Claim, ...]:
    """Every sentence of the paper about Fig. 3, and some of our own."""
    first, *others = [_sooner(found, *said) for said in SOONER]
    ends = [_better(found, other) for other in ("synchronous", "ETA")]
    return (first, _never(found), *others, *ends, _in_time(found))


def shown_cycles(counts: Sequence[int | None]) -> Cell:
    """The mean over the repeats, or how many of them never got there."""
    reached = [count for count in counts if count is not None]
    if len(reached) == len(counts):
        return mean_interval(reached)
    return "never" if not reached else f"in {len(reached)} of {len(counts)} runs"


def _sooner(found: Found, learners: int, level: int, other: str, few: int, many: int) -> Claim:
    """That ours is that good sooner than another scheme."""
    ours = found.cycles_to(learners, OURS, level)
    theirs = found.cycles_to(learners, other, level)
    # Whoever never got there would have needed one cycle more at least.
    never = found.cycles + 1
    saved = mean_interval(
        [(late or never) - (soon or never) for soon, late in zip(ours, theirs, strict=True)]
    )
    return Claim(
        claim=f"K = {learners}: {level} % sooner than {other} ({few} cycles against {many})",
        paper=float(many - few),
        measured=saved.value,
        unit="cycles sooner",
        holds=_above_zero(saved),
        interval=bounds(saved),
        why=f"{OURS} {_when(ours)}, {other} {_when(theirs)}{_alike(found, learners, other)}",
    )


def _when(counts: Sequence[int | None]) -> str:
    cell = shown_cycles(counts)
    return f"after {shown(cell)} cycles" if isinstance(cell, Interval) else shown(cell)


def _alike(found: Found, learners: int, other: str) -> str:
    """Where no plan is stale, that there is nothing by which they could differ."""
    stale = [max(each) - min(each) for each in found.epochs(learners, OURS)]
    if other != "synchronous" or max(stale) > 0:
        return ""
    return "; the least stale plan gives all learners the same epochs, as the synchronous does"


def _never(found: Found) -> Claim:
    """That with few learners ETA fails where ours does not."""
    ours, theirs = (found.cycles_to(10, scheme, 95) for scheme in (OURS, "ETA"))
    reached = sum(count is not None for count in theirs)
    return Claim(
        claim=f"K = 10: ETA never reaches 95 %, and {OURS} does",
        paper="never",
        measured=float(reached),
        unit=f"of {len(theirs)} runs of ETA are there within {found.cycles} cycles",
        holds=not reached and None not in ours,
        why=f"{OURS} {_when(ours)}, ETA {_when(theirs)}",
    )


def _better(found: Found, other: str) -> Claim:
    """That ours is ahead after the last cycle, whatever the number of learners."""
    apart = [
        (accuracy(mine[-1]) or 0.0) - (accuracy(yours[-1]) or 0.0)
        for (learners, scheme), repeats in found.runs.items()
        if scheme == OURS
        for mine, yours in zip(repeats.runs, found.runs[learners, other].runs, strict=True)
    ]
    ahead = mean_interval(apart)
    return Claim(
        claim=f"after {found.cycles} cycles it is more accurate than {other}, over all K",
        paper=None,
        measured=ahead.value,
        unit="points",
        holds=_above_zero(ahead),
        interval=bounds(ahead),
        why=f"ahead in {sum(each > 0 for each in apart)} of {len(apart)} pairs of runs",
    )


def _in_time(found: Found) -> Claim:
    """That the radio model, the plans and the learners on the core agree."""
    devices = [
        device
        for repeats in found.runs.values()
        for records in repeats.runs
        for record in records
        for device in record.devices
    ]
    last_s = max(each.answered_s or 0.0 for each in devices)
    done = sum(
        each.status == "used" and not each.halted and (each.answered_s or 0.0) <= found.period_s
        for each in devices
    )
    return Claim(
        claim=f"every learner does all of its share within T = {found.period_s:g} s",
        paper=None,
        measured=last_s,
        unit="s at the latest",
        holds=done == len(devices),
        why=f"{done:,} of {len(devices):,} shares were done in time",
    )


def _above_zero(found: Interval) -> bool:
    """Whether chance alone does not explain it; a single measurement is taken as it is."""
    known = bounds(found)
    return found.value > 0 if known is None else known[0] > 0
