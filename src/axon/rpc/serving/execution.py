"""Running one call on a worker: the right executor, a deadline, and a way to end it early."""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import AsyncGenerator, Callable
from dataclasses import dataclass
from typing import Any

from axon.errors import AxonError, BadArguments, CallCancelled, CannotTravel, DeadlineExceeded
from axon.rpc import wire
from axon.rpc.executors import ProcessPool, Running, ThreadPool, current
from axon.rpc.expiry import Alarm, Expiry
from axon.rpc.messages import Response
from axon.rpc.replies import as_remote, error_response, remote_response, value_response
from axon.rpc.serving.service import Function

log = logging.getLogger("axon.calls")


@dataclass(frozen=True, slots=True)
class Form:
    """How the caller speaks: JSON or envelopes, with pickles in them or without."""

    as_json: bool = False
    pickling: bool = False
    traced: bool = True
    """Whether the caller is told where an error was raised."""


class ActiveCall:
    """A call between its arrival and its answer."""

    __slots__ = ("args", "deadline_s", "ended", "form", "function", "kwargs",
                 "running", "scope", "started")  # fmt: skip

    def __init__(
        self,
        function: Function,
        args: list[Any],
        kwargs: dict[str, Any],
        *,
        deadline_s: float | None,
        form: Form,
    ) -> None:
        self.function = function
        self.args = args
        self.kwargs = kwargs
        self.deadline_s = deadline_s
        self.form = form
        self.started = asyncio.get_running_loop().time()
        deadline = None if deadline_s is None else self.started + deadline_s
        self.running = Running(deadline)
        self.scope: Expiry | None = None
        self.ended: AxonError | None = None

    def end(self, reason: AxonError) -> None:
        """Stop the work; the caller is told the reason."""
        self.ended = self.ended or reason
        self.running.cancelled = True
        if self.scope is not None:
            self.scope.end()

    def check_ended(self) -> None:
        """Do not begin what was ended before its scope could know."""
        if self.ended is not None:
            raise TimeoutError

    def why_ended(self) -> AxonError:
        """What to tell the caller of a call that was stopped."""
        if self.ended is None:
            self.ended = DeadlineExceeded(
                f"{self.function.path} did not finish within {self.deadline_s:g} s"
            )
        return self.ended


class Engine:
    """Runs calls for one worker and knows which are under way."""

    def __init__(self, *, max_threads: int, max_processes: int | None) -> None:
        self._threads = ThreadPool(max_threads=max_threads)
        self._processes = ProcessPool(max_processes=max_processes)
        self._alarm = Alarm()
        self.active: set[ActiveCall] = set()
        self._drained: asyncio.Event | None = None

    def run_inline(
        self, function: Function, args: list[Any], kwargs: dict[str, Any], form: Form
    ) -> Response:
        """A plain function that asked to run on the loop: no task, no hand-over, no deadline."""
        began = time.perf_counter()
        try:
            response = self._answer(function, function.call(*args, **kwargs), form)
        except asyncio.CancelledError:
            response = _cancelled_itself(function, form)
        except BaseException as error:
            # Even SystemExit: it belongs to the caller, and the worker goes on.
            response = self._raised(function, args, kwargs, error, form)
        function.tally.count(response, time.perf_counter() - began)
        return response

    async def run(self, call: ActiveCall) -> Response:
        """Run to the end, the deadline, or an `end()` from elsewhere; always gives an answer."""
        self.active.add(call)
        began = time.perf_counter()
        response: Response | None = None
        try:
            with self._alarm.at(call.running.deadline) as call.scope:
                response = await self._attempt(call)
        except TimeoutError:
            response = error_response(call.why_ended(), as_json=call.form.as_json)
        finally:
            call.running.cancelled = True
            self._leave(call)
            call.function.tally.count(response, time.perf_counter() - began)
        return response

    async def _attempt(self, call: ActiveCall) -> Response:
        call.check_ended()
        current.set(call.running)
        try:
            if call.function.kind == "coroutine":
                value = await call.function.call(*call.args, **call.kwargs)
            else:
                value = await self._value(call)
            return self._answer(call.function, value, call.form)
        except asyncio.CancelledError:
            task = asyncio.current_task()
            if task is None or task.cancelling():
                raise
            # Nobody cancelled us, so the function raised it, and its caller still waits.
            return _cancelled_itself(call.function, call.form)
        except BaseException as error:
            # Even SystemExit, which would otherwise end the loop and every other call with it.
            return self._raised(call.function, call.args, call.kwargs, error, call.form)

    async def _value(self, call: ActiveCall) -> Any:
        function = call.function
        if function.executor == "inline":
            return function.call(*call.args, **call.kwargs)
        pool = self._processes if function.executor == "process" else self._threads
        value = await pool.run(function.call, call.args, call.kwargs, call.running)
        # A plain function may hand back a coroutine it did not await, as wrappers do.
        return await value if asyncio.iscoroutine(value) else value

    async def items(self, call: ActiveCall) -> AsyncGenerator[Any, None]:
        """The items of a generator function; raises what it raises, or why it was ended."""
        self.active.add(call)
        began = time.perf_counter()
        current.set(call.running)
        source: AsyncGenerator[Any, None] | None = None
        failed = True
        try:
            source = self._source(call)
            while True:
                try:
                    with self._alarm.at(call.running.deadline) as call.scope:
                        call.check_ended()
                        item = await anext(source)
                except StopAsyncIteration:
                    failed = False
                    return
                except TimeoutError as error:
                    if call.ended is None and not (call.scope and call.scope.expired):
                        raise  # The function's own.
                    raise call.why_ended() from error
                except (SystemExit, KeyboardInterrupt) as error:
                    raise as_remote(error) from error  # Told to the caller; the worker goes on.
                call.scope = None
                yield item
        except TypeError as error:
            call.ended = _mismatch(call.function, call.args, call.kwargs) or call.ended
            if call.ended is None:
                raise
            raise call.ended from error
        finally:
            call.running.cancelled = True
            try:
                if source is not None:
                    await _close(source, call.function)
            finally:
                self._leave(call)
                call.function.tally.add("failed" if failed else "done", time.perf_counter() - began)

    def _source(self, call: ActiveCall) -> AsyncGenerator[Any, None]:
        function = call.function
        if function.kind == "async generator":
            source: AsyncGenerator[Any, None] = function.call(*call.args, **call.kwargs)
            return source
        if function.executor == "inline":
            return _on_loop(function.call, call.args, call.kwargs)
        pool = self._processes if function.executor == "process" else self._threads
        return pool.iterate(function.call, call.args, call.kwargs, call.running)

    def _answer(self, function: Function, value: Any, form: Form) -> Response:
        try:
            if form.as_json:
                return value_response(value, as_json=True)
            # The rest of `value_response`, written out: this is on the way of every call.
            body = wire.encode(value, pickling=form.pickling)
            return Response(200, {b"content-type": wire.CONTENT_TYPE}, body)
        except CannotTravel as error:
            if value is getattr(function.call, "__self__", function):
                # `net.train()` gives back `net`, for chaining; the caller has its stub already.
                return self._answer(function, None, form)
            problem = CannotTravel(f"the result of {function.path}: {error.message}")
            return error_response(problem, as_json=form.as_json)

    def _raised(
        self,
        function: Function,
        args: list[Any],
        kwargs: dict[str, Any],
        error: BaseException,
        form: Form,
    ) -> Response:
        if isinstance(error, TypeError):
            mismatch = _mismatch(function, args, kwargs)
            if mismatch is not None:
                return error_response(mismatch, as_json=form.as_json)
        log.info("%s raised %s", function.path, type(error).__name__)
        return remote_response(error, as_json=form.as_json, traced=form.traced)

    def _leave(self, call: ActiveCall) -> None:
        self.active.discard(call)
        if self._drained is not None and not self.active:
            self._drained.set()

    async def drain(self, grace_s: float) -> bool:
        """Wait for the calls under way; whether all of them ended in time."""
        await asyncio.sleep(0)  # Calls accepted this very moment enter first.
        self._drained = asyncio.Event()
        if not self.active:
            return True
        try:
            await asyncio.wait_for(self._drained.wait(), grace_s)
        except TimeoutError:
            return False
        return True

    def end_all(self, make_reason: Callable[[], AxonError] = CallCancelled) -> None:
        """Stop every call under way."""
        for call in list(self.active):
            call.end(make_reason())

    def close(self) -> None:
        self._threads.close()
        self._processes.close()


def _mismatch(function: Function, args: list[Any], kwargs: dict[str, Any]) -> BadArguments | None:
    """What is wrong with the arguments of a call that raised `TypeError`, if they are to blame."""
    if function.signature is None:
        return None
    try:
        function.signature.bind(*args, **kwargs)
    except TypeError as error:
        return BadArguments(f"{function.path}: {error}")
    return None


async def _close(source: AsyncGenerator[Any, None], function: Function) -> None:
    """Let a generator tidy up."""
    try:
        await source.aclose()
    except (Exception, SystemExit, KeyboardInterrupt) as error:
        # Its caller has left, or is being told why the call ended: nobody else can hear of it.
        log.warning("%s raised %r when it was closed", function.path, error)


def _cancelled_itself(function: Function, form: Form) -> Response:
    cancelled = CallCancelled(f"{function.path} cancelled itself")
    return error_response(cancelled, as_json=form.as_json)


async def _on_loop(
    call: Callable[..., Any], args: list[Any], kwargs: dict[str, Any]
) -> AsyncGenerator[Any, None]:
    """A plain generator stepped on the loop itself, letting others have a turn in between."""
    generator = call(*args, **kwargs)
    try:
        for item in generator:
            yield item
            await asyncio.sleep(0)
    finally:
        generator.close()
