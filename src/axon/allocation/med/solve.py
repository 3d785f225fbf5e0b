"""MED solved: a search for a good plan, then a proof or a bound.

Beside it what MED is compared with, MMTT (min-max training time), which knows of no uncertainty:
both schemes are MED on learners with one certain state each, and differ in whose word they take
for it.
"""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import TypeAlias

import numpy as np

from axon.allocation.med.bounds import lower_bound
from axon.allocation.med.delays import Terms
from axon.allocation.med.explain import check_learners, enough, explain, obstacle, roomiest
from axon.allocation.med.problem import MedLearner, MedPlan, MedProblem
from axon.allocation.med.search import KICKS, Search
from axon.allocation.med.settled import Settled, cheapest, settle
from axon.allocation.med.subsets import MOST_LEARNERS, Groups, least_cost, prove
from axon.errors import ConfigurationError
from axon.values import check_positive

LateAfter: TypeAlias = Callable[[float], Callable[[], bool]]
"""For a part of the time limit, whether it is over."""

_PROOF_KICKS = 10
_FIRST, _RESCUED, _BOUND, _SEARCHED, _LAST = 0.1, 0.7, 0.5, 0.85, 0.97
"""By which part of the time a first plan, one where there are few, a bound, the search and a better
bound are done."""


def allocate(problem: MedProblem, *, time_limit_s: float = 1.0, seed: int = 0) -> MedPlan:
    """Who trains how many shards of what, so that the expected delays add up to the least.

    With up to 12 learners every assignment is tried, if only by its bound, and the plan is proven
    to be the best; with more, `gap` says how far from the best it may be. Equal arguments give the
    equal plan unless `limit_reached`: the limit is wall-clock time. Raises `Infeasible`.
    """
    check_positive("time_limit_s", time_limit_s)
    began = time.monotonic()
    terms = Terms.of(problem)
    check_learners(terms)

    def late_after(part: float) -> Callable[[], bool]:
        return lambda: time.monotonic() - began > time_limit_s * part

    if len(terms.learners) <= MOST_LEARNERS:
        found, bound, done = _few(terms, seed, late_after)
    else:
        found, bound, done = _many(terms, seed, late_after)
    return _plan(problem, terms, found, bound, done)


def _few(terms: Terms, seed: int, late_after: LateAfter) -> tuple[Settled, float, bool]:
    """A short search and a proof."""
    reason = explain(terms)
    if reason is not None:
        raise reason
    search = Search(terms, seed)
    search.run(_PROOF_KICKS, late_after(1.0))
    best = search.best
    if best is None:
        # The search is not sure to find a plan where there is hardly one; the cheapest is one.
        groups = Groups(terms)
        parts = least_cost(groups, terms.deadline_s)[1]
        members = [groups.members(part) for part in parts]
        best = cheapest(terms, members, terms.deadline_s.tolist())
        assert best is not None
    proof = prove(terms, best, late_after(1.0))
    if proof is not None:
        return proof.best, proof.bound, proof.done
    done = search.run(KICKS, late_after(_SEARCHED))
    best = search.best or best
    bound = lower_bound(terms, best, late_after(_LAST)).bound
    return best, bound, done and not late_after(_LAST)()


def _many(terms: Terms, seed: int, late_after: LateAfter) -> tuple[Settled, float, bool]:
    """A first plan, a bound whose prices say where to look, and a search from there."""
    hopeless = obstacle(terms) is not None
    search = Search(roomiest(terms), seed)
    if not hopeless:
        search.run(0, late_after(_FIRST))
    done = not late_after(_FIRST)()
    if search.best is None:
        search.best = _rare(terms, search, seed, late_after)
    dual = lower_bound(terms, search.best, late_after(_BOUND))
    done &= not late_after(_BOUND)()
    search.restart(dual.usage, dual.multiplier)
    done &= search.run(KICKS, late_after(_SEARCHED))
    # A better plan leaves less to be bounded.
    dual = lower_bound(terms, search.best, late_after(_LAST), dual)
    return search.best, dual.bound, done and not late_after(_LAST)()


def _rare(terms: Terms, search: Search, seed: int, late_after: LateAfter) -> Settled:
    """A plan where there are few or none; raises what the assignment nearest to one would take.

    Two are tried: that which is nearest to the limits, and one made as if there were none.
    """
    roomy = roomiest(terms)
    search.rescue(KICKS, late_after(_RESCUED))
    nearest = search.groups
    if search.best is not None:
        if roomy.least == terms.least:
            return search.best
        nearest = [np.flatnonzero(counts) for counts in search.best.shards]
    free = roomy.changed(deadline_s=np.full(len(terms.tasks), 1e300), budget=1e300)
    wide = Search(free, seed)
    wide.run(_PROOF_KICKS, late_after(_SEARCHED))
    found = settle(terms, wide.groups)
    if found is not None:
        return found
    reason = enough(terms, roomy, nearest) or enough(terms, roomy, wide.groups)
    assert reason is not None
    raise reason


def _plan(problem: MedProblem, terms: Terms, found: Settled, bound: float, done: bool) -> MedPlan:
    """The answer in the problem's own order and names."""
    rows = {name: row for row, name in enumerate(terms.tasks)}
    columns = {name: column for column, name in enumerate(terms.learners)}
    shards = {
        task.name: {
            learner.name: count
            for learner in problem.learners
            if (count := int(found.shards[rows[task.name], columns[learner.name]]))
        }
        for task in problem.tasks
    }
    delays = {task.name: found.delays[rows[task.name]] for task in problem.tasks}
    objective = math.fsum(delays.values())
    return MedPlan(
        shards=shards,
        delays=delays,
        objective=objective,
        lower_bound=min(bound, objective),
        cost=found.cost,
        limit_reached=not done,
    )


def believed(problem: MedProblem, states: Mapping[str, int]) -> MedProblem:
    """The problem as it is for somebody sure that each learner is in the state named.

    A state is given as its place among the learner's states.
    """
    learners = [_certain(learner, states) for learner in problem.learners]
    return replace(problem, learners=learners)


def mmtt_ideal(
    problem: MedProblem, present: Mapping[str, int], *, time_limit_s: float = 1.0, seed: int = 0
) -> MedPlan:
    """MMTT-Ideal: knows each learner's present state, and so is asked again every cycle."""
    return allocate(believed(problem, present), time_limit_s=time_limit_s, seed=seed)


def mmtt_uncertain(
    problem: MedProblem, benchmarked: Mapping[str, int], *, time_limit_s: float = 1.0, seed: int = 0
) -> MedPlan:
    """MMTT-Uncertain: takes the state in which each learner was benchmarked for the present one."""
    return allocate(believed(problem, benchmarked), time_limit_s=time_limit_s, seed=seed)


def _certain(learner: MedLearner, states: Mapping[str, int]) -> MedLearner:
    place = states.get(learner.name)
    if place is None or not 0 <= place < len(learner.states):
        raise ConfigurationError(
            f"the state of {learner.name!r} must be a whole number from 0 to "
            f"{len(learner.states) - 1}, got {place!r}"
        )
    return replace(learner, states=[replace(learner.states[place], probability=1.0)])
