"""Values sent over the wire and compared with what arrived."""

from __future__ import annotations

import struct
from typing import Any

from axon.rpc import wire
from axon.rpc.messages import Buffer


def joined(pieces: list[Buffer]) -> bytes:
    return b"".join(pieces)


def travel(value: object, **options: Any) -> Any:
    return wire.decode(joined(wire.encode(value)), **options)


def same(left: object, right: object) -> bool:
    """Equal in type and value all the way down, with NaN equal to itself and -0.0 not to 0.0."""
    if type(left) is not type(right):
        return False
    if isinstance(left, float) and isinstance(right, float):
        return struct.pack("<d", left) == struct.pack("<d", right)
    if isinstance(left, complex) and isinstance(right, complex):
        return same(left.real, right.real) and same(left.imag, right.imag)
    if isinstance(left, dict) and isinstance(right, dict):
        return same(list(left.items()), list(right.items()))
    if isinstance(left, list | tuple) and isinstance(right, list | tuple):
        return len(left) == len(right) and all(map(same, left, right))
    return left == right
