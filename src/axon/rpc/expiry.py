"""Ends of time for many short pieces of work, at the price of hardly any timer.

`asyncio.timeout` sets and clears a timer for each use, which costs a small call as much as all of
its encoding. Here one timer per loop is set to the earliest end known; work that finishes in time,
as nearly all does, only leaves a set.
"""

from __future__ import annotations

import asyncio
from types import TracebackType


class Alarm:
    """The ends of time on one loop."""

    def __init__(self) -> None:
        self._loop = asyncio.get_running_loop()
        self.waiting: set[Expiry] = set()
        self._timer: asyncio.TimerHandle | None = None
        self.rings_at = float("inf")

    def after(self, seconds: float | None) -> Expiry:
        """A scope that ends so many seconds from now, or never."""
        return Expiry(self, None if seconds is None else self._loop.time() + seconds)

    def at(self, when: float | None) -> Expiry:
        """A scope that ends at a time of the loop's clock, or never."""
        return Expiry(self, when)

    def ring_at(self, when: float) -> None:
        """Move the timer, which would come too late."""
        if self._timer is not None:
            self._timer.cancel()
        self.rings_at = when
        self._timer = self._loop.call_at(when, self._ring)

    def _ring(self) -> None:
        self._timer, self.rings_at = None, float("inf")
        # A loop's timers may run a clock tick early.
        now = self._loop.time() + 1e-3
        # In order of their ends, so that a simulation always stops the same one first.
        for expiry in sorted(self.waiting, key=lambda expiry: expiry.order):
            if expiry.when is not None and expiry.when <= now:
                expiry.end()
        left = [expiry.when for expiry in self.waiting if expiry.when is not None]
        if left:
            self.rings_at = min(left)
            self._timer = self._loop.call_at(self.rings_at, self._ring)


class Expiry:
    """A scope whose work is cancelled at its end, and then raises `TimeoutError`.

    `expired` tells its own time-out from one that the work raised by itself.
    """

    __slots__ = ("_alarm", "_cancelling", "_task", "expired", "when")

    def __init__(self, alarm: Alarm, when: float | None) -> None:
        self._alarm = alarm
        self._task: asyncio.Task[object] | None = None
        self._cancelling = 0
        self.when = when
        self.expired = False

    @property
    def order(self) -> tuple[float, str]:
        """Earlier ends first; tasks of one end by name."""
        return (self.when or 0.0, self._task.get_name() if self._task else "")

    def __enter__(self) -> Expiry:
        task = self._task = asyncio.current_task()
        if task is not None:
            self._cancelling = task.cancelling()
        if self.when is not None:
            alarm = self._alarm
            alarm.waiting.add(self)
            if self.when < alarm.rings_at:
                alarm.ring_at(self.when)
        return self

    def end(self) -> None:
        """Now, rather than later."""
        self._alarm.waiting.discard(self)
        if not self.expired and self._task is not None:
            self.expired = True
            self._task.cancel()

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        task, self._task = self._task, None
        if self.when is not None:
            self._alarm.waiting.discard(self)
        if not self.expired or task is None:
            return
        # Another's cancellation, come at the same moment, goes on as one.
        alone = task.uncancel() <= self._cancelling
        if alone and kind is asyncio.CancelledError:
            raise TimeoutError from error
