"""Stacks of vectors, one a row, from numpy or torch: their kind, whether they fit, their order."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, TypeAlias, TypeVar, cast

import numpy as np
from numpy.typing import NDArray

from axon.errors import ConfigurationError

if TYPE_CHECKING:
    import torch

Stack: TypeAlias = "NDArray[Any] | torch.Tensor"
S = TypeVar("S", bound="NDArray[Any] | torch.Tensor")

FEW = 64
"""Columns looked at first for an order of the rows: nearly always enough to tell them apart."""

MANY = 1 << 16
"""Columns looked at in one go at most, for rows that begin alike."""


def check_stack(stack: Stack, *, name: str) -> None:
    """Raises `ConfigurationError` unless this is a stack of at least one row of floats."""
    shape = tuple(getattr(stack, "shape", ()))
    if len(shape) != 2:
        raise ConfigurationError(f"{name} needs a stack of shape (n, d), got shape {shape}")
    if not _holds_floats(stack):
        raise ConfigurationError(f"{name} needs a stack of floats, got {stack.dtype}")
    if shape[0] < 1:
        raise ConfigurationError(f"{name} needs at least 1 update, got 0")


def check_tolerance(n: int, f: int, *, name: str, times: int, plus: int) -> None:
    """Raises `ConfigurationError` unless `n` updates are enough to bear `f` that are anything."""
    if isinstance(f, bool) or not isinstance(f, int | np.integer) or f < 0:
        raise ConfigurationError(f"{name} needs a whole f of at least 0, got {f!r}")
    if n < times * f + plus:
        raise ConfigurationError(
            f"{name} needs at least {times}f+{plus} = {times * f + plus} updates, got {n}",
            hint=f"{n} updates bear f of at most {(n - plus) // times}" if n >= plus else None,
        )


def check_weights(weights: Sequence[float], n: int) -> NDArray[np.float64]:
    """The weights as an array; only their ratios matter."""
    values = np.asarray(weights, dtype=np.float64)
    if values.shape != (n,):
        raise ConfigurationError(f"{n} updates need as many weights, got {values.size}")
    bad = np.flatnonzero(~(np.isfinite(values) & (values >= 0)))
    if bad.size:
        raise ConfigurationError(
            f"weights must be finite and at least 0, got {values[bad[0]]} at {bad[0]}"
        )
    if not values.any():
        raise ConfigurationError(f"at least 1 of {n} weights must be above 0, got none")
    # Brought to at most 1, no sum of them overflows.
    scaled: NDArray[np.float64] = values / values.max()
    return scaled


def weighed(stack: S, weights: Sequence[float] | None) -> tuple[S, NDArray[np.float64] | None]:
    """The rows of a weight above 0 with their weights, or None where all weigh the same."""
    if weights is None:
        return stack, None
    values = check_weights(weights, len(stack))
    counted = np.flatnonzero(values)
    if len(counted) < len(values):
        stack, values = rows_of(stack, counted), values[counted]
    return stack, None if (values == values[0]).all() else values


def rows_of(stack: S, rows: Sequence[int] | NDArray[np.intp]) -> S:
    """A stack of some of the rows."""
    return cast(S, stack[[int(row) for row in rows]])


def as_array(stack: Stack) -> NDArray[Any]:
    """The stack for numpy: without a copy where it is of 32 or 64 bits and in this memory."""
    if isinstance(stack, np.ndarray):
        return stack.astype(np.float32) if stack.dtype == np.float16 else stack
    held = stack.detach()
    if held.element_size() < 4:
        held = held.float()
    array: NDArray[Any] = held.cpu().numpy()
    return array


def like(result: NDArray[Any], stack: S) -> S:
    """The result as the stack is: its kind, its precision and where it lives."""
    if isinstance(stack, np.ndarray):
        return cast(S, result.astype(stack.dtype, copy=False))
    import torch

    return cast(S, torch.from_numpy(result).to(device=stack.device, dtype=stack.dtype))


def widened(stack: S) -> S:
    """In at least 32 bits, for rules that go over the rows several times."""
    if isinstance(stack, np.ndarray):
        return cast(S, as_array(stack))
    held = stack.detach()
    return cast(S, held.float() if held.element_size() < 4 else held)


def narrowed(result: S, stack: S) -> S:
    """In the stack's own precision, after `widened`."""
    if isinstance(result, np.ndarray):
        return cast(S, result.astype(cast("NDArray[Any]", stack).dtype, copy=False))
    return cast(S, result.to(cast("torch.Tensor", stack).dtype))


def whole_rows(stack: Stack, distances: NDArray[np.float64] | None = None) -> NDArray[np.intp]:
    """The rows without NaN or infinity.

    A row at a finite distance from another is one, so that only the others are looked at.
    """
    n = len(stack)
    if distances is None:
        distances = np.full((n, n), np.inf)
    apart = np.where(np.eye(n, dtype=bool), np.inf, distances)
    known: list[bool] = (apart.min(axis=1, initial=np.inf) < np.inf).tolist()
    return np.array([row for row in range(n) if known[row] or is_finite(stack[row])], dtype=np.intp)


def check_whole(whole: Sequence[int] | NDArray[np.intp], n: int, *, name: str) -> None:
    """Raises `ConfigurationError` where no row is left to work with."""
    if not len(whole):
        raise ConfigurationError(
            f"{name} needs at least 1 update without NaN or infinity, got 0 of {n}"
        )


def is_finite(result: Stack) -> bool:
    """Whether every value is a number."""
    if isinstance(result, np.ndarray):
        return bool(np.isfinite(result).all())
    import torch

    # The largest of all shows it in one pass, without a second vector on the device.
    return result.numel() == 0 or bool(torch.linalg.vector_norm(result, torch.inf).isfinite())


def canonical_order(
    stack: Stack, rows: Sequence[int] | NDArray[np.intp] | None = None
) -> NDArray[np.intp]:
    """The rows in an order that depends on what they hold and not on where they stand.

    That of the first columns that tell them apart. Rows that are alike throughout stay as they are.
    """
    group = range(len(stack)) if rows is None else rows
    return np.array(_ordered(stack, [int(row) for row in group], 0), dtype=np.intp)


def _ordered(stack: Stack, group: list[int], column: int) -> list[int]:
    """The group in order, its rows being alike before the column."""
    size, width = stack.shape[1], FEW
    while len(group) > 1 and column < size:
        block = _columns(stack, group, column, min(column + width, size))
        told = (block != block[0]).any(axis=0)
        if told.any():
            return _split(stack, group, block[:, int(told.argmax()) :], column + int(told.argmax()))
        column, width = column + width, min(4 * width, MANY)
    return group


def _split(stack: Stack, group: list[int], block: NDArray[Any], column: int) -> list[int]:
    """In the order of a block of columns; those that it does not tell apart, of what follows."""
    keys: dict[tuple[float, ...], list[int]] = {}
    for row, values in zip(group, block[:, :FEW].tolist(), strict=True):
        keys.setdefault(tuple(values), []).append(row)
    seen = min(block.shape[1], FEW)
    return [row for key in sorted(keys) for row in _ordered(stack, keys[key], column + seen)]


def _columns(stack: Stack, group: list[int], first: int, last: int) -> NDArray[Any]:
    block = np.array(as_array(stack[:, first:last][group]), copy=True)
    # NaN has no order; as infinity it comes last.
    block[np.isnan(block)] = np.inf
    return block


def _holds_floats(stack: Stack) -> bool:
    if isinstance(stack, np.ndarray):
        return bool(np.issubdtype(stack.dtype, np.floating)) and stack.dtype.itemsize <= 8
    is_floating_point = getattr(stack, "is_floating_point", None)
    return is_floating_point is not None and bool(is_floating_point())
