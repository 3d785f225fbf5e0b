"""An assignment of learners to tasks made into a plan: the exact inner solution.

Each task has a trade-off of delay against cost, and all share one budget: a multiple-choice
knapsack, one point of each task's front, the least sum of delays, within the budget. The convex
hulls of the fronts give the best multiplier of the budget, a bound and a first choice; only points
whose reduced value lies within the gap between the two can be in a better one, and those few are
combined exactly.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from axon.allocation.med.delays import Counts, Reals, Terms

Front = tuple[Reals, Reals]
"""Delays, ascending, and costs, descending."""
_POINTS = 4096
_MOST = 200_000


@dataclass(frozen=True, slots=True, eq=False)
class Settled:
    """Shards, tasks by learners, with what they come to."""

    shards: Counts
    delays: tuple[float, ...]
    objective: float
    cost: float
    multiplier: float
    """Seconds that one more unit of the budget would save, about."""


def settle(terms: Terms, groups: Sequence[Counts]) -> Settled | None:
    """The best shards where each group of learners has its task; None where none will do.

    Exact, but for tasks with more than 4,096 possible delays where the budget binds: there evenly
    spaced ones stand for the rest, and the plan may be a little slower than the best.
    """
    fastest = [
        terms.least_delay(task, group, float(terms.deadline_s[task]))
        for task, group in enumerate(groups)
    ]
    if math.inf in fastest:
        return None
    plan = cheapest(terms, groups, fastest)
    if plan is not None and terms.affords(plan.shards):
        return plan
    fronts = [
        terms.front(task, group, float(terms.deadline_s[task]), _POINTS)
        for task, group in enumerate(groups)
    ]
    # What costs more than the budget only by rounding is tried before anything that is slower.
    for money in (terms.spendable, terms.surely_spendable):
        chosen = split(fronts, money)
        if chosen is None:
            break
        delays = [float(front[0][at]) for front, at in zip(fronts, chosen.points, strict=True)]
        plan = cheapest(terms, groups, delays, chosen.multiplier)
        if plan is not None and terms.affords(plan.shards):
            return plan
    plan = cheapest(terms, groups, terms.deadline_s.tolist())
    return plan if plan is not None and terms.affords(plan.shards) else None


def cheapest(
    terms: Terms, groups: Sequence[Counts], delays: Sequence[float], multiplier: float = 0.0
) -> Settled | None:
    """The least that the groups cost within the delays, whatever the budget."""
    shards = np.zeros(terms.fixed_s.shape, np.int64)
    for task, (group, delay) in enumerate(zip(groups, delays, strict=True)):
        counts = terms.fill(task, group, delay)
        if counts is None:
            return None
        shards[task, group] = counts
    return measured(terms, shards, multiplier)


def measured(terms: Terms, shards: Counts, multiplier: float = 0.0) -> Settled:
    """What given shards come to."""
    delays = tuple(terms.delay(task, terms.everyone, counts) for task, counts in enumerate(shards))
    cost = math.fsum((shards.sum(axis=0) * terms.price).tolist())
    return Settled(shards, delays, math.fsum(delays), cost, multiplier)


@dataclass(frozen=True, slots=True)
class Split:
    """A point of each front."""

    points: tuple[int, ...]
    delay: float
    multiplier: float
    """Seconds that one more unit of the budget would save, about (β)."""


def split(fronts: Sequence[Front], budget: float) -> Split | None:
    """The points with the least sum of delays within the budget; None where there are none.

    Beyond 200,000 combinations that cannot be told apart by their bounds, the first choice stands.
    """
    if any(not len(delays) for delays, _ in fronts):
        return None
    if math.fsum(costs[0] for _, costs in fronts) <= budget:
        return Split((0,) * len(fronts), math.fsum(front[0][0] for front in fronts), 0.0)
    if math.fsum(costs[-1] for _, costs in fronts) > budget:
        return None
    chosen, multiplier = _along_the_hulls(fronts, budget)
    delay = _delay(fronts, chosen)
    better = _combine(fronts, budget, multiplier, delay)
    if better is not None and _delay(fronts, better) < delay:
        chosen, delay = better, _delay(fronts, better)
    return Split(tuple(chosen), delay, multiplier)


def hull(front: Front) -> NDArray[np.intp]:
    """The places of the points on the lower left convex hull of a front."""
    delays, costs = front
    if len(delays) <= 2:
        return np.arange(len(delays))
    kept: list[int] = []
    for place in range(len(delays)):
        while len(kept) > 1:
            a, b = kept[-2], kept[-1]
            turn = (delays[b] - delays[a]) * (costs[place] - costs[a]) - (costs[b] - costs[a]) * (
                delays[place] - delays[a]
            )
            if turn > 0:
                break
            kept.pop()
        kept.append(place)
    return np.array(kept)


def _along_the_hulls(fronts: Sequence[Front], budget: float) -> tuple[list[int], float]:
    """From the fastest points towards the cheapest, the least delay for the money first."""
    hulls = [hull(front) for front in fronts]
    chosen = [0] * len(fronts)
    cost = math.fsum(front[1][0] for front in fronts)
    steps = []
    for task, ((delays, costs), places) in enumerate(zip(fronts, hulls, strict=True)):
        rates = np.diff(delays[places]) / -np.diff(costs[places])
        steps += [(rate, task, place) for rate, place in zip(rates, places[1:], strict=True)]
    for rate, task, place in sorted(steps):
        costs = fronts[task][1]
        cost += costs[place] - costs[chosen[task]]
        chosen[task] = int(place)
        if cost <= budget:
            return chosen, float(rate)
    # Only rounding leads here: the cheapest points were found to be within the budget.
    return chosen, float(steps[-1][0]) if steps else 0.0


def _combine(
    fronts: Sequence[Front], budget: float, multiplier: float, delay: float
) -> list[int] | None:
    """Every combination that can be better than `delay`, reduced to the undominated ones."""
    reduced = [delays + multiplier * costs for delays, costs in fronts]
    least = [float(values.min()) for values in reduced]
    slack = delay + multiplier * budget - math.fsum(least) + 1e-9 * delay
    kept = [
        np.flatnonzero(values <= low + slack) for values, low in zip(reduced, least, strict=True)
    ]
    cheapest = [float(costs[places].min()) for (_, costs), places in zip(fronts, kept, strict=True)]
    delays, costs = np.zeros(1), np.zeros(1)
    picks = np.zeros((1, 0), np.intp)
    for task, places in enumerate(kept):
        if len(delays) * len(places) > _MOST:
            return None
        new_delays = (delays[:, None] + fronts[task][0][places]).ravel()
        new_costs = (costs[:, None] + fronts[task][1][places]).ravel()
        rest = math.fsum(cheapest[task + 1 :])
        bound = new_delays + multiplier * new_costs - math.fsum(least[: task + 1])
        good = np.flatnonzero((new_costs + rest <= budget) & (bound <= slack))
        # Equal delays: the cheaper first, so that the dearer is seen to be dominated.
        good = good[np.lexsort((new_costs[good], new_delays[good]))]
        falling = np.minimum.accumulate(new_costs[good])
        good = good[np.r_[True, falling[1:] < falling[:-1]][: len(good)]]
        before, last = np.divmod(good, len(places))
        picks = np.column_stack((picks[before], places[last]))
        delays, costs = new_delays[good], new_costs[good]
    return [int(place) for place in picks[0]] if len(picks) else None


def _delay(fronts: Sequence[Front], chosen: Sequence[int]) -> float:
    return math.fsum(delays[place] for (delays, _), place in zip(fronts, chosen, strict=True))
