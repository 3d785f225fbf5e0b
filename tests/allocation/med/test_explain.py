"""A problem without a plan: the reason, and the least that would change that."""

from __future__ import annotations

import itertools
import time
from collections.abc import Sequence
from dataclasses import replace

import pytest

from axon.allocation.med import Infeasible, MedProblem, Remedy, allocate
from tests.allocation.med.problems import check_plan, drawn, learner, task, with_deadline

pytestmark = pytest.mark.slow  # All together they take seconds.


def _reason(problem: MedProblem) -> Infeasible:
    with pytest.raises(Infeasible) as caught:
        allocate(problem, time_limit_s=20.0)
    return caught.value


def _relaxed(problem: MedProblem, remedy: Remedy) -> MedProblem:
    """With one limit relaxed as it says."""
    if remedy.constraint == "deadline":
        assert remedy.task is not None
        return with_deadline(problem, remedy.task, remedy.value)
    if remedy.constraint == "budget":
        return replace(problem, budget=remedy.value)
    if remedy.constraint == "learners":
        return _without(problem, remedy.without)
    return replace(problem, least_shards=int(remedy.value))


def _without(problem: MedProblem, names: Sequence[str]) -> MedProblem:
    kept = [each for each in problem.learners if each.name not in names]
    return replace(problem, learners=kept)


def _short(problem: MedProblem, remedy: Remedy) -> list[MedProblem]:
    """With one limit relaxed by a hair less than it says, in every way there is."""
    if remedy.constraint == "learners":
        names = [each.name for each in problem.learners]
        fewer = itertools.combinations(names, len(remedy.without) - 1)
        return [_without(problem, out) for out in fewer]
    less = 1 if remedy.constraint == "least shards" else -1e-6 * remedy.value
    return [_relaxed(problem, replace(remedy, value=remedy.value + less))]


def _is_least(problem: MedProblem, reason: Infeasible) -> None:
    """Relaxed by that much there is a plan, by a hair less there is none."""
    assert reason.proven
    if reason.together:
        enough, short = problem, problem
        for remedy in reason.remedies:
            enough = _relaxed(enough, remedy)
            short = _short(short, remedy)[0]
        check_plan(enough, allocate(enough, time_limit_s=20.0))
        _reason(short)
        return
    for remedy in reason.remedies:
        enough = _relaxed(problem, remedy)
        check_plan(enough, allocate(enough, time_limit_s=20.0))
        for short in _short(problem, remedy):
            _reason(short)


def test_a_deadline_that_is_too_short() -> None:
    who = [learner("w", 1.0, {"a": 2.0}), learner("v", 1.0, {"a": 2.0})]
    reason = _reason(MedProblem([task("a", 6, deadline_s=5.9)], who, budget=9.0))
    assert reason.remedies == (Remedy("deadline", 6.0, "a"),)
    assert "deadline of 'a' of at least 6 s" in str(reason)


def test_a_budget_that_is_too_small() -> None:
    who = [learner("cheap", 1.0, {"a": 2.0}), learner("dear", 3.0, {"a": 1.0})]
    reason = _reason(MedProblem([task("a", 6, deadline_s=8.0)], who, budget=9.9))
    # Four of the cheap and two of the dear in time, or longer for the cheap.
    assert reason.remedies == (Remedy("deadline", 10.0, "a"), Remedy("budget", 10.0))
    assert set(reason.constraints) == {"deadline", "budget"}


def test_too_few_learners() -> None:
    who = [learner("w", 1.0, {"a": 1.0, "b": 1.0})]
    reason = _reason(MedProblem([task("a", 1), task("b", 1)], who, budget=9.0))
    assert reason.remedies == (Remedy("learners", 2),)
    assert "at least 2 learners" in str(reason)


def test_too_few_shards_for_a_learner_to_serve() -> None:
    who = [learner("w", 1.0, {"a": 1.0})]
    problem = MedProblem([task("a", 3)], who, budget=9.0, least_shards=4)
    reason = _reason(problem)
    assert reason.remedies == (Remedy("least shards", 3),)
    assert "at least 4 shards, but task 'a' has 3" in str(reason)
    _is_least(problem, reason)


def test_more_learners_than_there_is_room_for() -> None:
    who = [learner(name, 1.0, {"a": 1.0, "b": 1.0}) for name in "uvwx"]
    tasks = [task("a", 5), task("b", 3)]
    problem = MedProblem(tasks, who, budget=9.0, least_shards=2)
    reason = _reason(problem)
    assert "4 learners with at least 2 shards each are too many" in str(reason)
    assert "room for 3" in str(reason)
    assert reason.remedies == (
        Remedy("least shards", 1),
        Remedy("learners", 3, without=reason.remedies[1].without),
    )
    _is_least(problem, reason)


def test_a_learner_that_is_too_slow_for_every_task_is_named() -> None:
    who = [learner("quick", 1.0, {"a": 1.0}), learner("slow", 1.0, {"a": 4.0})]
    problem = MedProblem([task("a", 6, deadline_s=7.0)], who, budget=9.0, least_shards=2)
    reason = _reason(problem)
    assert "'slow' cannot do 2 shards of any task within its deadline" in str(reason)
    assert "'a' would take 8 s" in str(reason)
    assert reason.remedies == (
        Remedy("deadline", 8.0, "a"),
        Remedy("least shards", 1),
        Remedy("learners", 1, without=("slow",)),
    )
    assert "doing without 'slow'" in str(reason)
    _is_least(problem, reason)


def test_a_budget_that_does_not_let_everybody_serve() -> None:
    who = [learner("cheap", 1.0, {"a": 1.0}), learner("dear", 5.0, {"a": 1.0})]
    problem = MedProblem([task("a", 6)], who, budget=9.0)
    reason = _reason(problem)
    assert "with 1 for every learner cost at least 10" in str(reason)
    assert reason.remedies == (
        Remedy("budget", 10.0),
        Remedy("least shards", 0),
        Remedy("learners", 1, without=("dear",)),
    )
    _is_least(problem, reason)
    assert allocate(replace(problem, least_shards=0)).shards == {"a": {"cheap": 6}}


def test_too_many_learners_and_too_little_money_together() -> None:
    who = [learner(name, 2.0, {"a": 1.0}) for name in "uvw"]
    problem = MedProblem([task("a", 5)], who, budget=9.0, least_shards=2)
    reason = _reason(problem)
    assert reason.together
    assert reason.remedies == (Remedy("least shards", 1), Remedy("budget", 10.0))
    _is_least(problem, reason)


def test_two_deadlines_that_are_too_short_together() -> None:
    who = [learner("w", 1.0, {"a": 1.0, "b": 1.0}), learner("v", 1.0, {"a": 1.0, "b": 1.0})]
    tasks = [task("a", 4, deadline_s=2.0), task("b", 5, deadline_s=2.0)]
    reason = _reason(MedProblem(tasks, who, budget=4.5))
    assert reason.together
    assert {remedy.task: remedy.value for remedy in reason.remedies} == pytest.approx(
        {"a": 5.0, "b": 5.0, None: 9.0}
    )
    _is_least(MedProblem(tasks, who, budget=4.5), reason)


def _explain_all(numbers: range) -> set[str]:
    seen: set[str] = set()
    for number in numbers:
        problem = drawn(
            number,
            learners=2 + number % 4,
            tasks=1 + number % 2,
            most_shards=9,
            least=number % 4,
        )
        try:
            allocate(problem, time_limit_s=20.0)
        except Infeasible as reason:
            _is_least(problem, reason)
            seen |= {*reason.constraints, "together" if reason.together else "alone"}
    return seen


def test_what_it_would_take_is_enough_and_least() -> None:
    assert {"deadline", "budget"} <= _explain_all(range(12))


@pytest.mark.slow
def test_what_it_would_take_is_enough_and_least_in_many_problems() -> None:
    everything = {"deadline", "budget", "least shards", "learners", "together", "alone"}
    assert _explain_all(range(150)) == everything


@pytest.fixture
def _few_kicks(monkeypatch: pytest.MonkeyPatch) -> None:
    """A search that ends early by itself, so that nothing depends on the time it takes."""
    monkeypatch.setattr("axon.allocation.med.solve.KICKS", 4)


@pytest.mark.usefixtures("_few_kicks")
def test_with_many_learners_what_was_found_is_enough() -> None:
    problem = drawn(1, learners=16, tasks=3, most_shards=40)
    tasks = [replace(each, deadline_s=0.5) for each in problem.tasks]
    enough = replace(problem, tasks=tasks, budget=1.0)
    reason = _reason(enough)
    assert not reason.proven
    assert reason.together
    for remedy in reason.remedies:
        enough = _relaxed(enough, remedy)
    check_plan(enough, allocate(enough, time_limit_s=20.0))


@pytest.mark.usefixtures("_few_kicks")
def test_with_many_learners_too_many_for_the_least_are_counted() -> None:
    problem = drawn(1, learners=16, tasks=3, most_shards=40)
    tasks = [replace(each, shards=10, deadline_s=99.0) for each in problem.tasks]
    crowd = replace(problem, tasks=tasks, budget=99.0, least_shards=4)
    reason = _reason(crowd)
    assert "16 learners with at least 4 shards each are too many" in str(reason)
    # Three tasks of 10 have room for 15 learners with 2, and for 9 with 3.
    assert reason.remedies == (Remedy("least shards", 1),)
    assert reason.proven
    roomy = replace(crowd, least_shards=1)
    check_plan(roomy, allocate(roomy, time_limit_s=20.0))


@pytest.mark.usefixtures("_few_kicks")
def test_with_many_learners_a_budget_alone_may_be_enough() -> None:
    problem = drawn(1, learners=16, tasks=3, most_shards=40)
    tasks = [replace(each, deadline_s=99.0) for each in problem.tasks]
    small = replace(problem, tasks=tasks, budget=1.0)
    reason = _reason(small)
    assert reason.constraints == ("budget",)
    enough = _relaxed(small, reason.remedies[0])
    check_plan(enough, allocate(enough, time_limit_s=20.0))


def test_very_many_shards_are_explained_as_quickly() -> None:
    who = [learner(f"w{number}", 1.0, {"a": 1.4 - 0.02 * number}) for number in range(5)]
    problem = MedProblem([task("a", 3 * 10**7, deadline_s=10.0)], who, 1e12)
    began = time.monotonic()
    reason = _reason(problem)
    assert time.monotonic() - began < 5.0
    assert reason.constraints == ("deadline",)
    _is_least(problem, reason)
