"""The sending end of HTTP/1.1: a connection that carries one exchange at a time."""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Callable
from typing import Any

import httptools

from axon.errors import ConnectionLost, ProtocolError, TooLarge
from axon.rpc.http.connection import DIRECT_BYTES, JOIN_BYTES, Connection, stated_length
from axon.rpc.limits import Limits
from axon.rpc.messages import Request, Response, body_size

_STREAM_HIGH_BYTES = 1 << 20
_STREAM_LOW_BYTES = 256 << 10
_BODILESS = (204, 304)
"""Answers that have no body, whatever length they state."""


class ClientConnection(Connection):
    """A connection to one worker, carrying one exchange at a time."""

    def __init__(self, limits: Limits) -> None:
        super().__init__(limits)
        self._answer: asyncio.Future[Response] | None = None
        self._stream: BodyStream | None = None
        self._status = 0
        self._answered = False
        self._streams = False
        self.ended: asyncio.Future[None] = self._loop.create_future()
        self.reusable = True
        self.idle_since = 0.0

    def _new_parser(self) -> Any:
        return httptools.HttpResponseParser(self)

    async def exchange(self, host: bytes, request: Request) -> Response:
        """Send, and wait for the answer; a wanted stream's comes when its headers have."""
        answer: asyncio.Future[Response] = self._loop.create_future()
        self._answer = answer
        self._streams = request.streams
        body = request.body
        size = body_size(body)
        head = _head(host, request, size)
        try:
            if size <= JOIN_BYTES:
                self._transport.write(b"".join((head, *body)))
                return await answer
            return await self._exchange_large(head, request, answer)
        except asyncio.CancelledError:
            # The only way HTTP/1.1 has to tell the other side that nobody waits any more.
            self.abort()
            raise

    async def _exchange_large(
        self, head: bytes, request: Request, answer: asyncio.Future[Response]
    ) -> Response:
        sender = self._loop.create_task(self._write_large(head, request.body))
        # A refusal may come before everything is sent; then the rest need not be.
        sender.add_done_callback(self._sent)
        try:
            return await answer
        finally:
            if not sender.done():
                self.reusable = False
                sender.cancel()

    def _sent(self, sender: asyncio.Task[None]) -> None:
        if not sender.cancelled() and sender.exception() is not None:
            self._fail(ConnectionLost("the connection closed while the call was being sent"))

    # Reading an answer

    def _on_head(self) -> None:
        if self._answer is None:
            # An answer nobody asked for; the next call must not take it for its own.
            self.reusable = False
            self.abort()
        self._answered = True
        self._status = self._parser.get_status_code()
        self.reusable = self.reusable and self._keep_alive
        if self._status < 200:
            return
        if self._streams and self._chunked():
            self._stream = BodyStream(self)
            self._finish(Response(self._status, self._headers, stream=self._stream))
            return
        size = 0 if self._status in _BODILESS else stated_length(self._headers)
        if size > self._limits.max_body_bytes:
            self._refuse_size(size)
            return
        if size > DIRECT_BYTES:
            self._prepare(size)

    def _prepare(self, size: int) -> None:
        try:
            self._expect_body(size)
        except (OSError, MemoryError):
            self._give_up(TooLarge(f"the answer has {size} bytes, more than there is memory for"))

    def _chunked(self) -> bool:
        return self._headers.get(b"transfer-encoding", b"").lower() == b"chunked"

    def on_body(self, data: bytes) -> None:
        if self._stream is not None:
            self._heard = True
            self._stream.feed(data)
            return
        super().on_body(data)
        if self._body_bytes > self._limits.max_body_bytes:
            self._grown.clear()
            self._refuse_size(self._body_bytes)

    def _refuse_size(self, size: int) -> None:
        limit = self._limits.max_body_bytes
        self._give_up(TooLarge(f"the answer has {size} bytes, this client takes {limit}"))

    def _on_large_head(self) -> None:
        limit = self._limits.max_header_bytes
        self._give_up(TooLarge(f"the answer's headers are over this client's limit of {limit}"))

    def _on_whole(self) -> None:
        if self._status < 200:
            return  # 100 Continue: the answer itself is still to come.
        if self._stream is not None:
            stream, self._stream = self._stream, None
            stream.finish(None)
        else:
            self._finish(Response(self._status, self._headers, self._take_body()))

    def _on_garbage(self, error: Exception) -> None:
        if isinstance(error, httptools.HttpParserUpgrade):
            self._give_up(ProtocolError("the peer wants to switch to another protocol"))
        elif _is_the_peers(error):
            self._give_up(ProtocolError(f"the peer's answer is not HTTP: {error}"))
        else:
            raise error

    def _give_up(self, error: Exception) -> None:
        self._fail(error)
        self.abort()

    def _finish(self, response: Response) -> None:
        answer, self._answer = self._answer, None
        if answer is not None and not answer.done():
            answer.set_result(response)

    def _fail(self, error: Exception) -> None:
        self.reusable = False
        stream, self._stream = self._stream, None
        if stream is not None:
            stream.finish(error)
        answer, self._answer = self._answer, None
        if answer is not None and not answer.done():
            answer.set_exception(error)

    def pause(self) -> None:
        if not self.lost:
            self._transport.pause_reading()

    def resume(self) -> None:
        if not self.lost:
            self._transport.resume_reading()

    def close(self) -> None:
        self.reusable = False
        if self._transport is not None:
            self._transport.close()

    @property
    def closing(self) -> bool:
        return self.lost or self._transport.is_closing()

    def connection_lost(self, error: Exception | None) -> None:
        super().connection_lost(error)
        lost = ConnectionLost("the connection closed before the answer came")
        if not self._answered and self._transport.get_extra_info("ssl_object") is not None:
            lost.hint = "does the worker ask for a client certificate of its own authority?"
        self._fail(lost)
        self.ended.set_result(None)


class BodyStream:
    """The buffers of a streamed answer; reading stops while the consumer is behind."""

    def __init__(self, connection: ClientConnection) -> None:
        self._connection = connection
        self._buffers: deque[bytes] = deque()
        self._held_bytes = 0
        self._paused = False
        self._ended = False
        self._error: Exception | None = None
        self._waiter: asyncio.Future[None] | None = None
        self._on_end: Callable[[], None] | None = None

    def feed(self, data: bytes) -> None:
        self._buffers.append(data)
        self._held_bytes += len(data)
        if self._held_bytes > _STREAM_HIGH_BYTES and not self._paused:
            self._paused = True
            self._connection.pause()
        self._wake()

    def finish(self, error: Exception | None) -> None:
        self._ended = True
        self._error = error
        self._wake()
        if self._paused:
            # The connection is free for the next call, whenever these buffers are taken.
            self._paused = False
            self._connection.resume()
        if self._on_end is not None:
            self._on_end()

    def when_ended(self, callback: Callable[[], None]) -> None:
        """Call back once the last buffer came; a short stream ends before anyone can ask."""
        if self._ended:
            callback()
        else:
            self._on_end = callback

    def _wake(self) -> None:
        waiter, self._waiter = self._waiter, None
        if waiter is not None and not waiter.done():
            waiter.set_result(None)

    def __aiter__(self) -> BodyStream:
        return self

    async def __anext__(self) -> bytes:
        while not self._buffers:
            if self._error is not None:
                raise self._error
            if self._ended:
                raise StopAsyncIteration
            self._waiter = asyncio.get_running_loop().create_future()
            await self._waiter
        data = self._buffers.popleft()
        self._held_bytes -= len(data)
        if self._paused and self._held_bytes < _STREAM_LOW_BYTES:
            self._paused = False
            self._connection.resume()
        return data

    async def aclose(self) -> None:
        """Stop listening; an unfinished stream takes its connection with it."""
        self._buffers.clear()
        if not self._ended:
            self._connection.abort()


def _is_the_peers(error: Exception) -> bool:
    """Whether what was received is at fault, and not what we made of it."""
    return isinstance(error, httptools.HttpParserError) and not isinstance(
        error, httptools.HttpParserCallbackError
    )


def _head(host: bytes, request: Request, size: int) -> bytes:
    parts = [request.method, b" ", request.target, b" HTTP/1.1\r\nhost: ", host]
    for name, value in request.headers.items():
        parts += (b"\r\n", name, b": ", value)
    parts.append(b"\r\ncontent-length: %d\r\n\r\n" % size)
    return b"".join(parts)
