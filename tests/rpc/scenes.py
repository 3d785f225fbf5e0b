"""Two hosts on an in-memory network, the apps they serve, and scenes acted between them."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable, Coroutine, Sequence
from dataclasses import dataclass, field
from typing import Any, TypeAlias

import anyio

from axon.rpc.address import Address
from axon.rpc.link import Link
from axon.rpc.memory.network import MemoryTransport, Network
from axon.rpc.messages import Buffer, Request, Response
from axon.testbed.virtual import run

MB = 1_000_000
PI = Address("pi", 8000, "memory")
Handler: TypeAlias = Callable[[Request], Response | Awaitable[Response]]


def echo(request: Request) -> Response:
    return Response(200, {b"x-from": request.peer.encode()}, request.body)


@dataclass
class Served:
    """An app that answers with a function and remembers what it was asked."""

    handler: Handler = echo
    refusal: Response | None = None
    admitted: list[Request] = field(default_factory=list)
    handled: list[Request] = field(default_factory=list)

    def admit(self, request: Request) -> Response | None:
        assert request.body == ()
        self.admitted.append(request)
        return self.refusal

    def handle(self, request: Request) -> Response | Awaitable[Response]:
        self.handled.append(request)
        return self.handler(request)


@dataclass
class Pair:
    """A client host `hub` and a host `pi` that serves an app."""

    network: Network
    client: MemoryTransport
    server: MemoryTransport
    app: Served

    async def ask(self, body: Sequence[Buffer] = (), address: Address = PI) -> Response:
        request = Request(b"POST", b"/f", body=body, streams=True)
        return await self.client.exchange(address, request)

    def start(self, body: Sequence[Buffer] = ()) -> asyncio.Task[Response]:
        return asyncio.create_task(self.ask(body))


def now() -> float:
    return asyncio.get_running_loop().time()


def play(
    scene: Callable[[Pair], Coroutine[Any, Any, Any]],
    handler: Handler = echo,
    *,
    pi: Link | None = None,
    hub: Link | None = None,
    seed: int = 0,
) -> Any:
    """Act out a scene between the two hosts under virtual time."""

    async def main() -> Any:
        network = Network(seed=seed)
        network.set_link("pi", pi or Link())
        network.set_link("hub", hub or Link())
        app = Served(handler)
        pair = Pair(network, network.transport("hub"), network.transport("pi"), app)
        await pair.server.listen(app, PI)
        return await scene(pair)

    return run(main())


def body_of(response: Response) -> bytes:
    assert len(response.body) <= 1
    return b"".join(response.body)


async def read(response: Response) -> bytes:
    assert response.stream is not None
    return b"".join([bytes(piece) async for piece in response.stream])


async def close(stream: AsyncIterator[Buffer] | None) -> None:
    assert stream is not None
    await stream.aclose()  # type: ignore[attr-defined]  # every transport's streams close


async def never(request: Request) -> Response:
    await anyio.sleep_forever()
    raise AssertionError("unreachable")


class Witness:
    """A handler that never answers and notes when it is cancelled."""

    def __init__(self) -> None:
        self.cancelled_at: list[float] = []

    async def __call__(self, request: Request) -> Response:
        try:
            return await never(request)
        except asyncio.CancelledError:
            self.cancelled_at.append(now())
            raise


class Producer:
    """A handler that streams numbered buffers and notes how far it got and when it was closed."""

    def __init__(self, count: int, *, size: int = 10, every_s: float = 0.0) -> None:
        self.produced = 0
        self.closed_at: list[float] = []
        self._count = count
        self._size = size
        self._every_s = every_s

    def __call__(self, request: Request) -> Response:
        return Response(200, {b"x-kind": b"stream"}, stream=self._pieces())

    async def _pieces(self) -> AsyncIterator[Buffer]:
        try:
            for number in range(self._count):
                if self._every_s:
                    await asyncio.sleep(self._every_s)
                self.produced += 1
                yield bytes([number % 256]) * self._size
        finally:
            self.closed_at.append(now())
