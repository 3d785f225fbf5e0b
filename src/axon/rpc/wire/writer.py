"""Values on their way out: a tree that msgpack can write, and the buffers it speaks of.

msgpack has no tuples, sets or classes, and writing them as lists and maps would lose what they
were. So whatever is not plain is wrapped in an extension first; whatever is plain is handed over
untouched, checked in bulk, so that long lists of numbers are never walked in Python.

Subclasses of built-in types that are neither enums nor named tuples arrive as the built-in they
extend: an `OrderedDict`, `defaultdict` or `Counter` as a dict, a `torch.Size` as a tuple, a `str`
subclass as a str. A `deque` arrives as a list. Two references to one object arrive as two objects.
"""

# ruff: noqa: ARG001, ARG005 - the handlers share one signature, so that one table can hold them

from __future__ import annotations

import datetime
import enum
import struct
import sys
import weakref
from collections import deque
from collections.abc import Callable, Collection
from decimal import Decimal
from itertools import chain
from typing import Any, TypeAlias
from uuid import UUID

import msgspec
from msgspec.msgpack import Ext

from axon.rpc.messages import Buffer
from axon.rpc.wire import arrays, codes
from axon.rpc.wire.codes import INLINE_BYTES, MAX_DEPTH
from axon.rpc.wire.refusals import (
    Stuck,
    each,
    refused,
    steps_by_index,
    steps_by_key,
    steps_by_name,
    steps_in_set,
    too_deep,
)
from axon.rpc.wire.schema import field_values, is_record, member_key, schema_of
from axon.rpc.wire.types import remember_sent

ENCODER = msgspec.msgpack.Encoder()

SCALARS = frozenset({type(None), bool, int, float})
_SURE_SCALARS = SCALARS - {int}
_KEYS = SCALARS | {str, bytes}
_PLAIN = _KEYS | {list, dict}
_FEW = 8
"""Fewer values than this are sooner looked at one by one than in bulk."""


def is_plain(value: Any, depth: int = 0) -> bool:
    """Whether msgpack writes this just as it is; ints and strs are taken on trust."""
    kind = type(value)
    if kind is list:
        return depth < MAX_DEPTH and _are_plain(value, depth)
    if kind is dict:
        if depth >= MAX_DEPTH or not _KEYS.issuperset(map(type, value)):
            return False
        return _are_plain(value.values(), depth)
    if kind is str or kind is bytes:
        return len(value) <= INLINE_BYTES
    return kind in SCALARS


def _are_plain(values: Collection[Any], depth: int) -> bool:
    if len(values) > _FEW:
        kinds = set(map(type, values))
        if kinds <= SCALARS:
            return True
        if not kinds <= _PLAIN:
            return False
        if len(kinds) == 1 and _is_plain_throughout(kinds, values):
            return True
    # Stops at the first that is not: a list that holds itself twice would double at every level.
    for value in values:  # noqa: SIM110 - a loop costs half of what all() with a generator does
        if not is_plain(value, depth + 1):
            return False
    return True


def _is_plain_throughout(kinds: set[type], values: Collection[Any]) -> bool:
    """The two shapes long lists of one kind mostly have: short strings, or rows of numbers."""
    if list in kinds:
        return set(map(type, chain.from_iterable(values))) <= SCALARS
    return dict not in kinds and max(map(len, values)) <= INLINE_BYTES


class Writer:
    """One value being written. `exact` looks at every int and str, which bulk checks trust."""

    __slots__ = ("buffers", "exact", "pickling", "trusted")

    def __init__(self, *, pickling: bool, exact: bool) -> None:
        self.buffers: list[Buffer] = []
        self.pickling = pickling
        self.exact = exact
        self.trusted = _SURE_SCALARS if exact else SCALARS

    def write(self, value: Any, depth: int = 0) -> object:
        """The value as msgpack data and extensions; raises `Stuck`."""
        kind = type(value)
        if kind in self.trusted:
            return value
        if depth >= MAX_DEPTH and kind not in _KEYS:
            raise too_deep()
        return (_HANDLERS.get(kind) or _handler(kind))(self, value, depth)

    def takes_whole(self, values: Collection[Any]) -> bool:
        """Whether msgpack writes all of them as they are, told without a walk in Python."""
        kinds = set(map(type, values))
        if kinds <= self.trusted:
            return True
        return kinds == {str} and not self.exact and max(map(len, values)) <= INLINE_BYTES

    def tagged(self, code: int, payload: object) -> Ext:
        """An extension whose payload is msgpack again."""
        return Ext(code, ENCODER.encode(payload))

    def buffer(self, piece: Buffer) -> int:
        """Send these bytes after the head; returns the index they are named by."""
        self.buffers.append(piece)
        return len(self.buffers) - 1


Handler: TypeAlias = Callable[[Writer, Any, int], object]


def _int(writer: Writer, value: int, depth: int) -> object:
    if -(1 << 63) <= value < 1 << 64:
        return value
    size = value.bit_length() // 8 + 1
    if size > codes.BIG_INT_BYTES:
        raise Stuck(f"an int of {size} bytes cannot travel", "send it as bytes")
    return Ext(codes.BIG_INT, value.to_bytes(size, "little", signed=True))


def _str(writer: Writer, value: str, depth: int) -> object:
    if len(value) <= INLINE_BYTES and (value.isascii() or not writer.exact):
        return value
    try:
        data = value.encode()
    except UnicodeEncodeError as error:
        raise Stuck(
            f"a str with a lone surrogate at {error.start} cannot travel",
            "send value.encode('utf-8', 'surrogateescape') as bytes",
        ) from error
    if len(value) <= INLINE_BYTES:
        return value
    return writer.tagged(codes.BUFFER, ["str", writer.buffer(data)])


def _bytes(writer: Writer, value: bytes, depth: int) -> object:
    if len(value) <= INLINE_BYTES:
        return value
    return writer.tagged(codes.BUFFER, ["bytes", writer.buffer(value)])


def _bytearray(writer: Writer, value: bytearray, depth: int) -> object:
    if len(value) <= INLINE_BYTES:
        return Ext(codes.BYTEARRAY, bytes(value))
    # A view, so that nobody resizes it between now and the moment it is sent.
    return writer.tagged(codes.BUFFER, ["bytearray", writer.buffer(memoryview(value))])


def _memoryview(writer: Writer, value: memoryview, depth: int) -> object:
    flat = value.cast("B") if value.c_contiguous and value.nbytes else value.tobytes()
    return writer.tagged(codes.BUFFER, ["memoryview", writer.buffer(flat)])


def _list(writer: Writer, value: list[object], depth: int) -> object:
    if writer.takes_whole(value):
        return value
    return each(writer.write, value, value, depth, steps_by_index)


def _dict(writer: Writer, value: dict[Any, object], depth: int) -> object:
    values = each(writer.write, value, value.values(), depth, steps_by_key(value))
    if not writer.exact and set(map(type, value)) <= _KEYS:
        return dict(zip(value, values, strict=True))
    keys = each(writer.write, value, value, depth, steps_by_key(value))
    # A key that writes as itself is plain.
    if all(type(key) in _KEYS and key is before for key, before in zip(keys, value, strict=True)):
        return dict(zip(keys, values, strict=True))
    return writer.tagged(codes.MAP, [keys, values])


def _many(code: int, step: Callable[[int], str]) -> Handler:
    def handler(writer: Writer, value: Collection[Any], depth: int) -> object:
        if writer.takes_whole(value):
            # msgpack writes them all as lists, which here is what the payload is.
            return writer.tagged(code, value)
        return writer.tagged(code, each(writer.write, value, value, depth, step))

    return handler


def _three(code: int) -> Handler:
    def handler(writer: Writer, value: Any, depth: int) -> object:
        parts = (value.start, value.stop, value.step)
        names = ("start", "stop", "step")
        return writer.tagged(code, each(writer.write, value, parts, depth, steps_by_name(names)))

    return handler


def _offset(value: datetime.datetime | datetime.time) -> tuple[int | None, str | None]:
    """Microseconds from UTC, and the zone's IANA name where it has one."""
    zoneinfo = sys.modules.get("zoneinfo")
    named = zoneinfo is not None and isinstance(value.tzinfo, zoneinfo.ZoneInfo)
    # `named` says that it is a ZoneInfo.
    name = value.tzinfo.key if named else None  # type: ignore[union-attr]
    offset = value.utcoffset()
    return None if offset is None else offset // datetime.timedelta(microseconds=1), name


def _datetime(writer: Writer, value: datetime.datetime, depth: int) -> object:
    day = (value.year, value.month, value.day)
    clock = (value.hour, value.minute, value.second, value.microsecond, value.fold)
    return writer.tagged(codes.DATETIME, [*day, *clock, *_offset(value)])


def _date(writer: Writer, value: datetime.date, depth: int) -> object:
    return writer.tagged(codes.DATE, [value.year, value.month, value.day])


def _time(writer: Writer, value: datetime.time, depth: int) -> object:
    clock = (value.hour, value.minute, value.second, value.microsecond, value.fold)
    return writer.tagged(codes.TIME, [*clock, *_offset(value)])


def _timedelta(writer: Writer, value: datetime.timedelta, depth: int) -> object:
    return writer.tagged(codes.TIMEDELTA, [value.days, value.seconds, value.microseconds])


def _complex(writer: Writer, value: complex, depth: int) -> object:
    return Ext(codes.COMPLEX, struct.pack("<dd", value.real, value.imag))


def _decimal(writer: Writer, value: Decimal, depth: int) -> object:
    return writer.tagged(codes.DECIMAL, str(value))


def _uuid(writer: Writer, value: UUID, depth: int) -> object:
    return Ext(codes.UUID, value.bytes)


def _constant(name: str) -> Handler:
    return lambda writer, value, depth: writer.tagged(codes.CONSTANT, name)


def _record(writer: Writer, value: object, depth: int) -> object:
    kind = type(value)
    names = schema_of(kind).names
    fields = each(writer.write, value, field_values(value), depth, steps_by_name(names))
    named = dict(zip(names, fields, strict=True))
    return writer.tagged(codes.RECORD, [kind.__module__, kind.__qualname__, named])


def _enum(writer: Writer, value: enum.Enum, depth: int) -> object:
    kind = type(value)
    key = writer.write(member_key(value), depth)
    return writer.tagged(codes.ENUM, [kind.__module__, kind.__qualname__, key])


def _array(writer: Writer, value: Any, depth: int) -> object:
    import numpy as np

    if isinstance(value, np.dtype):
        return writer.tagged(codes.ARRAY_DTYPE, arrays.describe_dtype(value))
    if isinstance(value, np.generic):
        return writer.tagged(codes.ARRAY_SCALAR, arrays.take_scalar(value))
    *described, memory = arrays.take_array(value)
    return writer.tagged(codes.ARRAY, [*described, writer.buffer(memory)])


def _tensor(writer: Writer, value: Any, depth: int) -> object:
    import torch

    if isinstance(value, torch.dtype):
        return writer.tagged(codes.TENSOR_DTYPE, arrays.tensor_dtype_name(value))
    *described, memory = arrays.take_tensor(value)
    return writer.tagged(codes.TENSOR, [*described, writer.buffer(memory)])


def _other(writer: Writer, value: object, depth: int) -> object:
    """Pickle what has no other form, where that was asked for."""
    if not writer.pickling:
        raise refused(value)
    import pickle

    try:
        data = pickle.dumps(value, protocol=5)
    except Exception as error:
        # Pickling runs the object's own code, which may raise anything.
        raise Stuck(f"{type(value).__name__} cannot be pickled: {error}") from error
    return writer.tagged(codes.PICKLED, writer.buffer(data))


def _as_base(convert: Callable[[Any], object]) -> Handler:
    """A subclass of a built-in, written as the built-in."""
    return lambda writer, value, depth: writer.write(convert(value), depth)


_HANDLERS: dict[type, Handler] = {
    int: _int,
    str: _str,
    bytes: _bytes,
    bytearray: _bytearray,
    memoryview: _memoryview,
    list: _list,
    dict: _dict,
    tuple: _many(codes.TUPLE, steps_by_index),
    set: _many(codes.SET, steps_in_set),
    frozenset: _many(codes.FROZENSET, steps_in_set),
    complex: _complex,
    datetime.datetime: _datetime,
    datetime.date: _date,
    datetime.time: _time,
    datetime.timedelta: _timedelta,
    Decimal: _decimal,
    UUID: _uuid,
    slice: _three(codes.SLICE),
    range: _three(codes.RANGE),
    type(Ellipsis): _constant("Ellipsis"),
    type(NotImplemented): _constant("NotImplemented"),
    type(msgspec.UNSET): _constant("UNSET"),
}

# Each goes through the base's own method: a subclass may have changed what str() or int() say.
_BASES: tuple[tuple[type, Callable[[Any], object]], ...] = (
    (int, int.__int__),
    (float, float.__float__),
    (complex, lambda value: complex(value.real, value.imag)),
    (str, str.__str__),
    (bytes, lambda value: bytes(memoryview(value))),
    (bytearray, lambda value: bytearray(memoryview(value))),
    (list, list),
    (tuple, tuple),
    (dict, dict),
    (set, set),
    (frozenset, frozenset),
    (deque, list),
)

# Weak, so that classes made at run time can go when their maker drops them.
_others: weakref.WeakKeyDictionary[type, Handler] = weakref.WeakKeyDictionary()


def _handler(kind: type) -> Handler:
    """How to write a class that is not in the table, decided once a class."""
    handler = _others.get(kind)
    if handler is None:
        handler = _others[kind] = _choose(kind)
    return handler


def _choose(kind: type) -> Handler:
    # Enums and numpy's scalars extend built-in types, so they come before those.
    if issubclass(kind, enum.Enum):
        remember_sent(kind)
        return _enum
    if arrays.is_array_kind(kind):
        return _array
    if arrays.is_tensor_kind(kind):
        return _tensor
    if is_record(kind):
        remember_sent(kind)
        return _record
    for base, convert in _BASES:
        if issubclass(kind, base):
            return _as_base(convert)
    return _other
