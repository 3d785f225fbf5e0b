"""Child processes that run a worker's functions: for code that holds the GIL, or may crash."""

from __future__ import annotations

import asyncio
import atexit
import contextlib
import inspect
import os
import sys
import threading
import time
import types
from collections.abc import AsyncGenerator, Callable, Iterator, Mapping, Sequence
from typing import Any

from axon.errors import ConfigurationError, WorkerStopping
from axon.rpc.executors.child import Order
from axon.rpc.executors.children import EXIT_GRACE_S, Child, PipeBroken
from axon.rpc.executors.jobs import Work
from axon.rpc.executors.pipes import Kind, Packed, pack
from axon.rpc.executors.running import Cancelled, Running, Window
from axon.rpc.executors.threads import ThreadPool


class ProcessPool:
    """Children started when needed and kept warm between calls.

    A thread holds the dialogue with each busy child, so the loop never waits for a pipe. Arguments
    and results are copied by pickle; of the caller's context only the current call crosses.
    """

    def __init__(self, *, max_processes: int | None = None) -> None:
        self._threads = ThreadPool(
            max_threads=max_processes or os.cpu_count() or 1, name="axon-process"
        )
        self._lock = threading.Lock()
        self._children: set[Child] = set()
        self._idle: list[Child] = []
        self._closed = False

    @staticmethod
    def check(function: Callable[..., Any]) -> None:
        """Raise `ConfigurationError` for a function that a child process could not find by name."""
        problem = _why_unreachable(function)
        if problem is not None:
            raise ConfigurationError(
                f"{_name_of(function)} cannot run with executor='process': {problem}",
                hint="write it with def at the top of a module, or use executor='thread'",
            )

    def run(
        self,
        function: Callable[..., Any],
        args: Sequence[Any],
        kwargs: Mapping[str, Any],
        running: Running,
    ) -> asyncio.Future[Any]:
        """Call the function in a child; cancelling the future kills that child.

        An exception comes back with its traceback's text as `remote_traceback`. A child that dies
        fails its own call with `RuntimeError`.
        """
        window = _ChildWindow(running)
        work = Work(self._converse, (window, function, args, kwargs))
        return self._threads.run_within(window, work)

    def iterate(
        self,
        function: Callable[..., Any],
        args: Sequence[Any],
        kwargs: Mapping[str, Any],
        running: Running,
    ) -> AsyncGenerator[Any, None]:
        """Call a generator function in a child and give its items as they are asked for.

        Closing the iterator closes the generator at its next `yield`; if that does not come soon,
        the child is killed.
        """
        window = _ChildWindow(running)
        work = Work(self._items, (window, function, args, kwargs))
        return self._threads.iterate_within(window, work)

    def close(self) -> None:
        """Take no more calls and end every child; none is alive when this returns."""
        atexit.unregister(self.close)
        with self._lock:
            self._closed = True
            children, idle = set(self._children), set(self._idle)
            self._idle.clear()
        self._threads.close()
        for child in idle:
            child.pipe.close()
        for child in children - idle:
            child.process.kill()
        patience_ends = time.monotonic() + EXIT_GRACE_S
        for child in children:
            child.end(patience_ends - time.monotonic())

    def _converse(
        self,
        window: _ChildWindow,
        function: Callable[..., Any],
        args: Sequence[Any],
        kwargs: Mapping[str, Any],
    ) -> Any:
        with self._borrow(window, function) as child:
            order = _pack_order(function, args, kwargs, window.running, streams=False)
            return child.ask(order, window.running)[1]

    def _items(
        self,
        window: _ChildWindow,
        function: Callable[..., Any],
        args: Sequence[Any],
        kwargs: Mapping[str, Any],
    ) -> Iterator[Any]:
        with self._borrow(window, function) as child:
            order = _pack_order(function, args, kwargs, window.running, streams=True)
            kind, item = child.ask(order, window.running)
            while kind is Kind.ITEM:
                try:
                    yield item
                except GeneratorExit:
                    child.ask(pack(Kind.CLOSE, None, ""), window.running)
                    raise
                kind, item = child.ask(pack(Kind.NEXT, None, ""), window.running)

    @contextlib.contextmanager
    def _borrow(self, window: _ChildWindow, function: Callable[..., Any]) -> Iterator[Child]:
        child = self._take()
        try:
            window.hold(child)
            yield child
        except PipeBroken as error:
            if window.running.cancelled:
                raise Cancelled from error
            raise RuntimeError(child.obituary(_name_of(function))) from error
        finally:
            window.release()
            self._give_back(child)

    def _take(self) -> Child:
        with self._lock:
            if self._closed:
                raise WorkerStopping("the pool is closed")
            while self._idle:
                child = self._idle.pop()
                if child.exit_code() is None:
                    return child
                child.pipe.close()
                self._children.discard(child)
            # Under the lock, so that `close` knows of every child there is.
            return self._start_child()

    def _start_child(self) -> Child:
        child = Child()
        # Only now that multiprocessing is imported, so that ours comes first at exit: it would wait
        # for children that nobody told to leave. Once is enough, however many children there are.
        atexit.unregister(self.close)
        atexit.register(self.close)
        self._children.add(child)
        return child

    def _give_back(self, child: Child) -> None:
        with self._lock:
            if not child.busy and not self._closed:
                self._idle.append(child)
                return
        child.end(0.0)
        child.pipe.close()
        with self._lock:
            self._children.discard(child)


class _ChildWindow(Window):
    """A window in which interrupting means to kill the child that runs the function."""

    __slots__ = ("_child",)

    def __init__(self, running: Running) -> None:
        super().__init__(running)
        self._child: Child | None = None

    def hold(self, child: Child) -> None:
        """From now on an interrupt kills this child; raises `Cancelled` if one came already."""
        with self._lock:
            if self.running.cancelled:
                raise Cancelled
            self._child = child

    def release(self) -> None:
        """From now on an interrupt leaves the child alone."""
        with self._lock:
            self._child = None

    def _strike(self, thread: int) -> bool:  # noqa: ARG002 - the base class's signature
        # The thread itself is left alone: it reads the end of the pipe and sees to the rest.
        if self._child is not None:
            self._child.process.kill()
        return False


def _pack_order(
    function: Callable[..., Any],
    args: Sequence[Any],
    kwargs: Mapping[str, Any],
    running: Running,
    *,
    streams: bool,
) -> Packed:
    order = Order(
        module=function.__module__,
        qualname=function.__qualname__,
        args=tuple(args),
        kwargs=dict(kwargs),
        remaining_s=running.remaining_s(),
        streams=streams,
    )
    return pack(Kind.CALL, order, f"an argument of {_name_of(function)}")


def _why_unreachable(function: Callable[..., Any]) -> str | None:
    qualname = getattr(function, "__qualname__", None)
    owner = getattr(function, "__self__", None)
    if inspect.iscoroutinefunction(function) or inspect.isasyncgenfunction(function):
        return "it is async, and async functions run on the event loop"
    if owner is not None and not isinstance(owner, (type, types.ModuleType)):
        return "it is bound to an object, which a child process does not have"
    if qualname is None or getattr(function, "__module__", None) is None:
        return "it has no module and name to import it by"
    if "<lambda>" in qualname or "<locals>" in qualname:
        return "a lambda, or a function inside a function, is in no module under its name"
    if function.__module__ == "__main__" and not _main_is_importable():
        return "it was typed into an interactive session, which a child process cannot import"
    return None


def _main_is_importable() -> bool:
    main = sys.modules["__main__"]
    return getattr(main, "__spec__", None) is not None or hasattr(main, "__file__")


def _name_of(function: Callable[..., Any]) -> str:
    return getattr(function, "__qualname__", None) or repr(function)
