"""Raw bytes to a worker's port and back: what a peer that is no client of ours may send."""

from __future__ import annotations

import asyncio
import socket
from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, field

import httptools

from axon.rpc.address import Address


@dataclass
class Answer:
    """One HTTP answer as it came."""

    status: int = 0
    headers: dict[bytes, bytes] = field(default_factory=dict)
    body: bytearray = field(default_factory=bytearray)
    whole: bool = False


class Answers:
    """Reads answers from bytes, strictly; raises httptools' errors when they are not HTTP."""

    def __init__(self) -> None:
        self.all: list[Answer] = []
        self._parser = httptools.HttpResponseParser(self)

    def feed(self, data: bytes) -> None:
        self._parser.feed_data(data)

    @property
    def whole(self) -> list[Answer]:
        """The final ones, without `100 Continue`."""
        return [answer for answer in self.all if answer.whole and answer.status >= 200]

    def on_message_begin(self) -> None:
        self.all.append(Answer())

    def on_header(self, name: bytes, value: bytes) -> None:
        self.all[-1].headers[name.lower()] = value

    def on_headers_complete(self) -> None:
        self.all[-1].status = self._parser.get_status_code()

    def on_body(self, data: bytes) -> None:
        self.all[-1].body += data

    def on_message_complete(self) -> None:
        self.all[-1].whole = True


def request(
    target: bytes = b"/rpc/echo",
    body: bytes = b"[1]",
    *,
    method: bytes = b"POST",
    headers: Mapping[bytes, bytes] | None = None,
) -> bytes:
    """A valid request, unless its parts are not."""
    lines = [b"%b %b HTTP/1.1" % (method, target), b"host: worker"]
    stated = {b"content-length": b"%d" % len(body), **(headers or {})}
    lines += [b"%b: %b" % pair for pair in stated.items()]
    return b"\r\n".join(lines) + b"\r\n\r\n" + body


PING = request(b"/_axon/health", b"", method=b"GET")


@asynccontextmanager
async def connected(address: Address) -> AsyncIterator[Peer]:
    """A raw connection, gone at the end whatever happened on it."""
    reader, writer = await asyncio.open_connection(address.host, address.port)
    try:
        yield Peer(reader, writer)
    finally:
        writer.transport.abort()


class Peer:
    """One raw connection to a worker, on the loop."""

    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.reader = reader
        self.writer = writer
        self.answers = Answers()

    async def send(self, *parts: bytes) -> None:
        for part in parts:
            self.writer.write(part)
            await self.writer.drain()

    async def get(self, count: int = 1, *, timeout_s: float = 10.0) -> list[Answer]:
        """Read until so many whole answers came in all, or the worker closed."""
        async with asyncio.timeout(timeout_s):
            while len(self.answers.whole) < count and (data := await self.reader.read(1 << 16)):
                self.answers.feed(data)
        return self.answers.whole

    async def ended(self, *, timeout_s: float = 10.0) -> list[Answer]:
        """Read until the worker closed; everything it said before."""
        async with asyncio.timeout(timeout_s):
            try:
                while data := await self.reader.read(1 << 16):
                    self.answers.feed(data)
            except ConnectionError:
                return self.answers.whole
        return self.answers.whole


async def ask(address: Address, *parts: bytes) -> Answer:
    """One exchange on a connection of its own."""
    async with connected(address) as peer:
        await peer.send(*parts)
        answers = await peer.get()
    assert answers, "the worker closed without an answer"
    return answers[0]


# Blocking, for tests that attack another process


def knock(port: int, data: bytes = b"", *, timeout_s: float = 10.0) -> socket.socket:
    """A connection with these bytes sent on it."""
    link = socket.create_connection(("127.0.0.1", port), timeout=timeout_s)
    try:
        link.sendall(data)
    except ConnectionError:
        # Refused half way, which is the worker's right; what it said can still be read.
        return link
    return link


def listen_to(link: socket.socket, count: int = 1) -> list[Answer]:
    """The whole answers that come until there are so many, or the worker closes."""
    answers = Answers()
    try:
        while len(answers.whole) < count and (data := link.recv(1 << 16)):
            answers.feed(data)
    except ConnectionError:
        return answers.whole
    return answers.whole


def statuses(port: int, data: bytes, count: int = 1) -> Sequence[int]:
    """What the worker says to these bytes."""
    with knock(port, data) as link:
        return [answer.status for answer in listen_to(link, count)]
