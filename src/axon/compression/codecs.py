"""Codecs for updates, and the one table of their names.

What arrives may come from anybody: `decode` takes exactly the fields, types and sizes that its own
`encode` makes and refuses all else. It does not look at the numbers themselves, and NaN comes out
as NaN for whoever judges updates.
"""

from __future__ import annotations

import reprlib
from collections.abc import Mapping
from dataclasses import dataclass
from types import MappingProxyType
from typing import Any

import numpy as np
from numpy.typing import DTypeLike, NDArray

from axon.errors import ConfigurationError
from axon.policies import Codec
from axon.values import Payload, Vector

BLOCK = 4096
"""How many values of a `Half` share a scale: a thousandth of the size goes into scales."""


@dataclass(frozen=True, slots=True)
class Plain:
    """The vector as it is, four bytes a value, neither copied nor changed."""

    def encode(self, parameters: Vector, reference: Vector) -> Payload:  # noqa: ARG002  (part of the seam)
        """The parameters under their name."""
        return {"parameters": parameters}

    def decode(self, payload: Payload, reference: Vector) -> Vector:
        """The parameters, which share the payload's memory and may be read-only."""
        _check_fields(payload, {"parameters": (np.float32, reference.size)})
        return payload["parameters"]


@dataclass(frozen=True, slots=True)
class Half:
    """The change since the reference in half precision: two bytes a value and a thousandth more.

    Each block of 4096 values has a scale that fits its largest change M, so nothing overflows
    however large or small the changes are. A change d comes out within 2⁻¹¹ |d| + 2⁻³⁹ M, and
    the parameter within that and the rounding of single precision.
    """

    def encode(self, parameters: Vector, reference: Vector) -> Payload:
        """The changes in units of their block's scale, and the scales."""
        size = parameters.size
        with np.errstate(over="ignore", invalid="ignore"):
            rows = _rows(size)
            np.subtract(parameters, reference, out=rows.reshape(-1)[:size])
            largest = np.maximum(rows.max(axis=1), -rows.min(axis=1))
            scales = _scales(largest)
            rows /= scales[:, None]
            changes = rows.reshape(-1)[:size].astype(np.float16)
        return {"changes": changes, "scales": scales}

    def decode(self, payload: Payload, reference: Vector) -> Vector:
        """The reference with the changes made."""
        size = reference.size
        fields = {"changes": (np.float16, size), "scales": (np.float32, _blocks(size))}
        _check_fields(payload, fields)
        with np.errstate(over="ignore", invalid="ignore"):
            rows = _rows(size)
            parameters: Vector = rows.reshape(-1)[:size]
            parameters[:] = payload["changes"]
            rows *= payload["scales"][:, None]
            parameters += reference
        return parameters


CODECS: Mapping[str, Codec] = MappingProxyType({"plain": Plain(), "half": Half()})
"""Every codec that both sides of a run know, by the name an order carries."""


def codec(name: str) -> Codec:
    """The codec of that name."""
    if name not in CODECS:
        raise ConfigurationError(f"no codec {name!r}; there are {', '.join(sorted(CODECS))}")
    return CODECS[name]


def _blocks(size: int) -> int:
    return -(-size // BLOCK)


def _rows(size: int) -> Vector:
    """Zeros for that many values, a block a row; the last block's rest changes no maximum."""
    return np.zeros((_blocks(size), BLOCK), dtype=np.float32)


def _scales(largest: Vector) -> Vector:
    """Powers of two, by which single precision divides exactly, that bring these below 2¹⁵.

    Nearer to the largest half-precision number, 65504, rounding could reach infinity; below, less
    of the range would be left for the small changes.
    """
    _, exponents = np.frexp(largest)
    # Smaller powers of two are not normal numbers, and slow or rounded to 0 on some machines.
    scales: Vector = np.ldexp(np.float32(1), np.maximum(exponents - 15, -126))
    return scales


def _check_fields(payload: Payload, fields: Mapping[str, tuple[DTypeLike, int]]) -> None:
    if not isinstance(payload, Mapping) or payload.keys() != fields.keys():
        got = list(payload) if isinstance(payload, Mapping) else payload
        raise ValueError(f"the payload needs the fields {list(fields)}, got {reprlib.repr(got)}")
    for name, (dtype, size) in fields.items():
        value: NDArray[Any] = payload[name]
        if not isinstance(value, np.ndarray):
            raise ValueError(f"{name} must be an array, got {type(value).__name__}")  # noqa: TRY004  (the seam's error)
        if value.dtype != dtype or value.shape != (size,):
            raise ValueError(
                f"{name} must be {size} values of {np.dtype(dtype)}, "
                f"got shape {value.shape} of {value.dtype}"
            )
