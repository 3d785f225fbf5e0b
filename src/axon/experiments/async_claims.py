"""What Mohammad and Sorour say of Fig. 3, held against what was found.

Who never reached an accuracy has needed more cycles than there were, nobody knows how many. So
cycles are told as medians, beside how many runs got there.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from statistics import fmean, median

from axon.experiments import paired
from axon.experiments.result import ABOVE_ZERO, Claim, judged
from axon.experiments.runs import Records, Repeats, accuracy
from axon.intervals import mean_interval
from axon.report.tables import shown
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
        """How many there are to those who do not get there."""
        return max(len(records) for each in self.runs.values() for records in each.runs)

    @property
    def common(self) -> int:
        """How many every run had."""
        return min(len(records) for each in self.runs.values() for records in each.runs)

    def alike(self, learners: int, scheme: str, most: int | None = None) -> tuple[Records, ...]:
        """The repeats without the cycles that not all of them had, or beyond so many."""
        runs = self.runs[learners, scheme].runs
        return tuple(run[: most or min(map(len, runs))] for run in runs)


def claims_of(found: Found) -> tuple[Claim, ...]:
    """Every sentence of the paper about Fig. 3, and some of our own."""
    first, *others = [_sooner(found, *said) for said in SOONER]
    ahead = [_ahead(found, other) for other in ("synchronous", "ETA")]
    return (first, _never(found), *others, *ahead, _in_time(found))


def shown_cycles(counts: Sequence[int | None]) -> str:
    """The median over the repeats, and how many of them got there."""
    middle = median(math.inf if count is None else count for count in counts)
    reached = sum(count is not None for count in counts)
    if not reached:
        return "never"
    return f"{shown(middle) if math.isfinite(middle) else 'not most'} ({reached}/{len(counts)})"


def _sooner(found: Found, learners: int, level: int, other: str, few: int, many: int) -> Claim:
    """That ours is that good sooner than another scheme, from the same seed."""
    ours = found.cycles_to(learners, OURS, level)
    theirs = found.cycles_to(learners, other, level)
    leads = [_lead(*pair, found.cycles) for pair in zip(ours, theirs, strict=True)]
    return judged(
        f"K = {learners}: {level} % sooner than {other} ({few} cycles against {many})",
        paired.median_interval(leads),
        ABOVE_ZERO,
        paper=float(many - few),
        unit="cycles sooner, the median",
        why=f"cycles of {OURS}: {shown_cycles(ours)}, of {other}: {shown_cycles(theirs)}"
        f"{_alike(found, learners, other)}",
    )


def _lead(soon: int | None, late: int | None, cycles: int) -> tuple[float, float]:
    """Between which bounds the cycles lie by which the first was sooner."""
    ours, theirs = (
        (cycles + 1.0, math.inf) if each is None else (float(each), float(each))
        for each in (soon, late)
    )
    return theirs[0] - ours[1], theirs[1] - ours[0]


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
        why=f"cycles of {OURS}: {shown_cycles(ours)}, of ETA: {shown_cycles(theirs)}",
    )


def _ahead(found: Found, other: str) -> Claim:
    """That ours is more accurate in the cycles that all runs had; one number for each seed."""
    counts = sorted({learners for learners, _ in found.runs})
    apart = [
        [
            _mean_accuracy(mine) - _mean_accuracy(yours)
            for mine, yours in zip(
                *(found.alike(learners, scheme, found.common) for scheme in (OURS, other)),
                strict=True,
            )
        ]
        for learners in counts
    ]
    seeds = [fmean(each) for each in zip(*apart, strict=True)]
    return judged(
        f"over the first {found.common} cycles it is more accurate than {other}, over all K",
        mean_interval(seeds),
        ABOVE_ZERO,
        unit="points on average",
        why=f"ahead with {sum(each > 0 for each in seeds)} of {len(seeds)} seeds",
    )


def _mean_accuracy(records: Records) -> float:
    return fmean(accuracy(record) or 0.0 for record in records)


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
