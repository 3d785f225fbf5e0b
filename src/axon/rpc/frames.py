"""A stream of values on one answer: length-prefixed frames, so that chunking in between is free.

A frame is `u32 length, u8 kind, u8 flags, u16 zero`, then a 16-byte tag if flag 1 is set (signed
streams), then `length` bytes of envelope. A stream ends with a RESULT or an ERROR frame; one that
just stops was cut.
"""

from __future__ import annotations

import struct
from collections.abc import AsyncIterator
from enum import IntEnum
from typing import Protocol

from axon.errors import ConnectionLost, ProtocolError, TooLarge, Unauthorised
from axon.rpc.messages import Buffer, Pieces, body_size

CONTENT_TYPE = b"application/axon-stream"
_HEADER = struct.Struct("<IBBH")
_TAG_BYTES = 16
_TAGGED = 1


class Kind(IntEnum):
    """What a frame carries."""

    ITEM = 0
    PROGRESS = 1
    RESULT = 2
    ERROR = 3


class FrameSeal(Protocol):
    """Signs frames on one side and checks them on the other, in order."""

    def tag(self, frame: Pieces) -> bytes: ...

    def check(self, frame: Pieces, tag: bytes) -> None: ...


def pack(kind: Kind, envelope: Pieces, seal: FrameSeal | None) -> list[Buffer]:
    """One frame, its array memory not copied."""
    header = _HEADER.pack(body_size(envelope), kind, _TAGGED if seal else 0, 0)
    if seal is None:
        return [header, *envelope]
    # The kind is part of what is signed, or an error could be passed off as an item.
    return [header, seal.tag((bytes([kind]), *envelope)), *envelope]


async def unpack(
    stream: AsyncIterator[Buffer], *, max_bytes: int, seal: FrameSeal | None
) -> AsyncIterator[tuple[Kind, bytearray]]:
    """The frames of a stream, up to and including its last one."""
    reader = _Reader(stream)
    while True:
        length, number, flags, zero = _HEADER.unpack(await reader.take(_HEADER.size))
        if zero or flags > _TAGGED or number > Kind.ERROR:
            raise ProtocolError("the stream does not consist of Axon frames")
        if length > max_bytes:
            raise TooLarge(f"a frame of {length} bytes is over the limit of {max_bytes}")
        tag = bytes(await reader.take(_TAG_BYTES)) if flags & _TAGGED else b""
        envelope = await reader.take(length)
        if seal is not None:
            if not tag:
                raise Unauthorised("the stream is not signed")
            seal.check((bytes([number]), envelope), tag)
        kind = Kind(number)
        yield kind, envelope
        if kind in (Kind.RESULT, Kind.ERROR):
            return


class _Reader:
    """Exactly so many bytes at a time, from buffers of any size."""

    def __init__(self, stream: AsyncIterator[Buffer]) -> None:
        self._stream = stream
        self._rest = memoryview(b"")

    async def take(self, size: int) -> bytearray:
        # Grown as bytes arrive: a claimed length alone must not cost memory.
        out = bytearray()
        while len(out) < size:
            if not self._rest:
                try:
                    self._rest = memoryview(await anext(self._stream)).cast("B")
                except StopAsyncIteration:
                    raise ConnectionLost("the stream ended in the middle") from None
            part = self._rest[: size - len(out)]
            out += part
            self._rest = self._rest[len(part) :]
        return out
