"""Offering functions of this device to others.

    @axon.worker.rpc()
    def hello(name):
        return f"Hello {name}!!"

    axon.worker.init()

`service(thing, "name")` offers an object's public methods; `Worker` is for more than one worker in
a process, or for one inside a loop that is already running.
"""

from __future__ import annotations

import asyncio
import concurrent.futures
import errno
import logging
import signal
import socket
import threading
from collections.abc import AsyncIterator, Callable
from contextlib import AsyncExitStack, asynccontextmanager, suppress
from typing import Any, TypeVar, overload

from axon.errors import ConfigurationError
from axon.rpc.address import DEFAULT_PORT, Address
from axon.rpc.discovery.mdns import Announcement, Announcer
from axon.rpc.executors import Executor, check, in_child, progress
from axon.rpc.http.transport import HttpTransport
from axon.rpc.loops import new_event_loop, running_loop, serving_here
from axon.rpc.messages import Listener, Transport
from axon.rpc.paths import RPC_SERVICE
from axon.rpc.serving.dispatch import Dispatcher
from axon.rpc.serving.logs import setup_logging
from axon.rpc.serving.options import ServeOptions
from axon.rpc.serving.service import Services
from axon.version import __version__

__all__ = ["Serving", "Worker", "check", "init", "progress", "rpc", "service", "stop"]

log = logging.getLogger("axon.worker")
F = TypeVar("F", bound=Callable[..., Any])


class Worker:
    """A set of functions and the way they are served."""

    def __init__(self, name: str | None = None) -> None:
        self.name = name or socket.gethostname()
        self.services = Services()

    def rpc(self, *, name: str | None = None, executor: Executor = "thread") -> Callable[[F], F]:
        """Offer the decorated function; it stays usable here as it was.

        `executor` says where a plain function runs: in a `thread` (so that it never blocks the
        others), in a `process` of its own, or `inline` on the event loop, fastest and only for
        functions that return at once. Coroutine functions run on the loop.
        """

        def register(function: F) -> F:
            label = name or getattr(function, "__name__", "")
            self.services.add(f"{RPC_SERVICE}/{label}", function, executor)
            return function

        return register

    def service(
        self, subject: object, name: str, *, depth: int = 1, executor: Executor = "thread"
    ) -> None:
        """Offer an object: itself if it can be called, and its public methods.

        `depth` says how far down its public attributes this goes; 1 is the object alone.
        """
        self.services.add_object(name, subject, depth=depth, executor=executor)

    @asynccontextmanager
    async def serving(
        self, host: str = "127.0.0.1", port: int = DEFAULT_PORT, **options: Any
    ) -> AsyncIterator[Serving]:
        """Serve on the running loop for as long as the block lasts; `ServeOptions` has the rest."""
        chosen = ServeOptions.of(host=host, port=port, **options)
        carrier = chosen.transport or HttpTransport(
            limits=chosen.limits, worker_tls=chosen.tls_context()
        )
        # Each part ends even when the one before it fails to, or the shutdown is cancelled.
        async with AsyncExitStack() as stack:
            stack.enter_context(serving_here())
            if chosen.transport is None:
                stack.push_async_callback(carrier.close)
            dispatcher = Dispatcher(
                self.services,
                name=self.name,
                version=__version__,
                transport=carrier,
                options=chosen,
            )
            listener = await _listen(carrier, dispatcher, chosen.address)
            serving = Serving(dispatcher, listener, chosen.grace_s)
            stack.push_async_callback(serving.close)
            announcer = self._announcer(listener.address, chosen.announce)
            if announcer is not None:
                stack.push_async_callback(announcer.stop)
                await announcer.start()
            yield serving

    def _announcer(self, address: Address, announce: bool | None) -> Announcer | None:
        wanted = (not address.is_loopback) if announce is None else announce
        if not wanted or address.scheme not in ("http", "https"):
            return None
        functions = tuple(function.path for function in self.services)
        return Announcer(
            Announcement(
                name=self.name,
                address=address,
                functions=functions,
                version=__version__,
                scheme=address.scheme,
            )
        )

    def run(self, **options: Any) -> None:
        """Serve on a loop of its own until SIGTERM, SIGINT, or `stop()`; blocks."""
        with asyncio.Runner(loop_factory=new_event_loop) as runner:
            runner.run(self._serve(options, ready=None))

    def start(self, **options: Any) -> Serving:
        """Serve on a thread of its own; returns once the port is open."""
        ready: concurrent.futures.Future[Serving] = concurrent.futures.Future()

        def serve() -> None:
            try:
                with asyncio.Runner(loop_factory=new_event_loop) as runner:
                    runner.run(self._serve(options, ready))
            except BaseException as error:
                if ready.done():
                    raise
                ready.set_exception(error)  # Raised to whoever started us.

        thread = threading.Thread(target=serve, name=f"axon-{self.name}", daemon=True)
        thread.start()
        serving = ready.result()
        serving.thread = thread
        return serving

    async def _serve(
        self, options: dict[str, Any], ready: concurrent.futures.Future[Serving] | None
    ) -> None:
        loop = asyncio.get_running_loop()
        stopped = asyncio.Event()
        held: list[Serving] = []

        def told() -> None:
            if stopped.is_set():
                for serving in held:
                    serving.hurry()
            stopped.set()

        if threading.current_thread() is threading.main_thread():
            for number in (signal.SIGTERM, signal.SIGINT):
                with suppress(NotImplementedError):  # Windows ends a process without asking it.
                    loop.add_signal_handler(number, told)
        async with self.serving(**options) as serving:
            held.append(serving)
            serving.stop = lambda: _wake(loop, stopped)
            log.info("serving", extra={"address": str(serving.address), "worker": self.name})
            _running.append(serving)
            if ready is not None:
                ready.set_result(serving)
            try:
                await stopped.wait()
            finally:
                _running.remove(serving)
                log.info("stopping", extra={"worker": self.name})


class Serving:
    """A worker being served."""

    def __init__(self, dispatcher: Dispatcher, listener: Listener, grace_s: float) -> None:
        self.dispatcher = dispatcher
        self._listener = listener
        self._grace_s = grace_s
        self.thread: threading.Thread | None = None
        self.stop: Callable[[], Any] = lambda: None

    @property
    def address(self) -> Address:
        """Where, with the port really bound."""
        return self._listener.address

    def hurry(self) -> None:
        """Hand back what is under way now; whoever asks a second time will not wait."""
        self.dispatcher.hand_back()

    async def close(self) -> None:
        """Finish what is under way, hand back the rest, then close the port."""
        try:
            await self.dispatcher.stop(self._grace_s)
        finally:
            await self._listener.close(grace_s=1.0)

    def shutdown(self, timeout_s: float = 15.0) -> None:
        """Stop a worker that was started on a thread, and wait for it."""
        self.stop()
        if self.thread is not None:
            self.thread.join(timeout_s)


async def _listen(transport: Transport, dispatcher: Dispatcher, address: Address) -> Listener:
    try:
        return await transport.listen(dispatcher, address)
    except OSError as error:
        raise ConfigurationError(
            f"cannot listen on {address}: {error.strerror or error}",
            hint="is another worker running there? choose another port="
            if error.errno == errno.EADDRINUSE
            else "is the host one of this machine's own addresses?",
        ) from error


def _wake(loop: asyncio.AbstractEventLoop, event: asyncio.Event) -> None:
    """Set the event from any thread; a loop that has ended needs no telling."""
    try:
        loop.call_soon_threadsafe(event.set)
    except RuntimeError:
        if not loop.is_closed():
            raise


def _raise_file_limit() -> None:
    """As many open sockets as the system lets us have: a thousand peers are a thousand files."""
    try:
        import resource
    except ImportError:
        return  # Windows, which sets no such limit.
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    if hard != resource.RLIM_INFINITY and soft < hard:
        with suppress(ValueError, OSError):
            resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))


# The process's own worker, for scripts

_default = Worker()
_running: list[Serving] = []


@overload
def rpc(function: F, /) -> F: ...
@overload
def rpc(*, name: str | None = None, executor: Executor = "thread") -> Callable[[F], F]: ...
def rpc(
    function: F | None = None, /, *, name: str | None = None, executor: Executor = "thread"
) -> Any:
    """Offer the decorated function on this process's worker; see `Worker.rpc`."""
    register = _default.rpc(name=name, executor=executor)
    return register if function is None else register(function)


def service(subject: object, name: str, *, depth: int = 1, executor: Executor = "thread") -> None:
    """Offer an object on this process's worker; see `Worker.service`."""
    _default.service(subject, name, depth=depth, executor=executor)


def init(
    host: str = "127.0.0.1",
    port: int = DEFAULT_PORT,
    *,
    name: str | None = None,
    block: bool | None = None,
    **options: Any,
) -> Serving | None:
    """Serve what was registered; blocks until the process is told to stop.

    In a notebook, or anywhere else a loop is running, it serves on a thread instead and returns;
    `block` chooses. In a child made for `executor="process"` it does nothing at all, so that a
    script need not guard it.
    """
    if in_child():
        return None
    if name is not None:
        _default.name = name
    setup_logging()
    _raise_file_limit()
    options |= {"host": host, "port": port}
    if block is None:
        block = running_loop() is None
    if not block:
        return _default.start(**options)
    _default.run(**options)
    return None


def stop() -> None:
    """End every worker that `init` or `start` serves in this process."""
    # A copy, because each takes itself off the list, from a thread of its own.
    for serving in tuple(_running):
        serving.stop()
