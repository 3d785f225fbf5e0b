"""JSON in and out, for curl and browsers: readable, and not exact the way the envelope is."""

from __future__ import annotations

import datetime
import enum
import typing
from base64 import b64encode
from collections import deque
from collections.abc import Callable, Collection, Mapping
from decimal import Decimal
from typing import Any
from uuid import UUID

import msgspec

from axon.errors import BadArguments, ProtocolError
from axon.rpc.messages import Buffer
from axon.rpc.wire import arrays
from axon.rpc.wire.refusals import (
    Stuck,
    each,
    refused,
    steps_by_index,
    steps_by_key,
    steps_by_name,
    steps_in_set,
)
from axon.rpc.wire.schema import field_values, is_named_tuple, is_record, schema_of

_AS_IS = frozenset({type(None), bool, float})
"""What JSON's encoder writes without help; it makes null of numbers that are not finite."""


def to_json(value: object) -> bytes:
    """A value as JSON, with what JSON lacks in its nearest form.

    Arrays and tensors become nested lists; tuples and sets lists; bytes base64; data classes
    objects; enum members their values; dates ISO 8601; Decimal and UUID strings; a complex number
    [real, imaginary]; NaN and infinities null. Raises `CannotTravel`.
    """
    try:
        return msgspec.json.encode(_simple(value, 0))
    except Stuck as stuck:
        raise stuck.explained(value) from stuck.__cause__


def from_json(body: Buffer) -> Any:
    """The value of a JSON text; raises `ProtocolError` when it is none."""
    try:
        return msgspec.json.decode(body)
    except (msgspec.DecodeError, ValueError, RecursionError) as error:
        raise ProtocolError(f"the body is not JSON: {error}") from error


def convert(value: Any, annotation: Any) -> Any:
    """Plain data as an annotation wants it: an object as a dataclass, a list as an array.

    An annotation that gives no rule for data leaves the value as it is, as Python itself would.
    Raises `BadArguments` when the value does not fit.
    """
    try:
        return msgspec.convert(value, annotation, strict=False, dec_hook=_from_plain)
    except msgspec.ValidationError as error:
        raise BadArguments(str(error)) from error
    except TypeError:
        # msgspec refuses some annotations as such, a union of int and array among them.
        return value
    except Exception as error:
        # A data class checks itself when built, and may raise anything.
        raise BadArguments(f"{type(error).__name__}: {error}") from error


def _from_plain(annotation: Any, value: Any) -> Any:
    """What msgspec does not know how to build: arrays, tensors and complex numbers."""
    kind = typing.get_origin(annotation) or annotation
    if isinstance(value, kind):
        return value
    if kind is complex:
        return complex(*value) if isinstance(value, list) else complex(value)
    if arrays.is_array_kind(kind):
        return _array_from_plain(kind, value)
    if arrays.is_tensor_kind(kind):
        # Late, as in every module of the wire: an idle worker has no torch.
        import torch

        return torch.tensor(value)
    return value


def _array_from_plain(kind: Any, value: Any) -> Any:
    # Late, as in every module of the wire: an idle worker has no numpy.
    import numpy as np

    if kind is not np.ndarray:
        return kind(value)
    array = np.asarray(value)
    if array.dtype.hasobject:
        raise ValueError("these items do not make an array of numbers")
    return array


def _simple(value: Any, depth: int) -> object:
    """The value in types that JSON has."""
    kind = type(value)
    if kind in _AS_IS:
        return value
    # Enums, numpy's scalars and named tuples extend built-in types, so the table comes last.
    if isinstance(value, enum.Enum):
        return _simple(value.value, depth)
    if is_record(kind) and not is_named_tuple(kind):
        return _record(value, depth)
    if arrays.is_array_kind(kind):
        return _array(value, depth)
    if arrays.is_tensor_kind(kind):
        return _tensor(value, depth)
    for bases, write in _WRITERS:
        if isinstance(value, bases):
            return write(value, depth)
    raise refused(value)


def _int(value: int, _: int) -> object:
    if -(1 << 63) <= value < 1 << 64:
        return int(value)
    try:
        return msgspec.Raw(str(int(value)).encode())
    except ValueError as error:
        bits = value.bit_length()
        raise Stuck(f"an int of {bits} bits cannot travel as JSON", "send hex(value)") from error


def _str(value: str, _: int) -> object:
    try:
        value.encode()
    except UnicodeEncodeError as error:
        raise Stuck(
            f"a str with a lone surrogate at {error.start} cannot travel",
            "send value.encode('utf-8', 'surrogateescape') as bytes",
        ) from error
    return str.__str__(value)


def _base64(value: Buffer, _: int) -> object:
    return b64encode(value).decode()


def _items(value: Collection[object], depth: int) -> object:
    if set(map(type, value)) <= _AS_IS:
        return list(value)
    return each(_simple, value, value, depth, steps_by_index)


def _members(value: Collection[object], depth: int) -> object:
    return each(_simple, value, value, depth, steps_in_set)


def _object(value: Mapping[Any, object], depth: int) -> object:
    step = steps_by_key(value)
    keys = each(_key, value, value, depth, step)
    return dict(zip(keys, each(_simple, value, value.values(), depth, step), strict=True))


def _key(value: object, depth: int) -> str:
    """JSON has only strings for keys; any other key is the JSON text of its value."""
    simple = _simple(value, depth)
    return simple if isinstance(simple, str) else msgspec.json.encode(simple).decode()


def _record(value: object, depth: int) -> object:
    names = schema_of(type(value)).names
    fields = dict(zip(names, field_values(value), strict=True))
    known = {name: field for name, field in fields.items() if field is not msgspec.UNSET}
    simple = each(_simple, value, known.values(), depth, steps_by_name(tuple(known)))
    told = dict(zip(known, simple, strict=True))
    if not isinstance(value, msgspec.Struct):
        return told
    # A Struct may go by other names in JSON, and say which of its kind it is.
    config = value.__struct_config__
    renamed = dict(zip(value.__struct_fields__, value.__struct_encode_fields__, strict=True))
    tag = {config.tag_field: config.tag} if config.tag_field is not None else {}
    return {**tag, **{renamed[name]: field for name, field in told.items()}}


def _array(value: Any, depth: int) -> object:
    # Late, as in every module of the wire: an idle worker has no numpy.
    import numpy as np

    if isinstance(value, np.dtype):
        return str(value)
    array = value if arrays.is_masked(value) else np.asarray(value)
    if array.dtype.char in "gG":
        array = array.astype(np.float64 if array.dtype.char == "g" else np.complex128)
    if array.dtype.kind == "M":
        array = np.asarray(np.datetime_as_string(array))
    listed = array.tolist()
    return listed if array.dtype.kind in "biuf" else _simple(listed, depth)


def _tensor(value: Any, depth: int) -> object:
    # Late, as in every module of the wire: an idle worker has no torch.
    import torch

    if isinstance(value, torch.dtype):
        return str(value)
    if value.is_meta:
        raise Stuck("a tensor on the meta device has no numbers to send", "make it with real data")
    if value.is_nested:
        return _simple(list(value.unbind()), depth)
    tensor = value.detach().cpu()
    tensor = tensor.dequantize() if tensor.is_quantized else tensor
    tensor = tensor.to_dense() if tensor.layout is not torch.strided else tensor
    if tensor.is_floating_point() and tensor.itemsize < 4:
        tensor = tensor.float()
    return _simple(tensor.tolist(), depth) if tensor.is_complex() else tensor.tolist()


_WRITERS: tuple[tuple[Any, Callable[[Any, int], object]], ...] = (
    (int, _int),
    (str, _str),
    (float, lambda value, _: float.__float__(value)),
    (bytes | bytearray | memoryview, _base64),
    (list | tuple | deque | range, _items),
    (set | frozenset, _members),
    (dict, _object),
    (complex, lambda value, _: [value.real, value.imag]),
    (datetime.datetime | datetime.date | datetime.time, lambda value, _: value.isoformat()),
    (datetime.timedelta | Decimal | UUID, lambda value, _: value),
)
