"""All ways to assign a few learners: a proof that no plan is better.

There are only 2ⁿ groups of n learners. For each task and each group, all of whom serve it, the
whole trade-off of delay against cost is written down; with the budget priced by a multiplier β, the
best partition of the learners follows by dynamic programming over groups, which is a lower bound
(Lagrange). Branch and bound over the tasks' groups then tries every partition whose bound, for
several multipliers, is below the best plan known. Where learners may stay idle, those of a group
who are not needed are left out of it.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np

from axon.allocation.med.delays import Counts, Reals, Terms, pareto
from axon.allocation.med.settled import Front, Settled, Split, cheapest, measured, split

MOST_LEARNERS = 12
_MOST_CELLS = 8_000_000
_ROUGH = 32
_SURE = 1e-10
"""What is better by a smaller part is better by rounding."""


class Groups:
    """The 2ⁿ groups of learners, as the bits of their numbers."""

    def __init__(self, terms: Terms) -> None:
        self.terms = terms
        count = len(terms.learners)
        self.numbers = np.arange(1 << count)
        self.bits = (self.numbers[:, None] >> np.arange(count)) & 1
        self.sizes = self.bits.sum(axis=1)

    @property
    def all(self) -> int:
        """The group of everybody."""
        return len(self.numbers) - 1

    def members(self, group: int) -> Counts:
        """The learners of one group."""
        return np.flatnonzero(self.bits[group])

    def costs(self, task: int, points: Reals) -> Reals:
        """The least cost of the task where all of a group serve it: groups by delays."""
        terms, least = self.terms, self.terms.serving
        caps = terms.within(task, terms.everyone, points)
        able = caps >= least
        left = (terms.shards[task] - least * self.sizes)[:, None] * np.ones(len(points))
        impossible = (
            (left < 0) | (self.bits @ (~able).T > 0) | (self.bits @ caps.T < terms.shards[task])
        )
        cost = np.repeat((least * (self.bits @ terms.price))[:, None], len(points), axis=1)
        for learner in terms.everyone:
            spare = np.maximum(caps[:, learner] - least, 0)
            taken = np.minimum(left, spare) * self.bits[:, learner, None]
            left -= taken
            cost += taken * terms.price[learner]
        cost[impossible] = math.inf
        return cost

    def supports(self, group: int) -> Counts:
        """The groups that may do the work of one: itself, or those within it too."""
        if self.terms.least:
            return np.array([group])
        within: Counts = self.numbers[(self.numbers & ~group) == 0]
        return within

    def covering(self, values: Reals) -> Reals:
        """For each group, the least over those that may do its work."""
        return values if self.terms.least else closed(values)

    def least_costs(self, delays: Reals, tasks: Sequence[int]) -> list[Reals]:
        """By task, what each group costs that does it within its delay."""
        return [self.covering(self.costs(task, delays[task : task + 1])[:, 0]) for task in tasks]


def closed(values: Reals) -> Reals:
    """For each group, the least over the groups within it: who is not needed may stay idle."""
    best = values.copy()
    step = 1
    while step < len(best):
        pairs = best.reshape(-1, 2, step, *best.shape[1:])
        np.minimum(pairs[:, 1], pairs[:, 0], out=pairs[:, 1])
        step *= 2
    return best


def combined(first: Reals, second: Reals) -> Reals:
    """For each group, the least sum over all ways to divide it in two: 3ⁿ additions."""
    left, right = first[None], second[None]
    levels = len(first).bit_length() - 1
    for _ in range(levels):
        half = left.shape[1] // 2
        left = np.concatenate((left[:, :half], left[:, half:], left[:, :half]))
        right = np.concatenate((right[:, :half], right[:, :half], right[:, half:]))
    sums = left + right
    for _ in range(levels):
        neither, one, other = np.split(sums, 3)
        sums = np.concatenate((neither, np.minimum(one, other)), axis=1)
    best: Reals = sums[0]
    return best


def chained(values: Sequence[Reals]) -> list[Reals]:
    """For each task, the least sum of it and all later ones for each group."""
    chain = [values[-1]]
    for each in reversed(values[:-1]):
        chain.append(combined(each, chain[-1]))
    return chain[::-1]


def divide(values: Sequence[Reals], chain: Sequence[Reals], group: int) -> list[int]:
    """The groups that the least sum is made of."""
    numbers = np.arange(len(values[0]))
    parts = []
    for task in range(len(values) - 1):
        within = numbers[(numbers & ~group) == 0]
        sums = values[task][within] + chain[task + 1][group ^ within]
        part = int(within[int(np.argmin(sums))])
        parts.append(part)
        group ^= part
    return [*parts, group]


def least_cost(groups: Groups, delays: Reals) -> tuple[float, list[int]]:
    """The least that all tasks within given delays cost, and a division that does it."""
    values = groups.least_costs(delays, range(len(delays)))
    chain = chained(values)
    return float(chain[0][groups.all]), divide(values, chain, groups.all)


def thriftiest(groups: Groups, delays: Reals) -> Settled | None:
    """The cheapest shards within given delays, whatever the budget; None where none will do."""
    cost, parts = least_cost(groups, delays)
    if not math.isfinite(cost):
        return None
    members = [groups.members(part) for part in parts]
    return cheapest(groups.terms, members, delays.tolist())


@dataclass(slots=True, eq=False)
class Proof:
    """The best plan so far, a bound below all plans, and whether everything was tried."""

    best: Settled
    bound: float
    done: bool


def prove(terms: Terms, best: Settled, late: Callable[[], bool]) -> Proof | None:
    """Search everything that could be better than `best`; None where that is too much to write."""
    if len(terms.learners) > MOST_LEARNERS or cells(terms, best) > _MOST_CELLS:
        return None
    spans = _spans(terms, best)
    points = [terms.breakpoints(task, terms.everyone, *span) for task, span in enumerate(spans)]
    proof = Proof(best, math.fsum(low for low, _ in spans), done=False)
    if any(not len(each) for each in points):
        return Proof(best, best.objective, done=True)
    branching = _Branching(terms, points, proof, late)
    if branching.price():
        branching.branch(0, branching.groups.all, np.zeros(len(branching.multipliers)), [])
        proof.done = not late()
    if proof.done:
        proof.bound = proof.best.objective
    return proof


def roughly(terms: Terms, best: Settled, late: Callable[[], bool]) -> Settled:
    """A good plan, by the divisions that are best for some multiplier on a few delays only."""
    points = [
        terms.breakpoints(task, terms.everyone, *span, _ROUGH)
        for task, span in enumerate(_spans(terms, best))
    ]
    proof = Proof(best, 0.0, done=False)
    if all(len(each) for each in points):
        _Branching(terms, points, proof, late).price()
    return proof.best


def cells(terms: Terms, best: Settled) -> int:
    """How many numbers a proof would have to write down."""
    count = sum(
        int(np.diff(terms.within(task, terms.everyone, np.array(span)), axis=0).sum()) + 1
        for task, span in enumerate(_spans(terms, best))
    )
    return count << len(terms.learners)


def _spans(terms: Terms, best: Settled) -> list[tuple[float, float]]:
    """By task, between which delays a plan that is better than `best` has its own."""
    lowest = np.array([terms.quickest(task) for task in range(len(terms.tasks))])
    highest = np.minimum(terms.deadline_s, best.objective - (lowest.sum() - lowest))
    return list(zip(lowest.tolist(), highest.tolist(), strict=True))


class _Branching:
    """Branch and bound over the groups of one task after another."""

    def __init__(
        self, terms: Terms, points: list[Reals], proof: Proof, late: Callable[[], bool]
    ) -> None:
        self.terms, self.points, self.proof, self.late = terms, points, proof, late
        self.groups = Groups(terms)
        self.costs: list[Reals] = []
        self.multipliers: list[float] = []
        self.values: list[list[Reals]] = []  # By multiplier, then by task.
        self.chains: list[list[Reals]] = []

    def price(self) -> bool:
        """Find the best multiplier of the budget; false where nothing is left to try.

        The dual function is the least of lines, one a division. Where the lines of the best
        division that is too dear and of the best that is not cross is the next multiplier.
        """
        for task, points in enumerate(self.points):
            if self.late():
                return False
            self.costs.append(self.groups.costs(task, points))
        covering = self.groups.covering
        cheapest = [covering(costs.min(axis=1)) for costs in self.costs]
        slow = self._line(cheapest, chained(cheapest), self.costs)
        if slow[1] > self.terms.spendable:
            self.proof.done = True  # All that is cheap enough is slower than what is known.
            return False
        dear = self._priced(0.0)
        for _ in range(40):
            if self.proof.done or self.late() or dear[1] <= self.terms.spendable:
                break
            multiplier = (slow[0] - dear[0]) / (dear[1] - slow[1])
            line = self._priced(multiplier)
            if line[0] + multiplier * line[1] >= (dear[0] + multiplier * dear[1]) * (1 - _SURE):
                break
            dear, slow = (line, slow) if line[1] > self.terms.spendable else (dear, line)
        return not self.proof.done and not self.late()

    def _priced(self, multiplier: float) -> tuple[float, float]:
        """The line of the best division for a multiplier, which gives a bound."""
        whole = []
        for points, costs in zip(self.points, self.costs, strict=True):
            # Nothing times infinity is no number: what cannot be done stays infinite by itself.
            priced = multiplier * costs if multiplier else np.where(np.isinf(costs), costs, 0.0)
            whole.append(points + priced)
        self.multipliers.append(multiplier)
        self.values.append([each.min(axis=1) for each in whole])
        shut = [self.groups.covering(each) for each in self.values[-1]]
        self.chains.append(chained(shut))
        bound = float(self.chains[-1][0][self.groups.all]) - multiplier * self.terms.spendable
        self.proof.bound = max(self.proof.bound, min(bound, self.proof.best.objective))
        line = self._line(shut, self.chains[-1], whole)
        self.proof.done = bound >= self._limit()
        return line

    def _line(
        self, shut: list[Reals], chain: list[Reals], whole: list[Reals]
    ) -> tuple[float, float]:
        """The delay and the cost that the best division is made of; it is tried as a plan."""
        supports, delay, cost = [], 0.0, 0.0
        for task, part in enumerate(divide(shut, chain, self.groups.all)):
            within = self.groups.supports(part)
            rows = whole[task][within]
            row, column = np.unravel_index(int(np.argmin(rows)), rows.shape)
            supports.append(int(within[row]))
            delay += float(self.points[task][column])
            cost += float(self.costs[task][supports[-1], column])
        self._leaf(supports)
        return delay, cost

    def branch(self, task: int, group: int, bounds: Reals, parts: list[int]) -> None:
        """Give every promising part of the group to the task, and the rest to the later ones."""
        numbers = self.groups.numbers
        last = task == len(self.terms.tasks) - 1
        within = self.groups.supports(group) if last else numbers[(numbers & ~group) == 0]
        reached = np.stack([bounds[k] + v[task][within] for k, v in enumerate(self.values)])
        ahead = reached - np.multiply(self.multipliers, self.terms.spendable)[:, None]
        if not last:
            ahead = ahead + np.stack([c[task + 1][group ^ within] for c in self.chains])
        highest = ahead.max(axis=0)
        for place in np.argsort(highest, kind="stable"):
            if self.late() or highest[place] >= self._limit():
                return
            chosen = [*parts, int(within[place])]
            if last:
                self._leaf(chosen)
            else:
                self.branch(task + 1, group ^ chosen[-1], reached[:, place], chosen)

    def _limit(self) -> float:
        return self.proof.best.objective * (1 - _SURE)

    def _leaf(self, parts: list[int]) -> None:
        """The exact value of one division, where all members of each part serve."""
        fronts = [
            pareto(points, costs[part])
            for points, costs, part in zip(self.points, self.costs, parts, strict=True)
        ]
        # What costs more than the budget only by rounding is tried before anything that is slower.
        for money in (self.terms.spendable, self.terms.surely_spendable):
            found = split(fronts, money)
            if found is None or found.delay >= self._limit():
                return
            shards = self._shards(parts, fronts, found)
            if self.terms.affords(shards):
                self.proof.best = measured(self.terms, shards, found.multiplier)
                return

    def _shards(self, parts: list[int], fronts: list[Front], found: Split) -> Counts:
        shards = np.zeros(self.terms.fixed_s.shape, np.int64)
        for task, (part, place) in enumerate(zip(parts, found.points, strict=True)):
            members = self.groups.members(part)
            # Where some may be idle, those whom the cheapest filling leaves without shards are.
            counts = self.terms.fill(task, members, float(fronts[task][0][place]))
            assert counts is not None
            shards[task, members] = counts
        return shards
