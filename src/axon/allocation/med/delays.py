"""What follows exactly once it is known who serves a task: the shards, the delay and the cost.

Learners and tasks are in an order of their own here, by what they are and not by where they stood,
so that a problem's answer does not depend on how it was written down. Learners come cheapest
first: whoever fills a task from the front spends the least.

All learners are members of some task. Where `least` is 0 a member may have no shards, which is what
staying idle comes to; else it has `least` at least, whatever that does to its task.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, replace
from fractions import Fraction
from typing import TypeAlias

import numpy as np
from numpy.typing import NDArray

from axon.allocation.med.problem import MedLearner, MedProblem, MedTask
from axon.errors import ConfigurationError

Reals: TypeAlias = NDArray[np.float64]
Counts: TypeAlias = NDArray[np.int64]
Possible: TypeAlias = Callable[[int, Counts], NDArray[np.bool_]]
"""Of a task and rows of what its members can do: whether they can do it."""

ROUNDING = 1e-12
"""As a part of it, how far off a sum of prices may be that is reckoned in floats."""
_SMALL, _LARGE = 1e-15, 1e15
"""Between these, in seconds and in money, no sum or quotient of what follows overflows."""
_ENDLESS = 10 * _LARGE
"""More than any delay or cost can be."""
_LISTED = 4096


@dataclass(frozen=True, slots=True, eq=False)
class Terms:
    """A problem as arrays, tasks by learners: a learner's delay for d > 0 is fixed + d · each."""

    tasks: tuple[str, ...]
    learners: tuple[str, ...]
    fixed_s: Reals  # 2 Ω_i E[1/b_j]
    each_s: Reals  # E[passes_i / c_ij + shard bytes_i / b_j]
    price: Reals
    shards: tuple[int, ...]
    deadline_s: Reals
    budget: float
    least: int

    @classmethod
    def of(cls, problem: MedProblem) -> Terms:
        """The expectations over the learners' states (Eq. 4.3)."""
        tasks = sorted(problem.tasks, key=_task_key)
        learners = sorted(problem.learners, key=lambda learner: _learner_key(tasks, learner))
        terms = np.array([[_expected(task, each) for each in learners] for task in tasks])
        made = cls(
            tasks=tuple(task.name for task in tasks),
            learners=tuple(learner.name for learner in learners),
            fixed_s=np.ascontiguousarray(terms[:, :, 0]),
            each_s=np.ascontiguousarray(terms[:, :, 1]),
            price=np.array([learner.price for learner in learners], float),
            shards=tuple(task.shards for task in tasks),
            deadline_s=np.minimum([task.deadline_s for task in tasks], _ENDLESS),
            budget=min(float(problem.budget), _ENDLESS),
            least=problem.least_shards,
        )
        _check_ranges(made)
        return made

    @property
    def everyone(self) -> Counts:
        """All learners."""
        return np.arange(len(self.learners))

    @property
    def serving(self) -> int:
        """The fewest shards of a learner that is not idle."""
        return max(1, self.least)

    @property
    def room(self) -> tuple[int, ...]:
        """By task, the most learners among whom it can be shared."""
        return tuple(shards // self.serving for shards in self.shards)

    @property
    def spendable(self) -> float:
        """The budget, and what rounding may add to a sum of prices: no plan costs more.

        Whether one costs no more than the budget is for `affords` to say.
        """
        return self.budget * (1 + ROUNDING)

    @property
    def surely_spendable(self) -> float:
        """What is within the budget even where it was rounded down."""
        return self.budget * (1 - ROUNDING)

    def cost(self, shards: Counts) -> Fraction:
        """What shards, tasks by learners, cost exactly, the prices being the decimals written."""
        counts = shards.sum(axis=0).tolist()
        prices = self.price.tolist()
        parts = (
            count * Fraction(repr(price))
            for count, price in zip(counts, prices, strict=True)
            if count and price
        )
        return sum(parts, Fraction())

    def affords(self, shards: Counts) -> bool:
        """Whether the shards cost no more than the budget, exactly (Eq. 4.4d).

        Prices and budget are taken for the decimals that they are written as: 3 shards at 0.1 are
        within 0.3, which the nearest binary numbers are not.
        """
        about = float(shards.sum(axis=0) @ self.price)
        if about > self.spendable or about < self.surely_spendable:
            return about < self.budget
        return self.cost(shards) <= Fraction(repr(self.budget))

    def without_limits(self) -> Terms:
        """The same with more time and money than anything can take."""
        return self.changed(deadline_s=np.full(len(self.tasks), _ENDLESS), budget=_ENDLESS)

    def within(self, task: int, members: Counts, delays: Reals | float) -> Counts:
        """The most shards of each member within each delay: a row a delay, a column a member."""
        fixed, each = self.fixed_s[task, members], self.each_s[task, members]
        limits = np.atleast_1d(np.asarray(delays, float))[:, None]
        # The cap comes before the whole number: infinity has none.
        most = np.floor(np.minimum((limits - fixed) / each, self.shards[task]))
        # A division rounds; what counts is the delay as it is reckoned everywhere else.
        most += (fixed + each * (most + 1) <= limits) & (most < self.shards[task])
        most -= fixed + each * most > limits
        whole: Counts = np.maximum(most, 0).astype(np.int64)
        return whole

    def delay(self, task: int, members: Counts, counts: Counts) -> float:
        """The largest expected delay among the members that have shards."""
        delays = self.fixed_s[task, members] + self.each_s[task, members] * counts
        return float(np.max(delays, initial=0.0, where=counts > 0))

    def breakpoints(
        self, task: int, members: Counts, low: float, high: float, most: int | None = None
    ) -> Reals:
        """The delays between two at which some member can do one shard more, ascending.

        Nothing else than these can be the delay of a best plan. Where there are more than `most`,
        as many evenly spaced ones among them.
        """
        first = np.maximum(self.within(task, members, np.nextafter(low, 0))[0] + 1, self.serving)
        last = self.within(task, members, high)[0]
        # Of very many, not even all are written down.
        step = 1 if most is None else 1 + int(np.maximum(last - first, 0).sum()) // (16 * most)
        found = [
            self.fixed_s[task, member]
            + self.each_s[task, member] * np.append(np.arange(start, end, step), end)
            for member, start, end in zip(members, first, last, strict=True)
            if start <= end
        ]
        points = np.unique(np.concatenate(found)) if found else np.empty(0)
        if most is not None and len(points) > most:
            points = points[np.linspace(0, len(points) - 1, most).round().astype(int)]
        return points

    def least_delay(self, task: int, members: Counts, high: float = math.inf) -> float:
        """The shortest delay in which these members can do the task; infinite where none is."""
        return self._first_delay(task, members, high, self._all_serve)

    def quickest(self, task: int) -> float:
        """The shortest delay of the task whoever serves it, all others being free to do nothing."""
        return self._first_delay(task, self.everyone, math.inf, self._some_serve)

    def _first_delay(self, task: int, members: Counts, high: float, possible: Possible) -> float:
        if not len(members):
            return math.inf
        fixed, each = self.fixed_s[task, members], self.each_s[task, members]
        # By then everybody can do what it must, and the quickest could do the whole task.
        alone = float(np.min(fixed + each * self.shards[task]))
        high = min(high, max(alone, float(np.max(fixed + each * self.least))))
        if not possible(task, self.within(task, members, high))[0]:
            return math.inf
        low = 0.0
        # Halving leaves few breakpoints, and the last steps go over those.
        while np.sum(self.within(task, members, high) - self.within(task, members, low)) > 64:
            middle = (low + high) / 2
            if not low < middle < high:
                break
            if possible(task, self.within(task, members, middle))[0]:
                high = middle
            else:
                low = middle
        points = self.breakpoints(task, members, low, high, _LISTED)
        good = possible(task, self.within(task, members, points))
        return float(points[int(np.argmax(good))])

    def fill(self, task: int, members: Counts, delay: float) -> Counts | None:
        """The cheapest shards for each member within the delay; None where they cannot do it."""
        caps = self.within(task, members, delay)
        if not len(members) or not self._all_serve(task, caps)[0]:
            return None
        counts: Counts = self._filled(task, caps)[0]
        return counts

    def front(
        self, task: int, members: Counts, high: float, most: int = 1 << 20
    ) -> tuple[Reals, Reals]:
        """The trade-off of a task: delays, ascending, and the least cost within each, descending.

        More delay lets cheaper learners do more. Only the delays at which the cost falls are in it.
        """
        low = self.least_delay(task, members, high)
        if low > high:
            return np.empty(0), np.empty(0)
        points = self.breakpoints(task, members, low, high, most)
        counts = self._filled(task, self.within(task, members, points))
        return pareto(points, counts @ self.price[members])

    def _filled(self, task: int, caps: Counts) -> Counts:
        """Every member has the least, and the cheapest take the rest: a row a row of caps."""
        spare = self.shards[task] - self.least * caps.shape[1]
        filled: Counts = self.least + fill_in_order(caps - self.least, spare)
        return filled

    def _all_serve(self, task: int, caps: Counts) -> NDArray[np.bool_]:
        """For each row, whether the task can be shared so that no member gets less than it must."""
        shards = self.shards[task]
        if self.least * caps.shape[1] > shards:
            return np.zeros(len(caps), bool)
        possible: NDArray[np.bool_] = caps.sum(axis=1) >= shards
        return possible & (caps >= self.least).all(axis=1)

    def _some_serve(self, task: int, caps: Counts) -> NDArray[np.bool_]:
        """For each row, whether some of the members can share the task, the others being away.

        The fewest who can do it are those who can do the most; if even they would get too few
        each, so would any others.
        """
        able = np.where(caps >= self.serving, caps, 0)
        enough = np.cumsum(-np.sort(-able, axis=1), axis=1) >= self.shards[task]
        fewest = np.argmax(enough, axis=1) + 1
        possible: NDArray[np.bool_] = enough[:, -1] & (fewest * self.least <= self.shards[task])
        return possible

    def changed(self, **changes: object) -> Terms:
        """The same with other limits."""
        return replace(self, **changes)  # type: ignore[arg-type]  # any of the fields


def fill_in_order(caps: Counts, shards: int) -> Counts:
    """Each column of a row takes what it can until all shards are taken."""
    before = np.cumsum(caps, axis=1) - caps
    taken: Counts = np.clip(shards - before, 0, caps)
    return taken


def pareto(delays: Reals, costs: Reals) -> tuple[Reals, Reals]:
    """Of points with ascending delays, those that are cheaper than every one before."""
    best = np.minimum.accumulate(costs)
    cheaper = np.r_[True, best[1:] < best[:-1]] & np.isfinite(costs)
    return delays[cheaper], costs[cheaper]


def _expected(task: MedTask, learner: MedLearner) -> tuple[float, float]:
    """The expected seconds for the models, there and back, and for each shard of the task."""
    # What never happens counts for nothing, even where it would take for ever.
    states = [state for state in learner.states if state.probability > 0]
    fixed = [state.probability * 2 * task.model_bytes / state.bytes_per_s for state in states]
    each = [
        state.probability
        * (task.passes / state.shards_per_s[task.name] + task.shard_bytes / state.bytes_per_s)
        for state in states
    ]
    return _sum(fixed), _sum(each)


def _sum(parts: list[float]) -> float:
    """Infinite where it is too large to be exact."""
    return math.fsum(parts) if max(parts) <= _LARGE else math.inf


def _check_ranges(terms: Terms) -> None:
    """Raise where a delay or a cost is too large or too small to reckon with."""
    most = np.maximum(np.array(terms.shards), terms.least)[:, None]
    slowest = terms.fixed_s + terms.each_s * most
    for task, name in enumerate(terms.tasks):
        _check_range(f"deadline_s of {name!r}", float(terms.deadline_s[task]), _ENDLESS)
        for learner, who in enumerate(terms.learners):
            what = f"the expected delay of {who!r} for"
            _check_range(f"{what} a shard of {name!r}", float(terms.each_s[task, learner]), _LARGE)
            _check_range(f"{what} all shards of {name!r}", float(slowest[task, learner]), _LARGE)
    total = max(sum(terms.shards), terms.least * len(terms.learners))
    for who, price in zip(terms.learners, terms.price.tolist(), strict=True):
        if price:
            _check_range(f"price of {who!r}", price, _LARGE / total)


def _check_range(field: str, value: float, most: float) -> None:
    if not _SMALL <= value <= most:
        raise ConfigurationError(
            f"{field} must be between {_SMALL:g} and {most:g}, got {value:g}",
            hint="use other units, or leave out a learner that is of no use",
        )


def _task_key(task: MedTask) -> tuple[float | str, ...]:
    costs = (task.model_bytes, task.shard_bytes, task.passes)
    return (task.shards, task.deadline_s, *costs, task.name)


def _learner_key(tasks: list[MedTask], learner: MedLearner) -> tuple[float | str, ...]:
    expected = [part for task in tasks for part in _expected(task, learner)]
    return (learner.price, *expected, learner.name)
