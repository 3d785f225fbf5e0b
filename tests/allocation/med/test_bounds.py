"""The bound for many learners, beside what is proven for few."""

from __future__ import annotations

import numpy as np
import pytest

from axon.allocation.med import MedProblem
from axon.allocation.med.bounds import lower_bound
from axon.allocation.med.delays import Terms
from axon.allocation.med.settled import settle
from axon.allocation.med.subsets import prove
from tests.allocation.med.problems import drawn, learner, task


@pytest.mark.parametrize("least", [0, 1, 2])
@pytest.mark.parametrize("budget", [0.65, 2.0])
@pytest.mark.parametrize("number", [1, 2])
def test_a_bound_is_below_the_best_plan_and_near_it(number: int, budget: float, least: int) -> None:
    terms = Terms.of(drawn(number, learners=8, tasks=2, most_shards=25, least=least))
    terms = terms.changed(shards=(18, 25), deadline_s=np.full(2, 99.0), budget=budget * 43)
    dealt = settle(terms, [np.arange(0, 8, 2), np.arange(1, 8, 2)])
    assert dealt is not None
    proof = prove(terms, dealt, lambda: False)
    assert proof is not None
    assert proof.done
    bound = lower_bound(terms, dealt, lambda: False).bound
    assert 0.8 * proof.bound < bound <= proof.bound * (1 + 1e-9)


def test_a_bound_holds_where_not_all_delays_are_looked_at(monkeypatch: pytest.MonkeyPatch) -> None:
    terms = Terms.of(drawn(2, learners=8, tasks=2, most_shards=60))
    terms = terms.changed(deadline_s=np.full(2, 99.0), budget=0.8 * sum(terms.shards))
    dealt = settle(terms, [np.arange(0, 8, 2), np.arange(1, 8, 2)])
    assert dealt is not None
    exact = prove(terms, dealt, lambda: False)
    assert exact is not None
    monkeypatch.setattr("axon.allocation.med.bounds._CELLS", 1)
    monkeypatch.setattr("axon.allocation.med.bounds._SPANS", 8)
    bound = lower_bound(terms, dealt, lambda: False).bound
    assert 0.7 * exact.bound < bound <= exact.bound * (1 + 1e-9)


def test_one_task_is_bounded_by_its_best() -> None:
    terms = Terms.of(drawn(2, learners=8, tasks=1, most_shards=60))
    terms = terms.changed(deadline_s=np.full(1, 99.0), budget=99.0)
    best = settle(terms, [np.arange(8)])
    assert best is not None
    assert lower_bound(terms, best, lambda: True).bound == best.objective


def test_a_learner_that_nobody_wants_and_somebody_must_have_has_a_price_below_zero() -> None:
    who = [learner(name, 1.0, {"a": 1.0, "b": 1.0}) for name in ("one", "two")]
    who.append(learner("slow", 1.0, {"a": 30.0, "b": 40.0}))
    terms = Terms.of(MedProblem([task("a", 9), task("b", 9)], who, 99.0))
    best = settle(terms, [np.array([0, 2]), np.array([1])])
    assert best is not None
    assert best.objective == 30.0 + 9.0
    dual = lower_bound(terms, best, lambda: False)
    assert dual.prices[terms.learners.index("slow")] < 0
    assert 0.95 * 39.0 < dual.bound <= 39.0
    idle = terms.changed(least=0)
    assert lower_bound(idle, best, lambda: False).bound <= 18.0
