"""Values on their way in: extensions become what they were, and nothing else is built.

Whatever a peer may have written, this raises only errors that `wire.decode` translates, allocates
nothing by a claimed length, and never imports or unpickles because the bytes say so.
"""

from __future__ import annotations

import datetime
import struct
from collections.abc import Callable
from decimal import Decimal
from typing import Any
from uuid import UUID

import msgspec

from axon.errors import ProtocolError
from axon.rpc.wire import arrays, codes
from axon.rpc.wire.schema import build_member, build_record
from axon.rpc.wire.types import Types

_CONSTANTS = {"Ellipsis": ..., "NotImplemented": NotImplemented, "UNSET": msgspec.UNSET}


class Reader:
    """One body being read."""

    __slots__ = ("buffers", "depth", "max_depth", "pickling", "types")

    def __init__(
        self, buffers: dict[int, memoryview], types: Types, pickling: bool, max_depth: int
    ) -> None:
        self.buffers = buffers
        """Those that no value has named yet."""
        self.types = types
        self.pickling = pickling
        self.max_depth = max_depth
        self.depth = 0

    def read(self, data: memoryview) -> Any:
        """The value in a piece of msgpack."""
        return msgspec.msgpack.decode(data, ext_hook=self.tagged)

    def tagged(self, code: int, data: memoryview) -> object:
        """The value of one extension."""
        build = _BUILDERS.get(code)
        if build is None:
            raise ProtocolError(f"no value has the extension code {code}")
        if self.depth >= self.max_depth:
            raise ProtocolError(f"values are nested more than {self.max_depth} deep")
        self.depth += 1
        try:
            return build(self, data)
        finally:
            self.depth -= 1

    def buffer(self, index: object) -> memoryview:
        """A buffer by its index, once: naming one twice would multiply what was sent."""
        if type(index) is not int or index not in self.buffers:
            raise ProtocolError(f"buffer {index!r} does not exist, or was named before")
        return self.buffers.pop(index)

    def items(self, data: memoryview, count: int | None = None) -> list[Any]:
        """A payload that is a list, of a known length where `count` says so."""
        items = self.read(data)
        if type(items) is not list or (count is not None and len(items) != count):
            raise ProtocolError(f"an extension holds {type(items).__name__}, not its parts")
        return items


def _tuple(reader: Reader, data: memoryview) -> object:
    return tuple(reader.items(data))


def _set(reader: Reader, data: memoryview) -> object:
    return set(reader.items(data))


def _frozenset(reader: Reader, data: memoryview) -> object:
    return frozenset(reader.items(data))


def _big_int(_: Reader, data: memoryview) -> object:
    if len(data) > codes.BIG_INT_BYTES:
        raise ProtocolError(f"an int of {len(data)} bytes is over {codes.BIG_INT_BYTES}")
    return int.from_bytes(data, "little", signed=True)


def _complex(_: Reader, data: memoryview) -> object:
    return complex(*struct.unpack("<dd", data))


def _zone(offset: object, name: object) -> tuple[datetime.tzinfo | None, datetime.tzinfo | None]:
    """The fixed offset, and the named zone where this machine knows it."""
    if offset is None:
        fixed = None
    elif type(offset) is int:
        fixed = datetime.timezone(datetime.timedelta(microseconds=offset))
    else:
        raise ProtocolError(f"not an offset from UTC: {offset!r}")
    if not isinstance(name, str) or len(name) > 100:
        return fixed, None
    # Late: only values in a named zone need the zone tables.
    from zoneinfo import ZoneInfo, ZoneInfoNotFoundError

    try:
        return fixed, ZoneInfo(name)
    except (ZoneInfoNotFoundError, ValueError, OSError):
        return fixed, None


def _datetime(reader: Reader, data: memoryview) -> object:
    *parts, fold, offset, name = reader.items(data, 10)
    fixed, zone = _zone(offset, name)
    plain = datetime.datetime(*parts, fold=fold)
    there = plain.replace(tzinfo=zone)
    # Zone tables differ between machines; the instant that was sent counts for more than the name.
    if zone is not None and fixed is not None and there.utcoffset() == fixed.utcoffset(None):
        return there
    return plain.replace(tzinfo=fixed)


def _date(reader: Reader, data: memoryview) -> object:
    return datetime.date(*reader.items(data, 3))


def _time(reader: Reader, data: memoryview) -> object:
    hour, minute, second, microsecond, fold, offset, name = reader.items(data, 7)
    fixed, zone = _zone(offset, name)
    return datetime.time(hour, minute, second, microsecond, zone or fixed, fold=fold)


def _timedelta(reader: Reader, data: memoryview) -> object:
    return datetime.timedelta(*reader.items(data, 3))


def _decimal(reader: Reader, data: memoryview) -> object:
    text = reader.read(data)
    if type(text) is not str:
        raise ProtocolError(f"not a decimal number: {text!r}")
    return Decimal(text)


def _uuid(_: Reader, data: memoryview) -> object:
    return UUID(bytes=bytes(data))


def _map(reader: Reader, data: memoryview) -> object:
    keys, values = reader.items(data, 2)
    return dict(zip(keys, values, strict=True))


def _slice(reader: Reader, data: memoryview) -> object:
    return slice(*reader.items(data, 3))


def _range(reader: Reader, data: memoryview) -> object:
    return range(*reader.items(data, 3))


def _constant(reader: Reader, data: memoryview) -> object:
    return _CONSTANTS[reader.read(data)]


def _record(reader: Reader, data: memoryview) -> object:
    module, qualname, fields = reader.items(data, 3)
    return build_record(reader.types.find(module, qualname), fields)


def _enum(reader: Reader, data: memoryview) -> object:
    module, qualname, key = reader.items(data, 3)
    return build_member(reader.types.find(module, qualname), key)


def _bytearray(_: Reader, data: memoryview) -> object:
    return bytearray(data)


def _buffer(reader: Reader, data: memoryview) -> object:
    kind, index = reader.items(data, 2)
    memory = reader.buffer(index)
    if kind == "bytes":
        return bytes(memory)
    if kind == "bytearray":
        return bytearray(memory)
    if kind == "str":
        return str(memory, "utf-8")
    if kind == "memoryview":
        return memory
    raise ProtocolError(f"no value is kept in a buffer as {kind!r}")


def _array(reader: Reader, data: memoryview) -> object:
    dtype, shape, order, index = reader.items(data, 4)
    return arrays.build_array(dtype, shape, order, reader.buffer(index))


def _array_scalar(reader: Reader, data: memoryview) -> object:
    return arrays.build_scalar(*reader.items(data, 2))


def _array_dtype(reader: Reader, data: memoryview) -> object:
    return arrays.read_dtype(reader.read(data))


def _tensor(reader: Reader, data: memoryview) -> object:
    name, shape, index = reader.items(data, 3)
    return arrays.build_tensor(name, shape, reader.buffer(index))


def _tensor_dtype(reader: Reader, data: memoryview) -> object:
    return arrays.build_tensor_dtype(reader.read(data))


def _pickled(reader: Reader, data: memoryview) -> object:
    if not reader.pickling:
        raise ProtocolError(
            "a pickled object arrived, and this side takes none",
            hint="send data classes, or turn pickling on at both ends",
        )
    memory = reader.buffer(reader.read(data))
    # Late, so that a process that never opted in never has pickle at hand here.
    import pickle

    try:
        return pickle.loads(memory)  # noqa: S301 - both sides asked for it
    except Exception as error:
        # Unpickling runs the object's own code, which may raise anything.
        raise ProtocolError(f"a pickled object cannot be read: {error}") from error


_BUILDERS: dict[int, Callable[[Reader, memoryview], object]] = {
    codes.TUPLE: _tuple,
    codes.SET: _set,
    codes.FROZENSET: _frozenset,
    codes.BIG_INT: _big_int,
    codes.COMPLEX: _complex,
    codes.DATETIME: _datetime,
    codes.DATE: _date,
    codes.TIME: _time,
    codes.TIMEDELTA: _timedelta,
    codes.DECIMAL: _decimal,
    codes.UUID: _uuid,
    codes.MAP: _map,
    codes.SLICE: _slice,
    codes.RANGE: _range,
    codes.CONSTANT: _constant,
    codes.RECORD: _record,
    codes.ENUM: _enum,
    codes.BYTEARRAY: _bytearray,
    codes.BUFFER: _buffer,
    codes.ARRAY: _array,
    codes.ARRAY_SCALAR: _array_scalar,
    codes.ARRAY_DTYPE: _array_dtype,
    codes.TENSOR: _tensor,
    codes.TENSOR_DTYPE: _tensor_dtype,
    codes.PICKLED: _pickled,
}
