"""What both ends of an HTTP/1.1 connection share: reading in place, writing with patience.

Heads are parsed by httptools. A large body with a stated length is not fed through the parser at
all: the socket is read straight into the memory the arrays will live in, so a 2 GB tensor is never
copied and never held twice.
"""

from __future__ import annotations

import asyncio
import mmap
import threading
from abc import ABC, abstractmethod
from contextlib import suppress
from typing import Any

from axon.errors import ConnectionLost
from axon.rpc.limits import Limits
from axon.rpc.messages import Buffer, Headers, Pieces

DIRECT_BYTES = 64 << 10
"""A body longer than this is read straight into its own memory."""
JOIN_BYTES = 64 << 10
"""Below this, one copy and one write beat a vectored write."""
SLICE_BYTES = 1 << 20
"""How much of a large body is handed to the socket at a time."""
_SCRATCH_BYTES = 256 << 10
_MAPPED_BYTES = 1 << 20
_HUGE_AFTER_BYTES = 1 << 20

_local = threading.local()


def _scratch() -> memoryview:
    """One read buffer per thread: a loop hands each read over before it starts the next."""
    view: memoryview | None = getattr(_local, "scratch", None)
    if view is None:
        view = _local.scratch = memoryview(bytearray(_SCRATCH_BYTES))
    return view


def allocate(size: int) -> memoryview:
    """Writable memory for a body; a large one costs nothing until its bytes really arrive.

    Anonymous mappings are page-aligned, zeroed by the kernel as they are touched, and given back
    whole, so a peer that announces gigabytes and sends nothing does not move our memory.
    """
    if size < _MAPPED_BYTES:
        return memoryview(bytearray(size))
    return memoryview(_map_private(size))


def use_huge_pages(body: memoryview) -> None:
    """Let the rest of a mapped body come in pages of megabytes, which fill far faster.

    Not from the start: a few bytes of a body that never comes would cost a whole such page.
    """
    if hasattr(mmap, "MADV_HUGEPAGE") and isinstance(body.obj, mmap.mmap):
        # Kernels built without huge pages refuse; ordinary pages work as well, only slower.
        with suppress(OSError):
            body.obj.madvise(mmap.MADV_HUGEPAGE)


def _map_private(size: int) -> mmap.mmap:
    """Memory of our own; the default, memory to share, costs the kernel far more book-keeping."""
    if not hasattr(mmap, "MAP_PRIVATE"):
        return mmap.mmap(-1, size)  # Windows has no such choice.
    return mmap.mmap(-1, size, flags=mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS)


class Connection(asyncio.BufferedProtocol, ABC):
    """One socket: bytes in to the parser or straight to a body, pieces out with back-pressure."""

    def __init__(self, limits: Limits) -> None:
        self._limits = limits
        self._loop = asyncio.get_running_loop()
        self._transport: asyncio.Transport = None  # type: ignore[assignment]  # set on connection
        self._parser: Any = None
        self._scratch = _scratch()
        self._headers: Headers = {}
        self._header_bytes = 0
        self._in_head = True
        self._heard = False
        self._silent_bytes = 0
        self._grown = bytearray()
        self._body_bytes = 0
        self._target: memoryview | None = None
        self._filled = 0
        self._direct = False
        self._discarding = False
        self._keep_alive = True
        self._can_write: asyncio.Future[None] | None = None
        self._written_bytes = 0
        self.lost = False

    # Reading

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = transport  # type: ignore[assignment]  # streams are asyncio.Transport
        self._transport.set_write_buffer_limits(high=2 * SLICE_BYTES)

    def get_buffer(self, sizehint: int) -> memoryview:  # noqa: ARG002 - asyncio's signature
        if self._direct and self._target is not None:
            return self._target[self._filled :]
        return self._scratch

    def buffer_updated(self, count: int) -> None:
        if self._direct:
            self._fill(count)
            return
        if self._discarding:
            self._discard(count)
            return
        if self._parser is None:
            self._parser = self._new_parser()
        self._heard = False
        try:
            self._parser.feed_data(self._scratch[:count])
        except Exception as error:
            # httptools raises its own errors and wraps those of our callbacks; either way
            # this connection cannot go on, and the subclass knows whom to tell.
            self._on_garbage(error)
            return
        if self._heard:
            self._silent_bytes = 0
        else:
            self._count_silence(count)
        if self._target is not None and self._filled < len(self._target):
            self._direct = True

    def _discard(self, count: int) -> None:
        """What came after we stopped caring; only a server has reason to go on listening."""

    def _fill(self, count: int) -> None:
        """More of a body that is read straight to where it will stay."""
        before = self._filled
        self._body_bytes = self._filled = before + count
        if before < _HUGE_AFTER_BYTES <= self._filled and self._target is not None:
            use_huge_pages(self._target)
        if self._target is not None and self._filled == len(self._target):
            # The parser never saw this body's end; the next message gets a new one.
            self._direct = False
            self._parser = None
            self._on_whole()

    def _count_silence(self, count: int) -> None:
        """Bound what the parser keeps to itself: half a head, a header, a trailer without an end.

        Bytes that completed no head, no message and no part of a body all belong to one of those,
        so a head within the limit is never refused here, however it is cut into reads.
        """
        self._silent_bytes += count
        if self._silent_bytes > self._limits.max_header_bytes:
            self._on_large_head()

    def on_message_begin(self) -> None:
        self._headers = {}
        self._header_bytes = 0
        self._in_head = True
        self._grown = bytearray()
        self._body_bytes = 0
        self._target = None
        self._filled = 0

    def on_header(self, name: bytes, value: bytes) -> None:
        self._header_bytes += len(name) + len(value) + 4
        if self._header_bytes > self._limits.max_header_bytes:
            self._on_large_head()
        elif self._in_head:  # A trailer must not change a head that was judged already.
            name = name.lower()
            before = self._headers.get(name)
            # Joined as RFC 9110 says, so that no two readers differ on which of them counts.
            self._headers[name] = value if before is None else before + b", " + value

    def on_headers_complete(self) -> None:
        self._heard = True
        self._in_head = False
        self._keep_alive = self._parser.should_keep_alive()
        self._on_head()

    def on_body(self, data: bytes) -> None:
        self._heard = True
        self._body_bytes += len(data)
        if self._target is not None:
            end = self._filled + len(data)
            self._target[self._filled : end] = data
            self._filled = end
        else:
            # Joined as they come: a body of one-byte chunks must not cost an object for each.
            self._grown += data

    def on_message_complete(self) -> None:
        self._heard = True
        self._on_whole()

    def _expect_body(self, size: int) -> None:
        """Called from `_on_head` for a body over `DIRECT_BYTES`, so that it lands in place."""
        self._target = allocate(size)

    def _take_body(self) -> Pieces:
        """The received body as one writable piece, and forget it."""
        target, self._target = self._target, None
        if target is not None:
            return (target,)
        grown, self._grown = self._grown, bytearray()
        return (grown,) if grown else ()

    @abstractmethod
    def _new_parser(self) -> Any:
        """An httptools parser that calls back into this object."""

    @abstractmethod
    def _on_head(self) -> None:
        """Headers are complete; may call `_expect_body`."""

    @abstractmethod
    def _on_large_head(self) -> None:
        """A head, or what stands between the parts of a body, is over the limit."""

    @abstractmethod
    def _on_whole(self) -> None:
        """The message is complete; `_take_body` has its body."""

    @abstractmethod
    def _on_garbage(self, error: Exception) -> None:
        """What came is not HTTP, or one of our callbacks failed on it."""

    # Writing

    def pause_writing(self) -> None:
        if self._can_write is None:
            self._can_write = self._loop.create_future()

    def resume_writing(self) -> None:
        waiter, self._can_write = self._can_write, None
        if waiter is not None and not waiter.done():
            waiter.set_result(None)

    def _write_small(self, head: bytes, body: Pieces, size: int) -> None:
        """Head and body in one go; the caller made sure they are small."""
        data = b"".join((head, *body)) if size else head
        self._written_bytes += len(data)
        self._transport.write(data)

    async def _write(self, data: Buffer) -> None:
        """Write one buffer in slices, waiting whenever the socket has enough of them."""
        view = memoryview(data)
        for start in range(0, len(view), SLICE_BYTES):
            if self.lost or self._transport.is_closing():
                raise ConnectionLost("the connection closed while a body was being sent")
            part = view[start : start + SLICE_BYTES]
            self._written_bytes += part.nbytes
            self._transport.write(part)
            if self._can_write is not None:
                await self._can_write

    async def _write_large(self, head: bytes, body: Pieces) -> None:
        await self._write(head)
        for piece in body:
            await self._write(piece)

    # Ending

    def connection_lost(self, error: Exception | None) -> None:  # noqa: ARG002 - asyncio's
        self.lost = True
        self.resume_writing()

    def abort(self) -> None:
        """Drop the connection now; whatever was under way on it is over."""
        self.lost = True
        if self._transport is not None:
            self._transport.abort()
        self.resume_writing()


def stated_length(headers: Headers) -> int:
    """What content-length says; the parser made sure that it is digits, and few that count."""
    stated = headers.get(b"content-length")
    # Zeros in front may be many more than Python reads as a number.
    return int(stated.strip().lstrip(b"0") or b"0") if stated else 0
