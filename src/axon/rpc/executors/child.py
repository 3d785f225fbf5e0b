"""The child's side of the process executor: calls come in on a pipe and run in its main thread."""

from __future__ import annotations

import contextlib
import importlib
import os
import pickle
import signal
import sys
import threading
import time
import traceback
from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, Any, NamedTuple

from axon.errors import ConfigurationError
from axon.rpc.executors.pipes import Kind, Load, Packed, Pipe, pack
from axon.rpc.executors.running import Running, current

if TYPE_CHECKING:
    from multiprocessing.connection import Connection

CHILD_NAME = "axon-executor"
"""The name of such a process, which it knows before it imports anything of the user's."""

_END: Any = object()


class Order(NamedTuple):
    """One call as the parent asks for it; the function goes by reference, never as code."""

    module: str
    qualname: str
    args: tuple[Any, ...]
    kwargs: dict[str, Any]
    remaining_s: float | None
    streams: bool


def in_child() -> bool:
    """Whether this process exists to run a worker's functions, and so must not become a worker.

    True already while the child imports the user's script again. Told by the process's name: an
    environment variable would be inherited by programs the user's functions start.
    """
    if "multiprocessing" not in sys.modules:
        return False
    import multiprocessing

    return multiprocessing.current_process().name == CHILD_NAME


def serve(connection: Connection) -> None:
    """Answer calls until the parent closes the pipe."""
    _settle_in(connection)
    pipe = Pipe(connection)
    # The end of the pipe may show while reading a call or while answering one.
    with contextlib.suppress(EOFError, OSError):
        while True:
            _, load = pipe.receive()
            _answer(pipe, load)


def _settle_in(connection: Connection) -> None:
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    if hasattr(signal, "pthread_sigmask"):
        # Blocked by the parent while we started, so that Ctrl-C could not catch us unprepared.
        signal.pthread_sigmask(signal.SIG_UNBLOCK, {signal.SIGINT})
    if hasattr(os, "register_at_fork"):
        # A process forked by user code must not hold the pipe open after we are gone.
        os.register_at_fork(after_in_child=connection.close)
    for stream in (sys.stdout, sys.stderr):
        # What a function printed must be out before the process is killed to cancel it.
        if hasattr(stream, "reconfigure"):
            stream.reconfigure(line_buffering=True)
    threading.Thread(target=_leave_with_parent, daemon=True).start()


def _leave_with_parent() -> None:
    """End the process when the parent dies, even in the middle of a call."""
    import multiprocessing

    parent = multiprocessing.parent_process()
    if parent is not None:
        parent.join()
        os._exit(1)


def _answer(pipe: Pipe, load: Load) -> None:
    message: Packed
    try:
        order: Order = load()
        function = _find(order.module, order.qualname)
        with _call_under_way(pipe, order):
            if order.streams:
                _stream(pipe, function, order)
                message = pack(Kind.END, None, "")
            else:
                value = function(*order.args, **order.kwargs)
                message = pack(Kind.RESULT, value, f"the result of {order.qualname}")
    except BaseException as error:
        # Even SystemExit: it belongs to the caller, and this process goes on.
        message = _pack_error(error)
    pipe.send(message)


@contextlib.contextmanager
def _call_under_way(pipe: Pipe, order: Order) -> Iterator[None]:
    lock = threading.Lock()
    over = False

    def report(value: object) -> None:
        message = pack(Kind.PROGRESS, value, "the progress value")
        # A thread the function left behind must not report into the call that comes after.
        with lock:
            if not over:
                pipe.send(message)

    deadline = None if order.remaining_s is None else time.monotonic() + order.remaining_s
    token = current.set(Running(deadline, report))
    try:
        yield
    finally:
        current.reset(token)
        with lock:
            over = True


def _stream(pipe: Pipe, function: Callable[..., Any], order: Order) -> None:
    source = iter(function(*order.args, **order.kwargs))
    try:
        while (item := next(source, _END)) is not _END:
            pipe.send(pack(Kind.ITEM, item, f"an item of {order.qualname}"))
            del item
            kind, _ = pipe.receive()
            if kind is Kind.CLOSE:
                return
    finally:
        if hasattr(source, "close"):
            source.close()


def _find(module: str, qualname: str) -> Callable[..., Any]:
    found: Any = importlib.import_module(module)
    try:
        for name in qualname.split("."):
            found = getattr(found, name)
    except AttributeError as error:
        raise ConfigurationError(
            f"a child process finds no {qualname} in {module}",
            hint="a function for executor='process' must exist once its module is imported",
        ) from error
    # Whatever the module has under that name; the parent checked that it can be called.
    return found  # type: ignore[no-any-return]


def _pack_error(error: BaseException) -> Packed:
    trace = error.__traceback__
    while trace is not None and trace.tb_frame.f_code.co_filename == __file__:
        trace = trace.tb_next
    text = "".join(traceback.format_exception(type(error), error, trace))
    try:
        # An exception takes any attribute; its type does not say which.
        error.remote_traceback = text  # type: ignore[attr-defined]
        # Some exceptions pickle but do not come back, so both are tried here, where it can be said.
        pickle.loads(pickle.dumps(error, protocol=5))  # noqa: S301 - our own bytes
        return pack(Kind.ERROR, error, "")
    except Exception as problem:
        summary = traceback.format_exception_only(type(error), error)[-1].strip()
        told = RuntimeError(f"{summary} (and this exception does not pickle: {problem})")
        told.remote_traceback = text  # type: ignore[attr-defined]
        return pack(Kind.ERROR, told, "")
