"""The call a function is serving: what the function may ask of it, and how it is interrupted."""

from __future__ import annotations

import contextvars
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from axon.rpc.loops import running_loop


class Cancelled(BaseException):
    """Raised inside a running sync function when its call was cancelled or its deadline passed.

    Not an `Exception`, so that a function which catches those to carry on still stops.
    """


def _ignore(_value: object) -> None:
    """The report of a call that nobody follows."""


class Running:
    """The call being executed, as user code sees it through `current`."""

    __slots__ = ("_loop", "_skew_s", "cancelled", "deadline", "report")

    def __init__(
        self, deadline: float | None = None, report: Callable[[object], None] = _ignore
    ) -> None:
        self.deadline = deadline
        """Loop time at which it ends, or None. Without a loop it is `time.monotonic()`'s time."""
        self.report = report
        """Tells the client how far the call is; may be called from any thread."""
        self.cancelled = False
        """Set before the function is interrupted, so code that asks sees it first."""
        self._loop = None if deadline is None else running_loop()
        # A thread cannot read the loop's own clock: uvloop's stands still while the loop waits.
        self._skew_s = 0.0 if self._loop is None else self._loop.time() - time.monotonic()

    def remaining_s(self) -> float | None:
        """Seconds until the deadline, never below zero; None without one."""
        if self.deadline is None:
            return None
        if self._loop is not None and running_loop() is self._loop:
            # On the loop its own time counts, which may be a virtual one.
            return max(0.0, self.deadline - self._loop.time())
        return max(0.0, self.deadline - time.monotonic() - self._skew_s)


current: contextvars.ContextVar[Running | None] = contextvars.ContextVar("current", default=None)
"""The call this code is serving, or None outside of one."""


def progress(value: object) -> None:
    """Report on the current call; nothing happens outside of one."""
    running = current.get()
    if running is not None:
        running.report(value)


def check() -> None:
    """Raise `Cancelled` if the current call was cancelled; for code no interrupt reaches."""
    running = current.get()
    if running is not None and running.cancelled:
        raise Cancelled


class Window:
    """When one call's thread may be interrupted: while `guard` runs its function, and never after.

    An interrupt is sent at most once for a call. That is what makes `guard` safe: an exception that
    arrives late, in our own lines after the function returned, can happen only once there.
    """

    __slots__ = ("_lock", "_struck", "_thread", "running")

    def __init__(self, running: Running) -> None:
        self.running = running
        self._lock = threading.Lock()
        self._thread: int | None = None
        self._struck = False

    def guard(
        self,
        function: Callable[..., Any],
        args: Sequence[Any] = (),
        kwargs: Mapping[str, Any] | None = None,
    ) -> Any:
        """Call the function so that an interrupt lands in it or nowhere.

        Raises `Cancelled` without calling it when the call is already cancelled.
        """
        try:
            self._open()
            try:
                return function(*args, **(kwargs or {}))
            finally:
                self._shut()
        except Cancelled:
            # It may have arrived inside `_open` or `_shut`. No second one can: this completes.
            self._shut()
            raise

    def interrupt(self) -> None:
        """Mark the call as cancelled and stop its function where it is."""
        with self._lock:
            self.running.cancelled = True
            if self._thread is not None and not self._struck:
                self._struck = self._strike(self._thread)

    def _strike(self, thread: int) -> bool:
        """Interrupt the thread; true when an exception is now under way to it."""
        _raise_in(thread, Cancelled)
        return True

    def _open(self) -> None:
        with self._lock:
            if self.running.cancelled:
                raise Cancelled
            self._thread = threading.get_ident()

    def _shut(self) -> None:
        with self._lock:
            self._thread = None
        if self._struck:
            # Sent but perhaps not delivered yet: it must not reach whatever this thread does next.
            _raise_in(threading.get_ident(), None)


def _raise_in(thread: int, exception: type[BaseException] | None) -> None:
    """Raise the exception in a thread at its next line of Python; None takes back a pending one."""
    # Late, because ctypes is needed only once something is cancelled.
    import ctypes

    pending = None if exception is None else ctypes.py_object(exception)
    ctypes.pythonapi.PyThreadState_SetAsyncExc(ctypes.c_ulong(thread), pending)
