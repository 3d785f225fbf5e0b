"""Which engine works on a stack: one signature, three ways to do it.

chunked     in this machine's memory: numpy, or torch on the CPU
kernels     on an NVIDIA GPU, with Triton
plain       whatever else torch knows
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Protocol, cast

import numpy as np
from numpy.typing import NDArray

from axon.aggregation import chunked
from axon.aggregation.stacks import S, Stack

if TYPE_CHECKING:
    import torch


class Engine(Protocol):
    """What the rules need of a machine."""

    def ranked_mean(self, stack: S, first: int, last: int) -> S:
        """In each coordinate the mean of the values of rank first..last-1; NaN counts as +inf."""

    def around_median(self, stack: S, rows: Sequence[int], keep: int) -> S:
        """In each coordinate the mean of the `keep` values of these rows nearest their median."""

    def squared_distances(self, stack: Stack) -> Stack:
        """Between all rows, in double, on the CPU; inf from a row with NaN or infinity."""

    def combine(self, stack: S, factors: Sequence[float]) -> S:
        """Σ factor · row; rows of factor 0 are never read."""


def engine_for(stack: Stack) -> Engine:
    """The quickest that can take the stack."""
    if isinstance(stack, np.ndarray) or stack.device.type == "cpu":
        return cast(Engine, chunked)
    # Late: on a machine without a GPU neither is ever needed.
    from axon.aggregation import kernels, plain

    return cast(Engine, kernels if kernels.is_usable(stack) else plain)


def squared_distances(stack: Stack) -> NDArray[np.float64]:
    """Between all rows, as the stack's engine finds them."""
    if stack.shape[1] == 0:
        return np.zeros((len(stack), len(stack)))
    return np.asarray(engine_for(stack).squared_distances(stack), dtype=np.float64)


def squared_norms(stack: Stack, centre: Stack | None = None) -> NDArray[np.float64]:
    """Of each row, or of its difference from a centre; inf for a row with NaN or infinity."""
    if isinstance(stack, np.ndarray) or stack.device.type == "cpu":
        return chunked.squared_norms(stack, centre)
    from axon.aggregation import plain

    return np.asarray(plain.squared_norms(stack, cast("torch.Tensor | None", centre)))


def average(stack: S, rows: Sequence[int] | NDArray[np.intp], weights: Sequence[float]) -> S:
    """The mean of some rows, by weight; all others are never read."""
    total = float(np.sum([weights[row] for row in rows]))
    factors = [0.0] * len(stack)
    for row in rows:
        factors[row] = float(weights[row]) / total
    return engine_for(stack).combine(stack, factors)
