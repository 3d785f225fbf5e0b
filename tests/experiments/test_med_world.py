"""The tasks, learners and states of the MED experiments."""

from __future__ import annotations

from dataclasses import replace

import pytest

from axon.allocation.med import Infeasible, allocate, believed
from axon.experiments.med_world import (
    FACTOR,
    SURE,
    TABLE,
    Request,
    Trial,
    benchmarked,
    model_bytes,
    nano,
    rates_of,
    slowdown,
)
from axon.experiments.mnist import SHARD_SAMPLES
from axon.experiments.runs import seeds
from axon.experiments.settings import Settings
from axon.learning.evaluation import flops_per_sample
from axon.testbed.activity import MATRIX_BYTES, STATES, contention
from axon.testbed.catalogue import device
from axon.values import DeviceRecord, Timings

SMALL = Request("small", "twonn", 2, 5.0, 20)
TRIAL = Trial(seed=3, requests=(SMALL,), learners=4, budget=300.0, device=nano())


def test_the_tasks_are_those_of_the_table() -> None:
    assert [(one.passes, one.deadline_s, one.shards) for one in TABLE] == [
        (2, 55.0, 60),
        (1, 40.0, 60),
        (1, 40.0, 20),
    ]
    assert TABLE[0].samples == 60_000
    assert TABLE[2].spec.learning_rate == 0.0001


def test_a_factor_changes_all_that_training_costs_and_nothing_else() -> None:
    known, quick = device("jetson-nano"), nano(2.0)
    assert quick.batch_s(1e6, 32) == pytest.approx(known.batch_s(1e6, 32) / 2)
    assert quick.link == known.link


def test_a_benchmark_finds_what_a_state_costs() -> None:
    found = benchmarked(SMALL, nano())
    each, size = flops_per_sample(SMALL.spec), SMALL.spec.batch_size
    for state in STATES:
        batch_s = contention(state).batch_s(nano(), each, size)
        # 20 shards are 312.5 batches, of which the half one takes less.
        assert found[state].shards_per_s == pytest.approx(20 / (313 * batch_s), rel=0.01)
    fetched = model_bytes("twonn") + 20 * SMALL.shard_bytes
    ways = found["downloading"].bytes_per_s / found["idle"].bytes_per_s
    # The model and the shards are fetched beside a matrix each.
    assert ways == pytest.approx(fetched / (fetched + 2 * MATRIX_BYTES), rel=0.02)


def test_an_owner_who_trains_is_felt_most_by_the_smallest_net() -> None:
    least, most = slowdown()
    costs = [flops_per_sample(request.spec) for request in TABLE]
    reckoned = [
        contention("training").batch_s(nano(), each, 32) / nano().batch_s(each, 32)
        for each in (max(costs), min(costs))
    ]
    assert [least, most] == pytest.approx(reckoned, rel=0.01)


def test_a_cycle_that_tells_no_times_tells_no_rates() -> None:
    seen = DeviceRecord(device="nano-01", status="used", shards=2, samples=2 * SHARD_SAMPLES)
    assert rates_of(SMALL, seen) is None
    told = replace(seen, timings=Timings(download_s=0.5, train_s=4.0))
    rates = rates_of(SMALL, told)
    assert rates is not None
    assert rates.shards_per_s == 0.5
    assert rates.bytes_per_s == 2 * (model_bytes("twonn") + 2 * SMALL.shard_bytes)


def test_the_first_learners_are_the_same_whatever_their_number() -> None:
    more = replace(TRIAL, learners=10)
    assert more.names[:4] == TRIAL.names
    assert list(more.names) == sorted(more.names)
    few, many = TRIAL.problem().learners, more.problem().learners
    assert many[:4] == few
    assert TRIAL.states(2).items() <= more.states(2).items()


def test_prices_are_within_bounds_and_habits_have_one_favourite() -> None:
    trials = [replace(TRIAL, seed=seed, learners=10) for seed in range(20)]
    prices = [trial.price(name) for trial in trials for name in trial.names]
    assert (min(prices), max(prices)) == (0.1, 1.5)
    assert 0.8 < sum(prices) / len(prices) < 1.0
    chances = sorted(TRIAL.habit("nano-01").probabilities.values())
    assert chances == pytest.approx([0.1065, 0.1065, 0.7870], abs=1e-4)


def test_what_is_known_takes_the_place_of_what_is_true() -> None:
    true = TRIAL.problem().learners[0].states
    assert [state.probability for state in true] == list(
        TRIAL.habit("nano-01").probabilities.values()
    )
    only = [replace(true[1], probability=1.0)]
    problem = TRIAL.problem({"nano-01": only})
    assert problem.learners[0].states == tuple(only)
    assert problem.learners[1] == TRIAL.problem().learners[1]


def plannable(factor: float) -> float:
    """The part of the cycles of four learners in which MMTT-Ideal has a plan."""
    answers: dict[tuple[int, ...], bool] = {}
    found = []
    for seed in seeds(Settings(), 40):
        trial = Trial(seed=seed, requests=TABLE, learners=4, budget=300.0, device=nano(factor))
        problem = trial.problem()
        for cycle in range(1, trial.cycles + 1):
            states = trial.states(cycle)
            # They are all alike, and 140 shards cost 210 at most: the budget leaves all possible.
            key = tuple(sorted(states.values()))
            if key not in answers:
                try:
                    allocate(believed(problem, states), time_limit_s=30.0)
                    answers[key] = True
                except Infeasible:
                    answers[key] = False
            found.append(answers[key])
    return sum(found) / len(found)


@pytest.mark.slow
def test_the_factor_is_the_least_with_which_the_ideal_can_nearly_always_plan() -> None:
    assert plannable(FACTOR) >= SURE > plannable(FACTOR - 0.25)
