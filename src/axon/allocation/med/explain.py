"""Why no plan exists, and the least that would have to change for one to exist.

Each limit is relaxed by itself first, all else as it is: what is least then is exact, from all
groups of learners. Where no single limit is enough, the least shards of a learner become as many as
there is room for, the deadlines grow by one common factor, as little as lets the tasks be done at
all, and then the budget as far as they need. With too many learners to try every group, a search
stands in, and what it finds is enough but perhaps not least.
"""

from __future__ import annotations

import bisect
import math
from collections.abc import Callable, Mapping, Sequence
from fractions import Fraction

import numpy as np

from axon.allocation.med.delays import ROUNDING, Counts, Reals, Terms
from axon.allocation.med.problem import Infeasible, Remedy
from axon.allocation.med.settled import Settled, cheapest
from axon.allocation.med.subsets import Groups, chained, least_cost, thriftiest

_LISTED = 64


def check_learners(terms: Terms) -> None:
    """Raise where there are fewer learners than tasks."""
    tasks, learners = terms.fixed_s.shape
    if learners < tasks:
        raise Infeasible(
            f"{tasks} tasks need a learner each, got {learners}",
            remedies=[Remedy("learners", tasks)],
            proven=True,
        )


def obstacle(terms: Terms) -> str | None:
    """What by itself rules out every plan, if there is such a thing; it does not take a search."""
    return _crowd(terms) or _stuck_learner(terms) or _long_task(terms) or _dear_shards(terms)


def _crowd(terms: Terms) -> str | None:
    fewest, room, learners = min(terms.shards), sum(terms.room), len(terms.learners)
    if not terms.least:
        return None
    if fewest < terms.least:
        name = terms.tasks[terms.shards.index(fewest)]
        return f"a learner takes at least {terms.least} shards, but task {name!r} has {fewest}"
    if room < learners:
        return (
            f"{learners} learners with at least {terms.least} shards each are too many: "
            f"the tasks have room for {room}"
        )
    return None


def _stuck_learner(terms: Terms) -> str | None:
    """Somebody who has to serve and is too slow for every task."""
    if not terms.least:
        return None
    delays = terms.fixed_s + terms.each_s * terms.least
    stuck = np.flatnonzero((delays > terms.deadline_s[:, None]).all(axis=0))
    if not len(stuck):
        return None
    learner = int(stuck[0])
    task = int(np.argmin(delays[:, learner] / terms.deadline_s))
    return (
        f"learner {terms.learners[learner]!r} cannot do {terms.least} shards of any task within "
        f"its deadline: {terms.tasks[task]!r} would take {delays[task, learner]:.9g} s"
    )


def _long_task(terms: Terms) -> str | None:
    for task, name in enumerate(terms.tasks):
        quickest = terms.quickest(task)
        if quickest > terms.deadline_s[task]:
            return (
                f"all learners together do task {name!r} in {quickest:.9g} s at the soonest, "
                f"its deadline is {terms.deadline_s[task]:.9g} s"
            )
    return None


def _dear_shards(terms: Terms) -> str | None:
    """The least that everybody has to have, and all the rest by the cheapest."""
    forced = terms.least * math.fsum(terms.price)
    rest = sum(terms.shards) - terms.least * len(terms.learners)
    cost = forced + rest * float(terms.price.min())
    if cost <= terms.spendable:
        return None
    served = f"with {terms.least} for every learner " if terms.least else ""
    return f"the shards {served}cost at least {cost:.9g}, the budget is {terms.budget:.9g}"


def explain(terms: Terms) -> Infeasible | None:
    """What stands in the way, by all groups of few learners; None where a plan exists."""
    groups = Groups(terms)
    costs = chained(groups.least_costs(terms.deadline_s, range(len(terms.tasks))))[0]
    plan = thriftiest(groups, terms.deadline_s)
    if plan is not None and terms.affords(plan.shards):
        return None
    if costs[groups.all] <= terms.spendable:
        # Too dear by less than floats can tell: with a hair less money, all that follows sees it.
        return explain(terms.changed(budget=terms.budget * (1 - 4 * ROUNDING)))
    remedies = [
        Remedy("deadline", deadline, name)
        for task, name in enumerate(terms.tasks)
        if (deadline := _least_deadline(groups, task)) is not None
    ]
    if plan is not None:
        remedies.append(_budget(terms, plan))
    fewer = _most_least_shards(terms)
    if fewer is not None:
        remedies.append(Remedy("least shards", fewer))
    remedies += _doing_without(groups, costs)
    if not remedies:
        return _together(terms)
    reason = f"no plan keeps to {_broken(terms, remedies)} together with the rest"
    return Infeasible(obstacle(terms) or reason, remedies=remedies, proven=True)


def _least_deadline(groups: Groups, task: int) -> float | None:
    """The shortest deadline of one task with which a plan exists; None where none is enough."""
    terms = groups.terms
    others = [other for other in range(len(terms.tasks)) if other != task]
    if others:
        spent = chained(groups.least_costs(terms.deadline_s, others))[0]
    else:
        spent = np.where((groups.numbers == 0) | (terms.least == 0), 0.0, math.inf)
    left = terms.spendable - spent[groups.all ^ groups.numbers]

    def possible(deadline: float) -> bool:
        deadlines = np.full(len(terms.tasks), deadline)
        return bool(np.any(groups.least_costs(deadlines, [task])[0] <= left))

    span = (float(terms.deadline_s[task]), float(_slowest(terms)[task]))
    return _first(terms, {task: 1.0}, span, possible)


def _slowest(terms: Terms) -> Reals:
    """By task, the delay after which more time changes nothing."""
    most = np.maximum(np.array(terms.shards), terms.least)[:, None]
    slowest: Reals = np.max(terms.fixed_s + terms.each_s * most, axis=1)
    return slowest


def _first(
    terms: Terms,
    scales: Mapping[int, float],
    span: tuple[float, float],
    enough: Callable[[float], bool],
) -> float | None:
    """The least factor of some tasks' delays that is enough, where all above it are too.

    Halving leaves few delays at which anything changes, however many shards there are.
    """
    low, high = span
    if high < low or not enough(high):
        return None
    while _changes(terms, scales, low, high) > _LISTED:
        middle = (low + high) / 2
        if not low < middle < high:
            break
        low, high = (low, middle) if enough(middle) else (middle, high)
    listed = [
        terms.breakpoints(task, terms.everyone, scale * low, scale * high, _LISTED) / scale
        for task, scale in scales.items()
    ]
    points = np.unique(np.clip(np.concatenate([[low, high], *listed]), low, high)).tolist()
    return float(points[bisect.bisect_left(points, True, key=enough)])


def _changes(terms: Terms, scales: Mapping[int, float], low: float, high: float) -> int:
    """How many delays lie between at which some learner can do one shard more."""
    caps = [
        terms.within(task, terms.everyone, np.array([scale * low, scale * high]))
        for task, scale in scales.items()
    ]
    return sum(int((above - below).sum()) for below, above in caps)


def _budget(terms: Terms, plan: Settled) -> Remedy:
    """The least budget that affords a plan: its cost, rounded up where it is no float."""
    exact = terms.cost(plan.shards)
    value = float(exact)
    if Fraction(repr(value)) < exact:
        value = math.nextafter(value, math.inf)
    return Remedy("budget", value)


def _most_least_shards(terms: Terms) -> int | None:
    """The largest lower number of shards with which a plan exists; 0 lets learners stay idle."""

    def possible(least: int) -> bool:
        groups = Groups(terms.changed(least=least))
        return least_cost(groups, terms.deadline_s)[0] <= terms.spendable

    roomy = roomiest(terms).least
    return _largest(min(terms.least, roomy + 1), possible)


def roomiest(terms: Terms) -> Terms:
    """With as many least shards as there is room for, so that enough time and money would do."""

    def possible(least: int) -> bool:
        return _crowd(terms.changed(least=least)) is None

    if possible(terms.least):
        return terms
    least = _largest(terms.least, possible)
    assert least is not None
    return terms.changed(least=least)


def _largest(below: int, possible: Callable[[int], bool]) -> int | None:
    """The largest number below one that is possible, where all lower ones are too."""
    low, high = -1, below - 1
    while low < high:
        middle = (low + high + 1) // 2
        if possible(middle):
            low = middle
        else:
            high = middle - 1
    return low if low >= 0 else None


def _doing_without(groups: Groups, costs: Reals) -> list[Remedy]:
    """The fewest learners who would have to stay out, where that would do."""
    terms = groups.terms
    # Who may stay idle is in nobody's way.
    fits = np.flatnonzero(costs <= terms.spendable) if terms.least else np.empty(0, np.int64)
    if not len(fits):
        return []
    group = min(fits.tolist(), key=lambda each: (-groups.sizes[each], costs[each], each))
    out = tuple(terms.learners[member] for member in groups.members(groups.all ^ group))
    return [Remedy("learners", int(groups.sizes[group]), without=out)]


def _together(terms: Terms) -> Infeasible:
    """Fewer least shards, deadlines longer by the same factor, and the budget, as need be."""
    groups = Groups(roomiest(terms))
    remedies = _fewer(terms, groups.terms)
    tasks = range(len(terms.tasks))
    longest = max(1.0, float(np.max(_slowest(groups.terms) / terms.deadline_s)))
    slowest = least_cost(groups, terms.deadline_s * _up(longest))[0]
    limit = terms.spendable if slowest <= terms.spendable else math.inf

    def possible(deadlines: Reals) -> bool:
        cost = least_cost(groups, deadlines)[0]
        return math.isfinite(cost) and cost <= limit

    scales = dict(enumerate(terms.deadline_s.tolist()))
    span = (1.0, longest)
    factor = _first(groups.terms, scales, span, lambda each: possible(terms.deadline_s * _up(each)))
    assert factor is not None
    deadlines = terms.deadline_s * _up(factor)
    for task in tasks:
        kept = np.where(np.arange(len(deadlines)) == task, terms.deadline_s, deadlines)
        deadlines = kept if possible(kept) else deadlines
    remedies += [
        Remedy("deadline", float(deadlines[task]), terms.tasks[task])
        for task in tasks
        if deadlines[task] > terms.deadline_s[task]
    ]
    plan = thriftiest(groups, deadlines)
    assert plan is not None
    if not terms.affords(plan.shards):
        remedies.append(_budget(terms, plan))
    reason = obstacle(terms) or f"no plan keeps to {_broken(terms, remedies)}"
    return Infeasible(reason, remedies=remedies, together=True, proven=True)


def _up(factor: float) -> float:
    """A factor came from a division, which may have rounded down."""
    return factor * (1 + 1e-15) + 1e-300


def _fewer(terms: Terms, roomy: Terms) -> list[Remedy]:
    return [] if roomy.least == terms.least else [Remedy("least shards", roomy.least)]


def _broken(terms: Terms, remedies: Sequence[Remedy]) -> str:
    names = {
        "deadline": "the deadline of {!r}",
        "budget": f"the budget of {terms.budget:g}",
        "least shards": f"the least of {terms.least} shards a learner",
        "learners": f"the least of {terms.least} shards a learner",
    }
    broken = [names[remedy.constraint].format(remedy.task) for remedy in remedies]
    return " and ".join(dict.fromkeys(broken))


def enough(terms: Terms, roomy: Terms, groups: Sequence[Counts]) -> Infeasible | None:
    """The limits that an assignment breaks at the least: wider, they are enough.

    None where no limits would be, as some task has nobody or too many.
    """
    fastest = [roomy.least_delay(task, group) for task, group in enumerate(groups)]
    plan = cheapest(roomy, groups, np.maximum(fastest, terms.deadline_s).tolist())
    if plan is None:
        return None
    fewer = _fewer(terms, roomy)
    remedies = [
        *fewer,
        *(
            Remedy("deadline", delay, name)
            for name, delay, deadline in zip(
                terms.tasks, plan.delays, terms.deadline_s, strict=True
            )
            if delay > deadline
        ),
        *([] if terms.affords(plan.shards) else [_budget(terms, plan)]),
    ]
    tried = f"no plan was found: all that was tried breaks {_broken(terms, remedies)}"
    return Infeasible(
        obstacle(terms) or tried,
        remedies=remedies,
        together=len(remedies) > 1,
        proven=remedies == fewer,
    )
