"""What cannot be meant is refused, naming the field."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any, cast

import pytest

from axon.allocation.med import Infeasible, LearnerState, MedLearner, MedPlan, MedProblem, MedTask
from axon.allocation.med.problem import Remedy
from axon.errors import ConfigurationError
from tests.allocation.med.problems import learner, task


def state(probability: float = 1.0, link: float = 1.0, rate: float = 1.0) -> LearnerState:
    return LearnerState(probability, link, {"a": rate})


@pytest.mark.parametrize(
    ("make", "field"),
    [
        (lambda: state(probability=-0.1), "probability"),
        (lambda: state(probability=math.nan), "probability"),
        (lambda: state(link=0.0), "bytes_per_s"),
        (lambda: state(rate=0.0), "shards_per_s for 'a'"),
        (lambda: state(rate=math.nan), "shards_per_s for 'a'"),
        (lambda: MedLearner("w", 1.0, [state(0.4), state(0.5)]), "probability .* 'w' .* 0.9"),
        (lambda: MedLearner("w", 1.0, []), "probability"),
        (lambda: MedLearner("w", -1.0, [state()]), "price of 'w'"),
        (lambda: MedLearner("w", math.nan, [state()]), "price of 'w'"),
        (lambda: MedLearner("", 1.0, [state()]), "learner's name"),
        (lambda: MedTask("a", 0, 1.0, 1.0, 1.0), "shards of 'a'"),
        (lambda: MedTask("a", 1, 0.0, 1.0, 1.0), "deadline_s of 'a'"),
        (lambda: MedTask("a", 1, 1.0, math.inf, 1.0), "model_bytes of 'a'"),
        (lambda: MedTask("a", 1, 1.0, 1.0, -1.0), "shard_bytes of 'a'"),
        (lambda: MedTask("a", 1, 1.0, 1.0, 1.0, passes=0), "passes of 'a'"),
        (lambda: MedProblem([task("b", 1)], [learner("w", 1.0, {"a": 1.0})], 1.0), "'w' .* 'b'"),
        (lambda: MedProblem([], [learner("w", 1.0, {"a": 1.0})], 1.0), "tasks"),
        (lambda: MedProblem([task("a", 1)], [], 1.0), "learners"),
        (lambda: MedProblem([task("a", 1)] * 2, [learner("w", 1.0, {"a": 1.0})], 1.0), "'a' twice"),
        (lambda: MedProblem([task("a", 1)], [learner("w", 1.0, {"a": 1.0})] * 2, 1.0), "'w' twice"),
        (lambda: MedProblem([task("a", 1)], [learner("w", 1.0, {"a": 1.0})], -1.0), "budget"),
        (lambda: MedProblem([task("a", 1)], [learner("w", 1.0, {"a": 1.0})], math.nan), "budget"),
        (lambda: MedProblem([task("a", 1)], [learner("w", 1.0, {"a": 1.0})], 1.0, -1), "least"),
        (lambda: MedProblem([task("a", 1)], [learner("w", 1.0, {"a": 1.0})], 1.0, 10**30), "least"),
        (lambda: task("a", 10**9 + 1), "shards of 'a' must be at most 1,000,000,000"),
        (lambda: MedTask("a", 1, 1.0, 1.0, 1.0, passes=10**30), "passes of 'a'"),
        (lambda: LearnerState(1.0, 1.0, cast(Any, None)), "shards_per_s"),
        (lambda: LearnerState(1.0, 1.0, cast(Any, [1.0])), "shards_per_s"),
        (lambda: MedLearner("w", 1.0, cast(Any, None)), "states of 'w'"),
        (lambda: MedLearner("w", 1.0, cast(Any, [{}])), "states of 'w'"),
        (lambda: MedProblem(cast(Any, None), [learner("w", 1.0, {"a": 1.0})], 1.0), "tasks"),
        (lambda: MedProblem(cast(Any, "a"), [learner("w", 1.0, {"a": 1.0})], 1.0), "tasks"),
        (lambda: MedProblem([task("a", 1)], cast(Any, ["w"]), 1.0), "learners"),
    ],
)
def test_refused(make: Callable[[], object], field: str) -> None:
    with pytest.raises(ConfigurationError, match=field):
        make()


def test_a_problem_keeps_what_it_was_given() -> None:
    rates = {"a": 1.0}
    kept = LearnerState(1.0, 1.0, rates)
    rates["a"] = 2.0
    assert kept.shards_per_s == {"a": 1.0}


def test_a_gap_is_a_part_of_the_objective() -> None:
    plan = MedPlan({}, {}, objective=10.0, lower_bound=9.0, cost=0.0, limit_reached=True)
    assert plan.gap == pytest.approx(0.1)
    assert not plan.proven


def test_a_reason_says_what_it_would_take() -> None:
    remedies = [Remedy("deadline", 12.3, "a"), Remedy("budget", 210.5)]
    either = Infeasible("no plan", remedies=remedies, proven=True)
    assert str(either) == (
        "no plan (it would take a deadline of 'a' of at least 12.3 s, "
        "or a budget of at least 210.5)"
    )
    without = Remedy("learners", 3, without=("w", "v"))
    assert str(without) == "doing without 'w' and 'v'"
    both = Infeasible("no plan", remedies=remedies, together=True, proven=True)
    assert "12.3 s and a budget" in str(both)
    assert both.constraints == ("deadline", "budget")
