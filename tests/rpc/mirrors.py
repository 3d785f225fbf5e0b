"""An app that answers with what it was asked, served over real loopback sockets."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from typing import Any

from axon.rpc.address import Address
from axon.rpc.http.listener import HttpListener
from axon.rpc.http.transport import HttpTransport
from axon.rpc.limits import Limits
from axon.rpc.messages import Buffer, Request, Response
from tests.rpc.raw import Peer, ask, request
from tests.rpc.worlds import run


@dataclass
class Mirror:
    """An app that answers with what it was asked; some targets do more."""

    handled: list[Request] = field(default_factory=list)
    cancelled: int = 0
    produced: int = 0
    slow_bytes: int = 0
    parting: Callable[[], None] | None = None

    def admit(self, request: Request) -> Response | None:
        return Response(401, {}, (b"no",)) if b"origin" in request.headers else None

    def handle(self, request: Request) -> Response | Awaitable[Response]:
        self.handled.append(request)
        target = request.target
        if target.startswith(b"/slow"):
            return self._slow(float(target.partition(b"?")[2]))
        if target.startswith(b"/big"):
            return Response(200, {}, (bytes(int(target.partition(b"?")[2])),))
        if target == b"/stream":
            return Response(200, {}, stream=self._endless())
        if target == b"/broken":
            raise ZeroDivisionError("app")
        if target == b"/broken-later":
            return _breaks()
        if target == b"/cancels":
            return _cancels()
        return Response(200, {b"x-target": target}, request.body)

    async def _slow(self, seconds: float) -> Response:
        try:
            await asyncio.sleep(seconds)
        except asyncio.CancelledError:
            self.cancelled += 1
            raise
        if self.parting is not None:
            self.parting()
        return Response(200, {}, (b"slow" + bytes(self.slow_bytes),))

    async def _endless(self) -> AsyncIterator[Buffer]:
        while True:
            self.produced += 1 << 20
            yield bytes(1 << 20)


async def _breaks() -> Response:
    await asyncio.sleep(0)
    raise ZeroDivisionError("app")


async def _cancels() -> Response:
    raise asyncio.CancelledError


@dataclass
class Scene:
    app: Mirror
    listener: HttpListener

    @property
    def address(self) -> Address:
        return self.listener.address

    async def alive(self) -> None:
        assert (await ask(self.address, request())).status == 200

    async def settled(self, *, empty: bool = True) -> None:
        """Until nobody is connected, or somebody is."""
        for _ in range(500):
            if empty is not bool(self.listener.connections):
                return
            await asyncio.sleep(0.01)
        raise AssertionError(f"{len(self.listener.connections)} connections after 5 s")


@asynccontextmanager
async def scene(**limits: Any) -> AsyncIterator[Scene]:
    transport = HttpTransport(limits=Limits(**limits))
    app = Mirror()
    listener = await transport.listen(app, Address("127.0.0.1", 0))
    try:
        yield Scene(app, listener)
    finally:
        await listener.close()


def play(main: Callable[[Scene], Awaitable[None]], loop: str = "uvloop", **limits: Any) -> None:
    async def go() -> None:
        async with scene(**limits) as stage:
            await main(stage)

    run(go, loop=loop)


async def open_peer(address: Address) -> Peer:
    return Peer(*await asyncio.open_connection(address.host, address.port))
