"""Where training runs on a real device: a thread of its own, so that the loop stays free."""

from __future__ import annotations

import asyncio
import threading
import time
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace

from axon.policies import Trainer
from axon.values import Job, Trained

REPORT_EVERY_S = 0.1
"""How often progress is told; a batch may take less than a message."""

Brake = Callable[[int], None]
"""Called in the training thread after every batch, with the number done; may sleep."""


class ThreadCompute:
    """Trains one job at a time in a thread, and looks at the clock between batches."""

    def __init__(self, trainer: Trainer, *, brake: Callable[[Job], Brake] | None = None) -> None:
        self._trainer = trainer
        self._brake = brake
        self._thread = ThreadPoolExecutor(max_workers=1, thread_name_prefix="axon-training")
        self._watches: set[_Watch] = set()

    async def train(
        self, job: Job, *, until_s: float, report: Callable[[int, int], None] | None = None
    ) -> Trained:
        """Train until the job is done or the next batch would end after `until_s`."""
        loop = asyncio.get_running_loop()
        # The thread reads another clock, because a loop's own stands still while the loop waits.
        halt_s = time.monotonic() + (until_s - loop.time())
        watch = _Watch(job, halt_s, report, None if self._brake is None else self._brake(job))
        self._watches.add(watch)
        try:
            return await loop.run_in_executor(self._thread, self._run, job, watch)
        finally:
            self._watches.discard(watch)
            watch.stopped.set()

    def _run(self, job: Job, watch: _Watch) -> Trained:
        if watch.stopped.is_set():
            raise asyncio.CancelledError
        results: Sequence[Trained] = self._trainer([replace(job, go_on=watch.go_on)])
        watch.after_batches(results[0].batches)
        return results[0]

    def close(self) -> None:
        """Let the thread end; what it trains now ends with its batch."""
        self._thread.shutdown(wait=False, cancel_futures=True)
        for watch in self._watches:
            watch.stopped.set()


class _Watch:
    """What a job's training looks at between two batches."""

    def __init__(
        self,
        job: Job,
        halt_s: float,
        report: Callable[[int, int], None] | None,
        brake: Brake | None,
    ) -> None:
        self.stopped = threading.Event()
        self._job = job
        self._total = job.batches
        self._halt_s = halt_s
        self._report = report
        self._brake = brake
        self._braked = 0
        self._began_s = time.monotonic()
        self._told_s = -REPORT_EVERY_S

    def go_on(self, done: int) -> bool:
        """Whether there is time for one more batch, judged by those before it."""
        self.after_batches(done)
        if self.stopped.is_set() or not self._job.go_on(done):
            return False
        now_s = time.monotonic()
        if self._report is not None and now_s - self._told_s >= REPORT_EVERY_S:
            self._told_s = now_s
            self._report(done, self._total)
        batch_s = (now_s - self._began_s) / done if done else 0.0
        return now_s + batch_s <= self._halt_s

    def after_batches(self, done: int) -> None:
        """Brake for the batch that has just ended; the last of a job has no `go_on` after it."""
        if self._brake is not None and done > self._braked:
            self._braked = done
            self._brake(done)
