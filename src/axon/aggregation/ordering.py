"""An order of rows by what they hold, so that no result depends on where a row stands."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from axon.aggregation.stacks import Stack, as_array

FEW = 64
"""Columns looked at first for an order of the rows: nearly always enough to tell them apart."""

MANY = 1 << 16
"""Columns looked at in one go at most, for rows that begin alike."""


def canonical_order(
    stack: Stack,
    rows: Sequence[int] | NDArray[np.intp] | None = None,
    by: Sequence[float] | NDArray[np.float64] | None = None,
) -> NDArray[np.intp]:
    """The rows in an order that depends on what they hold and not on where they stand.

    That of the first columns that tell them apart, -0 before 0. Rows that are alike throughout are
    in the order of a number that each has, or else stay as they are.
    """
    alike = classes(stack, rows)
    if by is not None:
        alike = [sorted(group, key=lambda row: float(by[row])) for group in alike]
    return np.array([row for group in alike for row in group], dtype=np.intp)


def classes(stack: Stack, rows: Sequence[int] | NDArray[np.intp] | None = None) -> list[list[int]]:
    """Rows that are alike throughout together, in an order of content; NaN is as infinity."""
    group = range(len(stack)) if rows is None else rows
    return list(_ordered(stack, [int(row) for row in group], 0))


def _ordered(stack: Stack, group: list[int], column: int) -> Iterator[list[int]]:
    """The group's classes, its rows being alike before the column."""
    size, width = stack.shape[1], FEW
    while len(group) > 1 and column < size:
        first = _first_told(as_array(stack[:, column : column + width]), group)
        if first is not None:
            yield from _split(stack, group, column + first)
            return
        column, width = column + width, min(4 * width, MANY)
    if group:
        yield group


def _first_told(block: NDArray[Any], group: list[int]) -> int | None:
    """The first column in which the bits of two rows of the group differ."""
    told = np.zeros(block.shape[1], dtype=bool)
    example = _bits(block[group[0]])
    for row in group[1:]:
        told |= _bits(block[row]) != example
    return int(told.argmax()) if told.any() else None


def _split(stack: Stack, group: list[int], column: int) -> Iterator[list[int]]:
    """In the order of a few columns; those that these do not tell apart, of what follows."""
    block = _sortable(as_array(stack[:, column : column + FEW][group]))
    keys: dict[tuple[int, ...], list[int]] = {}
    for row, values in zip(group, block.tolist(), strict=True):
        keys.setdefault(tuple(values), []).append(row)
    for key in sorted(keys):
        yield from _ordered(stack, keys[key], column + block.shape[1])


def _bits(values: NDArray[Any]) -> NDArray[Any]:
    held = np.ascontiguousarray(values)
    return held.view(np.int32 if held.itemsize == 4 else np.int64)


def _sortable(block: NDArray[Any]) -> NDArray[Any]:
    """As whole numbers in the order of the values, which tell the two zeros apart."""
    # NaN has no order; as infinity it comes last.
    whole = _bits(np.where(np.isnan(block), np.inf, block).astype(block.dtype))
    # Of a negative number larger bits mean further down.
    return np.where(whole < 0, np.iinfo(whole.dtype).min - whole - 1, whole)
