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

    # Kept by asyncio's own loop; named here because the clock is read off the first timer.
    _scheduled: list[asyncio.TimerHandle]
    _clock_resolution: float

    def __init__(self, *, start: float = 0.0) -> None:
        super().__init__(_Jump(self._advance))
        if not math.isfinite(start):
            self.close()
            raise ValueError(f"virtual time needs a finite start, got {start}")
        self._timer_numbers = itertools.count()
        self._task_numbers = itertools.count()
        self._set_clock(start)

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
        timer = _Timer(when, callback, args, self, context)
        timer.number = next(self._timer_numbers)
        heapq.heappush(self._scheduled, timer)
        timer._scheduled = True
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

    def _advance(self) -> None:
        """Move the clock to the first timer; one at infinity is no timer."""
        when = self._scheduled[0].when() if self._scheduled else math.inf
        if math.isinf(when):
            raise Deadlock(self._describe_waiting())
        self._set_clock(when)

    def _set_clock(self, now: float) -> None:
        self._now = now
        # asyncio runs timers due before now + resolution. One unit in the last place takes exactly
        # those due now; a fixed nanosecond would run some early, and none once `now` is large.
        self._clock_resolution = math.ulp(now)

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


class _Jump(selectors.SelectSelector):
    """A selector that never sleeps: it moves the clock to the end of the sleep and returns."""

    def __init__(self, advance: Callable[[], None]) -> None:
        super().__init__()
        self._advance = advance

    def register(self, fileobj: Any, events: int, data: Any = None) -> selectors.SelectorKey:
        # The first to register is the loop's wake-up pipe, which a loop that never sleeps ignores.
        if self.get_map():
            raise RuntimeError(
                "under virtual time no socket is waited for; use axon.rpc.memory.network"
            )
        return super().register(fileobj, events, data)

    def select(self, timeout: float | None = None) -> list[tuple[selectors.SelectorKey, int]]:
        if timeout is None or timeout > 0:
            self._advance()
        return []


class _Timer(asyncio.TimerHandle):
    """A timer that orders by time and then by number; a heap alone does not keep ties in order."""

    __slots__ = ("number",)
    number: int
    _when: float
    _scheduled: bool

    def __lt__(self, other: object) -> bool:
        if not isinstance(other, _Timer):
            return NotImplemented
        if self._when == other._when:
            return self.number < other.number
        return self._when < other._when


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
