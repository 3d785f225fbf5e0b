"""What a pool thread is given to do: one call, or one generator read item by item."""

from __future__ import annotations

import asyncio
import contextvars
from collections import deque
from collections.abc import Callable, Mapping, Sequence
from queue import SimpleQueue
from typing import Any, NamedTuple, Protocol

from axon.errors import CallCancelled, WorkerStopping
from axon.rpc.executors.running import Cancelled, Running, Window, current

READ_AHEAD = 2
"""Items a generator may be ahead of its reader: hides the hand-off, keeps frames fresh."""
YIELD_GRACE_S = 0.25
"""How long a closed iterator's generator may take to its next `yield` before it is interrupted."""
CLOSE_GRACE_S = 1.0
"""How long closing waits after that; a blocking C call, or tidying up, may take longer."""

_END: Any = object()


class Work(NamedTuple):
    """A function and what to call it with."""

    function: Callable[..., Any]
    args: Sequence[Any] = ()
    kwargs: Mapping[str, Any] | None = None


class Job(Protocol):
    """Something a pool thread can do."""

    def work(self) -> None:
        """Do it, in a pool thread; never raises."""

    def finish(self) -> None:
        """Tell the loop, once the thread counts as idle again."""

    def abandon(self) -> None:
        """Give up: the pool closed before it began."""


class CallJob(asyncio.Future[Any]):
    """One call, and the future of its result.

    A future of our own kind, so that cancelling it acts at once and needs no callback per call.
    """

    def __init__(self, window: Window, work: Work) -> None:
        loop = asyncio.get_running_loop()
        super().__init__(loop=loop)
        self._loop_to_tell = loop
        self._window = window
        self._context = _context_for(window.running)
        self._work: Work | None = work
        self._value: Any = None
        self._error: BaseException | None = None

    def cancel(self, msg: Any | None = None) -> bool:
        """Cancel the future and stop the function; false when there is already a result."""
        if not super().cancel(msg=msg):
            return False
        self._window.interrupt()
        return True

    def work(self) -> None:
        """Call the function and keep what it gives."""
        work, self._work = self._work, None
        try:
            self._value = self._context.run(self._window.guard, *(work or ()))
        except BaseException as error:
            # Even SystemExit: it belongs to the caller, and this thread goes on.
            self._error = _deliverable(error)
            # The frames of the error lead here; without this they would keep it alive in a circle.
            del self

    def finish(self) -> None:
        """Set the result, on the loop."""
        _post(self._loop_to_tell, self._settle)

    def abandon(self) -> None:
        """Hand the call back unstarted."""
        self._error = WorkerStopping("the pool closed before the call began")
        self.finish()

    def _settle(self) -> None:
        value, error = self._value, self._error
        self._value = self._error = None
        if self.done():
            return
        if error is None:
            self.set_result(value)
        else:
            self.set_exception(error)


class StreamJob:
    """A generator in its thread, and the items on their way to the loop."""

    def __init__(self, window: Window, work: Work) -> None:
        self.items: deque[Any] = deque()
        self._loop = asyncio.get_running_loop()
        self._window = window
        self._context = _context_for(window.running)
        self._work = work
        self._demand: SimpleQueue[None] = SimpleQueue()
        for _ in range(READ_AHEAD):
            self._demand.put(None)
        self._waiter: asyncio.Future[None] | None = None
        self._woken: asyncio.Future[None] | None = None
        self._error: BaseException | None = None
        self._started = self._closing = self._finished = False

    async def ask(self) -> bool:
        """Wait for an item; false at the end. Raises what the generator raised."""
        self._demand.put(None)
        try:
            while not self.items and not self._finished:
                await self._news()
        except asyncio.CancelledError:
            self._window.interrupt()
            raise
        if self.items:
            return True
        self._raise_error()
        return False

    async def close(self) -> None:
        """End the generator at its next `yield` and wait for its last line, though not for ever.

        Raises what the generator raises meanwhile, unless it is that it was interrupted.
        """
        if self._finished:
            return
        self._closing = True
        if not self._started:
            # It may sit in the queue for long; marked like this it never runs.
            self._window.interrupt()
            return
        self._demand.put(None)
        # Patient at first, because with the read-ahead it may be busy with an item only by chance.
        patience_s = 0.0 if self._window.running.cancelled else YIELD_GRACE_S
        if not await self._ends_within(patience_s):
            self._window.interrupt()
            await self._ends_within(CLOSE_GRACE_S)
        if not isinstance(self._error, CallCancelled):
            self._raise_error()

    def work(self) -> None:
        """Run the generator, from its first line to its last."""
        self._started = True
        try:
            self._context.run(self._produce)
        except BaseException as error:
            self._error = _deliverable(error)

    def finish(self) -> None:
        """Tell the reader that no item follows."""
        self._finished = True
        self._wake()

    def abandon(self) -> None:
        """Hand the call back unstarted."""
        self._error = WorkerStopping("the pool closed before the call began")
        self.finish()

    def _produce(self) -> None:
        guard = self._window.guard
        source = iter(guard(*self._work))
        try:
            while self._is_wanted():
                item = guard(next, (source, _END))
                if item is _END:
                    return
                self.items.append(item)
                # While this thread waits, the item is the reader's alone.
                del item
                self._wake()
        finally:
            # Outside of the guard: what it does to tidy up is not interrupted.
            if hasattr(source, "close"):
                source.close()

    def _is_wanted(self) -> bool:
        self._demand.get()
        return not self._closing

    def _raise_error(self) -> None:
        error, self._error = self._error, None
        if error is not None:
            raise error

    async def _ends_within(self, patience_s: float) -> bool:
        try:
            async with asyncio.timeout(patience_s):
                while not self._finished:
                    await self._news()
        except TimeoutError:
            return False
        return True

    async def _news(self) -> None:
        waiter = self._waiter = self._loop.create_future()
        # The thread adds first and then looks for a waiter; looking again closes the gap. While the
        # stream is being closed only its end is news.
        if not self._finished and (self._closing or not self.items):
            await waiter

    def _wake(self) -> None:
        waiter = self._waiter
        if waiter is not None and waiter is not self._woken:
            self._woken = waiter
            _post(self._loop, _resolve, waiter)


def _resolve(waiter: asyncio.Future[None]) -> None:
    if not waiter.done():
        waiter.set_result(None)


def _context_for(running: Running) -> contextvars.Context:
    context = contextvars.copy_context()
    context.run(current.set, running)
    return context


def _deliverable(error: BaseException) -> BaseException:
    """The error without our own frames, in a form the awaiting coroutine can tell from its own."""
    trace = error.__traceback__
    while trace is not None and trace.tb_frame.f_code.co_filename in _OWN_FILES:
        trace = trace.tb_next
    error = error.with_traceback(trace)
    told: BaseException
    if isinstance(error, Cancelled):
        told = CallCancelled("the function stopped because its call was cancelled")
    elif isinstance(error, (StopIteration, GeneratorExit, asyncio.CancelledError)):
        # In the awaiting coroutine these would mean that it returned, was closed or was cancelled.
        told = RuntimeError(f"the function raised {type(error).__name__}")
    else:
        return error
    told.__cause__ = error
    return told


_OWN_FILES = (_deliverable.__code__.co_filename, Window.guard.__code__.co_filename)


def _post(loop: asyncio.AbstractEventLoop, callback: Callable[..., None], *args: Any) -> None:
    try:
        loop.call_soon_threadsafe(callback, *args)
    except RuntimeError:
        # A closed loop has nobody left who waits for the news.
        return
