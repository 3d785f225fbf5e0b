"""Which engine works on a stack: one signature, three ways to do it.

chunked     in this machine's memory: numpy, or torch on the CPU
kernels     on an NVIDIA GPU, with Triton
plain       whatever else torch knows
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import TYPE_CHECKING, Protocol, cast

import numpy as np
from numpy.typing import NDArray

from axon.aggregation import chunked
from axon.aggregation.stacks import S, Stack
from axon.aggregation.wholeness import Watch

if TYPE_CHECKING:
    import torch


class Engine(Protocol):
    """What the rules need of a machine."""

    def ranked_mean(self, stack: S, first: int, last: int, watch: Watch | None = None) -> S:
        """In each coordinate the mean of the values of rank first..last-1; NaN counts as +inf.

        The watch is told of NaN and infinity anywhere in the stack.
        """

    def around_median(
        self, stack: S, rows: Sequence[int], keep: int, watch: Watch | None = None
    ) -> S:
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


def inner_products(
    stack: S, centre: S, rows: Sequence[int] | NDArray[np.intp]
) -> NDArray[np.float64]:
    """Of some rows' differences from a centre, in double, in the order of the rows given."""
    if isinstance(stack, np.ndarray) or stack.device.type == "cpu":
        return chunked.inner_products(stack, centre, rows)
    from axon.aggregation import plain

    return np.asarray(plain.inner_products(stack, cast("torch.Tensor", centre), list(rows)))


def lengths(stack: Stack) -> NDArray[np.float64]:
    """Of each row; inf for a row with NaN or infinity, and for no other."""
    if isinstance(stack, np.ndarray) or stack.device.type == "cpu":
        return chunked.lengths(stack)
    from axon.aggregation import plain

    return np.asarray(plain.lengths(stack))


def average(stack: S, rows: Sequence[int] | NDArray[np.intp], weights: Sequence[float]) -> S:
    """The mean of some rows, by weight; all others are never read."""
    # Rounded once, in whatever order the rows are.
    total = math.fsum(float(weights[row]) for row in rows)
    factors = [0.0] * len(stack)
    for row in rows:
        factors[row] = float(weights[row]) / total
    return engine_for(stack).combine(stack, factors)
