"""Once it is known who serves a task: delays, fillings and trade-offs."""

from __future__ import annotations

import itertools
import math

import numpy as np
import pytest

from axon.allocation.med import LearnerState, MedLearner, MedProblem, MedTask
from axon.allocation.med.delays import Terms
from axon.allocation.med.settled import settle
from axon.errors import ConfigurationError
from tests.allocation.med.problems import drawn, learner, task


def test_expectations_are_over_states() -> None:
    states = [LearnerState(0.25, 100.0, {"a": 2.0}), LearnerState(0.75, 50.0, {"a": 1.0})]
    what = MedTask("a", 5, 99.0, model_bytes=200.0, shard_bytes=10.0, passes=3)
    terms = Terms.of(MedProblem([what], [MedLearner("w", 1.0, states)], 9.0))
    # 1/b: 0.25 / 100 + 0.75 / 50 = 0.0175; passes/c: 0.25 · 1.5 + 0.75 · 3 = 2.625.
    assert terms.fixed_s[0, 0] == pytest.approx(400 * 0.0175)
    assert terms.each_s[0, 0] == pytest.approx(2.625 + 10 * 0.0175)


def test_a_delay_that_is_just_enough_is_enough() -> None:
    terms = Terms.of(MedProblem([task("a", 50)], [learner("w", 1.0, {"a": 0.1})], 99.0))
    member = np.array([0])
    for count in range(1, 50):
        exactly = terms.delay(0, member, np.array([count]))
        assert terms.within(0, member, exactly)[0, 0] == count
        assert terms.within(0, member, math.nextafter(exactly, 0))[0, 0] == count - 1


def _oracle(terms: Terms, members: list[int], high: float) -> list[tuple[float, float]]:
    """Every way to fill task 0: (delay, cost)."""
    shards, least = terms.shards[0], terms.least
    ways = []
    for counts in itertools.product(range(least, shards + 1), repeat=len(members)):
        if sum(counts) == shards:
            delay = terms.delay(0, np.array(members), np.array(counts))
            if delay <= high:
                ways.append((delay, float(np.array(counts) @ terms.price[members])))
    return ways


@pytest.mark.parametrize("least", [0, 1, 2])
def test_a_front_is_what_trying_everything_gives(least: int) -> None:
    for number in range(6):
        terms = Terms.of(drawn(number, learners=3, tasks=1, most_shards=8, least=least))
        members, high = np.arange(3), 30.0
        ways = sorted(_oracle(terms, [0, 1, 2], high))
        if not ways:
            assert terms.least_delay(0, members, high) == math.inf
            continue
        costs = np.minimum.accumulate([cost for _, cost in ways])
        wanted = [
            (delay, cost)
            for place, (delay, cost) in enumerate(ways)
            if place == 0 or cost < costs[place - 1] - 1e-12
        ]
        delays, found = terms.front(0, members, high)
        kept = [
            (d, c)
            for k, (d, c) in enumerate(wanted)
            if k + 1 == len(wanted) or wanted[k + 1][0] > d
        ]
        assert delays == pytest.approx([delay for delay, _ in kept])
        assert found == pytest.approx([cost for _, cost in kept])
        assert terms.least_delay(0, members) == pytest.approx(ways[0][0])


def test_who_must_serve_has_the_least_however_dear_or_slow() -> None:
    who = [learner("cheap", 1.0, {"a": 1.0}), learner("dear", 9.0, {"a": 4.0})]
    terms = Terms.of(MedProblem([task("a", 6)], who, 99.0, least_shards=2))
    everyone = np.arange(2)
    counts = terms.fill(0, everyone, 8.0)
    assert counts is not None
    assert counts.tolist() == [4, 2]
    assert terms.fill(0, everyone, 7.9) is None
    assert terms.least_delay(0, everyone) == 8.0
    # Without the dear one it takes 6 s, which bounds every plan that may use it elsewhere.
    assert terms.quickest(0) == 6.0
    idle = terms.changed(least=0).fill(0, everyone, 8.0)
    assert idle is not None
    assert idle.tolist() == [6, 0]


def test_too_many_cannot_serve() -> None:
    who = [learner(name, 1.0, {"a": 1.0}) for name in "abc"]
    terms = Terms.of(MedProblem([task("a", 5)], who, 99.0, least_shards=2))
    assert terms.least_delay(0, np.arange(3)) == math.inf
    assert terms.least_delay(0, np.arange(2)) == 3.0


def test_nobody_cannot_serve() -> None:
    terms = Terms.of(drawn(1, learners=2, tasks=1, most_shards=4))
    nobody = np.empty(0, np.int64)
    assert terms.least_delay(0, nobody) == math.inf
    assert terms.fill(0, nobody, 99.0) is None
    assert settle(terms, [nobody]) is None


def test_few_of_very_many_delays_are_written_down() -> None:
    terms = Terms.of(MedProblem([task("a", 10**7)], [learner("w", 1.0, {"a": 1.0})], 1.0))
    points = terms.breakpoints(0, np.array([0]), 0.0, 1e7, most=100)
    assert len(points) == 100
    assert np.all(np.diff(points) > 0)


def _one(state: LearnerState, price: float = 1.0, deadline_s: float = 9.0) -> MedProblem:
    what = MedTask("a", 5, deadline_s, model_bytes=1e9, shard_bytes=0.0)
    return MedProblem([what], [MedLearner("w", price, [state])], 99.0)


@pytest.mark.parametrize(
    ("problem", "field"),
    [
        (_one(LearnerState(1.0, 1e-305, {"a": 1.0})), "delay of 'w' for all shards of 'a'.* inf"),
        (_one(LearnerState(1.0, 1e9, {"a": 1e-310})), "delay of 'w' for a shard of 'a'.* inf"),
        (_one(LearnerState(1.0, 1e9, {"a": 1e300})), "delay of 'w' for a shard of 'a'.* 1e-300"),
        (_one(LearnerState(1.0, 1e9, {"a": 1.0}), price=1e308), "price of 'w'"),
        (_one(LearnerState(1.0, 1e9, {"a": 1.0}), price=1e-300), "price of 'w'"),
        (_one(LearnerState(1.0, 1e9, {"a": 1.0}), deadline_s=1e-300), "deadline_s of 'a'"),
    ],
)
def test_what_cannot_be_reckoned_with_is_refused(problem: MedProblem, field: str) -> None:
    with pytest.raises(ConfigurationError, match=field):
        Terms.of(problem)


def test_a_state_that_never_is_counts_for_nothing() -> None:
    states = [LearnerState(1.0, 1.0, {"a": 2.0}), LearnerState(0.0, 1e-310, {"a": 1e-310})]
    what = MedTask("a", 5, 99.0, model_bytes=1.0, shard_bytes=1.0)
    terms = Terms.of(MedProblem([what], [MedLearner("w", 1.0, states)], 9.0))
    assert (terms.fixed_s[0, 0], terms.each_s[0, 0]) == (2.0, 1.5)


@pytest.mark.parametrize(("price", "shards", "budget"), [(0.1, 3, 0.3), (1.1, 3, 3.3), (0.0, 3, 0)])
def test_money_is_exact_in_the_decimals_that_are_written(
    price: float, shards: int, budget: float
) -> None:
    terms = Terms.of(MedProblem([task("a", shards)], [learner("w", price, {"a": 1.0})], budget))
    assert terms.affords(np.array([[shards]]))
    if budget:
        less = terms.changed(budget=math.nextafter(budget, 0))
        assert not less.affords(np.array([[shards]]))
