"""A streamed answer in memory: an app's buffers, carried one by one to the other host's reader.

The end of the stream, or its breaking off, flies behind the buffers like one more of them, so a
reader never learns of it before the bytes that came first.
"""

from __future__ import annotations

import asyncio
import logging
from collections import deque
from collections.abc import AsyncIterator, Callable, Coroutine
from typing import Any

from axon.errors import ConnectionLost, TooLarge
from axon.rpc.messages import Buffer

log = logging.getLogger("axon.memory")

STREAM_WINDOW = 2
"""How many buffers a producer may be ahead of its consumer, those in flight included."""


class MemoryStream:
    """The receiver's end of a streamed answer; closing it closes the producer.

    `carry` moves a number of bytes over the network, `start` runs a task as part of the app, and
    `ended` is told once when nothing more will pass.
    """

    def __init__(
        self,
        producer: AsyncIterator[Buffer],
        *,
        carry: Callable[[int], Coroutine[Any, Any, None]],
        start: Callable[[Coroutine[Any, Any, None]], asyncio.Task[None]],
        ended: Callable[[], None],
    ) -> None:
        self._producer = producer
        self._carry = carry
        self._ended = ended
        self._flights: deque[tuple[asyncio.Task[None], bytearray | ConnectionLost | None]] = deque()
        self._room = asyncio.Semaphore(STREAM_WINDOW)
        self._moved = asyncio.Event()
        self._failure: ConnectionLost | None = None
        self._closed = False
        self._producing = False
        self._pump = start(self._run_pump())

    def __aiter__(self) -> MemoryStream:
        return self

    async def __anext__(self) -> Buffer:
        while not self._closed:
            if self._flights and self._flights[0][0].done():
                return self._land()
            self._moved.clear()
            try:
                await self._moved.wait()
            except asyncio.CancelledError:
                self.close()
                raise
        failure, self._failure = self._failure, None
        raise failure or StopAsyncIteration

    async def aclose(self) -> None:
        """Stop reading; the producer is told, not waited for."""
        self.close()

    def fail(self, error: ConnectionLost) -> None:
        """End it at once; the reader gets `error`."""
        if not self._closed:
            self._failure = error
            self.close()

    def close(self) -> None:
        if self._closed:
            return
        self._closed = True
        # A task cancelled before its first step never reaches its cleanup, and one past producing
        # is in it; both end by themselves.
        if self._producing:
            self._pump.cancel()
        for flight, _ in self._flights:
            flight.cancel()
        self._moved.set()
        self._ended()

    def _land(self) -> bytearray:
        _, item = self._flights.popleft()
        if isinstance(item, bytearray):
            self._room.release()
            return item
        self.close()
        raise item or StopAsyncIteration

    async def _run_pump(self) -> None:
        try:
            if not self._closed:
                self._producing = True
                await self._produce()
        finally:
            self._producing = False
            await shut(self._producer)

    async def _produce(self) -> None:
        try:
            await self._room.acquire()
            async for piece in self._producer:
                self._launch(bytearray(piece))
                await self._room.acquire()
            self._launch(None)
        except Exception:
            log.exception("the app's stream raised")
            self._launch(ConnectionLost("the stream broke off at its producer"))

    def _launch(self, item: bytearray | ConnectionLost | None) -> None:
        size = len(item) if isinstance(item, bytearray) else 0
        flight = asyncio.create_task(self._carry(size))
        flight.add_done_callback(lambda _: self._moved.set())
        self._flights.append((flight, item))


async def collect(stream: MemoryStream, *, max_bytes: int) -> bytearray:
    """All of an answer that nobody wanted in parts; raises `TooLarge` when it has no end."""
    whole = bytearray()
    async for piece in stream:
        whole += piece
        if len(whole) > max_bytes:
            raise TooLarge(f"the answer has {len(whole)} bytes, this client takes {max_bytes}")
    return whole


async def shut(producer: AsyncIterator[Buffer]) -> None:
    """Close an app's stream, if it is of a kind that closes."""
    aclose = getattr(producer, "aclose", None)
    if aclose is None:
        return
    try:
        await aclose()
    except Exception:
        log.exception("the app's stream raised while closing")
