"""A bound below the objective of every plan, by Lagrange multipliers.

The two rules that tie the tasks together get prices: serving one task (μ_j a learner) and the
budget (β). Where learners may stay idle they serve one at most, and no μ_j is below 0; where all
must serve, that of a learner whom every task would rather not have is. What is left falls apart
into tasks. For one task and one delay T, the learners' capacities c_j are fixed; d_j shards of a
learner cost nothing for d_j = 0 and μ_j + β p_j d_j for least <= d_j <= c_j, of which the lower
convex envelope is taken: in proportion to d_j up to c_j where μ_j >= 0, and up to the least where
μ_j < 0. The cheapest way to place all shards is then a fractional knapsack, and the task's part is
the least of T plus that over all delays. Delays between two points count as the lower one, with the
capacities just below the upper one, so the bound holds however few the points are; more come in
where they matter. Prices climb along subgradients.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np

from axon.allocation.med.delays import Counts, Reals, Terms
from axon.allocation.med.settled import Settled

STEPS = 200
_CELLS = 40_000
_SPANS = 48
_PIECES = 6
_EXACT_AT_ONCE = 8
_RECENT = 0.1
_AIM = 0.04


@dataclass(frozen=True, slots=True, eq=False)
class _Cover:
    """The knapsacks of some spans, a row a span: what they come to, and how they are filled."""

    values: Reals
    used: Reals
    """How much of each learner's serving."""
    placed: Reals
    """Its shards."""


class _Task:
    """One task's part of the bound, over spans of delays."""

    def __init__(self, terms: Terms, task: int, low: float, high: float) -> None:
        self._terms, self._task = terms, task
        self._shards, self._price = terms.shards[task], terms.price
        rows = max(_SPANS, _CELLS // len(terms.learners))
        below, above = self._capacities(np.array([low, high]))
        self._exact = bool(np.sum(above - below) < rows)
        if self._exact:
            starts = terms.breakpoints(task, terms.everyone, low, high)
        else:
            starts = np.geomspace(low, high, _SPANS + 1)[:-1]
        self._most_rows = 4 * max(rows, _SPANS)
        self._starts = starts if len(starts) else np.array([low])
        self._ends = np.r_[np.nextafter(self._starts[1:], 0), max(high, self._starts[-1])]
        self._caps = self._capacities(self._ends)
        self._worths = np.zeros(len(self._starts))

    def least(self, prices: Reals, multiplier: float) -> tuple[float, Reals, float]:
        """The task's part, how much of each learner it uses, and what it spends."""
        # Any worth of a shard gives a bound on the knapsack, the best one its value: those from
        # the last time show which spans are worth sorting.
        gains = self._worths[:, None] - multiplier * self._price
        covered = np.maximum(gains * self._caps - prices, 0.0)
        glad = np.flatnonzero(prices < 0)
        caps, gains = self._caps[:, glad], gains[:, glad]
        served = np.maximum(gains * caps, gains * self._terms.least) - prices[glad]
        covered[:, glad] = np.where(caps > 0, np.maximum(served, 0.0), 0.0)
        values = self._starts + self._worths * self._shards - covered.sum(axis=1)
        values[self._caps.sum(axis=1) < self._shards] = math.inf
        sorted_rows = np.zeros(len(values), bool)
        while not sorted_rows[row := int(np.argmin(values))] and math.isfinite(values[row]):
            open_values = np.where(sorted_rows, math.inf, values)
            rows = np.argsort(open_values, kind="stable")[:_EXACT_AT_ONCE]
            rows = rows[np.isfinite(open_values[rows])]
            values[rows] = self._starts[rows] + self._covering(rows, prices, multiplier).values
            sorted_rows[rows] = True
        if not math.isfinite(values[row]):
            return math.inf, np.zeros(len(prices)), 0.0
        cover = self._covering(np.array([row]), prices, multiplier)
        used, spent = cover.used[0], float(cover.placed[0] @ self._price)
        self._refine(row)
        return float(values[row]), used, spent

    def _covering(self, rows: Counts, prices: Reals, multiplier: float) -> _Cover:
        """The knapsacks of some spans."""
        caps, learners = self._caps[rows], len(prices)
        # What serving costs or brings is spread over the first shards, up to the kink.
        kinks = np.where(prices < 0, np.minimum(caps, self._terms.least), caps)
        glad = np.flatnonzero(prices < 0)
        sizes = np.concatenate((kinks, (caps - kinks)[:, glad]), axis=1)
        each = np.zeros_like(sizes)
        each[:, :learners] = prices / np.maximum(kinks, 1.0)
        each += multiplier * np.r_[self._price, self._price[glad]]
        each[sizes <= 0] = math.inf
        order = np.argsort(each, axis=1, kind="stable")
        ordered = np.take_along_axis(sizes, order, axis=1)
        filled = np.clip(self._shards - np.cumsum(ordered, axis=1) + ordered, 0, ordered)
        taken = np.empty_like(sizes)
        np.put_along_axis(taken, order, filled, axis=1)
        last = np.take_along_axis(order, np.count_nonzero(filled, axis=1)[:, None] - 1, axis=1)
        self._worths[rows] = np.take_along_axis(each, last, axis=1)[:, 0]
        sums = (taken * np.where(taken > 0, each, 0.0)).sum(axis=1)
        used = taken[:, :learners] / np.maximum(kinks, 1.0)
        placed = taken[:, :learners].copy()
        placed[:, glad] += taken[:, learners:]
        return _Cover(sums, used, placed)

    def _refine(self, row: int) -> None:
        """Cut the span that decides into pieces."""
        start, end = float(self._starts[row]), float(self._ends[row])
        if self._exact or len(self._starts) > self._most_rows or end - start <= 1e-4 * start:
            return
        starts = np.linspace(start, end, _PIECES + 1)[:-1]
        ends = np.r_[np.nextafter(starts[1:], 0), end]
        at = slice(row, row + 1)
        self._starts = np.r_[self._starts[:row], starts, self._starts[row + 1 :]]
        self._ends = np.r_[self._ends[:row], ends, self._ends[row + 1 :]]
        self._worths = np.r_[
            self._worths[:row], np.repeat(self._worths[at], _PIECES), self._worths[row + 1 :]
        ]
        self._caps = np.concatenate(
            (self._caps[:row], self._capacities(ends), self._caps[row + 1 :])
        )

    def _capacities(self, delays: Reals) -> Reals:
        caps = self._terms.within(self._task, self._terms.everyone, delays).astype(float)
        caps[caps < self._terms.least] = 0.0
        return caps


@dataclass(frozen=True, slots=True, eq=False)
class Dual:
    """A bound, and what its prices say of good plans."""

    bound: float
    multiplier: float
    """What the budget is worth, in seconds a unit, over all assignments (β)."""
    prices: Reals
    """What each learner is worth, in seconds (μ)."""
    usage: Reals
    """How much of each learner each task used of late: tasks by learners."""


def lower_bound(
    terms: Terms, best: Settled, late: Callable[[], bool], before: Dual | None = None
) -> Dual:
    """At least `bound` is the objective of every plan, and it is never more than that of `best`.

    It goes on from the prices of one before, if there is one.
    """
    count, learners = terms.fixed_s.shape
    lowest = np.array([terms.quickest(task) for task in range(count)])
    least = float(lowest.sum())
    usage = (best.shards > 0).astype(float)
    if least >= best.objective:
        return Dual(best.objective, best.multiplier, np.zeros(learners), usage)
    highest = np.minimum(terms.deadline_s, best.objective - (least - lowest))
    tasks = [_Task(terms, i, float(lowest[i]), float(highest[i])) for i in range(count)]
    if before is None:
        prices, multiplier = _first(terms, best, tasks, late)
        before = Dual(least, multiplier, prices, usage)
    ascent = _Ascent(terms, best, before)
    for _ in range(STEPS):
        if not ascent.step([task.least(ascent.prices, ascent.multiplier) for task in tasks]):
            break
        if late():
            break
    return Dual(min(ascent.top, best.objective), ascent.multiplier, ascent.prices, ascent.usage)


class _Ascent:
    """Prices that climb along subgradients, with Polyak's steps."""

    def __init__(self, terms: Terms, best: Settled, before: Dual) -> None:
        self._terms, self._best = terms, best.objective
        # The budget is one rule beside one for each learner: it has no more weight than they have.
        self._unit = max(terms.budget, 1e-9) / math.sqrt(len(terms.learners))
        self._pace, self._stalled, self._climbed = 1.0, 0, -best.objective
        self.prices, self.multiplier = before.prices, before.multiplier
        self.usage, self.top = before.usage.copy(), before.bound

    def step(self, parts: list[tuple[float, Reals, float]]) -> bool:
        """Take in the tasks' parts for the present prices and change these; false at the end."""
        bound = math.fsum(part[0] for part in parts) - float(self.prices.sum())
        bound -= self.multiplier * self._terms.spendable
        better = bound > self._climbed + 1e-5 * abs(self._climbed)
        self._stalled = 0 if better else self._stalled + 1
        if self._stalled and self._stalled % 5 == 0:
            self._pace /= 2
        self._climbed, self.top = max(self._climbed, bound), max(self.top, bound)
        if self.top >= self._best or self._pace < 1e-3:
            return False
        used = np.array([part[1] for part in parts])
        self.usage += (used - self.usage) * _RECENT
        over = used.sum(axis=0) - 1
        dear = (math.fsum(part[2] for part in parts) - self._terms.budget) / self._unit
        squares = float(over @ over) + dear * dear
        if squares < 1e-12:
            return False
        # The best plan known may be far above; a step that aims as far goes astray.
        aim = self._climbed + max(_AIM * abs(self._climbed), (self._best - self._climbed) / 4)
        length = self._pace * (min(self._best, aim) - bound) / squares
        self.prices = self.prices + length * over
        if not self._terms.least:
            self.prices = np.maximum(0.0, self.prices)
        self.multiplier = max(0.0, self.multiplier + length * dear / self._unit)
        return True


def _first(
    terms: Terms, best: Settled, tasks: Sequence[_Task], late: Callable[[], bool]
) -> tuple[Reals, float]:
    """Prices to begin with: those of the best of some multipliers below that of `best`.

    Money is worth less over all assignments than where the assignment stays as it is.
    """
    tried = []
    for multiplier in best.multiplier * np.array([1.0, 0.7, 0.5, 0.35, 0.2, 0.1, 0.0]):
        prices = _worths(terms, best, float(multiplier))
        bound = math.fsum(task.least(prices, float(multiplier))[0] for task in tasks)
        tried.append((bound - prices.sum() - multiplier * terms.spendable, float(multiplier)))
        if not best.multiplier or late():
            break
    multiplier = max(tried)[1]
    return _worths(terms, best, multiplier), multiplier


def _worths(terms: Terms, best: Settled, multiplier: float) -> Reals:
    """About what each learner would save in the task where it saves the most."""
    prices = np.full(len(terms.learners), 0.0 if not terms.least else -math.inf)
    for task, counts in enumerate(best.shards):
        used = counts > 0
        pace = 1 / terms.each_s[task, used]
        worth = (1 + multiplier * float(terms.price[used] @ pace)) / pace.sum()
        caps = np.maximum(terms.within(task, terms.everyone, best.delays[task])[0], terms.least)
        gains = worth - multiplier * terms.price
        prices = np.maximum(prices, gains * np.where(gains > 0, caps, terms.least))
    return prices
