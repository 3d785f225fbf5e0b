"""A learner's errand in virtual time: what it decides, declines and sends."""

from __future__ import annotations

import itertools
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import pytest
import torch

from axon.allocation.margin import MARGIN
from axon.compression.codecs import codec
from axon.learning.learner import Abilities, Learner
from axon.learning.loop import train
from axon.learning.nets import initial
from axon.learning.room import TRAINING_COPIES
from axon.testbed.virtual import run
from axon.values import (
    Declined,
    Job,
    Order,
    TaskCost,
    Trained,
    Update,
    Vector,
)
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
    samples_of,
    update_of,
)

GRID = [
    (batch_s, link, shards)
    for batch_s, link in itertools.product((0.001, 0.05, 0.3), (4e3, 1e4, 1e6))
    for shards in (None, 10, SHARDS)
]


@pytest.mark.parametrize(("batch_s", "link", "shards"), GRID)
def test_whatever_the_rates_there_is_time_left_to_upload(
    batch_s: float, link: float, shards: int | None
) -> None:
    compute = SteadyCompute(batch_s)
    learner = Learner("pi", compute)
    for cycle in (1, 2, 3):
        answer, at_s = do(order_of(shards, cycle=cycle), learner, SlowSource(link))
        if isinstance(answer, Update):
            assert at_s + MODEL.nbytes / link <= 2.0 * (1 - MARGIN) + 1e-9
            assert answer.halted == (answer.batches < compute.jobs[-1].batches)


def test_a_halted_update_counts_what_was_really_trained() -> None:
    # 0.4 s down and 0.4 s up, and 0.048 s for a shard: 1.96 - 0.8 - 0.48 leaves 6 batches of 0.1 s.
    answer, at_s = do(order_of(10), Learner("pi", SteadyCompute(0.1)), SlowSource(1e4))
    update = update_of(answer)
    assert (update.shards, update.batches, update.samples, update.halted) == (10, 6, 60, True)
    assert at_s == pytest.approx(0.4 + 0.48 + 0.6)


def test_a_share_that_is_done_in_time_is_not_halted_and_tells_its_timings() -> None:
    answer, _ = do(order_of(2, passes=3), Learner("pi", SteadyCompute(0.01)), SlowSource(1e4))
    update = update_of(answer)
    assert (update.shards, update.batches, update.samples) == (2, 12, 120)
    assert not update.halted
    assert update.timings is not None
    assert update.timings.download_s == pytest.approx(0.4 + 2 * 0.048)
    assert update.timings.train_s == pytest.approx(0.12)
    np.testing.assert_array_equal(update.payload["parameters"], MODEL + 0.5)


def test_who_decides_for_itself_keeps_its_timings() -> None:
    answer, _ = do(order_of(None), Learner("pi", SteadyCompute(0.01)))
    assert update_of(answer).timings is None


def test_the_first_time_it_decides_by_a_trial_and_then_by_its_last_cycle() -> None:
    compute, allocate = SteadyCompute(0.01), Noting()
    learner = Learner("pi", compute, Abilities(allocate=allocate))
    do(order_of(None), learner)
    # One batch to warm up and the 8 of the trial, then the share.
    assert [job.batches for job in compute.jobs] == [1, 8, 6]
    (first, left_s) = allocate.heard[0]
    assert first.shards_per_s == pytest.approx(10 / 0.01 / SHARD_SAMPLES)
    assert first.bytes_per_s == pytest.approx(1e6)
    assert left_s == pytest.approx(2.0 * (1 - MARGIN) - 0.09)

    compute.batch_s = 0.04
    do(order_of(None, cycle=2), learner, SlowSource(1e5))
    assert [job.batches for job in compute.jobs[3:]] == [6]
    (still_fast, left_s) = allocate.heard[1]
    assert still_fast.shards_per_s == pytest.approx(first.shards_per_s)
    assert still_fast.bytes_per_s == pytest.approx(1e6)
    assert left_s == 2.0 * (1 - MARGIN)

    do(order_of(None, cycle=3), learner, SlowSource(1e5))
    slower = allocate.heard[2][0]
    assert slower.shards_per_s == pytest.approx(10 / 0.04 / SHARD_SAMPLES)
    assert slower.bytes_per_s == pytest.approx(1e5)


def test_a_trial_of_a_slow_device_is_cut_short() -> None:
    compute, allocate = SteadyCompute(0.03), Noting()
    _, at_s = do(order_of(None), Learner("pi", compute, Abilities(allocate=allocate)))
    # A twentieth of 2 s: 0.03 s to warm up, and two batches of 0.03 s more.
    assert allocate.heard[0][0].shards_per_s == pytest.approx(10 / 0.03 / SHARD_SAMPLES)
    assert at_s == pytest.approx(0.09 + 6 * 0.03 + 0.004 + 3 * SHARD_BYTES / 1e6)


def test_never_more_shards_than_exist_or_than_memory_holds() -> None:
    greedy = Noting(wanted=10**6)
    source = SlowSource(1e9)
    do(order_of(None), Learner("pi", SteadyCompute(1e-6), Abilities(allocate=greedy)), source)
    shard_memory = SHARD_BYTES + SHARD_SAMPLES * 4 * 4
    room = TRAINING_COPIES * MODEL.nbytes + 7 * shard_memory
    for memory in (room, room + shard_memory - 1):
        abilities = Abilities(allocate=greedy, memory_bytes=memory)
        do(order_of(None), Learner("pi", SteadyCompute(1e-6), abilities), source)
    assert source.asked == [SHARDS, 7, 7]


def test_no_memory_is_a_reason() -> None:
    bytes_needed = TRAINING_COPIES * MODEL.nbytes + SHARD_BYTES + SHARD_SAMPLES * 4 * 4
    enough = Learner("pi", SteadyCompute(0.01), Abilities(memory_bytes=bytes_needed))
    assert update_of(do(order_of(1), enough)[0]).shards == 1
    assert "2 shards need 0 MB" in reason_of(do(order_of(2), enough)[0])
    short = Learner("pi", SteadyCompute(0.01), Abilities(memory_bytes=bytes_needed - 1))
    source = SlowSource(1e6)
    answer, at_s = do(order_of(None), short, source)
    assert "the model and 1 shards need" in reason_of(answer)
    # It was known before anything was fetched.
    assert (at_s, source.asked) == (0.0, [])


def test_how_much_memory_it_has_is_not_told() -> None:
    """What is needed the orchestrator knows anyway, what there is it has no need to know."""
    learner = Learner("pi", SteadyCompute(0.01), Abilities(memory_bytes=493_000_000))
    large = TaskCost(model_bytes=500_000_000, shard_bytes=SHARD_BYTES)
    needed = "the model and 1 shards need 2000 MB to train, which is more than it has"
    assert reason_of(do(order_of(None, cost=large), learner)[0]) == needed
    wide = order_of(None, spec=replace(SPEC, batch_size=10_000_000))
    assert "493" not in reason_of(do(wide, learner)[0])


@dataclass
class TellingCompute(SteadyCompute):
    """Tells how far it is after every batch."""

    async def train(
        self, job: Job, *, until_s: float, report: Callable[[int, int], None] | None = None
    ) -> Trained:
        trained = await super().train(job, until_s=until_s)
        for done in range(trained.batches if report else 0):
            assert report is not None
            report(done + 1, job.batches)
        return trained


@pytest.mark.parametrize(
    ("shards", "discloses", "told"), [(2, True, 4), (None, True, 0), (2, False, 0)]
)
def test_who_keeps_its_times_to_itself_does_not_tell_how_far_it_is(
    shards: int | None, discloses: bool, told: int
) -> None:
    learner = Learner("pi", TellingCompute(0.01), Abilities(discloses=discloses))
    heard: list[tuple[int, int]] = []
    order = order_of(shards)
    training = learner.train(order, SlowSource(1e6), lambda *counts: heard.append(counts))
    update = update_of(run(training))
    assert len(heard) == told
    assert (update.timings is None) == (told == 0)


def test_no_time_is_a_reason() -> None:
    slow = Learner("pi", SteadyCompute(0.9))
    assert "not one shard can be trained within 2 s" in reason_of(do(order_of(None), slow)[0])
    stuck = Learner("pi", SteadyCompute(5.0))
    assert "no batch could be trained within 2 s" in reason_of(do(order_of(None), stuck)[0])
    assert "no batch could be trained within 2 s" in reason_of(do(order_of(1), stuck)[0])


def test_an_empty_share_and_one_that_cannot_be_are_reasons() -> None:
    for data in (None, samples_of(40)):
        learner = Learner("pi", SteadyCompute(0.01), Abilities(data=data))
        assert reason_of(do(order_of(0), learner)[0]) == "its share is empty"
    learner = Learner("pi", SteadyCompute(0.01))
    answer, _ = do(order_of(SHARDS + 1), learner)
    assert reason_of(answer) == f"{SHARDS + 1} shards were asked for, there are {SHARDS}"


class InlineCompute:
    """Trains for real, at no cost in virtual time."""

    async def train(
        self, job: Job, *, until_s: float, report: Callable[[int, int], None] | None = None
    ) -> Trained:
        return train(job)


def test_an_unknown_net_and_an_unknown_codec_are_reasons() -> None:
    learner = Learner("pi", InlineCompute())
    for share in (None, 1):
        strange = order_of(share, spec=replace(SPEC, net="somebody-elses"))
        assert "no net is called 'somebody-elses'" in reason_of(do(strange, learner)[0])
    answer, _ = do(order_of(1, codec="zip"), Learner("pi", SteadyCompute(0.01)))
    assert answer == Declined(run="run", cycle=1, device="pi", reason=reason_of(answer))
    assert "no codec 'zip'" in reason_of(answer)


def test_own_data_are_not_downloaded_and_are_drawn_when_fewer_are_wanted() -> None:
    compute, source, data = SteadyCompute(0.001), SlowSource(1e6), samples_of(90)
    learner = Learner("pi", compute, Abilities(data=data))
    for shards in (None, 5, SHARDS + 9):
        update = update_of(do(order_of(shards), learner, source)[0])
        assert compute.jobs[-1].samples is data
        assert (update.shards, update.samples) == (5, 90)
    drawn = []
    for cycle in (1, 1, 2):
        update = update_of(do(order_of(2, cycle=cycle), learner, source)[0])
        assert (update.shards, update.samples) == (2, 40)
        drawn.append(compute.jobs[-1].samples.inputs[:, 0].tolist())
    assert drawn[0] == drawn[1] != drawn[2]
    for rows in drawn:
        assert len(set(rows)) == 40
        assert set(rows) <= set(data.inputs[:, 0].tolist())
    assert source.asked == []


def real_order(shards: int | None, **changes: Any) -> Order:
    return order_of(shards, cost=TaskCost(model_bytes=1, shard_bytes=SHARD_BYTES), **changes)


class RealSource(SlowSource):
    """Hands out a model that can be trained."""

    def __init__(self) -> None:
        super().__init__(1e9)
        self.start = initial(SPEC, 3)
        self.start.setflags(write=False)

    async def model(self, run: str, cycle: int) -> Vector:
        return self.start


def test_a_trial_leaves_the_model_and_torchs_randomness_alone() -> None:
    source = RealSource()
    before, random = source.start.tobytes(), torch.random.get_rng_state()
    told = update_of(do(real_order(3), Learner("pi", InlineCompute()), source)[0])
    free = Learner("pi", InlineCompute(), Abilities(allocate=Noting(wanted=3)))
    tried = update_of(do(real_order(None), free, source)[0])
    assert source.start.tobytes() == before
    assert torch.equal(torch.random.get_rng_state(), random)
    # What the trial learnt is nowhere in the update.
    assert told.payload["parameters"].tobytes() == tried.payload["parameters"].tobytes()
    assert told.loss == tried.loss


def test_an_update_in_half_precision_is_the_plain_one_within_a_thousandth_of_the_change() -> None:
    source, learner = RealSource(), Learner("pi", InlineCompute())
    plain = update_of(do(real_order(3), learner, source)[0]).payload["parameters"]
    payload = update_of(do(real_order(3, codec="half"), learner, source)[0]).payload
    decoded = codec("half").decode(payload, source.start)
    largest = np.abs(plain - source.start).max()
    assert largest > 0
    np.testing.assert_allclose(decoded, plain, rtol=0, atol=largest / 1000)


def test_own_data_are_bounded_by_memory_too() -> None:
    data = samples_of(SHARDS * SHARD_SAMPLES)
    shard = SHARD_SAMPLES * 4 * 4 + SHARD_BYTES
    memory = TRAINING_COPIES * MODEL.nbytes + 3 * shard
    learner = Learner("pi", SteadyCompute(0.001), Abilities(data=data, memory_bytes=memory))
    assert update_of(do(order_of(None), learner)[0]).samples <= 3 * SHARD_SAMPLES
    assert "more than it has" in reason_of(do(order_of(9), learner)[0])


@pytest.mark.parametrize("dynamic", [False, True])
def test_with_a_grace_a_share_is_reckoned_for_the_deadline_and_halted_only_after_it(
    dynamic: bool,
) -> None:
    allocate, compute = Noting(), SteadyCompute(0.05)
    abilities = Abilities(allocate=allocate, dynamic=dynamic)
    for grace_s in (0.0, 1.0):
        learner = Learner("pi", compute, abilities)
        do(order_of(None, grace_s=grace_s), learner)
        # 50 shards of 2 batches would take 5 s.
        answer, at_s = do(order_of(SHARDS, cycle=2, grace_s=grace_s), learner)
        assert update_of(answer).halted
        assert at_s == pytest.approx(2.0 * (1 - MARGIN) + grace_s, abs=0.06)
    assert allocate.heard[0] == allocate.heard[1]


def test_timings_of_a_learner_that_keeps_its_capability_stay_with_it() -> None:
    for discloses in (False, True):
        learner = Learner("pi", SteadyCompute(0.01), Abilities(discloses=discloses))
        timings = update_of(do(order_of(2), learner)[0]).timings
        assert (timings is not None) == discloses
