"""Subset benchmarking: what it measures, what it tells, and what it leaves alone."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import numpy as np
import pytest
import torch

from axon.data.datasets import load
from axon.devices.subset import Line
from axon.errors import ConfigurationError
from axon.learning.benchmark import Benchmark, benchmark, course
from axon.learning.learner import PRIVATE, Abilities, Learner
from axon.learning.nets import initial
from axon.learning.room import TRAINING_COPIES
from axon.learning.tasks import default_spec
from axon.values import Capability, Declined, Job, Order, Samples, TaskSpec, Trained, Update
from tests.learning.errands import (
    MODEL,
    SHARD_BYTES,
    SHARD_SAMPLES,
    SHARDS,
    SPEC,
    Noting,
    SlowSource,
    SteadyCompute,
    ask,
    do,
    order_of,
    reason_of,
    samples_of,
    update_of,
)

# On this device, for `axon bench`


@pytest.fixture(scope="module")
def samples() -> Samples:
    return load("digits").train


@pytest.fixture(scope="module")
def spec() -> TaskSpec:
    return default_spec("twonn", (1, 8, 8), 10)


def clock_of(*durations_s: float) -> Callable[[], float]:
    """A clock that is read before and after each job, and finds that they took so long."""
    moments, now_s = [], 0.0
    for took_s in durations_s:
        moments += [now_s, now_s + took_s]
        now_s += took_s + 1.0
    return iter(moments).__next__


def test_a_line_is_drawn_through_a_quarter_half_and_all(spec: TaskSpec, samples: Samples) -> None:
    # 50, 100 and 200 samples, 0.1 s for the job and 2 ms a sample; the first batch does not count.
    clock = clock_of(9.0, 0.2, 0.3, 0.5)
    found = benchmark(spec, samples, shard_samples=50, shards=4, clock=clock)
    assert (found.shards, found.shard_samples) == (4, 50)
    assert [amount for amount, _ in found.points] == [50, 100, 200]
    assert found.training.fixed_s == pytest.approx(0.1)
    assert found.samples_per_s == pytest.approx(500.0)
    assert found.shards_per_s == pytest.approx(10.0)
    assert found.shard_s == pytest.approx(0.1)
    assert (found.model_bytes, found.shard_bytes) == (17_920, 3_250)
    assert found.training.predict(1000).half == pytest.approx(0.0, abs=1e-6)


def test_the_papers_ratio_takes_the_largest_alone(spec: TaskSpec, samples: Samples) -> None:
    clock = clock_of(9.0, 0.2, 0.3, 0.5)
    found = benchmark(spec, samples, shard_samples=50, shards=4, method="ratio", clock=clock)
    assert found.training == Line(0.0, 0.5 / 200)


def test_shards_within_a_deadline_are_those_of_the_papers_bound() -> None:
    found = Benchmark(
        shards=1,
        shard_samples=50,
        points=((50.0, 0.1),),
        training=Line(0.0, 0.002),
        model_bytes=1000,
        shard_bytes=100,
    )
    # Both models take 2 s of 5; a shard takes 0.1 s to train and 0.1 s to fetch: fewer than 15.
    assert found.shards_within(5.0, 1000.0) == 14
    assert found.shards_within(2.0, 1000.0) == 0
    # What is paid once is no longer there to be divided.
    costly = replace(found, training=Line(1.0, 0.002))
    assert costly.shards_within(5.0, 1000.0) == 9
    assert costly.shards_within(1.0, 1000.0) == 0


def test_the_global_stream_of_random_numbers_is_left_alone(
    spec: TaskSpec, samples: Samples
) -> None:
    before = torch.random.get_rng_state()
    benchmark(spec, samples, shard_samples=50, shards=1)
    assert torch.equal(torch.random.get_rng_state(), before)


@pytest.mark.parametrize(("shards", "message"), [(0, "at least 1"), (31, "there are 30 of 50")])
def test_shards_must_exist(spec: TaskSpec, samples: Samples, shards: int, message: str) -> None:
    with pytest.raises(ConfigurationError, match=message):
        benchmark(spec, samples, shard_samples=50, shards=shards)


def test_a_clock_that_stands_still_is_an_error(spec: TaskSpec, samples: Samples) -> None:
    with pytest.raises(ConfigurationError, match="moved by 0"):
        benchmark(spec, samples, shard_samples=50, shards=1, clock=lambda: 0.0)


def test_a_course_ends_with_the_job_that_was_cut_short() -> None:
    jobs = course(Job(spec=SPEC, start=MODEL, samples=samples_of(80)), [20, 40, 80])
    trained = Trained(parameters=MODEL, batches=1, samples=10, loss=0.0)
    assert next(jobs).limit == 1
    assert len(jobs.send((trained, 5.0)).samples) == 20
    assert len(jobs.send((replace(trained, batches=2, samples=20), 0.2)).samples) == 40
    with pytest.raises(StopIteration) as end:
        jobs.send((replace(trained, batches=3, samples=30), 0.3))
    # It is no point of its own: it may be hardly longer than the one before it.
    assert end.value.value == [(20.0, 0.2)]


def test_a_job_that_was_cut_short_counts_where_no_whole_one_does() -> None:
    jobs = course(Job(spec=SPEC, start=MODEL, samples=samples_of(80)), [20, 40])
    trained = Trained(parameters=MODEL, batches=1, samples=10, loss=0.0)
    next(jobs)
    jobs.send((trained, 5.0))
    with pytest.raises(StopIteration) as end:
        jobs.send((trained, 0.1))
    assert end.value.value == [(10.0, 0.1)]


@pytest.mark.parametrize(("batches", "points"), [(1, [(10.0, 5.0)]), (0, [])])
def test_the_first_batch_counts_where_nothing_else_does(
    batches: int, points: list[tuple[float, float]]
) -> None:
    jobs = course(Job(spec=SPEC, start=MODEL, samples=samples_of(80)), [20])
    first = Trained(parameters=MODEL, batches=batches, samples=10, loss=0.0)
    next(jobs)
    jobs.send((first, 5.0))
    with pytest.raises(StopIteration) as end:
        jobs.send((replace(first, batches=0, samples=0), 0.1))
    assert end.value.value == points


# On a learner that was asked to


def survey_of(shards: int | None = 8, **changes: object) -> Order:
    return order_of(shards, cycle=0, **changes)


def test_it_finds_its_rates_apart_from_what_is_paid_once() -> None:
    compute, allocate = SteadyCompute(0.01, start_s=0.05), Noting()
    learner = Learner("pi", compute, Abilities(allocate=allocate))
    source = SlowSource(1e5, latency_s=0.02, opening_s=0.3)
    answer, at_s = ask(survey_of(), learner, source)
    assert answer is None
    assert source.asked == [2, 4, 8]
    # A batch to warm up, and then shards of two batches.
    assert [job.batches for job in compute.jobs] == [1, 4, 8, 16]
    assert at_s == pytest.approx(
        0.3 + 4 * 0.02 + (4000 + 14 * SHARD_BYTES) / 1e5 + 4 * 0.05 + 29 * 0.01
    )
    pace = learner.paces[SPEC]
    assert pace.training.rates == pytest.approx([1000.0])
    assert pace.training.fixed_s == pytest.approx(0.05)
    assert pace.link.rates == pytest.approx([1e5])
    assert pace.link.fixed_s == pytest.approx(0.02)


def test_what_it_found_is_told_to_those_who_ask_if_it_discloses() -> None:
    learner = Learner("pi", SteadyCompute(0.01))
    answer, _ = ask(survey_of(), learner, SlowSource(1e5), disclose=True)
    assert isinstance(answer, Capability)
    assert answer.shards_per_s == pytest.approx(1000 / SHARD_SAMPLES)
    assert answer.bytes_per_s == pytest.approx(1e5)


def test_who_keeps_it_to_himself_does_nothing_for_those_who_ask() -> None:
    compute, source = SteadyCompute(0.01), SlowSource(1e5)
    private = Learner("pi", compute, Abilities(discloses=False))
    answer, at_s = ask(survey_of(), private, source, disclose=True)
    assert answer == Declined(run="run", cycle=0, device="pi", reason=PRIVATE)
    assert (at_s, compute.jobs, source.asked, private.paces) == (0.0, [], [], {})
    # For himself he does it all the same, and tells nobody.
    assert ask(survey_of(), private, source)[0] is None
    assert private.paces[SPEC].training.rates == pytest.approx([1000.0])
    assert update_of(do(order_of(2), private, source)[0]).timings is None


def test_the_papers_method_takes_the_largest_alone() -> None:
    learner = Learner("pi", SteadyCompute(0.01, start_s=0.16), Abilities(method="ratio"))
    ask(survey_of(), learner, SlowSource(1e6))
    pace = learner.paces[SPEC]
    assert (pace.training.fixed_s, pace.link.fixed_s) == (0.0, 0.0)
    assert pace.training.rates == pytest.approx([160 / 0.32])


@pytest.mark.parametrize("link", [1e3, 2e3, 5e3, 2e4, 1e6])
@pytest.mark.parametrize("batch_s", [1e-3, 0.05, 0.3, 1.0])
def test_it_ends_in_good_time_with_what_it_has_by_then(link: float, batch_s: float) -> None:
    learner = Learner("pi", SteadyCompute(batch_s))
    source = SlowSource(link)
    for order in (survey_of(), survey_of(grace_s=1.0)):
        answer, at_s = ask(order, learner, source)
        assert at_s <= order.deadline_s + order.grace_s
        if answer is None:
            assert learner.paces[SPEC].training.rates == pytest.approx([10 / batch_s])
            assert learner.paces[SPEC].link.rates == pytest.approx([link])
        else:
            assert "within 2 s" in reason_of(answer)


def test_a_slow_link_and_a_slow_device_get_by_with_less() -> None:
    compute, source = SteadyCompute(0.2), SlowSource(1e4)
    assert ask(survey_of(), Learner("pi", compute), source)[0] is None
    # 0.4 s for the model, 0.1 s for 2 shards and 0.2 s for 4; 8 more would not come by half time.
    assert source.asked == [2, 4]
    # Then 1.26 s are left: a batch to warm up, those of one shard, and those of two cut short.
    assert [job.batches for job in compute.jobs] == [1, 2, 4]
    source = SlowSource(1.5e3)
    refused = Learner("pi", SteadyCompute(0.01))
    assert reason_of(ask(survey_of(), refused, source)[0]) == "nothing could be fetched within 2 s"
    assert refused.paces == {}


def test_own_data_are_benchmarked_on_and_none_downloaded() -> None:
    compute, source = SteadyCompute(0.01), SlowSource(1e5, latency_s=0.01, opening_s=0.5)
    learner = Learner("pi", compute, Abilities(data=samples_of(500)))
    answer, _ = ask(survey_of(SHARDS + 1), learner, source, disclose=True)
    assert isinstance(answer, Capability)
    assert source.asked == []
    assert [len(job.samples) for job in compute.jobs] == [500, 120, 240, 500]
    # The model's second request, which no longer opens the connection.
    assert answer.bytes_per_s == pytest.approx(4000 / 0.05)


def test_memory_bounds_a_benchmark_too() -> None:
    shard_memory = SHARD_BYTES + SHARD_SAMPLES * 4 * 4
    memory = TRAINING_COPIES * MODEL.nbytes + 3 * shard_memory
    source = SlowSource(1e6)
    learner = Learner("pi", SteadyCompute(0.01), Abilities(memory_bytes=memory))
    assert ask(survey_of(), learner, source)[0] is None
    assert source.asked == [1, 3]
    short = Learner("pi", SteadyCompute(0.01), Abilities(memory_bytes=memory - 3 * shard_memory))
    answer, at_s = ask(survey_of(), short)
    assert ("more than it has" in reason_of(answer), at_s) == (True, 0.0)


def test_what_cannot_be_benchmarked_is_declined_before_anything_is_fetched() -> None:
    learner = Learner("pi", SteadyCompute(0.01))
    for order, reason in [
        (survey_of(None), "a benchmark needs a number of shards"),
        (survey_of(SHARDS + 1), f"{SHARDS + 1} shards were asked for, there are {SHARDS}"),
        (survey_of(spec=replace(SPEC, net="somebody-elses")), "no net is called 'somebody-elses'"),
    ]:
        answer, at_s = ask(order, learner)
        assert reason in reason_of(answer)
        assert at_s == 0.0
    stuck = Learner("pi", SteadyCompute(5.0))
    assert reason_of(ask(survey_of(), stuck)[0]) == "no batch could be trained within 2 s"


def test_the_dummy_has_parameters_of_its_own() -> None:
    compute, random = SteadyCompute(0.01), torch.random.get_rng_state()
    for device in ("pi", "nano"):
        ask(survey_of(device=device), Learner(device, compute))
    starts = [job.start for job in compute.jobs]
    assert torch.equal(torch.random.get_rng_state(), random)
    assert {start.size for start in starts} == {initial(SPEC, 0).size}
    assert not np.array_equal(starts[0], starts[-1])
    assert not np.array_equal(starts[0], initial(SPEC, survey_of().seed))


def test_a_trial_has_parameters_of_its_own_too() -> None:
    compute = SteadyCompute(0.01)
    update_of(do(order_of(None), Learner("pi", compute))[0])
    *tried, trained = [job.start for job in compute.jobs]
    assert {start.size for start in tried} == {initial(SPEC, 0).size}
    assert trained is MODEL


def test_a_benchmark_spares_the_first_cycle_its_trial() -> None:
    compute, allocate = SteadyCompute(0.01, start_s=0.05), Noting()
    learner = Learner("pi", compute, Abilities(allocate=allocate))
    source = SlowSource(1e5, latency_s=0.02)
    ask(survey_of(), learner, source)
    compute.jobs.clear()
    answer, _ = do(order_of(None), learner, source)
    assert isinstance(answer, Update)
    assert len(compute.jobs) == 1
    capability, left_s = allocate.heard[0]
    assert capability.shards_per_s == pytest.approx(1000 / SHARD_SAMPLES)
    assert capability.bytes_per_s == pytest.approx(1e5)
    # Three requests, of which one goes up, and one job.
    assert left_s == pytest.approx(2.0 * 0.98 - 3 * 0.02 - 0.05)


@pytest.mark.parametrize("latency_s", [0.0, 0.1])
def test_what_a_benchmarked_learner_takes_fills_its_deadline(latency_s: float) -> None:
    compute = SteadyCompute(0.01, start_s=0.1)
    learner, source = Learner("pi", compute), SlowSource(1e5, latency_s=latency_s)
    ask(survey_of(), learner, source)
    answer, at_s = do(replace(order_of(None), shards=500), learner, source)
    update = update_of(answer)
    assert not update.halted
    # One more shard would have taken 0.025 s more than there was.
    assert 1.96 - 0.03 <= at_s + latency_s + 0.04 <= 1.96
