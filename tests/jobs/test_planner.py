"""From tasks and learners to shares, and what a requester is told at once."""

from __future__ import annotations

from decimal import Decimal
from typing import Any

import pytest

from axon.allocation.med import Infeasible, LearnerState
from axon.devices.states import StateEstimate
from axon.errors import ConfigurationError
from axon.jobs.knowledge import Answers, Knowledge
from axon.jobs.ledger import Promise, money, summed, total
from axon.jobs.planner import Others, Planner
from axon.jobs.standing import Rules
from axon.jobs.submission import Work
from axon.rounds.survey import Finding
from axon.rounds.telling import Telling
from axon.values import Capability


def work(name: str, **changes: Any) -> Work:
    settings: dict[str, Any] = {
        "kind": "line",
        "shards": 10,
        "deadline_s": 10.0,
        "model_bytes": 1000,
        "shard_bytes": 100,
        "shard_samples": 4,
        "passes": 1,
    }
    return Work(name=name, **(settings | changes))


def rates(shards_per_s: float, *tasks: str) -> list[LearnerState]:
    return [LearnerState(1.0, 1e6, dict.fromkeys(tasks, shards_per_s))]


def planner(given: dict[str, Any], **rules: Any) -> Planner:
    return Planner(Rules(**({"budget": money(100)} | rules)), Knowledge(given))


def told(shards_per_s: float) -> Finding:
    capability = Capability(shards_per_s=shards_per_s, bytes_per_s=1e6)
    return Finding(status="told", capability=capability, cycle=1)


def state(probability: float, shards_per_s: float, bytes_per_s: float | None) -> StateEstimate:
    return StateEstimate(
        probability=probability, bytes_per_s=bytes_per_s, shards_per_s={"line": shards_per_s}
    )


def test_shares_have_prices_and_learners_one_task_each() -> None:
    given = {name: rates(2.0, "a", "b") for name in ("d1", "d2", "d3")}
    plan = planner(given, prices={"d1": money(0.3)}).deal(
        [work("a"), work("b", shards=4)], ["d1", "d2", "d3"], money(100)
    )
    assert not set(plan.shares["a"]) & set(plan.shares["b"])
    dealt = {**plan.shares["a"], **plan.shares["b"]}
    assert dealt["d1"].price == Decimal("0.3")
    assert sum(promise.shards for promise in plan.shares["a"].values()) == 10
    assert sum(promise.shards for promise in plan.shares["b"].values()) == 4


@pytest.mark.parametrize("budget", ["1.0", "1.1", "2.9", "3"])
def test_a_plan_is_within_the_budget_to_the_last_digit(budget: str) -> None:
    given = {"d1": rates(1.0, "a"), "d2": rates(3.0, "a")}
    chosen = planner(given, prices={"d1": money(0.1), "d2": money(0.3)})
    plan = chosen.deal([work("a", deadline_s=30.0)], ["d1", "d2"], Decimal(budget))
    assert total(plan.shares["a"]) <= Decimal(budget)


def test_a_learner_that_tells_nothing_sits_out() -> None:
    knowledge = Knowledge()
    knowledge.findings["line", "d1"] = told(2.0)
    knowledge.findings["line", "d2"] = Finding(status="declined", reason="it is private", cycle=1)
    chosen = Planner(Rules(budget=money(100)), knowledge)
    plan = chosen.deal([work("a")], ["d1", "d2", "d3"], money(100))
    assert set(plan.shares["a"]) == {"d1"}
    assert plan.sitting == {"d2": "it is private", "d3": "has not been asked yet"}
    with pytest.raises(Infeasible, match="2 tasks need a learner each, and 1 are free"):
        chosen.deal([work("a"), work("b")], ["d1", "d2", "d3"], money(100))


def test_knowledge_is_given_then_learnt_then_surveyed() -> None:
    task, other = work("a"), work("b", kind="other")
    knowledge = Knowledge({"d1": rates(7.0, "a")})
    assert knowledge.states("d1", [task]) == tuple(rates(7.0, "a"))
    assert knowledge.states("d1", [task, other]) is None
    assert knowledge.states("d2", [task]) is None
    knowledge.findings["line", "d2"] = told(2.0)
    assert knowledge.states("d2", [task]) == tuple(rates(2.0, "a"))
    knowledge.tellings["d2"] = Telling(cycle=1)
    assert knowledge.states("d2", [task]) == tuple(rates(2.0, "a")), "it has not trained yet"
    learnt = (state(0.75, 4.0, 4000.0), state(0.25, 1.0, 500.0))
    knowledge.take(Answers(tellings={"d2": Telling(states=learnt, cycle=2)}))
    assert knowledge.states("d2", [task]) == (
        LearnerState(0.75, 4000.0, {"a": 4.0}),
        LearnerState(0.25, 500.0, {"a": 1.0}),
    )
    assert not knowledge.knows(other, "d2")
    knowledge.findings["other", "d2"] = told(3.0)
    both = knowledge.states("d2", [task, other]) or ()
    assert [one.shards_per_s for one in both] == [{"a": 4.0, "b": 3.0}, {"a": 1.0, "b": 3.0}]


def test_states_without_a_bandwidth_are_not_planned_with() -> None:
    knowledge = Knowledge()
    knowledge.tellings["d1"] = Telling(states=(state(1.0, 4.0, None),), cycle=1)
    assert not knowledge.knows(work("a"), "d1")
    knowledge.findings["line", "d1"] = told(2.0)
    assert knowledge.states("d1", [work("a")]) == tuple(rates(2.0, "a"))


def test_what_was_learnt_is_left_aside_where_it_is_not_wanted() -> None:
    knowledge = Knowledge()
    learnt = Telling(states=(state(1.0, 4.0, 1e6),), cycle=1)
    knowledge.take(Answers({("line", "d1"): told(2.0)}, {"d1": learnt}), learnt=False)
    assert knowledge.states("d1", [work("a")]) == tuple(rates(2.0, "a"))


def test_what_is_impossible_is_refused_with_what_would_do() -> None:
    given = {"d1": rates(1.0, "a", "b"), "d2": rates(1.0, "a", "b")}
    chosen = planner(given, budget=money(8))
    names = ["d1", "d2"]
    answer = chosen.admit(work("a", shards=8, deadline_s=2.0), Others(), names, asked=True)
    assert answer.verdict == "refused"
    assert "a deadline of 'a' of at least" in answer.reason
    with pytest.raises(Infeasible) as problem:
        chosen.check([work("a", shards=8, deadline_s=2.0)], names, money(8))
    enough_s = problem.value.remedies[0].value
    enough = work("a", shards=8, deadline_s=enough_s)
    assert chosen.admit(enough, Others(), names, asked=True).verdict == "admitted"
    answer = chosen.admit(work("a", shards=9, deadline_s=60.0), Others(), names, asked=True)
    assert (answer.verdict, "a budget of at least 9" in answer.reason) == ("refused", True)


def test_what_does_not_fit_beside_the_others_waits() -> None:
    given = {name: rates(1.0, "a", "b", "c") for name in ("d1", "d2")}
    chosen, others = planner(given), [work("a"), work("b")]
    answer = chosen.admit(work("c"), Others(running=others), ["d1", "d2"], asked=True)
    assert answer.verdict == "waiting"
    assert "beside what runs: 3 tasks need a learner each" in answer.reason
    answer = chosen.admit(work("c"), Others(waiting=others), ["d1", "d2"], asked=True)
    assert "behind what waits: 3 tasks need a learner each" in answer.reason
    answer = planner({}).admit(work("c"), Others(), ["d1"], asked=False)
    assert (answer.verdict, answer.reason) == (
        "waiting",
        "learners benchmark themselves on it first",
    )


def test_rules_are_exact_about_money() -> None:
    rules = Rules(budget=money(0.3), prices={"d1": money(0.1)}, price=money(2))
    promised = {"d1": Promise(shards=3, price=rules.price_of("d1"))}
    assert summed([total(promised)]) == rules.budget
    assert rules.price_of("stranger") == 2
    rules.check_priced(["d1", "d2"])
    with pytest.raises(ConfigurationError, match=r"price for d1, .* \(its devices are d2, d3\)"):
        rules.check_priced(["d3", "d2"])
    for wrong in ({"least_shards": -1}, {"replan_every": 0}, {"time_limit_s": 0.0}):
        with pytest.raises(ValueError, match=next(iter(wrong))):
            Rules(budget=money(1), **wrong)
