"""What a learner remembers of itself from one cycle to the next."""

from __future__ import annotations

import math
from dataclasses import replace

import msgspec
import pytest

from axon.allocation.margin import MARGIN, Tails
from axon.devices.subset import Line
from axon.learning.learner import Abilities, Learner
from axon.learning.pace import FASTEST, LAST, Pace, Speed
from axon.values import TaskSpec, Update
from tests.learning.errands import (
    SHARDS,
    SPEC,
    Noting,
    SlowSource,
    SteadyCompute,
    ask,
    do,
    order_of,
    reason_of,
    update_of,
)


def test_given_up_it_keeps_more_for_the_way_back_and_less_once_it_is_not_needed() -> None:
    learner = Learner("pi", SteadyCompute(0.01))
    handed_s = [do(order_of(SHARDS, passes=9), learner)[1]]
    for cycle in range(2, 9):
        order = order_of(SHARDS, cycle=cycle, passes=9, previous_s=math.inf)
        handed_s.append(do(order, learner)[1])
    # Twice as much each time, up to half of the deadline, and never so much that nothing is done.
    assert handed_s == sorted(handed_s, reverse=True)
    assert handed_s[0] > 1.9
    assert handed_s[-1] == pytest.approx(0.96, abs=0.03)
    for cycle in range(9, 20):
        last_s = do(order_of(SHARDS, cycle=cycle, passes=9), learner)[1]
    assert last_s > 1.9


def test_after_a_cycle_it_knows_how_long_its_upload_takes() -> None:
    """A link with a fast way down and a way up that takes a whole second."""
    learner, upload_s = Learner("pi", SteadyCompute(0.01)), 1.0
    update, at_s = do(order_of(SHARDS), learner)
    assert at_s + upload_s > 2.0
    halted_s = 2.0 * (1 - MARGIN) - upload_s
    order = order_of(SHARDS, cycle=2, previous_s=at_s + upload_s)
    update, at_s = do(order, learner)
    assert update_of(update).halted
    assert halted_s - 0.01 <= at_s <= halted_s + 1e-9
    assert learner.paces[SPEC].upload_s == pytest.approx(upload_s)

    # A refusal came back at once, and says nothing of how long an update would have taken.
    reason_of(do(order_of(0, cycle=3, previous_s=at_s + upload_s), learner)[0])
    _, at_s = do(order_of(SHARDS, cycle=4, previous_s=0.01), learner)
    assert at_s <= halted_s + 1e-9


def test_an_answer_that_never_arrived_teaches_nothing() -> None:
    learner = Learner("pi", SteadyCompute(0.01))
    do(order_of(1), learner)
    do(order_of(1, cycle=2, previous_s=None), learner)
    assert learner.paces[SPEC].upload_s == 0.0


def test_a_task_is_known_apart_from_another() -> None:
    allocate = Noting()
    compute = SteadyCompute(0.01)
    learner = Learner("pi", compute, Abilities(allocate=allocate))
    other = replace(SPEC, learning_rate=0.2)
    do(order_of(None), learner)
    compute.batch_s = 0.02
    do(order_of(None, spec=other), learner)
    do(order_of(None, cycle=2), learner)
    rates = [capability.shards_per_s for capability, _ in allocate.heard]
    assert rates == pytest.approx([50.0, 25.0, 50.0])
    assert set(learner.paces) == {SPEC, other}


def test_one_slow_cycle_does_not_shut_a_learner_out_for_good() -> None:
    compute = SteadyCompute(0.01)
    learner, statuses = Learner("pi", compute), []
    for cycle in range(1, 9):
        compute.batch_s = 1.5 if cycle == 3 else 0.01
        answer, _ = do(order_of(None, cycle=cycle), learner)
        statuses.append(isinstance(answer, Update))
    assert statuses[:2] == [True, True]
    assert statuses[-3:] == [True, True, True]


def test_an_absurd_word_about_the_last_cycle_is_not_believed_for_long() -> None:
    learner = Learner("pi", SteadyCompute(0.01))
    do(order_of(None), learner)
    do(order_of(None, cycle=2, previous_s=1e300), learner)
    assert learner.paces[SPEC].upload_s <= 1.0
    answers = [do(order_of(None, cycle=cycle), learner)[0] for cycle in range(3, 8)]
    assert isinstance(answers[-1], Update)


def test_it_remembers_a_bounded_number_of_tasks() -> None:
    learner = Learner("pi", SteadyCompute(0.01))
    for number in range(100):
        learner.pace_of(replace(SPEC, net=f"net-{number}"))
    assert len(learner.paces) == 32


# Benchmarked anew by every cycle


def test_a_cycle_takes_the_place_of_the_benchmark_and_keeps_what_is_paid_once() -> None:
    speed = Speed()
    speed.learn(Line(0.5, 0.01))
    assert (speed.fixed_s, speed.rates) == (0.5, [100.0])
    # Two requests: 1 s of the 3 s was paid for making them.
    speed.note((50.0, 1.0), (150.0, 2.0))
    assert speed.fixed_s == 0.5
    assert speed.rates == [100.0, 200.0 / 2.0]


def test_without_a_benchmark_nothing_is_paid_once() -> None:
    speed = Speed()
    speed.note((50.0, 1.0), (150.0, 3.0))
    assert (speed.fixed_s, speed.rates) == (0.0, [50.0])


def test_what_is_paid_once_is_never_more_than_was_seen_nor_nearly_all_of_it() -> None:
    speed = Speed(fixed_s=0.5)
    speed.note((100.0, 0.52))
    assert speed.fixed_s == 0.5
    assert speed.rates == pytest.approx([100.0 / 0.052])
    speed.note((10.0, 0.2), (100.0, 1.0))
    assert speed.fixed_s == 0.2
    assert speed.rates[-1] == pytest.approx(110.0 / 0.8)
    speed.note((10.0, 0.0))
    assert (speed.fixed_s, speed.rates[-1]) == (0.0, FASTEST)


def test_a_bounded_number_of_cycles_is_remembered() -> None:
    speed = Speed()
    for cycle in range(1, 4 * LAST):
        speed.note((float(cycle), 1.0))
    assert speed.rates == [float(cycle) for cycle in range(3 * LAST, 4 * LAST)]


def test_what_can_be_cut_short_is_hoped_for_and_what_cannot_is_feared() -> None:
    pace = Pace(Speed(rates=[2.0, 9.0, 4.0]), Speed(rates=[7.0, 5.0, 6.0]))
    assert pace.outlook(dynamic=False, cut_short=True) == (4.0, 6.0)
    assert pace.outlook(dynamic=True, cut_short=True) == (9.0, 7.0)
    assert pace.outlook(dynamic=True, cut_short=False) == (2.0, 5.0)
    for dynamic in (False, True):
        assert Pace().outlook(dynamic=dynamic, cut_short=True) == (0.0, 0.0)


def test_who_is_in_doubt_forgets_its_worst_or_if_it_reckons_by_the_last_all() -> None:
    pace = Pace(Speed(rates=[20.0, 100.0, 20.0, 100.0]), tails=Tails((1.0, 4.0, 2.0)))
    pace.doubt(dynamic=True)
    assert pace.training.rates == [100.0, 20.0, 100.0]
    assert pace.tails == Tails((1.0, 2.0))
    assert pace.outlook(dynamic=True, cut_short=True)[0] == 100.0
    for _ in range(4):
        pace.doubt(dynamic=True)
    assert pace.training.rates == []
    pace.training.note((1.0, 1.0), (2.0, 1.0))
    pace.doubt(dynamic=False)
    assert pace.training.rates == []


def test_what_was_paid_in_one_cycle_is_no_part_of_its_rate_nor_of_the_next() -> None:
    speed = Speed(fixed_s=0.1)
    speed.note((100.0, 2.1), (100.0, 2.1), fixed_s=1.1)
    assert speed.rates == pytest.approx([100.0])
    assert speed.fixed_s == 0.1


def test_a_tail_begins_where_training_ended_or_should_have() -> None:
    learner = Learner("pi", SteadyCompute(0.3))
    # 0.004 s each way: 1.956 s is the plan, 0.004 s + 6 batches of 0.3 s the end.
    _, at_s = do(order_of(3, passes=9), learner)
    pace = learner.paces[SPEC]
    assert pace.ended_s == pytest.approx(at_s)
    pace.hear(1.9, 2.0)
    assert pace.tails.last_s == pytest.approx([1.9 - at_s])
    assert (pace.ended_s, pace.returned_s) == (None, None)
    # A batch that went on beyond the plan is a part of the tail, and no part of the upload.
    late = Pace(ended_s=1.5, returned_s=1.8)
    late.hear(1.9, 2.0)
    assert late.tails.last_s == pytest.approx([0.4])
    assert late.upload_s == pytest.approx(0.1)


def test_a_pace_comes_back_from_json_to_the_bit() -> None:
    learner = Learner("pi", SteadyCompute(0.01, start_s=0.003), Abilities(dynamic=True))
    source = SlowSource(3e5, latency_s=0.007)
    ask(order_of(8, cycle=0), learner, source)
    previous_s: float | None = None
    for cycle in range(1, 30):
        _, at_s = do(order_of(None, cycle=cycle, previous_s=previous_s), learner, source)
        previous_s = math.inf if cycle % 7 == 0 else at_s + 0.1 / cycle
    known = tuple(learner.paces.items())
    again = msgspec.json.decode(msgspec.json.encode(known), type=tuple[tuple[TaskSpec, Pace], ...])
    assert again == known
    assert len(msgspec.json.encode(known)) < 2000
