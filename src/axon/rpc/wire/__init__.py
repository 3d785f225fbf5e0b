"""How values travel: one envelope of a small head and raw buffers, exact in type and value.

The envelope, version 1, little endian; all offsets count from the body's start:

       0  3 bytes  "AXN"
       3  1 byte   version, 1
       4  u32      length of the head, H
       8  u32      number of buffers, B
      12  u32      0
      16  B x u64  length of each buffer
          H bytes  the head: the value as msgpack
          then each buffer, after zeros up to the next multiple of 64

The head is msgpack; what msgpack lacks is an extension, listed in `codes`. Arrays, and byte
strings too long for the head, lie in buffers, so that they are used where they arrive instead of
being copied out: an array or memoryview is a view of the body, long bytes and strs are one copy.

What is sent is what arrives, type and value, up to what `writer` says of subclasses and
`arrays` of tensors. Classes go by name and fields; see `types` for who builds what.
"""

from __future__ import annotations

import struct
from collections.abc import Sequence
from typing import Any

import msgspec

from axon.errors import AxonError, CannotTravel, ProtocolError, TooLarge, VersionMismatch
from axon.rpc.messages import Buffer
from axon.rpc.wire.codes import INLINE_BYTES, MAX_DEPTH
from axon.rpc.wire.json_values import convert, from_json, to_json
from axon.rpc.wire.reader import Reader
from axon.rpc.wire.refusals import Stuck
from axon.rpc.wire.types import LOADED, REGISTERED, Types, register
from axon.rpc.wire.writer import ENCODER, SCALARS, Writer, is_plain

__all__ = [
    "CONTENT_TYPE",
    "LOADED",
    "REGISTERED",
    "VERSION",
    "Types",
    "convert",
    "decode",
    "encode",
    "encode_call",
    "from_json",
    "register",
    "to_json",
]

VERSION = 1
CONTENT_TYPE = b"application/axon"

_MAGIC = b"AXN"
_PREFIX = struct.Struct("<3sBIII")
_ALIGNMENT = 64
_FEW = 8
_JOINED_BYTES = 1 << 16
"""Up to here a head is joined to its prefix: one small copy is cheaper than a second write."""

_MALFORMED = (
    msgspec.MsgspecError,
    struct.error,
    ValueError,
    TypeError,
    LookupError,
    ArithmeticError,
)
"""What building a value from the wrong parts raises."""


def encode(value: object, *, pickling: bool = False) -> list[Buffer]:
    """A value as the pieces of a body, in order.

    Contiguous arrays are not copied: their pieces are views, so they must not change before they
    are sent. Raises `CannotTravel` naming the part that has no form here; in a value shaped
    `[args, kwargs]` it is named as an argument.
    """
    try:
        if is_plain(value):
            return _pack(ENCODER.encode(value), ())
        return _written(value, Writer(pickling=pickling, exact=False))
    except (OverflowError, UnicodeEncodeError):
        return _looked_at(value, pickling)
    except Stuck as stuck:
        raise stuck.explained(value) from stuck.__cause__
    except RecursionError as error:
        raise CannotTravel("value: is nested too deep for the stack", hint="flatten it") from error


def _looked_at(value: object, pickling: bool) -> list[Buffer]:
    """Bulk checks trust ints to fit 64 bits and strs to be whole; this value needs a close look."""
    try:
        return _written(value, Writer(pickling=pickling, exact=True))
    except Stuck as stuck:
        raise stuck.explained(value) from stuck.__cause__


def encode_call(
    args: tuple[Any, ...], kwargs: dict[str, Any], *, pickling: bool = False
) -> list[Buffer]:
    """`encode` of `[args, kwargs]`, with a short way for the few plain values most calls have."""
    if len(args) <= _FEW and not kwargs:
        for value in args:
            kind = type(value)
            if kind not in SCALARS and not (kind is str and len(value) <= INLINE_BYTES):
                break
        else:
            try:
                head = ENCODER.encode((args, kwargs))
            except (OverflowError, UnicodeEncodeError):
                return encode([list(args), kwargs], pickling=pickling)
            return [_PREFIX.pack(_MAGIC, VERSION, len(head), 0, 0) + head]
    return encode([list(args), kwargs], pickling=pickling)


def _written(value: object, writer: Writer) -> list[Buffer]:
    head = ENCODER.encode(writer.write(value))
    return _pack(head, writer.buffers)


def _pack(head: bytes, buffers: Sequence[Buffer]) -> list[Buffer]:
    if len(head) >= 1 << 32:
        raise CannotTravel(
            f"value: its head takes {len(head)} bytes", hint="send arrays, not lists"
        )
    prefix = _PREFIX.pack(_MAGIC, VERSION, len(head), len(buffers), 0)
    if not buffers:
        return [prefix + head] if len(head) <= _JOINED_BYTES else [prefix, head]
    lengths = [memoryview(buffer).nbytes for buffer in buffers]
    pieces: list[Buffer] = [prefix + struct.pack(f"<{len(lengths)}Q", *lengths) + head]
    position = len(pieces[0])
    for buffer, length in zip(buffers, lengths, strict=True):
        padding = -position % _ALIGNMENT
        pieces += [bytes(padding), buffer]
        position += padding + length
    return [piece for piece in pieces if len(piece)]


def decode(
    body: Buffer,
    *,
    types: Types = REGISTERED,
    pickling: bool = False,
    max_head_bytes: int = 16 << 20,
    max_depth: int = MAX_DEPTH,
) -> Any:
    """The value of a body; arrays are views of it, writable when it is.

    Raises `ProtocolError` when it is malformed or names a class that `types` does not hold,
    `VersionMismatch` when it is of another version, `TooLarge` when its head is over the limit.
    A head can unfold to some sixty times its length in memory; the limit bounds that.
    """
    head, buffers = _unpack(body, max_head_bytes)
    reader = Reader(buffers, types, pickling, max_depth)
    try:
        value = msgspec.msgpack.decode(head, ext_hook=reader.tagged)
    except AxonError:
        raise
    except RecursionError as error:
        raise ProtocolError("values are nested too deep for the stack") from error
    except _MALFORMED as error:
        raise ProtocolError(f"malformed value: {error}") from error
    if reader.buffers:
        raise ProtocolError(f"{len(reader.buffers)} buffers belong to no value")
    return value


def _unpack(body: Buffer, max_head_bytes: int) -> tuple[memoryview, dict[int, memoryview]]:
    """The head and the buffers, every claimed length checked against the bytes that are there."""
    view = body.cast("B") if isinstance(body, memoryview) else memoryview(body)
    size = len(view)
    if size < _PREFIX.size:
        raise ProtocolError(f"a body of {size} bytes is too short to be an envelope")
    magic, version, head_length, count, reserved = _PREFIX.unpack_from(view)
    if magic != _MAGIC:
        raise ProtocolError(f"a body that starts with {magic!r} is not an envelope")
    if version != VERSION:
        raise VersionMismatch(
            f"the peer writes envelopes of version {version}, this side reads {VERSION}",
            hint="install the same version of axon on both sides",
        )
    if head_length > max_head_bytes:
        raise TooLarge(
            f"a head of {head_length} bytes is over the limit of {max_head_bytes}",
            hint="send numbers as arrays; they do not count towards it",
        )
    # Each buffer is named in the head, so there cannot be more of them than bytes in it.
    if reserved or count > head_length:
        raise ProtocolError(f"not an envelope: {count} buffers for a head of {head_length} bytes")
    start = _PREFIX.size + 8 * count
    end = start + head_length
    if end > size or (end < size and not count):
        raise ProtocolError(f"an envelope of {end} bytes and more came as {size}")
    return view[start:end], _buffers(view, count, end) if count else {}


def _buffers(view: memoryview, count: int, position: int) -> dict[int, memoryview]:
    buffers = {}
    for index, length in enumerate(struct.unpack_from(f"<{count}Q", view, _PREFIX.size)):
        start = position + -position % _ALIGNMENT
        if start + length > len(view) or any(view[position:start]):
            raise ProtocolError(f"a buffer of {length} bytes at {start} does not fit the body")
        position = start + length
        buffers[index] = view[start:position]
    if position != len(view):
        raise ProtocolError(f"{len(view) - position} bytes follow the last buffer")
    return buffers
