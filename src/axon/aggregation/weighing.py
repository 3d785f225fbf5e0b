"""The coordinate-wise rules with weights, for stacks in any memory: in double, on the CPU.

Values of single precision have bits to spare in double. These hold the number of the row, so that
one network sorts values and says whose they are.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np
from numpy.typing import NDArray

from axon.aggregation.chunked import without_nan
from axon.aggregation.networks import Schedule, schedule
from axon.aggregation.parts import chunk_size, in_parts
from axon.aggregation.stacks import S, as_array, like
from axon.aggregation.wholeness import Watch

Block = NDArray[np.float64]
Rule = Callable[[Block, Block], Block]
"""Of the values of some coordinates in ascending order, and of the weight of each."""

EXACTLY = 1e-12
"""Of the whole weight: nearer to half of it than this is half of it."""

SPARE = (1 << 29) - 1
"""The bits of a double that a value of single precision leaves at 0."""

BEYOND = 2.0**128
"""More than any value of single precision; stands for infinity, which has no bits to spare."""

NOTHING = 2.0**-1000
"""Added to 0, which has no bits to spare either, and lost in every other value."""


def weighted_median(stack: S, weights: Block, watch: Watch | None = None) -> S:
    """In each coordinate the value at which half of the weight is reached."""
    return _by_chunk(stack, weights, _median, watch)


def weighted_trimmed_mean(stack: S, weights: Block, f: int, watch: Watch | None = None) -> S:
    """In each coordinate the weighted mean of all but the f lowest and the f highest values."""
    kept = slice(f, len(weights) - f)
    return _by_chunk(stack, weights, lambda ranks, by: _mean(ranks[kept], by[kept]), watch)


def weighted_mean_around_median(
    stack: S, weights: Block, keep: int, watch: Watch | None = None
) -> S:
    """In each coordinate the weighted mean of the values nearest to the weighted median."""

    def rule(ranks: Block, by: Block) -> Block:
        apart = np.abs(ranks - _median(ranks, by))
        # Stable, and the values ascend: of two equally near the smaller comes first.
        nearest = np.argsort(apart, axis=0, kind="stable")[:keep]
        return _mean(
            np.take_along_axis(ranks, nearest, axis=0), np.take_along_axis(by, nearest, axis=0)
        )

    return _by_chunk(stack, weights, rule, watch)


def _by_chunk(stack: S, weights: Block, rule: Rule, watch: Watch | None) -> S:
    """Some coordinates at a time, the rule is given the sorted values and the weight of each."""
    values = as_array(stack)
    n, size = values.shape
    result = np.empty(size, dtype=values.dtype)
    # Equal values in the order of their weights, so that no sum depends on where a row stands.
    ascending = np.argsort(weights, kind="stable")
    by = weights[ascending]
    plan = schedule(n, tuple(range(n))) if values.dtype == np.float32 else None
    # Without a network several arrays of the chunk's shape, in double, are in use at once.
    width = chunk_size(4 * n if plan is None else plan.scratch, 8)

    def work(begin: int, end: int) -> None:
        sorter = None if plan is None else _Sorter(plan, by, width, any_order=rule is _median)
        with np.errstate(all="ignore"):
            for start in range(begin, end, width):
                chunk = slice(start, min(start + width, end))
                pieces, odd = without_nan([values[row, chunk] for row in ascending])
                if watch is not None:
                    watch.odd.update(int(ascending[place]) for place in odd)
                given = _sorted(pieces, by) if sorter is None else sorter(pieces, odd)
                result[chunk] = rule(*given)

    in_parts(work, size)
    return like(result, stack)


class _Sorter:
    """Sorts values of single precision by a network, in memory used again for the next chunk.

    Equal values stay in the order of the rows, unless any order will do.
    """

    def __init__(self, plan: Schedule, weights: Block, width: int, *, any_order: bool) -> None:
        self.plan = plan
        self.weights = weights
        self.any_order = any_order
        self.rows = np.empty((plan.values + plan.scratch, width))
        self.by = np.empty((plan.values, width))
        self.whose = np.empty((plan.values, width), dtype=np.intp)

    def __call__(self, pieces: list[NDArray[Any]], odd: list[int]) -> tuple[Block, Block]:
        size = len(pieces[0])
        rows = list(self.rows[:, :size])
        for number, (piece, row) in enumerate(zip(pieces, rows, strict=False)):
            np.copyto(row, piece)
            if number in odd:
                np.clip(row, -BEYOND, BEYOND, out=row)
            np.add(row, NOTHING, out=row)
            bits = row.view(np.int64)
            # Of a negative value larger bits mean further down.
            np.bitwise_or(bits, number if self.any_order else bits >> 63 & SPARE ^ number, out=bits)
        for takes_low, left, right, into in self.plan.moves:
            (np.minimum if takes_low else np.maximum)(rows[left], rows[right], out=rows[into])
        ranks = np.stack([rows[self.plan.places[rank]] for rank in range(len(pieces))])
        bits = ranks.view(np.int64)
        whose = np.bitwise_and(bits, SPARE, out=self.whose[:, :size])
        if not self.any_order:
            whose ^= bits >> 63 & SPARE
        bits &= ~SPARE
        if odd:
            ranks[np.abs(ranks) >= BEYOND] *= np.inf
        by = np.take(self.weights, whose, out=self.by[:, :size], mode="clip")
        return ranks, by


def _sorted(pieces: list[NDArray[Any]], weights: Block) -> tuple[Block, Block]:
    # Sorting is quickest along what lies together in memory.
    across = np.stack(pieces, axis=1).astype(np.float64)
    order = np.argsort(across, axis=1, kind="stable")
    ranks = np.take_along_axis(across, order, axis=1)
    return np.ascontiguousarray(ranks.T), weights[order.T]


def _median(ranks: Block, by: Block) -> Block:
    n, size = ranks.shape
    half = math.fsum(by[:, 0].tolist()) / 2 if size else 0.0
    reached = np.zeros(size)
    below, at_half = np.zeros((2, size), dtype=np.int8 if n < 128 else np.int32)
    for weight in by:
        reached += weight
        below += (reached < half * (1 - EXACTLY)).view(np.int8)
        at_half += (reached <= half * (1 + EXACTLY)).view(np.int8)
    column = np.arange(size)
    at_low = ranks[below, column]
    just = at_half > below
    if not just.any():
        return at_low
    at_high = ranks[np.minimum(below + just, n - 1), column]
    return np.where(just, at_low / 2 + at_high / 2, at_low)


def _mean(ranks: Block, by: Block) -> Block:
    mean: Block = (ranks * (by / by.sum(axis=0))).sum(axis=0)
    return mean
