"""Virtual time: an asyncio loop whose clock jumps to the next timer instead of sleeping.

Two runs of one program take the same steps in the same order. Timers due together run in the order
they were set, and tasks hash by their number on the loop, so that a set of tasks (`asyncio.wait`,
the children an `asyncio.TaskGroup` cancels) does not iterate by memory address. What a loop cannot
mend is a set of other things: `asyncio.as_completed` needs tasks, not coroutines, and an anyio task
group cancels its children in no set order, because it keeps their scopes in a set.

Threads and sockets move by another clock and nothing here waits for them: executors and sockets are
refused, and a thread started by other means finds that the loop has gone on without it.
"""

from __future__ import annotations

import asyncio
import collections
import heapq
import itertools
import math
import selectors
from collections.abc import Callable, Coroutine, Generator
from contextvars import Context
from typing import Any, NoReturn, TypeVar, TypeVarTuple

Result = TypeVar("Result")
Arguments = TypeVarTuple("Arguments")


class Deadlock(RuntimeError):
    """Nothing is ready and no timer is set, yet somebody waits."""


class VirtualLoop(asyncio.SelectorEventLoop):
    """An event loop in which waiting takes no time and `time()` tells how long it meant."""

    # Kept by asyncio's own loop; what is ready to run, first come first served.
    _ready: collections.deque[asyncio.Handle]
    _stopping: bool

    def __init__(self, *, start: float = 0.0) -> None:
        super().__init__(_Deaf())
        if not math.isfinite(start):
            self.close()
            raise ValueError(f"virtual time needs a finite start, got {start}")
        self._now = start
        # Tuples compare in C, and their numbers keep timers due together in the order of setting.
        self._timers: list[tuple[float, int, asyncio.TimerHandle]] = []
        self._cancelled_timers = 0
        self._timer_numbers = itertools.count()
        self._task_numbers = itertools.count()

    def time(self) -> float:
        """Seconds of virtual time."""
        return self._now

    def call_at(
        self,
        when: float,
        callback: Callable[[*Arguments], object],
        *args: *Arguments,
        context: Context | None = None,
    ) -> asyncio.TimerHandle:
        """Set a timer that keeps its place among those due at the same moment."""
        if self.is_closed():
            raise RuntimeError("the event loop is closed")
        if math.isnan(when):
            raise ValueError("a timer cannot be set for NaN")
        timer = asyncio.TimerHandle(when, callback, args, self, context)
        heapq.heappush(self._timers, (when, next(self._timer_numbers), timer))
        timer._scheduled = True  # type: ignore[attr-defined]  # asyncio's mark of a timer to come
        return timer

    def create_task(
        self, coro: Generator[Any, None, Result] | Coroutine[Any, Any, Result], **options: Any
    ) -> asyncio.Task[Result]:
        """Start a task with the next number of this loop."""
        return _Task(coro, number=next(self._task_numbers), loop=self, **options)

    def run_in_executor(
        self,
        executor: object,  # noqa: ARG002  (the signature is asyncio's)
        func: Callable[..., object],  # noqa: ARG002
        *args: object,  # noqa: ARG002
    ) -> NoReturn:
        """Refuse: the clock would jump past whatever the thread is doing."""
        raise RuntimeError(
            "under virtual time compute runs inline: call the function, then charge it with a sleep"
        )

    def _run_once(self) -> None:
        """Run what is ready; when nothing is, move the clock to the first timer.

        asyncio's own would sleep in a selector in between, and costs several times as much.
        """
        ready, timers = self._ready, self._timers
        if not ready and not self._stopping:
            self._advance()
        while timers and timers[0][0] <= self._now:
            timer = heapq.heappop(timers)[2]
            timer._scheduled = False  # type: ignore[attr-defined]
            # One that was cancelled is let go when it is due.
            ready.append(timer)
        for _ in range(len(ready)):
            handle = ready.popleft()
            if not handle._cancelled:
                handle._run()

    def _advance(self) -> None:
        """Move the clock to the first timer; one at infinity is no timer."""
        timers = self._timers
        while timers and timers[0][2].cancelled():
            heapq.heappop(timers)
        when = timers[0][0] if timers else math.inf
        if math.isinf(when):
            raise Deadlock(self._describe_waiting())
        self._now = max(self._now, when)

    def _timer_handle_cancelled(self, handle: asyncio.TimerHandle) -> None:  # noqa: ARG002
        """Let go of cancelled timers now and then: a time-out that is never due would stay."""
        self._cancelled_timers += 1
        if self._cancelled_timers > max(1000, len(self._timers) // 2):
            self._timers = [entry for entry in self._timers if not entry[2].cancelled()]
            heapq.heapify(self._timers)
            self._cancelled_timers = 0

    def _describe_waiting(self) -> str:
        waiting = sorted(asyncio.all_tasks(self), key=hash)
        names = ", ".join(f"{task.get_name()} ({_name_of(task)})" for task in waiting)
        return (
            f"at {self._now} s of virtual time nothing is ready and no timer is set; "
            f"waiting for ever: {names or 'no task'} (threads and sockets are not waited for)"
        )


def run(main: Coroutine[Any, Any, Result], *, start: float = 0.0) -> Result:
    """Run `main` under virtual time and clean up behind it, like `asyncio.run`.

    Raises `Deadlock` when `main` waits for something that can no longer happen.
    """
    with asyncio.Runner(loop_factory=lambda: VirtualLoop(start=start)) as runner:
        try:
            return runner.run(main)
        finally:
            # The runner cancels what is left too, but in no set order; the first cancel decides.
            for task in sorted(asyncio.all_tasks(runner.get_loop()), key=hash):
                task.cancel()


class _Deaf(selectors.SelectSelector):
    """A selector that hears nothing, for a loop that never sleeps."""

    def register(self, fileobj: Any, events: int, data: Any = None) -> selectors.SelectorKey:
        # The first to register is the loop's wake-up pipe, which a loop that never sleeps ignores.
        if self.get_map():
            raise RuntimeError(
                "under virtual time no socket is waited for; use axon.rpc.memory.network"
            )
        return super().register(fileobj, events, data)


class _Task(asyncio.Task[Result]):
    """A task whose hash is its number, the same in every run; an address is not."""

    def __init__(
        self,
        coro: Generator[Any, None, Result] | Coroutine[Any, Any, Result],
        *,
        number: int,
        **options: Any,
    ) -> None:
        # First, because asyncio puts the new task in a set before its constructor is done.
        self.number = number
        super().__init__(coro, **options)

    def __hash__(self) -> int:
        return self.number


def _name_of(task: asyncio.Task[Any]) -> str:
    return getattr(task.get_coro(), "__qualname__", repr(task.get_coro()))
