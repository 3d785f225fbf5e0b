"""The average of many vectors, without a second copy of them in memory."""

from __future__ import annotations

import itertools
import math
import os
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from typing import overload

import numpy as np
from numpy.typing import NDArray

from axon.aggregation.stacks import S, Stack, as_weights, check_stack, check_weights
from axon.values import Vector

BLOCK = 1 << 16
"""Coordinates averaged at a time: their sums stay in a core's cache while every vector passes."""

ENOUGH = 1 << 20
"""Coordinates for which a thread is worth starting; no bit of the mean depends on it."""

GROUP = 8
"""Vectors added up in single precision before their sum is added to the others in double.

Double precision throughout would take twice as long, single throughout lose a few millionths.
"""


def mean(stack: S) -> S:
    """The mean of all rows. It bears nothing: one row that is anything makes it anything."""
    check_stack(stack, name="mean")
    return _mean_of_rows(stack, [1.0] * len(stack))


@overload
def weighted_mean(vectors: S, weights: Sequence[float]) -> S: ...
@overload
def weighted_mean(vectors: Sequence[Vector], weights: Sequence[float]) -> Vector: ...
def weighted_mean(vectors: Stack | Sequence[Vector], weights: Sequence[float]) -> Stack:
    """Σ wᵢ vᵢ / Σ wᵢ, within a millionth of Σ wᵢ |vᵢ| / Σ wᵢ in every coordinate.

    Of vectors, or of the rows of a stack, whose kind and precision the result has. Only the ratios
    of the weights matter, and a vector of weight 0 is not looked at. Sums of vectors are made in
    the order given, one rounding at a time, so that equal arguments give equal bits on every
    machine. Raises `ValueError` where there is nothing that could be averaged. It bears nothing:
    one vector that is anything makes it anything, and so does one weight.
    """
    if not isinstance(vectors, Sequence):
        check_stack(vectors, name="weighted_mean")
        return _mean_of_rows(vectors, weights)
    return _mean_of_vectors(vectors, weights)


def _mean_of_rows(stack: S, weights: Sequence[float]) -> S:
    # Late: the mean of vectors, which every run needs, is had without the engines.
    from axon.aggregation.engines import average

    by = check_weights(weights, len(stack))
    return average(stack, np.flatnonzero(by), by.tolist())


def _mean_of_vectors(vectors: Sequence[Vector], weights: Sequence[float]) -> Vector:
    size = _common_size(vectors)
    factors = _factors(weights, len(vectors))
    # Of the factors as they are used, so that their own rounding does not shift the mean.
    whole = math.fsum(factors.tolist())
    counted = [(vector, by) for vector, by in zip(vectors, factors, strict=True) if by > 0]
    mean = np.empty(size, dtype=np.float32)

    def average(first: int, end: int) -> None:
        sums = _Sums(min(end - first, BLOCK))
        for start in range(first, end, BLOCK):
            block = slice(start, min(start + BLOCK, end))
            total = sums.add_up([(vector[block], by) for vector, by in counted])
            np.divide(total, whole, out=mean[block], casting="same_kind")

    _in_parts(average, size)
    return mean


@dataclass(frozen=True, slots=True)
class WeightedMean:
    """`weighted_mean` as a policy: federated averaging, by the batches behind each update."""

    def __call__(self, vectors: Sequence[Vector], weights: Sequence[float]) -> Vector:
        """The weighted mean."""
        return weighted_mean(vectors, weights)


@dataclass(frozen=True, slots=True)
class Mean:
    """The plain mean: every update counts the same, and the weights are not heeded."""

    def __call__(
        self,
        vectors: Sequence[Vector],
        weights: Sequence[float],  # noqa: ARG002  (part of the seam)
    ) -> Vector:
        """The mean."""
        return weighted_mean(vectors, [1.0] * len(vectors))


def _in_parts(work: Callable[[int, int], None], size: int) -> None:
    """Do the whole range, each core a part of it where there is enough for all."""
    cores = min(os.cpu_count() or 1, size // ENOUGH)
    if cores < 2:
        work(0, size)
        return
    bounds = [size * part // cores for part in range(cores + 1)]
    with ThreadPoolExecutor(cores) as threads:
        for done in [threads.submit(work, *part) for part in itertools.pairwise(bounds)]:
            done.result()


class _Sums:
    """Room for the sums of one block, used again for the next."""

    def __init__(self, size: int) -> None:
        self.total = np.empty(size, dtype=np.float64)
        self.group = np.empty(size, dtype=np.float32)
        self.term = np.empty(size, dtype=np.float32)

    def add_up(self, pieces: Sequence[tuple[Vector, np.float32]]) -> NDArray[np.float64]:
        """Σ factor · piece over the vectors' pieces of one block."""
        size = len(pieces[0][0])
        total, group, term = self.total[:size], self.group[:size], self.term[:size]
        total.fill(0.0)
        for first in range(0, len(pieces), GROUP):
            np.multiply(*pieces[first], out=group)
            for piece, factor in pieces[first + 1 : first + GROUP]:
                np.multiply(piece, factor, out=term)
                np.add(group, term, out=group)
            np.add(total, group, out=total)
        return total


def _common_size(vectors: Sequence[Vector]) -> int:
    if not vectors:
        raise ValueError("a mean needs at least 1 vector, got 0")
    for place, vector in enumerate(vectors):
        if vector.ndim != 1 or vector.shape != vectors[0].shape:
            raise ValueError(
                f"a mean needs flat vectors of one size, got shape {vector.shape} at {place} "
                f"and {vectors[0].shape} at 0"
            )
    return vectors[0].size


def _factors(weights: Sequence[float], vectors: int) -> NDArray[np.float32]:
    """The weights, checked, with the largest brought to 1/8."""
    values = as_weights(weights)
    if values.shape != (vectors,):
        raise ValueError(f"{vectors} vectors need as many weights, got {values.size}")
    bad = np.flatnonzero(~(np.isfinite(values) & (values >= 0)))
    if bad.size:
        raise ValueError(f"weights must be finite and at least 0, got {values[bad[0]]} at {bad[0]}")
    if not values.any():
        raise ValueError(f"at least 1 of {vectors} weights must be above 0, got none")
    # The sum of a group then cannot overflow, and equal weights are exact: 8 is a power of two.
    factors: NDArray[np.float32] = (values / values.max() / GROUP).astype(np.float32)
    return factors
