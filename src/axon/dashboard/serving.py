"""The server on a thread and a loop of its own: no socket reaches into virtual time."""

from __future__ import annotations

import asyncio
import socket
import threading
from collections.abc import Iterator
from concurrent.futures import Future
from contextlib import contextmanager
from dataclasses import dataclass

from axon.dashboard.feed import Feed
from axon.dashboard.web import LOOK_S, MOST_STREAMS, Cancel, DashboardApp
from axon.errors import ConfigurationError
from axon.rpc.address import Address
from axon.rpc.http.transport import HttpTransport
from axon.rpc.limits import Limits
from axon.rpc.loops import new_event_loop

DEFAULT_PORT = 8200

LIMITS = Limits(max_body_bytes=64 << 10, max_bodies_bytes=1 << 20, max_connections=8 * MOST_STREAMS)


@dataclass(frozen=True, slots=True, kw_only=True)
class Place:
    """Where a page is served."""

    host: str = "127.0.0.1"
    port: int | None = None
    """None takes the usual one, or any where that is in use."""
    insecure: bool = False
    """Whether other machines may look too; nobody is asked for a key."""

    def __post_init__(self) -> None:
        if not (self.is_near or self.insecure):
            raise ConfigurationError(
                f"everybody who can reach {self.host} would see the page",
                hint="say --insecure if they may, or use ssh -L to look from elsewhere",
            )

    @property
    def is_near(self) -> bool:
        """Whether only this machine can look."""
        return Address(self.host).is_loopback

    @property
    def names(self) -> tuple[str, ...]:
        """By which requests may call this machine, beside its addresses."""
        if self.is_near:
            return (self.host,)
        own = socket.gethostname()
        return (self.host, own, f"{own}.local")


@contextmanager
def serving(feed: Feed, place: Place | None = None, cancel: Cancel | None = None) -> Iterator[str]:
    """Serve the page while the block lasts, and tell its address."""
    where = place or Place()
    if cancel is not None and not where.is_near:
        cancel = None  # Who may look need not be somebody who may change anything.
    app = DashboardApp(feed, where.names, cancel)
    bound: Future[str] = Future()
    loop = new_event_loop()
    stopped = asyncio.Event()
    thread = threading.Thread(target=_serve, args=(loop, app, where, bound, stopped), daemon=True)
    thread.start()
    try:
        yield bound.result()
    finally:
        if not loop.is_closed():
            loop.call_soon_threadsafe(stopped.set)
        thread.join()


def _serve(
    loop: asyncio.AbstractEventLoop,
    app: DashboardApp,
    where: Place,
    bound: Future[str],
    stopped: asyncio.Event,
) -> None:
    with asyncio.Runner(loop_factory=lambda: loop) as runner:
        try:
            runner.run(_listen(app, where, bound, stopped))
        except OSError as error:
            bound.set_exception(
                ConfigurationError(
                    f"cannot serve at {where.host}:{where.port}: {error.strerror or error}",
                    hint="choose another port, or 0 for any that is free",
                )
            )


async def _listen(
    app: DashboardApp, where: Place, bound: Future[str], stopped: asyncio.Event
) -> None:
    transport = HttpTransport(limits=LIMITS)
    try:
        port = DEFAULT_PORT if where.port is None else where.port
        try:
            listener = await transport.listen(app, Address(where.host, port))
        except OSError:
            if where.port is not None:
                raise
            listener = await transport.listen(app, Address(where.host, 0))
        bound.set_result(str(listener.address))
        try:
            await stopped.wait()
        finally:
            app.ending = True
            await listener.close(grace_s=3 * LOOK_S)
    finally:
        await transport.close()
