"""Stacks of vectors, one a row, from numpy or torch: their kind, and whether they fit."""

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
    check_count(f, name=name, what="f")
    if n < times * f + plus:
        raise ConfigurationError(
            f"{name} needs at least {times}f+{plus} = {times * f + plus} updates, got {n}",
            hint=f"{n} updates bear f of at most {(n - plus) // times}" if n >= plus else None,
        )


def check_count(count: int, *, name: str, what: str, least: int = 0) -> None:
    """Raises `ConfigurationError` unless this is a whole number of at least so much."""
    if isinstance(count, bool) or not isinstance(count, int | np.integer) or count < least:
        raise ConfigurationError(f"{name} needs a whole {what} of at least {least}, got {count!r}")


def check_above_0(number: float, *, name: str, what: str) -> None:
    """Raises `ConfigurationError` unless this is a number above 0, which infinity is."""
    if not (isinstance(number, int | float | np.integer | np.floating) and number > 0):
        raise ConfigurationError(f"{name} needs a {what} above 0, got {number!r}")


def check_weights(weights: Sequence[float], n: int) -> NDArray[np.float64]:
    """The weights as an array; only their ratios matter."""
    values = as_weights(weights)
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


def as_weights(weights: Sequence[float]) -> NDArray[np.float64]:
    """In double; raises `ConfigurationError` for what is no number, or too large for one."""
    try:
        return np.asarray(weights, dtype=np.float64)
    except OverflowError as error:
        large = next(at for at, weight in enumerate(weights) if _is_too_large(weight))
        raise ConfigurationError(
            f"weights must be finite and at least 0, got one of more than 1.8e308 at {large}"
        ) from error
    except (TypeError, ValueError) as error:
        raise ConfigurationError(f"weights must be numbers, got {weights!r:.80}") from error


def _is_too_large(weight: float) -> bool:
    try:
        return not np.isfinite(float(weight))
    except OverflowError:
        return True


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
        # In this machine's order of bytes, which is not that of every file.
        kind = np.float32 if stack.dtype.itemsize < 4 else stack.dtype.newbyteorder("=")
        return stack.astype(kind, copy=False)
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


def _holds_floats(stack: Stack) -> bool:
    if isinstance(stack, np.ndarray):
        return bool(np.issubdtype(stack.dtype, np.floating)) and stack.dtype.itemsize <= 8
    is_floating_point = getattr(stack, "is_floating_point", None)
    return is_floating_point is not None and bool(is_floating_point())
