"""A dynamic learner where nothing stays as it was: it answers in time and wastes little of it."""

from __future__ import annotations

import asyncio
import math
from dataclasses import dataclass, replace

import pytest

from axon.allocation.margin import MARGIN, Tails
from axon.learning.learner import Abilities, Learner
from axon.seeds import stream
from axon.testbed.virtual import run
from axon.values import Samples, Update
from tests.learning.errands import (
    MODEL,
    SHARD_BYTES,
    SHARD_SAMPLES,
    SHARDS,
    SPEC,
    Noting,
    SlowSource,
    SteadyCompute,
    do,
    order_of,
    reason_of,
    update_of,
)

DEADLINE_S = 2.0
CYCLES = 200


@dataclass
class Life:
    """What became of a learner's cycles."""

    in_time: float
    used: float
    """Of the deadline, until the answer was there; nothing where it was not there in time."""
    batches: int
    done: float
    """Of the passes over the shards that it took, on average."""
    halted: float
    """The part of its answers for which it was cut short."""


async def live(dynamic: bool, seed: int) -> Life:
    """Cycles of a device that is up to 8 times slower than at its best, each time anew, on a link
    that may have halved, and on which the way up takes up to twice as long as the way down."""
    random, time = stream(seed, "weather"), asyncio.get_running_loop().time
    compute = SteadyCompute(0.01)
    learner = Learner("pi", compute, Abilities(dynamic=dynamic))
    previous_s, in_time, used_s, batches = None, 0, 0.0, 0
    answers: list[Update] = []
    for cycle in range(1, CYCLES + 1):
        compute.batch_s = 0.01 * 8 ** random.random()
        bytes_per_s = 8e4 / (1 + random.integers(2))
        upload_s = MODEL.nbytes / bytes_per_s * (1 + random.random())
        order = replace(order_of(None, cycle=cycle, previous_s=previous_s), shards=500)
        began_s = time()
        answer = await learner.train(order, SlowSource(bytes_per_s))
        arrived_s = time() - began_s + upload_s
        previous_s = None
        if isinstance(answer, Update):
            answers.append(answer)
            # The orchestrator lingers a little for the late, and gives up the others.
            previous_s = arrived_s if arrived_s <= 1.05 * DEADLINE_S else math.inf
            if arrived_s <= DEADLINE_S:
                in_time, used_s = in_time + 1, used_s + arrived_s
                batches += answer.batches
    done = [each.batches / SPEC.batches(each.shards * SHARD_SAMPLES, 1) for each in answers]
    halted = sum(each.halted for each in answers) / len(answers)
    return Life(
        in_time / CYCLES, used_s / CYCLES / DEADLINE_S, batches, sum(done) / len(done), halted
    )


@pytest.mark.parametrize("seed", range(3))
def test_it_answers_in_time_and_uses_it_where_one_that_is_not_does_neither(seed: int) -> None:
    dynamic, static = run(live(True, seed)), run(live(False, seed))
    assert dynamic.in_time >= 0.98, dynamic
    assert dynamic.used >= 0.89, dynamic
    assert static.in_time < dynamic.in_time
    assert static.used < 0.8
    assert dynamic.batches > 1.2 * static.batches
    # The price: it takes what it could do at its best, and is cut short when it is not.
    assert 0.5 <= dynamic.done <= 0.6, dynamic
    assert dynamic.halted <= 0.9, dynamic
    assert static.done > dynamic.done


def test_one_slow_cycle_does_not_shut_it_out_for_good() -> None:
    compute = SteadyCompute(0.01)
    learner, answered = Learner("pi", compute, Abilities(dynamic=True)), []
    for cycle in range(1, 14):
        compute.batch_s = 1.5 if cycle == 3 else 0.01
        link = 2e3 if cycle == 6 else 1e6
        previous_s = math.inf if cycle == 9 else None
        order = order_of(None, cycle=cycle, previous_s=previous_s)
        answered.append(isinstance(do(order, learner, SlowSource(link))[0], Update))
    assert answered[:2] == [True, True]
    assert answered[-3:] == [True, True, True]


def test_nor_do_tails_that_leave_it_no_time() -> None:
    """Half of the deadline is reserved, and one shard takes more than the other half."""
    learner = Learner("pi", SteadyCompute(0.5), Abilities(dynamic=True))
    learner.pace_of(SPEC).tails = Tails((1.0, 0.1))
    with_grace = {"grace_s": 0.5}
    answers = [do(order_of(None, cycle=cycle, **with_grace), learner)[0] for cycle in (1, 2)]
    assert "not one shard" in reason_of(answers[0])
    update_of(answers[1])
    # Where it is cut short it tries all the same.
    learner.pace_of(SPEC).tails = Tails((1.0, 0.1))
    assert update_of(do(order_of(None, cycle=3), learner)[0]).halted


def test_its_reserve_is_its_longest_tail() -> None:
    learner = Learner("pi", SteadyCompute(0.01), Abilities(dynamic=True))
    _, at_s = do(order_of(SHARDS, passes=9), learner)
    for cycle, tail_s in ((2, 0.3), (3, 0.1), (4, 0.05)):
        order = order_of(SHARDS, cycle=cycle, passes=9, previous_s=at_s + tail_s)
        _, at_s = do(order, learner)
        assert at_s == pytest.approx(DEADLINE_S * (1 - MARGIN) - 0.3, abs=0.011)
    _, at_s = do(order_of(SHARDS, cycle=5, passes=9, previous_s=math.inf), learner)
    assert at_s == pytest.approx(DEADLINE_S * (1 - 2 * MARGIN) - 0.6, abs=0.011)


def test_it_reckons_with_its_best_of_late_and_with_a_grace_with_its_worst() -> None:
    compute, allocate = SteadyCompute(0.01), Noting()
    learner = Learner("pi", compute, Abilities(allocate=allocate, dynamic=True))
    for cycle, (batch_s, link) in enumerate(
        [(0.02, 1e6), (0.01, 1e5), (0.04, 1e6), (0.04, 1e6)], start=1
    ):
        compute.batch_s = batch_s
        do(order_of(None, cycle=cycle), learner, SlowSource(link))
    capability, left_s = allocate.heard[-1]
    assert capability.shards_per_s == pytest.approx(10 / 0.01 / 20)
    assert capability.bytes_per_s == pytest.approx(1e6)
    assert left_s == pytest.approx(DEADLINE_S * (1 - MARGIN))
    for cycle, link in ((8, 1e5), (9, 1e6)):
        do(order_of(None, cycle=cycle, grace_s=1.0), learner, SlowSource(link))
    capability, left_s = allocate.heard[-1]
    assert capability.shards_per_s == pytest.approx(10 / 0.04 / 20)
    assert capability.bytes_per_s == pytest.approx(1e5)
    # The bound will charge two models at the worst rate, but they come and go at this one's.
    assert left_s == pytest.approx(DEADLINE_S * (1 - MARGIN) - 2 * 0.004 + 2 * 0.04)


def test_one_shard_more_where_whole_ones_would_leave_much_unused() -> None:
    """A shard takes 0.8 s, and of 1.96 s the trial took 0.4 s."""
    dynamic, static = (
        Learner("pi", SteadyCompute(0.4), Abilities(dynamic=dynamic)) for dynamic in (True, False)
    )
    answers = [update_of(do(order_of(None), learner)[0]) for learner in (dynamic, static)]
    assert [(each.shards, each.batches, each.halted) for each in answers] == [
        (2, 3, True),
        (1, 2, False),
    ]
    # An allocator that wants none is not overruled.
    refusing = Abilities(allocate=lambda *_: 0, dynamic=True)
    answer, _ = do(order_of(None), Learner("pi", SteadyCompute(0.01), refusing))
    assert "not one shard" in reason_of(answer)


def test_an_owners_download_is_not_taken_for_a_slow_link() -> None:
    """Every request takes half a second more, whatever its size."""
    learner = Learner("pi", SteadyCompute(0.01), Abilities(dynamic=True))
    taken = []
    for cycle, latency_s in enumerate((0.0, 0.0, 0.5, 0.0), start=1):
        order = replace(order_of(None, cycle=cycle, previous_s=1.9), shards=500)
        answer, at_s = do(order, learner, SlowSource(1e5, latency_s=latency_s))
        taken.append(update_of(answer).shards)
        assert at_s <= DEADLINE_S * (1 - MARGIN)
    assert taken[1] > 1.5 * taken[2] > 0
    assert taken[3] == taken[1]


def test_shards_that_do_not_come_are_not_waited_for_and_the_link_is_feared_for_it() -> None:
    class Stalling(SlowSource):
        async def shards(self, run: str, cycle: int, device: str, count: int) -> Samples:
            await asyncio.sleep(100.0)
            raise AssertionError("unreachable")

    async def main() -> tuple[object, float]:
        answer = await learner.train(order_of(8, cycle=2), Stalling(1e6))
        return answer, asyncio.get_running_loop().time()

    learner = Learner("pi", SteadyCompute(0.01), Abilities(dynamic=True))
    update_of(do(order_of(8), learner)[0])
    answer, at_s = run(main())
    assert reason_of(answer) == "its shards did not come within 2 s"
    assert at_s == pytest.approx(DEADLINE_S * (1 - MARGIN) - 0.004)
    waited_s = at_s - 0.004
    assert min(learner.paces[SPEC].link.rates) == pytest.approx(8 * SHARD_BYTES / waited_s)


def test_a_time_out_of_the_source_itself_is_its_own() -> None:
    class Broken(SlowSource):
        async def shards(self, run: str, cycle: int, device: str, count: int) -> Samples:
            raise TimeoutError("of the link")

    learner = Learner("pi", SteadyCompute(0.01), Abilities(dynamic=True))
    with pytest.raises(TimeoutError, match="of the link"):
        do(order_of(8), learner, Broken(1e6))
