"""A call in the caller's hands: await it, join it, iterate over it, cancel it.

One implementation serves every concurrency model. Without a running loop the call starts at once on
the background loop, so that a script goes on while the worker works; inside a running loop it
starts when awaited, on that loop, or on the background one when joined.
"""

from __future__ import annotations

import asyncio
import concurrent.futures
from collections.abc import AsyncGenerator, AsyncIterator, Coroutine, Generator, Iterator
from contextlib import aclosing, suppress
from typing import Any, TypeVar

from axon.errors import CallCancelled, ConfigurationError
from axon.rpc.calling.background import background
from axon.rpc.calling.callers import caller_for, recent_caller
from axon.rpc.calling.spec import CallSpec
from axon.rpc.loops import check_may_block, running_loop

T = TypeVar("T")


async def run(spec: CallSpec) -> Any:
    """Make the call on the running loop."""
    caller = recent_caller(spec.access) or await caller_for(spec.access)
    return await caller.call(spec)


async def items(spec: CallSpec) -> AsyncGenerator[Any, None]:
    """The items of a generator function, on the running loop."""
    caller = await caller_for(spec.access)
    async with aclosing(caller.items(spec)) as source:
        async for item in source:
            yield item


def run_blocking(work: Coroutine[Any, Any, T]) -> T:
    """Run on the background loop and wait here."""
    try:
        check_may_block()
    except ConfigurationError:
        work.close()
        raise
    future = background().submit(work)
    try:
        return future.result()
    except BaseException:
        # A Ctrl-C here must stop the work there; a finished future does not mind.
        future.cancel()
        raise


class Call:
    """One call: awaitable, joinable, iterable where the function is a generator."""

    __slots__ = ("__weakref__", "_begun", "_cancelled", "_future", "_outcome", "_spec", "_struck",
                 "_task")  # fmt: skip

    def __init__(self, spec: CallSpec, *, eager: bool = False) -> None:
        self._spec = spec
        self._future: concurrent.futures.Future[Any] | None = None
        self._begun = False
        self._cancelled = False
        self._struck = False
        self._task: asyncio.Task[Any] | None = None
        self._outcome: tuple[Any, BaseException | None] | None = None
        if (eager or running_loop() is None) and not spec.streams:
            self._start()

    def _start(self) -> concurrent.futures.Future[Any]:
        if self._future is None:
            self._check_cancelled()
            if self._begun:
                raise RuntimeError(f"{self!r} is being awaited elsewhere and cannot be joined")
            self._begun = True
            self._future = background().submit(run(self._spec.fixed()))
        return self._future

    # Async

    def __await__(self) -> Generator[Any, None, Any]:
        if self._future is not None:
            return self._from_background(self._future).__await__()
        return self._await_here().__await__()

    async def _from_background(self, future: concurrent.futures.Future[Any]) -> Any:
        try:
            return await asyncio.wrap_future(future)
        except asyncio.CancelledError:
            if self._is_ours():
                raise CallCancelled("the call was cancelled") from None
            raise

    def _is_ours(self) -> bool:
        """Whether a cancellation is that of `cancel`, not of whoever awaits the call."""
        task = asyncio.current_task()
        return self._cancelled and (task is None or not task.cancelling())

    async def _await_here(self) -> Any:
        if self._outcome is None:
            if self._begun:
                raise RuntimeError(f"{self!r} is already being awaited; share a task instead")
            self._check_cancelled()
            self._begun = True
            self._task = asyncio.current_task()
            spec = self._spec
            try:
                caller = recent_caller(spec.access) or await caller_for(spec.access)
                value = await caller.call(spec)
                self._outcome = (value, None)
            except asyncio.CancelledError as error:
                # Kept as the call's own end: whoever asks later was not cancelled.
                self._outcome = (None, CallCancelled("the call was cancelled"))
                raise self._explained(error) from None
            except BaseException as error:
                self._outcome = (None, error)
            finally:
                self._task = None
        value, failure = self._outcome
        if failure is not None:
            raise failure
        return value

    def _check_cancelled(self) -> None:
        if self._cancelled:
            raise CallCancelled("cancelled before it was sent")

    def _explained(self, error: BaseException) -> BaseException:
        """The error as it is told: a cancellation by `cancel` is the call's, not the task's."""
        if not self._struck:
            return error
        task = self._task
        if task is not None and task.uncancel() > 0:
            return error  # The task itself was cancelled as well, and that goes on.
        return CallCancelled("the call was cancelled")

    def __aiter__(self) -> AsyncIterator[Any]:
        return self._items(self._spec)

    async def _items(self, spec: CallSpec) -> AsyncGenerator[Any, None]:
        async with aclosing(items(spec)) as source:
            while True:
                self._check_cancelled()
                self._task = asyncio.current_task()
                try:
                    item = await anext(source)
                except StopAsyncIteration:
                    return
                except asyncio.CancelledError as error:
                    raise self._explained(error) from None
                finally:
                    self._task = None
                yield item

    async def progress(self) -> AsyncIterator[Any]:
        """The values the function reports while it runs; then await the call for its result."""
        reported: asyncio.Queue[Any] = asyncio.Queue()
        end = object()
        self._listen(reported.put_nowait)
        task = asyncio.ensure_future(self._await_here())
        task.add_done_callback(lambda _: reported.put_nowait(end))
        try:
            while (value := await reported.get()) is not end:
                yield value
        finally:
            if not task.done():
                task.cancel()
            with suppress(Exception, asyncio.CancelledError):
                # Its failure is kept, and raised when the call itself is awaited.
                await task

    def _listen(self, report: Any) -> None:
        if self._begun:
            raise RuntimeError("ask for progress before the call is awaited or joined")
        self._spec = self._spec.but(progress=report)

    # Threads

    def join(self, timeout_s: float | None = None) -> Any:
        """Wait for the result, blocking this thread."""
        if self._outcome is not None:
            value, failure = self._outcome
            if failure is not None:
                raise failure
            return value
        future = self._start()
        try:
            if not future.done():
                check_may_block()
            return future.result(timeout_s)
        except ConfigurationError:
            future.cancel()
            raise
        except concurrent.futures.CancelledError:
            raise CallCancelled("the call was cancelled") from None
        except TimeoutError as error:
            if future.done():
                raise  # The call's own.
            raise TimeoutError(f"{self!r} is not done after {timeout_s:g} s and goes on") from error

    def __iter__(self) -> Iterator[Any]:
        return iterate_blocking(self._items(self._spec.fixed()))

    def cancel(self) -> None:
        """Stop the call here and on the worker."""
        if self._cancelled:
            return
        self._cancelled = True
        if self._future is not None:
            self._future.cancel()
        task = self._task
        if task is not None:
            task.get_loop().call_soon_threadsafe(self._stop_awaiting, task)

    def _stop_awaiting(self, task: asyncio.Task[Any]) -> None:
        # The task goes on with other things once the call is done; those are not to be stopped.
        if self._task is task:
            self._struck = True
            task.cancel()

    def done(self) -> bool:
        """Whether its outcome is known."""
        return self._outcome is not None or (self._future is not None and self._future.done())

    @property
    def call_id(self) -> str | None:
        """The id under which a duplex call can be found again."""
        return self._spec.options.call_id

    @property
    def spec(self) -> CallSpec:
        """What the call is made of."""
        return self._spec

    def __repr__(self) -> str:
        return f"<call of {self._spec.path} on {self._spec.origin}>"


def iterate_blocking(source: AsyncGenerator[Any, None]) -> Iterator[Any]:
    """A stream for a plain `for`: the background loop fetches each item when it is asked for."""
    try:
        while True:
            try:
                yield run_blocking(anext(source))
            except StopAsyncIteration:
                return
    finally:
        # Not waited for: an iterator may be collected anywhere, on the loop's own thread too.
        background().leave(source.aclose())
