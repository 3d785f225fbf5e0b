"""One device's link put on a real transport: bytes move as fast as they can and are held back.

    transport = ShapedTransport(HttpTransport(), link, plain_stream(seed, "link", "pi-1"))
    async with worker.serving(port=0, transport=transport): ...

What the in-memory network does to its hosts this does to one end of any transport, by the same
shapers and in the same shares: the head of a request pays the latency and its body follows behind,
paying bandwidth alone; an answer travels whole, a streamed one buffer by buffer. Where both ends
are shaped a message pays both in full, because the second cannot see how the first spread it out.
A request that is refused by its head alone is refused at once.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from dataclasses import replace
from random import Random
from typing import TypeAlias

from axon.rpc.address import Address
from axon.rpc.link import Link, Shaper
from axon.rpc.memory.network import HEAD_BYTES
from axon.rpc.memory.stream import shut
from axon.rpc.messages import (
    App,
    Buffer,
    Listener,
    Pieces,
    Request,
    Response,
    Transport,
    body_size,
)

WINDOW_BYTES = 1 << 20
"""How far a stream's producer may be ahead of its reader, as the buffers of a socket let it."""

Item: TypeAlias = Buffer | Exception
"""A buffer, or what ended the stream."""


class ShapedTransport:
    """`messages.Transport` through one device's link, shared by all it sends and receives."""

    def __init__(self, inner: Transport, link: Link, random: Random) -> None:
        self._inner = inner
        # A stream of chance for each direction, so that traffic one way moves none the other.
        chances = [Random(random.getrandbits(64)) for _ in range(2)]  # noqa: S311  (not secrecy)
        self._up = Shaper(link, chances[0], direction="up")
        self._down = Shaper(link, chances[1], direction="down")

    @property
    def scheme(self) -> str:
        """That of the transport underneath."""
        return self._inner.scheme

    @property
    def link(self) -> Link:
        """What the device is connected by; messages already flying keep their time."""
        return self._up.link

    @link.setter
    def link(self, link: Link) -> None:
        self._up.link = self._down.link = link

    async def exchange(self, address: Address, request: Request) -> Response:
        """Send up the link and wait for what comes down; see `messages.Transport`."""
        await _pass_request(self._up, request.body)
        return await _pass_response(self._down, await self._inner.exchange(address, request))

    async def listen(self, app: App, address: Address) -> Listener:
        """Serve `app` to those who reach us down the link."""
        return await self._inner.listen(_ShapedApp(app, self._up, self._down), address)

    async def host_towards(self, address: Address) -> str:
        """Our own host, as the transport underneath knows it."""
        return await self._inner.host_towards(address)

    async def close(self) -> None:
        """Close the transport underneath."""
        await self._inner.close()


class _ShapedApp:
    """An app at the near end of a link."""

    def __init__(self, app: App, up: Shaper, down: Shaper) -> None:
        self._app = app
        self._up = up
        self._down = down

    def admit(self, request: Request) -> Response | None:
        """Judged when it comes, so that nothing is held for a sender nobody wants."""
        return self._app.admit(request)

    async def handle(self, request: Request) -> Response:
        await _pass_request(self._down, request.body)
        answer = self._app.handle(request)
        response = answer if isinstance(answer, Response) else await answer
        return await _pass_response(self._up, response)


class _ShapedStream:
    """A streamed answer whose buffers are carried one by one, several at a time.

    Its end, or its breaking off, flies behind them like one more.
    """

    def __init__(self, inner: AsyncIterator[Buffer], shaper: Shaper) -> None:
        self._inner = inner
        self._shaper = shaper
        self._flights: asyncio.Queue[asyncio.Task[Item]] = asyncio.Queue()
        self._flying: set[asyncio.Task[Item]] = set()
        self._ahead_bytes = 0
        self._taken = asyncio.Event()
        self._ended = False
        self._pump = asyncio.create_task(self._run_pump())

    def __aiter__(self) -> _ShapedStream:
        return self

    async def __anext__(self) -> Buffer:
        if self._ended:
            raise StopAsyncIteration
        item = await (await self._flights.get())
        if isinstance(item, Exception):
            self._ended = True
            raise item
        self._ahead_bytes -= body_size((item,))
        self._taken.set()
        return item

    async def aclose(self) -> None:
        """Stop reading, free the link, and close the stream underneath."""
        self._ended = True
        self._pump.cancel()
        for flight in tuple(self._flying):
            flight.cancel()
        await asyncio.wait([self._pump])
        await shut(self._inner)

    async def _run_pump(self) -> None:
        last: Exception = StopAsyncIteration()
        try:
            async for piece in self._inner:
                await self._make_room(body_size((piece,)))
                self._launch(piece)
        except Exception as error:
            # Whatever it is, it is the reader's to hear, after the bytes that came first.
            last = error
        self._launch(last)

    async def _make_room(self, size: int) -> None:
        while self._ahead_bytes and self._ahead_bytes + size > WINDOW_BYTES:
            self._taken.clear()
            await self._taken.wait()
        self._ahead_bytes += size

    def _launch(self, item: Item) -> None:
        flight = asyncio.create_task(self._fly(item))
        self._flying.add(flight)
        flight.add_done_callback(self._flying.discard)
        self._flights.put_nowait(flight)

    async def _fly(self, item: Item) -> Item:
        await self._shaper.carry(0 if isinstance(item, Exception) else body_size((item,)))
        return item


async def _pass_request(shaper: Shaper, body: Pieces) -> None:
    await shaper.carry(HEAD_BYTES)
    if size := body_size(body):
        await shaper.transmit(size)


async def _pass_response(shaper: Shaper, response: Response) -> Response:
    """The answer once it has passed; of a streamed one the head has."""
    if response.stream is None:
        await shaper.carry(HEAD_BYTES + body_size(response.body))
        return response
    stream = _ShapedStream(response.stream, shaper)
    try:
        await shaper.carry(HEAD_BYTES)
    except asyncio.CancelledError:
        await stream.aclose()
        raise
    return replace(response, stream=stream)
