"""The receiving end of HTTP/1.1: a connection that feeds an app.

A connection runs one request at a time. Peers that send too much, too slowly or not HTTP at all are
told so once and cut off; they cost no more memory than the limits say.
"""

from __future__ import annotations

import asyncio
import logging
from collections import deque
from collections.abc import AsyncIterator, Awaitable
from typing import TYPE_CHECKING, Any

import httptools

from axon.errors import ConnectionLost
from axon.rpc.http.answers import failed, head_of, plain, response_of
from axon.rpc.http.connection import (
    DIRECT_BYTES,
    JOIN_BYTES,
    Connection,
    stated_length,
)
from axon.rpc.http.patience import Patience
from axon.rpc.messages import Buffer, Request, Response, body_size

if TYPE_CHECKING:
    from axon.rpc.http.listener import HttpListener

log = logging.getLogger("axon.http")

_QUEUED = 8
"""Pipelined requests read ahead on one connection before we stop reading."""
_VERSIONS = ("1.1", "1.0")
_NO_UPGRADES = "protocol upgrades are not offered"
_USUAL_METHODS = frozenset((b"GET", b"POST", b"DELETE"))
_LINGER_S = 1.0
_LINGER_BYTES = 16 << 20


class ServerConnection(Connection):
    """One peer's connection, from its first byte to its last answer."""

    def __init__(self, listener: HttpListener) -> None:
        super().__init__(listener.limits)
        self._listener = listener
        self._app = listener.app
        self._url = b""
        self._request: Request | None = None
        self._queue: deque[tuple[Request, bool]] = deque()
        self._task: asyncio.Task[None] | None = None
        self._refusal: Response | None = None
        self._held_back = False
        self._owes_continue = False
        self._reserved = 0
        self.peer = ""
        self.busy = False
        self.served = 0
        self.reading = False
        self._patience = Patience(self._limits, self._loop.time())
        self._turn = 0

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        super().connection_made(transport)
        peername = transport.get_extra_info("peername")
        self.peer = peername[0] if isinstance(peername, tuple) else "local"
        self._listener.opened(self)

    def _new_parser(self) -> Any:
        return httptools.HttpRequestParser(self)

    # Reading a request

    def _discard(self, count: int) -> None:
        self._parser = None  # It may hold what was too long to take.
        self._body_bytes += count
        if self._body_bytes > _LINGER_BYTES:
            # Not a reset: the peer may still be on its way to reading why it was refused.
            self._hold_back()

    def on_message_begin(self) -> None:
        super().on_message_begin()
        self._url = b""
        self._owes_continue = False
        self.reading = True
        self._turn += 1

    def on_url(self, url: bytes) -> None:
        self._url += url
        self._header_bytes += len(url)
        if self._header_bytes > self._limits.max_header_bytes:
            self._on_large_head()

    def on_body(self, data: bytes) -> None:
        if self._discarding:
            return
        super().on_body(data)
        if self._body_bytes <= DIRECT_BYTES:
            return
        if self._body_bytes > self._limits.max_body_bytes:
            self._refuse(plain(413, "body too large"))
        elif self._target is None:
            # A body that never said how long it would be counts as it comes.
            self._reserve(len(data))

    def _reserve(self, size: int) -> None:
        if self._listener.reserve(size):
            self._reserved += size
        else:
            self._refuse(plain(503, "too many large bodies are being received at once"))

    def _on_large_head(self) -> None:
        limit = self._limits.max_header_bytes
        self._refuse(plain(431, f"request headers are over this worker's limit of {limit} bytes"))

    def _on_head(self) -> None:
        if self._discarding:
            return
        request = Request(self._parser.get_method(), self._url, self._headers, peer=self.peer)
        size = stated_length(self._headers)
        refusal = self._judge(request, size)
        if refusal is not None:
            self._refuse(refusal)
        elif size > DIRECT_BYTES:
            self._prepare(size)
        if self._discarding:
            return
        self._request = request
        if b"expect" in self._headers and self._headers[b"expect"].lower() == b"100-continue":
            self._owes_continue = True
            self._invite_body()

    def _prepare(self, size: int) -> None:
        self._reserve(size)
        if self._discarding:
            return
        try:
            self._expect_body(size)
        except (OSError, MemoryError):
            self._refuse(plain(503, f"no memory for a body of {size} bytes"))

    def _judge(self, request: Request, size: int) -> Response | None:
        refusal: Response | None = None
        usual = request.method in _USUAL_METHODS and size <= self._limits.max_body_bytes
        usual = usual and self._parser.get_http_version() == "1.1"
        if not usual or self._parser.should_upgrade():
            refusal = self._judge_form(request, size)
        return refusal or self._app.admit(request)

    def _judge_form(self, request: Request, size: int) -> Response | None:
        """What HTTP allows and we do not do, and what is more than we take."""
        if self._parser.should_upgrade():
            # The parser would hand over the request without its body.
            return plain(501, _NO_UPGRADES)
        version = self._parser.get_http_version()
        if version not in _VERSIONS:
            return plain(505, f"this worker speaks HTTP/1.1, not HTTP/{version}")
        if request.method == b"HEAD":
            return Response(405, {b"allow": b"GET, POST, DELETE"})  # Its answer may have no body.
        if size > self._limits.max_body_bytes:
            limit = self._limits.max_body_bytes
            return plain(413, f"body of {size} bytes is over this worker's limit of {limit}")
        return None

    def _on_whole(self) -> None:
        request, self._request = self._request, None
        self.reading = False
        if self._discarding or request is None or self._transport.is_closing():
            return
        request.body = self._take_body()
        if self._reserved:
            self._release()
        if not self.busy and not self._queue and self._can_write is None:
            self._run(request, self._keep_alive)
            return
        self._queue.append((request, self._keep_alive))
        large = body_size(request.body) > DIRECT_BYTES
        if large or len(self._queue) >= _QUEUED or self._can_write is not None:
            self._hold_back()

    def _hold_back(self) -> None:
        """Read no more for now; what the peer sends waits in its own memory."""
        if not self._held_back and not self._transport.is_closing():
            self._held_back = True
            self._transport.pause_reading()

    def _on_garbage(self, error: Exception) -> None:
        if isinstance(error, httptools.HttpParserCallbackError):
            log.error("request failed in the parser's callback", exc_info=error)
            self._refuse(plain(500, "internal error"))
        elif isinstance(error, httptools.HttpParserUpgrade):
            self._refuse(plain(501, _NO_UPGRADES))
        elif isinstance(error, httptools.HttpParserError):
            self._refuse(plain(400, f"not HTTP: {error}"))
        else:
            raise error

    # Refusing

    def turn_away(self, reason: str) -> None:
        self._refuse(plain(503, reason))

    def _refuse(self, response: Response) -> None:
        """Say no once what was asked before is answered; nothing more is taken from this peer."""
        if self._discarding:
            return
        self._discarding = True
        self._direct = False
        self._target = None
        self._grown = bytearray()
        self._body_bytes = 0
        self._request = None
        self._url = b""
        self._headers = {}
        self.reading = False
        self._release()
        self._refusal = response
        if not self.busy and not self._queue:
            # A refusal in the middle of an answer would be read as part of it.
            self._say_no(response)

    def _say_no(self, response: Response) -> None:
        """Then read on for a moment, so that the answer is not lost to a reset."""
        if self._transport.is_closing():
            return
        size = body_size(response.body)
        self._write_small(head_of(response, size, keep_alive=False), response.body, size)
        if self._transport.can_write_eof():
            self._transport.write_eof()
        self._listener.dismissed(self)
        self._loop.call_later(_LINGER_S, self._hang_up)

    def _hang_up(self) -> None:
        """Close; what a peer has not taken by now it does not want."""
        if self._transport.get_write_buffer_size():
            self.abort()
        else:
            self._transport.close()

    def _release(self) -> None:
        if self._reserved:
            self._listener.release(self._reserved)
            self._reserved = 0

    # Answering

    def _run(self, request: Request, keep_alive: bool) -> None:
        self.busy = True
        try:
            answer = self._app.handle(request)
        except Exception:
            answer = failed()
        if type(answer) is Response and answer.stream is None:
            size = body_size(answer.body)
            if size <= JOIN_BYTES:
                self._write_small(self._head_for(answer, size, keep_alive), answer.body, size)
                self._done(keep_alive)
                return
        self._task = self._loop.create_task(self._answer(answer, keep_alive))

    async def _answer(self, answer: Response | Awaitable[Response], keep_alive: bool) -> None:
        try:
            await self._send(await response_of(answer), keep_alive)
        except ConnectionLost:
            return  # There is nobody left to tell.
        except asyncio.CancelledError:
            # Ours when the peer left, else the app's own: a peer must not wait for it for ever.
            self.abort()
            raise
        except Exception:
            log.exception("an answer failed half sent")
            self.abort()
            return
        self._task = None
        self._done(keep_alive)

    async def _send(self, response: Response, keep_alive: bool) -> None:
        if response.stream is not None:
            await self._send_stream(response, response.stream, keep_alive)
            return
        size = body_size(response.body)
        head = self._head_for(response, size, keep_alive)
        if size <= JOIN_BYTES:
            if not self._transport.is_closing():  # The peer may have left this very moment.
                self._write_small(head, response.body, size)
        else:
            await self._write_large(head, response.body)

    def _head_for(self, response: Response, size: int | None, keep_alive: bool) -> bytes:
        return head_of(response, size, keep_alive=keep_alive and not self._listener.closing)

    async def _send_stream(
        self, response: Response, stream: AsyncIterator[Buffer], keep_alive: bool
    ) -> None:
        head = self._head_for(response, None, keep_alive)
        try:
            await self._write(head)
            async for data in stream:
                size = body_size((data,))
                if not size:
                    continue  # An empty chunk would end the body.
                if size <= JOIN_BYTES:
                    await self._write(b"".join((b"%x\r\n" % size, data, b"\r\n")))
                else:
                    await self._write_large(b"%x\r\n" % size, (data, b"\r\n"))
            await self._write(b"0\r\n\r\n")
        finally:
            close = getattr(stream, "aclose", None)
            if close is not None:
                await close()

    def _done(self, keep_alive: bool) -> None:
        self.served += 1
        self.busy = False
        if not keep_alive or self._listener.closing:
            self._transport.close()
        elif self._queue:
            # Through the loop: a long pipeline of instant answers must not recurse.
            self._loop.call_soon(self._next)
        elif self._refusal is not None:
            self._say_no(self._refusal)
        elif self.reading:
            self._invite_body()
        else:
            self._turn += 1
            self._listener.rested(self)

    def _next(self) -> None:
        """Run the next pipelined request, unless its peer takes no answers."""
        held = self._can_write is not None or self._transport.is_closing()
        if self.busy or held or not self._queue:
            return
        request, keep_alive = self._queue.popleft()
        if not self._queue and self._held_back and not self._discarding:
            self._held_back = False
            self._transport.resume_reading()
        self._run(request, keep_alive)

    def resume_writing(self) -> None:
        super().resume_writing()
        if self._queue:
            self._loop.call_soon(self._next)

    def _invite_body(self) -> None:
        """Tell a peer that asked first to go on, as soon as that cannot fall into an answer."""
        if self._owes_continue and not self.busy and not self._queue:
            self._owes_continue = False
            self._write_small(b"HTTP/1.1 100 Continue\r\n\r\n", (), 0)

    # Ending

    def eof_received(self) -> bool:
        return False

    def connection_lost(self, error: Exception | None) -> None:
        self._queue.clear()
        super().connection_lost(error)
        self._release()
        self._target = None
        if self._task is not None:
            self._task.cancel()
            self._task = None
        self._listener.closed(self)

    def shut(self) -> None:
        """Close politely: at once when idle, after the answer when busy."""
        if not self.busy:
            self._transport.close()

    def overdue(self, now: float) -> str:
        """Why this peer has used up our patience, or nothing."""
        patience = self._patience
        patience.note(self._turn, now)
        waiting = self._transport.get_write_buffer_size()
        slow = patience.with_answer(now, self._written_bytes, waiting)
        if slow or self.busy or self._queue or self._discarding:
            return slow
        if not self.reading:
            return patience.with_idling(now, known=self.served > 0)
        if self._request is None:
            return patience.with_head(now)
        return patience.with_body(now, self._body_bytes)

    def cut(self, reason: str) -> None:
        """End a connection whose peer is overdue, saying why where it can still be heard."""
        if self.busy or self._transport.get_write_buffer_size():
            self.abort()
        elif self.reading:
            self._refuse(plain(408, reason))
        else:
            self._transport.close()
