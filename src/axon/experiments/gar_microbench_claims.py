"""What GARFIELD says of Fig. 3.3, held against what was found."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from math import log
from statistics import fmean, median

from axon.experiments.result import Claim, Side, judged
from axon.intervals import Interval, mean_interval
from axon.report.tables import shown

AVERAGE = "average"
CLOSE = 2.0
"""Times the average, which we read "very close to" as."""
LINEAR = Side(0.85, 1.15)
"""The exponents that count as 1, for times of a machine that does other things too."""
QUADRATIC = ("Multi-Krum", "Bulyan", "MDA")

Timing = Mapping[str, Sequence[float]]
"""Seconds of each rule, repeat by repeat."""


@dataclass(frozen=True, slots=True)
class Found:
    """The times on one device, by number of vectors and size."""

    over_counts: Mapping[tuple[int, int], Timing]
    over_sizes: Mapping[tuple[int, int], Timing]


def exponent(across: Sequence[float], taken: Sequence[float]) -> float:
    """The k of the power law a·x^k that is nearest, by least squares of the logarithms."""
    xs, ys = [log(each) for each in across], [log(each) for each in taken]
    x, y = fmean(xs), fmean(ys)
    shared = sum((one - x) * (other - y) for one, other in zip(xs, ys, strict=True))
    return shared / sum((one - x) ** 2 for one in xs)


def exponents(timed: Mapping[tuple[int, int], Timing], rule: str, axis: int) -> Interval:
    """How a rule's time grows along the counts (0) or the sizes (1), a fit for each repeat."""
    across = [float(place[axis]) for place in timed]
    repeats = zip(*(timing[rule] for timing in timed.values()), strict=True)
    return mean_interval([exponent(across, taken) for taken in repeats])


def claims_of(device: str, found: Found) -> tuple[Claim, ...]:
    """Every sentence of the paper's prose about the figure."""
    rules = list(next(iter(found.over_counts.values())))
    return (
        *(_at_most_quadratic(device, found, rule) for rule in QUADRATIC),
        _average(device, found),
        _close(device, found),
        *(_linear(device, found, rule) for rule in rules),
    )


def _at_most_quadratic(device: str, found: Found, rule: str) -> Claim:
    return judged(
        f"the time of {rule} grows at most quadratically with n on {device}",
        exponents(found.over_counts, rule, 0),
        Side(most=2.0),
        paper="quadratically",
        unit="as the exponent",
        why="distances between all pairs are n²/2 products of vectors; what reads and averages "
        "the vectors is linear, so that the exponent lies between",
    )


def _average(device: str, found: Found) -> Claim:
    return judged(
        f"the time of the average grows at most linearly with n on {device}",
        exponents(found.over_counts, AVERAGE, 0),
        Side(most=LINEAR.most),
        paper="constant below 15, then linearly",
        unit="as the exponent",
        why="it reads every vector once",
    )


def _close(device: str, found: Found) -> Claim:
    """Decided at the number of vectors at which the median looks worst."""
    ratios = {
        count: [one / other for one, other in zip(timing["median"], timing[AVERAGE], strict=True)]
        for (count, _), timing in found.over_counts.items()
    }
    worst = max(ratios, key=lambda count: median(ratios[count]))
    others = ", ".join(f"{shown(median(each))} with {count}" for count, each in ratios.items())
    return judged(
        f"the median takes at most {CLOSE:g} times as long as the average on {device}",
        mean_interval(ratios[worst]),
        Side(most=CLOSE),
        paper="very close",
        unit=f"times, with {worst} vectors",
        why=f"{others}; each coordinate is sorted as far as its middle, which takes more "
        "operations than a sum: a GPU waits for its memory either way, a few cores do not",
    )


def _linear(device: str, found: Found, rule: str) -> Claim:
    return judged(
        f"the time of {rule} grows linearly with d on {device}",
        exponents(found.over_sizes, rule, 1),
        LINEAR,
        paper="linearly",
        unit="as the exponent",
        why=f"an exponent from {LINEAR.least} to {LINEAR.most} counts as 1; small stacks fit into "
        "a cache, and what does not depend on d weighs more with them",
    )
