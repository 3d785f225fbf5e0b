"""Training in a thread of its own: the loop stays free, and the thread obeys."""

from __future__ import annotations

import asyncio
import threading
import time
from collections.abc import Callable, Coroutine, Sequence
from typing import Any

import numpy as np
import pytest

from axon.learning.compute import REPORT_EVERY_S, ThreadCompute
from axon.learning.loop import LoopTrainer
from axon.learning.nets import initial
from axon.values import Job, Samples, TaskSpec, Trained

SPEC = TaskSpec(net="twonn", inputs=(4,), classes=3, batch_size=10)
START = initial(SPEC, 0)


def job_of(batches: int, **changes: Any) -> Job:
    samples = Samples(np.zeros((batches * 10, 4), np.float32), np.zeros(batches * 10, np.int64))
    return Job(spec=SPEC, start=START, samples=samples, **changes)


class FakeTrainer:
    """Batches that take so long and keep the thread's processor to themselves, or do not."""

    def __init__(self, batch_s: float = 0.002, *, busy: bool = False) -> None:
        self.batch_s = batch_s
        self.busy = busy
        self.threads: list[str] = []
        self.done: list[int] = []
        self.at_work = threading.Lock()

    def __call__(self, jobs: Sequence[Job]) -> list[Trained]:
        assert self.at_work.acquire(blocking=False), "two jobs at once"
        self.threads.append(threading.current_thread().name)
        with_time = [self._train(job) for job in jobs]
        self.at_work.release()
        return with_time

    def _train(self, job: Job) -> Trained:
        done = 0
        while done < job.batches and job.go_on(done):
            self._batch()
            done += 1
        self.done.append(done)
        return Trained(parameters=job.start, batches=done, samples=done * 10, loss=1.0)

    def _batch(self) -> None:
        if not self.busy:
            time.sleep(self.batch_s)
            return
        end_s = time.monotonic() + self.batch_s
        while time.monotonic() < end_s:
            sum(range(100))


def do(main: Callable[[ThreadCompute], Coroutine[Any, Any, Any]], compute: ThreadCompute) -> Any:
    async def bounded() -> Any:
        async with asyncio.timeout(20):
            return await main(compute)

    try:
        return asyncio.run(bounded())
    finally:
        compute.close()


def later(seconds: float) -> float:
    return asyncio.get_running_loop().time() + seconds


async def until(condition: Callable[[], bool]) -> None:
    async with asyncio.timeout(10):
        while not condition():  # noqa: ASYNC110  (what is waited for happens in a thread)
            await asyncio.sleep(0.001)


def test_a_job_is_trained_in_the_thread_as_it_would_be_anywhere() -> None:
    random = np.random.default_rng(0)
    samples = Samples(random.standard_normal((25, 4)).astype(np.float32), np.arange(25) % 3)
    job = Job(spec=SPEC, start=START, samples=samples, passes=2)

    async def main(compute: ThreadCompute) -> Trained:
        return await compute.train(job, until_s=later(20))

    trained = do(main, ThreadCompute(LoopTrainer()))
    (wanted,) = LoopTrainer()([job])
    assert (trained.batches, trained.samples) == (6, 50)
    assert trained.parameters.tobytes() == wanted.parameters.tobytes()


def test_the_loop_stays_free_while_the_thread_computes() -> None:
    trainer, gaps_s = FakeTrainer(0.02, busy=True), list[float]()

    async def tick() -> None:
        while True:
            began_s = time.monotonic()
            await asyncio.sleep(0.001)
            gaps_s.append(time.monotonic() - began_s)

    async def main(compute: ThreadCompute) -> None:
        ticker = asyncio.create_task(tick())
        await compute.train(job_of(10), until_s=later(10))
        ticker.cancel()

    do(main, ThreadCompute(trainer))
    assert trainer.done == [10]
    assert trainer.threads[0].startswith("axon-training")
    # Were the loop blocked, there would be one gap of 0.2 s; a busy machine spoils a tick or two.
    assert len(gaps_s) > 10
    assert sorted(gaps_s)[len(gaps_s) // 2] < 0.05


def test_it_halts_before_a_batch_that_would_end_too_late() -> None:
    trainer = FakeTrainer(0.01)

    async def main(compute: ThreadCompute) -> None:
        began_s = time.monotonic()
        trained = await compute.train(job_of(1000), until_s=later(0.2))
        assert 1 <= trained.batches <= 20
        assert trained.samples == trained.batches * 10
        assert time.monotonic() - began_s < 0.2 + 0.3
        # With no time at all nothing is trained, and that is an answer too.
        assert (await compute.train(job_of(1000), until_s=later(-1.0))).batches == 0

    do(main, ThreadCompute(trainer))


def test_a_job_of_its_own_mind_may_halt_as_well() -> None:
    async def main(compute: ThreadCompute) -> int:
        job = job_of(100, go_on=lambda done: done < 3)
        return (await compute.train(job, until_s=later(10))).batches

    assert do(main, ThreadCompute(FakeTrainer(0.0))) == 3


def test_cancelling_stops_the_thread_and_the_next_job_runs() -> None:
    trainer = FakeTrainer(0.002)

    async def main(compute: ThreadCompute) -> Trained:
        reports: list[int] = []
        calls = [
            asyncio.create_task(
                compute.train(
                    job_of(5000), until_s=later(60), report=lambda d, _: reports.append(d)
                )
            )
            for _ in range(2)
        ]
        await until(lambda: bool(reports))
        for call in calls:
            call.cancel()
        ends = await asyncio.gather(*calls, return_exceptions=True)
        assert all(isinstance(end, asyncio.CancelledError) for end in ends)
        began_s = time.monotonic()
        trained = await compute.train(job_of(2), until_s=later(60))
        assert time.monotonic() - began_s < 1.0
        return trained

    assert do(main, ThreadCompute(trainer)).batches == 2
    # The second never began, the first was far from its end.
    assert len(trainer.done) == 2
    assert trainer.done[0] < 500
    assert trainer.done[1] == 2


def test_progress_is_told_ten_times_a_second_at_most_and_ends() -> None:
    reports: list[tuple[int, int, float]] = []

    def report(done: int, total: int) -> None:
        reports.append((done, total, time.monotonic()))

    async def main(compute: ThreadCompute) -> int:
        trained = await compute.train(job_of(150), until_s=later(10), report=report)
        heard = len(reports)
        await asyncio.sleep(0.01)
        assert len(reports) == heard
        return trained.batches

    began_s = time.monotonic()
    assert do(main, ThreadCompute(FakeTrainer(0.002))) == 150
    assert reports[0][:2] == (0, 150)
    assert len(reports) >= 3
    counts = [done for done, _, _ in reports]
    assert counts == sorted(set(counts))
    took_s = reports[-1][2] - began_s
    assert len(reports) <= 1 + took_s / REPORT_EVERY_S


@pytest.mark.parametrize("trainer", [FakeTrainer(0.0), LoopTrainer()], ids=["fake", "loop"])
@pytest.mark.parametrize(
    ("batches", "changes", "wanted"),
    [(4, {}, 4), (9, {"limit": 3}, 3), (9, {"go_on": lambda done: done < 2}, 2), (0, {}, 0)],
)
def test_the_brake_is_used_after_every_batch_and_after_the_last(
    trainer: Any, batches: int, changes: dict[str, Any], wanted: int
) -> None:
    braked: list[int] = []
    made: list[Job] = []

    def brake(job: Job) -> Callable[[int], None]:
        made.append(job)
        return braked.append

    job = job_of(batches, **changes)

    async def main(compute: ThreadCompute) -> Trained:
        return await compute.train(job, until_s=later(10))

    trained = do(main, ThreadCompute(trainer, brake=brake))
    assert trained.batches == wanted
    assert braked == list(range(1, wanted + 1))
    # A brake for the job as it came.
    assert made == [job]


def test_a_brake_counts_as_time_of_the_batch() -> None:
    async def main(compute: ThreadCompute) -> int:
        return (await compute.train(job_of(100), until_s=later(0.3))).batches

    compute = ThreadCompute(FakeTrainer(0.0), brake=lambda _: lambda _: time.sleep(0.05))
    assert 1 <= do(main, compute) <= 6


def test_what_a_trainer_raises_comes_to_the_caller() -> None:
    def broken(jobs: Sequence[Job]) -> list[Trained]:
        raise ZeroDivisionError("its own")

    async def main(compute: ThreadCompute) -> None:
        with pytest.raises(ZeroDivisionError, match="its own"):
            await compute.train(job_of(1), until_s=later(1))

    do(main, ThreadCompute(broken))


def test_closing_ends_what_is_trained_with_its_batch() -> None:
    trainer = FakeTrainer(0.002)

    async def main(compute: ThreadCompute) -> Trained:
        reports: list[int] = []
        call = asyncio.create_task(
            compute.train(job_of(5000), until_s=later(60), report=lambda d, _: reports.append(d))
        )
        waiting = asyncio.create_task(compute.train(job_of(1), until_s=later(60)))
        await until(lambda: bool(reports))
        compute.close()
        with pytest.raises(asyncio.CancelledError):
            await waiting
        with pytest.raises(RuntimeError, match="shutdown"):
            await compute.train(job_of(1), until_s=later(1))
        return await call

    assert do(main, ThreadCompute(trainer)).batches < 500
    assert len(trainer.done) == 1
