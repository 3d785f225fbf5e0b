"""Charged compute: how many batches fit, what they cost, and who is trained with whom."""

from __future__ import annotations

import asyncio
import math
from collections.abc import Callable, Coroutine, Sequence
from dataclasses import replace
from fractions import Fraction
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from axon.learning.loop import LoopTrainer
from axon.learning.nets import initial
from axon.testbed.charged import ChargedCompute, JobPool
from axon.testbed.virtual import run
from axon.values import Job, Samples, TaskSpec, Trained

SPEC = TaskSpec(net="twonn", inputs=(4,), classes=3, batch_size=10)


def job_of(samples: int, *, batch_size: int = 10, **changes: Any) -> Job:
    data = Samples(np.zeros((samples, 4), np.float32), np.zeros(samples, np.int64))
    spec = TaskSpec(net="twonn", inputs=(4,), classes=3, batch_size=batch_size)
    return Job(spec=spec, start=np.zeros(3, np.float32), samples=data, **changes)


class Recorder:
    """A trainer that trains nothing and notes what it was asked."""

    def __init__(self) -> None:
        self.calls: list[list[Job]] = []

    def __call__(self, jobs: Sequence[Job]) -> list[Trained]:
        self.calls.append(list(jobs))
        return [
            Trained(parameters=job.start, batches=job.batches, samples=0, loss=0.0) for job in jobs
        ]


def cost(overhead_s: float, sample_s: float) -> Callable[[TaskSpec, int], float]:
    return lambda _, samples: overhead_s + samples * sample_s


def now() -> float:
    return asyncio.get_running_loop().time()


def do(main: Coroutine[Any, Any, Any], *, start: float = 0.0) -> Any:
    return run(main, start=start)


def charge(
    job: Job, until_s: float, batch_s: Callable[[TaskSpec, int], float], *, start: float = 0.0
) -> tuple[int, float]:
    """The batches trained, and how long they took."""

    async def main() -> tuple[int, float]:
        compute = ChargedCompute(JobPool(Recorder()), batch_s)
        trained = await compute.train(job, until_s=until_s)
        return trained.batches, now() - start

    result: tuple[int, float] = do(main(), start=start)
    return result


def brute_force(
    job: Job, available_s: float, batch_s: Callable[[TaskSpec, int], float]
) -> tuple[int, Fraction]:
    """Batch after batch, while each still ends in time."""
    size, took_s, done = job.spec.batch_size, Fraction(0), 0
    for _ in range(job.passes):
        for first in range(0, len(job.samples), size):
            each_s = Fraction(batch_s(job.spec, min(size, len(job.samples) - first)))
            too_late = took_s + each_s > Fraction(available_s) or available_s <= 0
            if too_late or done == job.limit:
                return done, took_s
            took_s, done = took_s + each_s, done + 1
    return done, took_s


@settings(max_examples=150, deadline=None)
@given(
    samples=st.integers(0, 60),
    batch_size=st.integers(1, 25),
    passes=st.integers(1, 4),
    limit=st.none() | st.integers(0, 40),
    overhead=st.integers(0, 200),
    each=st.integers(0, 20),
    available=st.integers(-100, 20_000),
)
def test_as_many_fit_as_by_counting(
    samples: int,
    batch_size: int,
    passes: int,
    limit: int | None,
    overhead: int,
    each: int,
    available: int,
) -> None:
    # In 1024ths of a second every sum is a float exactly, and an exact fit is one.
    batch_s = cost(overhead / 1024, each / 1024)
    job = job_of(samples, batch_size=batch_size, passes=passes, limit=limit)
    wanted, took_s = brute_force(job, available / 1024, batch_s)
    assert charge(job, available / 1024, batch_s) == (wanted, float(took_s))


@pytest.mark.parametrize("start", [0.0, 12_345.678])
@pytest.mark.parametrize("batches", [1, 7, 30, 999])
def test_a_sum_of_floats_that_fits_exactly_fits(batches: int, start: float) -> None:
    job = job_of(10_000)
    done, took_s = charge(job, start + batches * 0.001, cost(0.001, 0.0), start=start)
    assert done == batches
    assert took_s == pytest.approx(batches * 0.001)


def test_without_a_halt_all_are_trained_and_cost_what_they_cost() -> None:
    # Two full batches of 0.5 + 10 / 8 s and one of 5 samples, twice.
    batches, took_s = charge(job_of(25, passes=2), math.inf, cost(0.5, 0.125))
    assert (batches, took_s) == (6, 2 * (2 * 1.75 + 1.125))


def test_the_parameters_are_there_only_after_the_time_and_are_the_loops() -> None:
    random = np.random.default_rng(0)
    samples = Samples(random.standard_normal((25, 4)).astype(np.float32), np.arange(25) % 3)
    job = Job(spec=SPEC, start=initial(SPEC, 0), samples=samples, passes=2)

    async def main() -> Trained:
        compute = ChargedCompute(JobPool(LoopTrainer()), cost(0.5, 0.0))
        trained = await compute.train(job, until_s=2.1)
        assert now() == 2.0
        return trained

    trained = do(main())
    (wanted,) = LoopTrainer()([replace(job, limit=4)])
    assert (trained.batches, trained.samples) == (4, 35)
    assert trained.parameters.tobytes() == wanted.parameters.tobytes()


def test_jobs_that_wait_together_are_trained_in_one_call() -> None:
    trainer = Recorder()

    async def main() -> None:
        pool = JobPool(trainer)
        paces = (0.3, 0.1, 0.2)
        learners = [ChargedCompute(pool, cost(pace, 0.0)) for pace in paces]
        jobs = [job_of(10 * (at + 1)) for at in range(3)]
        calls = [
            asyncio.create_task(compute.train(job, until_s=10.0))
            for compute, job in zip(learners, jobs, strict=True)
        ]
        results = await asyncio.gather(*calls)
        assert [trained.batches for trained in results] == [1, 2, 3]
        await learners[0].train(jobs[0], until_s=20.0)

    do(main())
    assert [[len(job.samples) for job in call] for call in trainer.calls] == [[10, 20, 30], [10]]


def test_a_cancelled_job_is_withdrawn_and_never_trained() -> None:
    trainer = Recorder()

    async def main() -> None:
        pool = JobPool(trainer)
        compute = ChargedCompute(pool, cost(1.0, 0.0))
        doomed = asyncio.create_task(compute.train(job_of(20), until_s=10.0))
        other = asyncio.create_task(compute.train(job_of(30), until_s=10.0))
        await asyncio.sleep(0.5)
        doomed.cancel()
        await asyncio.wait([doomed])
        assert doomed.cancelled()
        assert (await other).batches == 3

    do(main())
    assert [[len(job.samples) for job in call] for call in trainer.calls] == [[30]]


def test_one_that_was_trained_with_others_may_still_be_cancelled() -> None:
    trainer = Recorder()

    async def main() -> None:
        compute = ChargedCompute(JobPool(trainer), cost(1.0, 0.0))
        slow = asyncio.create_task(compute.train(job_of(30), until_s=10.0))
        assert (await compute.train(job_of(10), until_s=10.0)).batches == 1
        slow.cancel()
        await asyncio.wait([slow])
        assert slow.cancelled()
        assert (await compute.train(job_of(20), until_s=10.0)).batches == 2

    do(main())
    assert [len(call) for call in trainer.calls] == [2, 1]


def test_an_error_of_the_trainer_comes_to_each_that_waits() -> None:
    def broken(jobs: Sequence[Job]) -> list[Trained]:
        raise ZeroDivisionError("its own")

    async def main() -> None:
        compute = ChargedCompute(JobPool(broken), cost(1.0, 0.0))
        calls = [compute.train(job_of(10 * each), until_s=10.0) for each in (1, 2)]
        ends = await asyncio.gather(*calls, return_exceptions=True)
        assert [type(end) for end in ends] == [ZeroDivisionError] * 2

    do(main())


def test_progress_is_told_at_the_beginning() -> None:
    heard: list[tuple[int, int]] = []

    async def main() -> None:
        compute = ChargedCompute(JobPool(Recorder()), cost(1.0, 0.0))
        await compute.train(
            job_of(30), until_s=1.5, report=lambda done, total: heard.append((done, total))
        )

    do(main())
    assert heard == [(0, 3)]
