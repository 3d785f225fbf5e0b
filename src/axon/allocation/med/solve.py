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
from axon.allocation.med.settled import Settled, settle
from axon.allocation.med.subsets import MOST_LEARNERS, Groups, cells, prove, roughly, thriftiest
from axon.errors import ConfigurationError
from axon.values import check_positive, check_whole

LateAfter: TypeAlias = Callable[[float], Callable[[], bool]]
"""For a part of the time limit, whether it is over."""

_PROOF_KICKS, _LONG_KICKS = 10, 60
_QUICK = 1_000_000
_FIRST, _RESCUED, _BOUND, _SEARCHED, _LAST = 0.1, 0.7, 0.5, 0.85, 0.97
"""By which part of the time a first plan, one where there are few, a bound, the search and a better
bound are done."""
_START, _ROUGH, _SOUGHT, _PROVEN = 0.2, 0.4, 0.55, 0.85
"""With few learners: by which a first plan, a rough one, a search before a long proof, and what
comes before the last search are done."""


def allocate(problem: MedProblem, *, time_limit_s: float = 1.0, seed: int = 0) -> MedPlan:
    """Who trains how many shards of what, so that the expected delays add up to the least.

    With up to 12 learners every assignment is tried, if only by its bound, and where the time is
    enough the plan is proven to be the best (`proven`); otherwise, and with more learners, `gap`
    says how far from the best it may be. Equal arguments give the equal plan unless
    `limit_reached`: the limit is wall-clock time. Raises `Infeasible`, with few learners whatever
    the limit: finding out why takes seconds with 12 learners and many tasks.
    """
    if not isinstance(problem, MedProblem):
        raise ConfigurationError(f"problem must be a MedProblem, got {problem!r:.60}")
    check_positive("time_limit_s", time_limit_s)
    check_whole("seed", seed, least=0)
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
    """A short search and a proof; where that takes too long, a longer search from what it found."""
    reason = explain(terms)
    if reason is not None:
        raise reason
    search = Search(terms, seed)
    search.run(_PROOF_KICKS, late_after(_START))
    # The search is not sure to find a plan where there is hardly one; the cheapest is one.
    best = search.best or thriftiest(Groups(terms), terms.deadline_s)
    assert best is not None
    bound, long = 0.0, cells(terms, best) > _QUICK
    if long:
        # A better plan leaves less to be tried, and something to show where the time is too short.
        if search.best is None:
            search.best = roughly(terms, best, late_after(_ROUGH))
            _go_on(search, search.best)
        search.run(_LONG_KICKS, late_after(_SOUGHT))
        best = search.best
        bound = lower_bound(terms, best, late_after(_PROVEN)).bound
    proof = prove(terms, best, late_after(_LAST if long else _PROVEN))
    if proof is not None:
        best, bound = proof.best, max(bound, proof.bound)
        if proof.done or late_after(_SEARCHED)():
            return best, bound, proof.done
    search.best = best
    _go_on(search, best)
    done = search.run(KICKS, late_after(_SEARCHED)) and proof is None
    bound = max(bound, lower_bound(terms, search.best, late_after(_LAST)).bound)
    return search.best, bound, done and not late_after(_LAST)()


def _go_on(search: Search, plan: Settled) -> None:
    """Look about a plan, with what money is worth there."""
    search.restart((plan.shards > 0).astype(float), plan.multiplier)


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
    wide = Search(roomy.without_limits(), seed)
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
        cost=float(terms.cost(found.shards)),
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
    known = isinstance(place, int) and not isinstance(place, bool)
    if place is None or not known or not 0 <= place < len(learner.states):
        raise ConfigurationError(
            f"the state of {learner.name!r} must be a whole number from 0 to "
            f"{len(learner.states) - 1}, got {place!r}"
        )
    return replace(learner, states=[replace(learner.states[place], probability=1.0)])
