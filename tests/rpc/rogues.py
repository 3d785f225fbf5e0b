"""Servers that answer as a test tells them to, and the client's end that meets them."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from typing import Any

from axon.rpc.address import Address
from axon.rpc.http.transport import HttpTransport
from axon.rpc.limits import Limits
from axon.rpc.messages import Request
from tests.rpc.worlds import run

Talk = Callable[[asyncio.StreamReader, asyncio.StreamWriter], Awaitable[None]]
OK = b"HTTP/1.1 200 OK\r\ncontent-length: 2\r\n\r\nok"
ASK = Request(b"POST", b"/x", {}, (b"[]",))
ASK_STREAM = Request(b"POST", b"/x", {}, (b"[]",), streams=True)
HEAD = b"HTTP/1.1 200 OK\r\n"


class Rogue:
    """A server that answers each request with whatever the test says."""

    def __init__(self, talk: Talk) -> None:
        self._talk = talk
        self.opened = 0
        self.asked = 0
        self.address = Address("127.0.0.1", 0)

    async def serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.opened += 1
        try:
            while await _read_request(reader):
                self.asked += 1
                await self._talk(reader, writer)
        except (ConnectionError, asyncio.IncompleteReadError):
            return  # The client left, as it should when it is told nonsense.
        finally:
            writer.transport.abort()


async def _read_request(reader: asyncio.StreamReader) -> bool:
    try:
        head = await reader.readuntil(b"\r\n\r\n")
    except asyncio.IncompleteReadError:
        return False
    await reader.readexactly(int(head.rpartition(b"content-length: ")[2].strip()))
    return True


@asynccontextmanager
async def rogue(talk: Talk) -> AsyncIterator[Rogue]:
    server = Rogue(talk)
    listening = await asyncio.start_server(server.serve, "127.0.0.1", 0)
    server.address = Address("127.0.0.1", listening.sockets[0].getsockname()[1])
    try:
        yield server
    finally:
        listening.close()


def says(*parts: bytes, close: bool = False) -> Talk:
    async def talk(_: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        for part in parts:
            writer.write(part)
            await writer.drain()
            await asyncio.sleep(0)
        if close:
            raise ConnectionResetError

    return talk


def endlessly(first: bytes, part: bytes) -> Talk:
    async def talk(_: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        writer.write(first)
        for _number in range(100_000):
            writer.write(part)
            await writer.drain()

    return talk


def with_rogue(
    talk: Talk, loop: str = "uvloop", **limits: Any
) -> Callable[[Callable[[HttpTransport, Rogue], Awaitable[None]]], None]:
    """Run the decorated coroutine against a rogue server."""

    def decorate(main: Callable[[HttpTransport, Rogue], Awaitable[None]]) -> None:
        async def go() -> None:
            async with rogue(talk) as server:
                transport = HttpTransport(limits=Limits(**limits))
                try:
                    await main(transport, server)
                finally:
                    await transport.close()
                    await asyncio.sleep(0.01)

        run(go, loop=loop)

    return decorate


def connections(transport: HttpTransport) -> int:
    return sum(pool.count for pool in transport._pools.values())
