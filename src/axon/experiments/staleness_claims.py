"""What Mohammad and Sorour say of Fig. 2, held against what was found."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Literal

from axon.experiments.placements import Found
from axon.experiments.result import Claim, bounds
from axon.intervals import Interval, mean_interval
from axon.report.tables import shown

CITED_S, CITED = 7.5, 20
"""The period and the number of learners for which the paper's text gives numbers."""
ZEROES = ((15.0, 14), (7.5, 18))
"""Where the paper found no staleness at all: period and number of learners."""


def claims_of(found: Found, tight: Found) -> tuple[Claim, ...]:
    """Every sentence of the paper about Fig. 2, and one of our own.

    `tight` is the same with bounds on a learner's samples that bind.
    """
    compared = _comparisons(found, tight)
    return (*_cited(found, tight), *_curves(found, tight), *_zeroes(found, tight), *compared)


def _cited(found: Found, tight: Found) -> list[Claim]:
    """The four numbers for twenty learners."""
    place = f"at K = {CITED}, T = {CITED_S:g} s"
    half = CITED // 2
    even = half * half / math.comb(CITED, 2)
    return [
        _number(
            f"maximum staleness, optimised, is at most 1 {place}",
            1,
            found.most(CITED_S, CITED, "exact"),
            at_most=True,
            why=f"with the tight bounds it is {shown(tight.most(CITED_S, CITED, 'exact'))}",
        ),
        _number(
            f"maximum staleness of ETA is 4 {place}",
            4,
            found.most(CITED_S, CITED, "ETA"),
            why="it follows from the clocks and the link, which the paper does not give",
        ),
        _number(
            f"average staleness, optimised, is at most 0.5 {place}",
            0.5,
            found.average(CITED_S, CITED, "exact"),
            at_most=True,
            why=f"with the tight bounds it is {shown(tight.average(CITED_S, CITED, 'exact'))}",
        ),
        _number(
            f"average staleness of ETA is 1.5 {place}",
            1.5,
            found.average(CITED_S, CITED, "ETA"),
            why=f"with half of the learners 4 epochs behind the other half, {half * half} of "
            f"{math.comb(CITED, 2)} pairs differ by 4, which makes {4 * even:.1f}; the paper's 1.5 "
            "needs other learners than two equal halves",
        ),
    ]


def _number(
    claim: str, paper: float, found: Interval | None, *, at_most: bool = False, why: str
) -> Claim:
    """A claim about one number, to as many digits as the paper gives."""
    assert found is not None, "twenty learners have room for all samples"
    rounded = round(found.value, 0 if isinstance(paper, int) else 1)
    holds = rounded <= paper if at_most else rounded == paper
    return Claim(
        claim=claim,
        paper=paper,
        measured=found.value,
        unit="epochs",
        holds=holds,
        interval=bounds(found),
        why="" if holds and not at_most else why,
    )


def _curves(found: Found, tight: Found) -> list[Claim]:
    """What the paper says of the curves."""
    most, average = _means(found, "most"), _means(found, "average")
    within = all(0.4 <= round(value, 1) <= 0.6 for value in average)
    tightly = f"with the tight bounds it is {_range(_means(tight, 'most'))}"
    return [
        Claim(
            claim=f"maximum staleness, optimised, never exceeds about 1 at T = {CITED_S:g} s",
            paper=1,
            measured=max(most),
            unit="epochs",
            holds=round(max(most)) <= 1,
            why=f"the most of any K, as a mean over the placements; {tightly}",
        ),
        Claim(
            claim=f"average staleness, optimised, is 0.4 to 0.6 at T = {CITED_S:g} s",
            paper="0.4 to 0.6",
            measured=_range(average),
            unit="epochs",
            holds=within,
            why="it depends on the bounds, which the paper does not give: with wide ones there "
            "are plans without any staleness, with the tight ones it is "
            f"{_range(_means(tight, 'average'))}",
        ),
        _rising(found),
    ]


def _rising(found: Found) -> Claim:
    """The one sentence about how a curve goes (section V.C)."""
    ends = {}
    for period_s in (CITED_S, 2 * CITED_S):
        means = [found.most(period_s, count, "ETA") for count in found.learners]
        known = [mean.value for mean in means if mean is not None]
        ends[period_s] = known[0], known[-1]
    return Claim(
        claim="the staleness of ETA rises with the number of learners",
        paper="significantly",
        measured=", ".join(
            f"{shown(first)} to {shown(last)} at T = {period_s:g} s"
            for period_s, (first, last) in ends.items()
        ),
        unit="epochs",
        holds=all(last > first for first, last in ends.values()),
        why="from the fewest learners with which it is feasible to the most",
    )


def _zeroes(found: Found, tight: Found) -> list[Claim]:
    """Numbers of learners without any staleness."""
    none, zero = _shares_of_zero(found), _count_of_zero(found)
    claims = [
        Claim(
            claim="for certain numbers of learners there is no staleness at all",
            paper="some K",
            measured=f"{zero} of the {len(none)} pairs of K and T that are feasible",
            holds=zero > 0,
            why="counted where it is so in at least half of the placements; with the tight bounds "
            f"in {_count_of_zero(tight)}",
        )
    ]
    for place in ZEROES:
        period_s, count = place
        holds = none[place] >= 50
        claims.append(
            Claim(
                claim=f"there is none at K = {count}, T = {period_s:g} s",
                paper="none",
                measured=none[place],
                unit="% of the placements",
                holds=holds,
                why=""
                if holds
                else "which K divides without a rest depends on clocks and links that the paper "
                "does not give; the exact search shows that no plan without staleness exists in "
                "the other placements",
            )
        )
    return claims


def _count_of_zero(found: Found) -> int:
    return sum(share >= 50 for share in _shares_of_zero(found).values())


def _shares_of_zero(found: Found) -> dict[tuple[float, int], float]:
    """In how many of a hundred placements nothing is stale, for each K and T that is feasible."""
    return {
        (period_s, count): 100.0 * sum(each.max_staleness == 0 for each in plans) / len(plans)
        for period_s, _ in ZEROES
        for count in found.learners
        if (plans := found.feasible(period_s, count, "exact"))
    }


def _comparisons(found: Found, tight: Found) -> list[Claim]:
    """The schemes beside one another, on every problem that they solved, with either bounds."""
    both = [*found.pairs("SAI", "relaxed"), *tight.pairs("SAI", "relaxed")]
    apart = mean_interval([abs(one.max_staleness - two.max_staleness) for one, two in both])
    others = [
        pair
        for plans in (found, tight)
        for other in ("relaxed", "SAI")
        for pair in plans.pairs("exact", other)
    ]
    worse = sum(exact.max_staleness > other.max_staleness for exact, other in others)
    better = sum(exact.max_staleness < other.max_staleness for exact, other in others)
    return [
        Claim(
            claim="SAI is about as stale as the numerical solution",
            paper="similar",
            measured=apart.value,
            unit="epochs apart at the maximum, on average",
            holds=apart.value < 0.5,
            interval=bounds(apart),
            why="counted as similar below half an epoch",
        ),
        Claim(
            claim="the exact search is never worse than the numerical solution or SAI",
            paper=None,
            measured=float(worse),
            unit=f"of {len(others)} comparisons worse",
            holds=worse == 0,
            why=f"its maximum is lower in {better} of them",
        ),
    ]


def _means(found: Found, which: Literal["most", "average"]) -> list[float]:
    """The optimised curve at the cited period, where it is feasible."""
    value = found.most if which == "most" else found.average
    means = [value(CITED_S, count, "exact") for count in found.learners]
    return [mean.value for mean in means if mean is not None]


def _range(values: Sequence[float]) -> str:
    return f"{shown(min(values))} to {shown(max(values))}"
