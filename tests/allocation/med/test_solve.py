"""`allocate` against trying everything, against its own constraints, and in another order; MMTT."""

from __future__ import annotations

import math
from dataclasses import replace
from typing import Any, cast

import pytest

from axon.allocation.med import (
    Infeasible,
    LearnerState,
    MedLearner,
    MedPlan,
    MedProblem,
    allocate,
    believed,
    mmtt_ideal,
    mmtt_uncertain,
)
from axon.allocation.med.delays import Terms
from axon.allocation.med.search import Search
from axon.allocation.med.settled import Settled
from axon.allocation.med.subsets import Proof, prove
from axon.errors import ConfigurationError
from tests.allocation.med.problems import brute_force, check_plan, delay, drawn, learner, task


def test_one_task_is_shared_so_that_all_end_together() -> None:
    who = [learner("slow", 1.0, {"a": 2.0}), learner("fast", 1.0, {"a": 1.0})]
    plan = allocate(MedProblem([task("a", 9)], who, budget=9.0))
    assert plan.shards == {"a": {"slow": 3, "fast": 6}}
    assert plan.delays == {"a": 6.0}
    assert plan.objective == plan.lower_bound == 6.0
    assert plan.proven
    assert not plan.limit_reached
    assert plan.gap == 0.0


def test_each_learner_serves_the_task_that_it_is_good_at() -> None:
    who = [
        learner("left", 1.0, {"a": 1.0, "b": 3.0}),
        learner("right", 1.0, {"a": 3.0, "b": 1.0}),
    ]
    plan = allocate(MedProblem([task("a", 4), task("b", 4)], who, budget=8.0))
    assert plan.shards == {"a": {"left": 4}, "b": {"right": 4}}


def test_a_small_budget_gives_more_to_the_cheap_and_slow() -> None:
    who = [learner("cheap", 1.0, {"a": 2.0}), learner("dear", 3.0, {"a": 1.0})]
    problem = MedProblem([task("a", 9)], who, budget=27.0)
    assert allocate(problem).shards == {"a": {"cheap": 3, "dear": 6}}
    # Each shard that moves saves 2: two have to.
    assert allocate(replace(problem, budget=17.0)).shards == {"a": {"cheap": 5, "dear": 4}}


def test_a_learner_that_would_slow_its_task_down_stays_idle_only_where_it_may() -> None:
    who = [
        learner("near", 1.0, {"a": 1.0}, bytes_per_s=1e6),
        learner("far", 1.0, {"a": 1.0}, bytes_per_s=1.0),
    ]
    problem = MedProblem([task("a", 4, model_bytes=10.0)], who, budget=9.0, least_shards=0)
    assert allocate(problem).shards == {"a": {"near": 4}}
    must = allocate(replace(problem, least_shards=1))
    assert must.shards == {"a": {"near": 3, "far": 1}}
    assert must.objective == 21.0


def test_everybody_gets_at_least_the_least() -> None:
    who = [learner("one", 1.0, {"a": 1.0}), learner("two", 1.0, {"a": 4.0})]
    problem = MedProblem([task("a", 5)], who, budget=9.0)
    assert allocate(problem).shards == {"a": {"one": 4, "two": 1}}
    assert allocate(replace(problem, least_shards=2)).shards == {"a": {"one": 3, "two": 2}}


def _compare(number: int, learners: int, tasks: int, shards: int, least: int) -> bool:
    problem = drawn(number, learners=learners, tasks=tasks, most_shards=shards, least=least)
    wanted = brute_force(problem)
    try:
        plan = allocate(problem, time_limit_s=20.0)
    except Infeasible:
        assert wanted == math.inf
        return False
    check_plan(problem, plan)
    assert plan.proven
    assert plan.objective == pytest.approx(wanted, rel=1e-6)
    return True


@pytest.mark.parametrize("least", [0, 1, 2])
def test_nothing_that_can_be_tried_is_better(least: int) -> None:
    feasible = [_compare(number, 3, 2, 5, least) for number in range(12)]
    assert 2 <= sum(feasible) <= 10


@pytest.mark.slow
@pytest.mark.parametrize("least", [0, 1, 2, 3])
def test_nothing_that_can_be_tried_is_better_in_many_problems(least: int) -> None:
    for number in range(150):
        _compare(number, 3 + number % 2, 1 + number % 3, 5, least)


def _keep_constraints(number: int) -> bool:
    size = (4 + number % 5, 1 + number % 4)
    problem = drawn(number, learners=size[0], tasks=size[1], most_shards=12, least=number % 3)
    try:
        plan = allocate(problem, time_limit_s=5.0)
    except Infeasible:
        return False
    check_plan(problem, plan)
    return True


def test_plans_keep_every_constraint() -> None:
    feasible = [_keep_constraints(number) for number in range(12)]
    assert 2 <= sum(feasible) <= 10


@pytest.mark.slow
@pytest.mark.parametrize("part", range(8))
def test_plans_keep_every_constraint_in_thousands_of_problems(part: int) -> None:
    feasible = [_keep_constraints(number) for number in range(part * 250, part * 250 + 250)]
    assert 25 < sum(feasible) < 225


@pytest.mark.parametrize("least", [0, 1, 4])
def test_plans_of_many_learners_keep_every_constraint(
    least: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    # A search that ends early by itself, so that nothing depends on the time it takes.
    monkeypatch.setattr("axon.allocation.med.solve.KICKS", 4)
    problem = drawn(1, learners=30, tasks=4, most_shards=90, least=least)
    generous = replace(
        problem,
        tasks=[replace(each, deadline_s=60.0) for each in problem.tasks],
        budget=0.8 * sum(each.shards for each in problem.tasks),
    )
    plan = allocate(generous, time_limit_s=30.0)
    check_plan(generous, plan)
    assert plan.gap < 0.2
    turned = replace(generous, tasks=generous.tasks[::-1], learners=generous.learners[::-1])
    assert not plan.limit_reached
    assert allocate(turned, time_limit_s=30.0) == plan


def test_the_order_in_which_a_problem_is_written_does_not_matter() -> None:
    for number in (3, 5):
        problem = drawn(number, learners=7, tasks=3, most_shards=12)
        generous = replace(
            problem, tasks=[replace(each, deadline_s=60.0) for each in problem.tasks], budget=30.0
        )
        turned = replace(generous, tasks=generous.tasks[::-1], learners=generous.learners[::-1])
        plan, again = allocate(generous, time_limit_s=9.0), allocate(turned, time_limit_s=9.0)
        assert plan == again
        assert list(again.delays) == [each.name for each in turned.tasks]


def test_a_search_repeats_itself() -> None:
    problem = drawn(2, learners=20, tasks=3, most_shards=40)
    terms = Terms.of(problem).changed(budget=50.0)

    def run(seed: int) -> object:
        search = Search(terms, seed)
        assert search.run(4, lambda: False)
        assert search.best is not None
        return search.best.shards.tolist()

    assert run(1) == run(1)


def test_a_time_limit_is_kept_and_told() -> None:
    problem = drawn(1, learners=40, tasks=4, most_shards=90)
    generous = replace(
        problem, tasks=[replace(each, deadline_s=99.0) for each in problem.tasks], budget=1e4
    )
    plan = allocate(generous, time_limit_s=0.05)
    assert plan.limit_reached
    check_plan(generous, plan)


def test_a_time_limit_must_be_above_zero() -> None:
    problem = drawn(1, learners=3, tasks=1, most_shards=3)
    with pytest.raises(ValueError, match="time_limit_s"):
        allocate(problem, time_limit_s=0.0)


def _moody() -> MedProblem:
    def states(idle: float, busy: float) -> list[LearnerState]:
        return [LearnerState(0.5, 1e3, {"a": idle}), LearnerState(0.5, 1e3, {"a": busy})]

    who = [MedLearner("steady", 1.0, states(1.0, 1.0)), MedLearner("moody", 1.0, states(3.0, 0.5))]
    return MedProblem([task("a", 12)], who, budget=99.0)


def _longest(plan: MedPlan, problem: MedProblem) -> float:
    by_name = {each.name: each for each in problem.learners}
    shares = plan.shards["a"].items()
    return max(delay(problem.tasks[0], by_name[name], count) for name, count in shares)


def test_the_ideal_is_best_in_the_present_state_and_the_uncertain_is_not() -> None:
    problem = _moody()
    present = {"steady": 0, "moody": 1}
    now = believed(problem, present)
    ideal = mmtt_ideal(problem, present)
    uncertain = mmtt_uncertain(problem, {"steady": 0, "moody": 0})
    assert ideal.shards == {"a": {"steady": 8, "moody": 4}}
    assert uncertain.shards == {"a": {"steady": 3, "moody": 9}}
    assert _longest(ideal, now) == 8.0
    assert _longest(uncertain, now) == 18.0
    assert _longest(ideal, now) <= _longest(allocate(problem), now) <= _longest(uncertain, now)


def test_a_problem_without_uncertainty_is_the_same_to_all() -> None:
    problem = _moody()
    sure = believed(problem, {"steady": 1, "moody": 0})
    states = {"steady": 0, "moody": 0}
    assert allocate(sure) == mmtt_ideal(sure, states) == mmtt_uncertain(sure, states)


@pytest.mark.parametrize("states", [{"steady": 0}, {"steady": 0, "moody": 2}])
def test_a_state_that_a_learner_does_not_have(states: dict[str, int]) -> None:
    with pytest.raises(ConfigurationError, match="'moody' must be a whole number from 0 to 1"):
        believed(_moody(), states)


def test_limits_stay_as_they_are() -> None:
    problem = replace(_moody(), budget=12.5, least_shards=2)
    sure = believed(problem, {"steady": 0, "moody": 0})
    assert (sure.budget, sure.least_shards, sure.tasks) == (12.5, 2, problem.tasks)


@pytest.mark.parametrize("seed", ["x", 1.5, None, True, -1])
def test_a_seed_is_a_whole_number(seed: Any) -> None:
    with pytest.raises(ConfigurationError, match="seed"):
        allocate(_moody(), seed=seed)


def test_only_a_problem_is_solved() -> None:
    with pytest.raises(ConfigurationError, match="problem must be a MedProblem"):
        allocate(cast(Any, {"tasks": []}))


@pytest.mark.parametrize("place", ["0", 0.0, False])
def test_a_state_is_a_place(place: Any) -> None:
    with pytest.raises(ConfigurationError, match="'moody' must be a whole number"):
        believed(_moody(), {"steady": 0, "moody": place})


def test_a_budget_is_not_exceeded_by_anything() -> None:
    who = [learner("w", 1.0, {"a": 1e-3}), learner("v", 1.0, {"a": 1e-3})]
    problem = MedProblem([task("a", 10**9, deadline_s=1e9)], who, 1e9)
    assert allocate(problem).cost == 1e9
    with pytest.raises(Infeasible) as caught:
        allocate(replace(problem, budget=1e9 - 0.5))
    assert [remedy.value for remedy in caught.value.remedies] == [1e9]


def test_the_budget_that_it_would_take_is_exactly_enough() -> None:
    who = [learner("w", 0.1 + 1e-17, {"a": 1.0}), learner("v", 1 / 3, {"a": 1.0})]
    problem = MedProblem([task("a", 31)], who, 0.1)
    with pytest.raises(Infeasible) as caught:
        allocate(problem)
    needed = caught.value.remedies[0].value
    assert allocate(replace(problem, budget=needed)).cost == pytest.approx(needed)
    with pytest.raises(Infeasible):
        allocate(replace(problem, budget=math.nextafter(needed, 0)))


def test_a_proof_that_has_no_time_leaves_a_searched_plan_and_the_better_bound(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    problem = drawn(8, learners=7, tasks=3, most_shards=15, least=0)
    wide = [replace(each, deadline_s=99.0) for each in problem.tasks]
    tight = replace(problem, tasks=wide, budget=0.45 * sum(each.shards for each in wide))
    best = allocate(tight, time_limit_s=30.0)
    assert best.proven
    monkeypatch.setattr("axon.allocation.med.solve._QUICK", 0)
    late = prove(Terms.of(tight), settled_of(tight), lambda: True)
    assert late is not None
    monkeypatch.setattr(
        "axon.allocation.med.solve.prove", lambda terms, found, _: Proof(found, late.bound, False)
    )
    monkeypatch.setattr("axon.allocation.med.solve.KICKS", 4)
    plan = allocate(tight, time_limit_s=30.0)
    check_plan(tight, plan)
    assert plan.limit_reached
    assert late.bound < plan.lower_bound <= best.objective
    assert plan.objective <= 1.02 * best.objective


def settled_of(problem: MedProblem) -> Settled:
    search = Search(Terms.of(problem), 0)
    search.run(4, lambda: False)
    assert search.best is not None
    return search.best
