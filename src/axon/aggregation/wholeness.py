"""Rows that are not whole, with NaN or infinity in them: how many a rule bears.

One principle for all rules. A rule for f rows that hold anything bears f that are not whole, goes
by the others, and refuses more: its promise says nothing of what would come out. Where no f was
said, it is the most that the rule can bear, fewer than half. The mean bears nothing and shows what
it was given. No rule goes over a stack only to look: distances tell on the way, and so does a
`Watch`.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from axon.aggregation.stacks import Stack
from axon.errors import ConfigurationError


class Watch:
    """Is told by an engine, while it works on a stack, of values that are no numbers."""

    __slots__ = ("odd",)

    def __init__(self) -> None:
        self.odd: set[int | None] = set()

    def tell(self, row: int | None = None) -> None:
        """A value of the row was NaN or infinite, or one of some row."""
        self.odd.add(row)

    def whole_rows(self, stack: Stack) -> NDArray[np.intp]:
        """The rows without NaN or infinity, looked for where an engine did not say which."""
        if None in self.odd:
            return whole_rows(stack)
        return np.array([row for row in range(len(stack)) if row not in self.odd], dtype=np.intp)


def borne(n: int, f: int | None) -> int:
    """f, or the most that n rows allow where none was said."""
    return (n - 1) // 2 if f is None else f


def check_whole(whole: Sequence[int] | NDArray[np.intp], n: int, f: int, *, name: str) -> None:
    """Raises `ConfigurationError` where more than f of n rows are not whole."""
    if n - len(whole) > f:
        raise ConfigurationError(
            f"{name} bears f = {f} updates with NaN or infinity, got {n - len(whole)} of {n}"
        )


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


def is_finite(result: Stack) -> bool:
    """Whether every value is a number."""
    if isinstance(result, np.ndarray):
        return bool(np.isfinite(result).all())
    import torch

    # The largest of all shows it in one pass, without a second vector on the device.
    return result.numel() == 0 or bool(torch.linalg.vector_norm(result, torch.inf).isfinite())
