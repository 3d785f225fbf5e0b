"""What a learner sees of itself in its cycles, and what it tells of it to whom."""

from __future__ import annotations

from dataclasses import replace

import pytest

from axon.learning.experience import LONGEST_KIND, MOST_KINDS, Experience, kind_of
from axon.learning.learner import PRIVATE, Abilities, Learner
from axon.values import Order
from tests.learning.errands import (
    MODEL,
    SHARD_BYTES,
    SHARD_SAMPLES,
    SPEC,
    SlowSource,
    SteadyCompute,
    do,
    order_of,
    reason_of,
    samples_of,
)

KIND = kind_of(SPEC, SHARD_SAMPLES)
OTHER = replace(SPEC, batch_size=20)


def learner_of(batch_s: float = 0.01, **abilities: object) -> Learner:
    return Learner("pi", SteadyCompute(batch_s), Abilities(**abilities))  # type: ignore[arg-type]


def trained(learner: Learner, *orders: Order) -> Learner:
    for order in orders:
        do(order, learner, SlowSource(1e5, latency_s=0.01))
    return learner


def test_a_cycle_is_seen_as_shards_for_one_pass_and_bytes_a_second() -> None:
    learner = trained(learner_of(), order_of(5, passes=3))
    (seen,) = learner.experience.cycles.observations
    assert seen.task == KIND
    # Two batches of 10 ms are a shard.
    assert seen.shards_per_s == pytest.approx(50.0)
    fetched = MODEL.nbytes + 5 * SHARD_BYTES
    assert seen.bytes_per_s == pytest.approx(fetched / (fetched / 1e5 + 2 * 0.01))


def test_one_that_is_cut_short_sees_what_it_did() -> None:
    learner = trained(learner_of(0.1), order_of(50))
    (seen,) = learner.experience.cycles.observations
    assert seen.shards_per_s == pytest.approx(5.0)


def test_one_that_decides_for_itself_sees_no_trial_among_its_downloads() -> None:
    learner = trained(learner_of(), order_of(None))
    (seen,) = learner.experience.cycles.observations
    assert seen.shards_per_s == pytest.approx(50.0)
    assert 5e4 < (seen.bytes_per_s or 0.0) < 1e5


def test_one_with_data_of_its_own_sees_the_model_come() -> None:
    learner = trained(learner_of(data=samples_of(40)), order_of(2))
    (seen,) = learner.experience.cycles.observations
    assert seen.bytes_per_s == pytest.approx(MODEL.nbytes / (MODEL.nbytes / 1e5 + 0.01))


def test_what_is_declined_or_takes_no_time_tells_nothing() -> None:
    learner = trained(learner_of(), order_of(0), order_of(99))
    assert learner.states([KIND]) == ()
    do(order_of(2), hurried := learner_of(0.0001), SlowSource(float("inf")))
    (seen,) = hurried.experience.cycles.observations
    assert seen.bytes_per_s is None


def test_rates_are_told_of_what_was_asked_about_and_of_nothing_else() -> None:
    learner = trained(learner_of(), order_of(5), order_of(4, spec=OTHER))
    assert len(learner.experience.cycles.observations) == 2
    for asked in ([KIND], [kind_of(OTHER, SHARD_SAMPLES)], ["unheard of"]):
        states = learner.states(asked)
        assert isinstance(states, tuple)
        assert sum(one.probability for one in states) == pytest.approx(1.0)
        for one in states:
            assert set(one.shards_per_s) == set(asked) - {"unheard of"}
            assert one.bytes_per_s


def test_one_that_keeps_its_capability_to_itself_keeps_its_states_too() -> None:
    learner = trained(learner_of(discloses=False), order_of(5))
    assert reason_of(learner.states([KIND])) == PRIVATE
    assert len(learner.experience.cycles.observations) == 1, "it knows them all the same"


def test_a_question_about_very_much_is_declined() -> None:
    learner = trained(learner_of(), order_of(5))
    kinds = [f"kind {number}" for number in range(MOST_KINDS + 1)]
    assert "51 kinds of task at once, at most 50" in reason_of(learner.states(kinds))


def test_what_is_kept_is_taken_up_to_the_last_bit() -> None:
    learner = trained(learner_of(), order_of(5), order_of(4, spec=OTHER), order_of(1))
    again = Experience()
    again.states([KIND])
    again.take_up(learner.experience.keep())
    assert again.cycles == learner.experience.cycles
    assert again.states([KIND]) == learner.states([KIND])


def test_an_estimate_is_made_anew_after_a_cycle() -> None:
    learner = trained(learner_of(), order_of(5))
    first = learner.states([KIND])
    assert learner.states([KIND]) == first
    assert trained(learner, order_of(1)).states([KIND]) != first


def test_memory_is_bounded() -> None:
    learner = learner_of()
    for _ in range(210):
        learner = trained(learner, order_of(1))
    assert len(learner.experience.cycles.observations) == 200


def test_kinds_are_short_and_tell_tasks_apart() -> None:
    assert KIND == "twonn 4-3 sgd batches of 10, shards of 20"
    assert kind_of(replace(SPEC, learning_rate=0.7), SHARD_SAMPLES) == KIND
    assert kind_of(SPEC, 21) != KIND
    long = [replace(SPEC, inputs=(1,) * 300 + (last,)) for last in (2, 3)]
    kinds = {kind_of(spec, 1) for spec in long}
    assert len(kinds) == 2
    assert {len(kind) for kind in kinds} == {LONGEST_KIND}
