"""Threads that run a worker's functions, off the event loop and cancellable.

Our own rather than `concurrent.futures`: its hand-off costs more, and a function it has started
cannot be stopped.
"""

from __future__ import annotations

import asyncio
import contextlib
import threading
from collections.abc import AsyncGenerator, Callable, Mapping, Sequence
from queue import Empty, SimpleQueue
from typing import Any

from axon.errors import WorkerStopping
from axon.rpc.executors.jobs import CallJob, Job, StreamJob, Work
from axon.rpc.executors.running import Running, Window


class ThreadPool:
    """Threads made when no idle one exists, up to a limit beyond which calls queue."""

    def __init__(self, *, max_threads: int = 64, name: str = "axon-worker") -> None:
        self._max_threads = max_threads
        self._name = name
        self._queue: SimpleQueue[Job | None] = SimpleQueue()
        self._lock = threading.Lock()
        self._threads = 0
        # Waiting threads less queued jobs: below zero it is the length of the backlog.
        self._idle = 0
        self._closed = False

    def run(
        self,
        function: Callable[..., Any],
        args: Sequence[Any],
        kwargs: Mapping[str, Any],
        running: Running,
    ) -> asyncio.Future[Any]:
        """Call the function in a thread; cancelling the future interrupts it.

        `SystemExit` and `KeyboardInterrupt` arrive at the future like any other exception.
        """
        return self.run_within(Window(running), Work(function, args, kwargs))

    def run_within(self, window: Window, work: Work) -> asyncio.Future[Any]:
        """Like `run`, for a caller with its own way to interrupt the function."""
        call = CallJob(window, work)
        self._submit(call)
        return call

    def iterate(
        self,
        function: Callable[..., Any],
        args: Sequence[Any],
        kwargs: Mapping[str, Any],
        running: Running,
    ) -> AsyncGenerator[Any, None]:
        """Call a generator function and give its items as they are asked for.

        The generator keeps one thread from its first line to its last. Closing the iterator closes
        it at its next `yield`, or interrupts it if that does not come soon; cancelling the wait for
        an item interrupts it at once.
        """
        return self.iterate_within(Window(running), Work(function, args, kwargs))

    async def iterate_within(self, window: Window, work: Work) -> AsyncGenerator[Any, None]:
        """Like `iterate`, for a caller with its own way to interrupt the function."""
        stream = StreamJob(window, work)
        self._submit(stream)
        try:
            while await stream.ask():
                yield stream.items.popleft()
        finally:
            await stream.close()

    def close(self) -> None:
        """Take no more calls and hand back the queued ones; running ones end by themselves."""
        with self._lock:
            if self._closed:
                return
            self._closed = True
        with contextlib.suppress(Empty):
            while (job := self._queue.get_nowait()) is not None:
                job.abandon()
        for _ in range(self._threads):
            self._queue.put(None)

    def _submit(self, job: Job) -> None:
        with self._lock:
            if self._closed:
                raise WorkerStopping("the pool is closed")
            if self._idle > 0 or not self._add_thread():
                self._idle -= 1
            # Under the lock, so that `close` sees every job it has to hand back.
            self._queue.put(job)

    def _add_thread(self) -> bool:
        if self._threads >= self._max_threads:
            return False
        name = f"{self._name}-{self._threads + 1}"
        try:
            threading.Thread(target=self._serve, name=name, daemon=True).start()
        except RuntimeError:
            # The system grants no more of them; those we have will come to it.
            if not self._threads:
                raise
            return False
        self._threads += 1
        return True

    def _serve(self) -> None:
        while (job := self._queue.get()) is not None:
            job.work()
            # Before the result is handed over: a call made on its arrival finds this thread.
            with self._lock:
                self._idle += 1
            job.finish()
            # An idle thread must not keep the last result alive.
            del job
