"""What Mohammad and Sorour say of Fig. 2, held against what was found.

Every placement gives one number, and the intervals are over placements.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from statistics import fmean

from axon.allocation.staleness import StalenessPlan
from axon.experiments.placements import Found, Placement
from axon.experiments.result import ABOVE_ZERO, Claim, Side, judged
from axon.intervals import Interval, mean_interval
from axon.report.tables import shown

CITED_S, CITED = 7.5, 20
"""The period and the number of learners for which the paper's text gives numbers."""
ZEROES = ((15.0, 14), (7.5, 18))
"""Where the paper found no staleness at all: period and number of learners."""
SIMILAR = 0.5
"""Epochs apart at the maximum that still count as similar."""


def claims_of(found: Found, tight: Found) -> tuple[Claim, ...]:
    """Every sentence of the paper about Fig. 2, and one of our own.

    `tight` is the same with bounds on a learner's samples that bind.
    """
    return (
        *_cited(found, tight),
        *_curves(found, tight),
        *(_rises(found, period_s) for period_s in (CITED_S, 2 * CITED_S)),
        *_zeroes(found, tight),
        _similar(found, tight),
        _never_worse(found, tight),
    )


def _cited(found: Found, tight: Found) -> list[Claim]:
    """The four numbers for twenty learners."""
    place = f"at K = {CITED}, T = {CITED_S:g} s"
    half = CITED // 2
    even = half * half / math.comb(CITED, 2)
    return [
        judged(
            f"maximum staleness, optimised, is at most 1 {place}",
            _most(found, "exact"),
            Side(most=1.0),
            paper=1,
            unit="epochs",
            why=f"with the tight bounds it is {shown(_most(tight, 'exact'))}",
        ),
        judged(
            f"maximum staleness of ETA is 4 {place}",
            _most(found, "ETA"),
            Side(3.5, 4.5),
            paper=4,
            unit="epochs",
            why="counted as 4 from 3.5 to 4.5; it follows from the clocks and the link, which the "
            "paper does not give",
        ),
        judged(
            f"average staleness, optimised, is at most 0.5 {place}",
            _average(found, "exact"),
            Side(most=0.5),
            paper=0.5,
            unit="epochs",
            why=f"with the tight bounds it is {shown(_average(tight, 'exact'))}",
        ),
        judged(
            f"average staleness of ETA is 1.5 {place}",
            _average(found, "ETA"),
            Side(1.45, 1.55),
            paper=1.5,
            unit="epochs",
            why=f"with half of the learners 4 epochs behind the other half, {half * half} of "
            f"{math.comb(CITED, 2)} pairs differ by 4, which makes {4 * even:.1f}; the paper's 1.5 "
            "needs other learners than two equal halves",
        ),
    ]


def _most(found: Found, scheme: str) -> Interval:
    mean = found.most(CITED_S, CITED, scheme)
    assert mean is not None, "twenty learners have room for all samples"
    return mean


def _average(found: Found, scheme: str) -> Interval:
    mean = found.average(CITED_S, CITED, scheme)
    assert mean is not None, "twenty learners have room for all samples"
    return mean


def _curves(found: Found, tight: Found) -> list[Claim]:
    """What the paper says of the optimised curves."""
    return [
        judged(
            f"maximum staleness, optimised, never exceeds 1 at T = {CITED_S:g} s",
            _over(found, _highest),
            Side(most=1.0),
            paper="about 1",
            unit="epochs for the worst K",
            why=f"with the tight bounds it is {shown(_over(tight, _highest))}",
        ),
        judged(
            f"average staleness, optimised, is 0.4 to 0.6 at T = {CITED_S:g} s",
            _over(found, _middle),
            Side(0.4, 0.6),
            paper="0.4 to 0.6",
            unit="epochs on average over K",
            why="it depends on the bounds, which the paper does not give: with wide ones there "
            "are plans without any staleness, with the tight ones it is "
            f"{shown(_over(tight, _middle))}",
        ),
    ]


def _over(found: Found, sum_up: Callable[[list[StalenessPlan]], float]) -> Interval:
    """What each placement's optimised curve at the cited period comes to."""
    curves = [each.curve(CITED_S, "exact") for each in found.placements()]
    return mean_interval([sum_up(curve) for curve in curves if curve])


def _highest(curve: list[StalenessPlan]) -> float:
    return max(each.max_staleness for each in curve)


def _middle(curve: list[StalenessPlan]) -> float:
    return fmean(each.average_staleness for each in curve)


def _rises(found: Found, period_s: float) -> Claim:
    """The one sentence about how a curve goes (section V.C), by its ends in the same placement."""
    curves = [each.curve(period_s, "ETA") for each in found.placements()]
    ends = [(curve[0].max_staleness, curve[-1].max_staleness) for curve in curves if curve]
    first, last = (mean_interval(each) for each in zip(*ends, strict=True))
    return judged(
        f"the staleness of ETA rises with the number of learners at T = {period_s:g} s",
        mean_interval([end - begin for begin, end in ends]),
        ABOVE_ZERO,
        paper="significantly",
        unit="epochs more at the maximum",
        why=f"from {shown(first)} with the fewest learners with which it is feasible to "
        f"{shown(last)} with the most",
    )


def _zeroes(found: Found, tight: Found) -> list[Claim]:
    """Numbers of learners without any staleness."""
    claims = [
        judged(
            "for certain numbers of learners there is no staleness at all",
            _without(found),
            ABOVE_ZERO,
            paper="some K",
            unit="% of the pairs of K and T that are feasible",
            why=f"with the tight bounds in {shown(_without(tight))} %",
        )
    ]
    for period_s, count in ZEROES:
        plans = found.feasible(period_s, count, "exact")
        claims.append(
            judged(
                f"there is none at K = {count}, T = {period_s:g} s",
                mean_interval([100.0 * (each.max_staleness == 0) for each in plans]),
                Side(least=50.0),
                paper="none",
                unit="% of the placements",
                why="counted as so where it is so in most placements; which K divides without a "
                "rest depends on clocks and links that the paper does not give",
            )
        )
    return claims


def _without(found: Found) -> Interval:
    """In how many of a hundred of its problems nothing is stale."""
    return mean_interval(
        [
            100.0 * fmean(plan.max_staleness == 0 for plan in each.of("exact"))
            for each in found.placements()
        ]
    )


def _similar(found: Found, tight: Found) -> Claim:
    """On the tight bounds: with wide ones both are without any staleness nearly everywhere."""
    wide = mean_interval([_apart(each) for each in found.placements()])
    return judged(
        "SAI is about as stale as the numerical solution, with tight bounds",
        mean_interval([_apart(each) for each in tight.placements()]),
        Side(most=SIMILAR),
        paper="similar",
        unit="epochs apart at the maximum, on average",
        why=f"counted as similar within {SIMILAR:g}; {shown(wide)} with the wide bounds, where "
        "there is next to no staleness to differ in",
    )


def _apart(placement: Placement) -> float:
    pairs = placement.pairs("SAI", "relaxed")
    return fmean(abs(one.max_staleness - two.max_staleness) for one, two in pairs)


def _never_worse(found: Found, tight: Found) -> Claim:
    """On every problem that both solved, with either bounds, counted in full."""
    others = [
        pair
        for plans in (found, tight)
        for placement in plans.placements()
        for other in ("relaxed", "SAI")
        for pair in placement.pairs("exact", other)
    ]
    worse = sum(exact.max_staleness > other.max_staleness for exact, other in others)
    better = sum(exact.max_staleness < other.max_staleness for exact, other in others)
    return Claim(
        claim="the exact search is never worse than the numerical solution or SAI",
        paper=None,
        measured=float(worse),
        unit=f"of {len(others)} comparisons worse",
        holds=worse == 0,
        why=f"its maximum is lower in {better} of them",
    )
