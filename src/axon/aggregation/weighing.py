"""The coordinate-wise rules with weights, for stacks in any memory: in double, on the CPU."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
from numpy.typing import NDArray

from axon.aggregation.parts import chunk_size, in_parts
from axon.aggregation.stacks import S, as_array, like

Block = NDArray[np.float64]

EXACTLY = 1e-12
"""Of the whole weight: nearer to half of it than this is half of it."""


def weighted_median(stack: S, weights: Block) -> S:
    """In each coordinate the value at which half of the weight is reached."""
    return _by_chunk(stack, weights, _median)


def weighted_trimmed_mean(stack: S, weights: Block, f: int) -> S:
    """In each coordinate the weighted mean of all but the f lowest and the f highest values."""
    kept = slice(f, len(weights) - f)
    return _by_chunk(stack, weights, lambda ranks, by: _mean(ranks[kept], by[kept]))


def weighted_mean_around_median(stack: S, weights: Block, keep: int) -> S:
    """In each coordinate the weighted mean of the values nearest to the weighted median."""

    def rule(ranks: Block, by: Block) -> Block:
        apart = np.abs(ranks - _median(ranks, by))
        # Stable, and the values ascend: of two equally near the smaller comes first.
        nearest = np.argsort(apart, axis=0, kind="stable")[:keep]
        return _mean(
            np.take_along_axis(ranks, nearest, axis=0), np.take_along_axis(by, nearest, axis=0)
        )

    return _by_chunk(stack, weights, rule)


def _by_chunk(stack: S, weights: Block, rule: Callable[[Block, Block], Block]) -> S:
    """Some coordinates at a time, the rule is given the sorted values and the weight of each."""
    values = as_array(stack)
    n, size = values.shape
    result = np.empty(size, dtype=values.dtype)
    # Equal values in the order of their weights, so that no sum depends on where a row stands.
    ascending = np.argsort(weights, kind="stable")
    by = weights[ascending]
    # Several arrays of the chunk's shape, in double, are in use at once.
    width = chunk_size(4 * n, 8)

    def work(begin: int, end: int) -> None:
        with np.errstate(all="ignore"):
            for start in range(begin, end, width):
                chunk = slice(start, min(start + width, end))
                block = values[:, chunk].astype(np.float64)[ascending]
                result[chunk] = rule(*_sorted(block, by))

    in_parts(work, size)
    return like(result, stack)


def _sorted(block: Block, weights: Block) -> tuple[Block, Block]:
    block[np.isnan(block)] = np.inf
    # Sorting is quickest along what lies together in memory.
    across = np.ascontiguousarray(block.T)
    order = np.argsort(across, axis=1, kind="stable")
    ranks = np.take_along_axis(across, order, axis=1)
    return np.ascontiguousarray(ranks.T), weights[order.T]


def _median(ranks: Block, by: Block) -> Block:
    reached = np.cumsum(by, axis=0)
    whole = reached[-1]
    slack = EXACTLY * whole
    low = (2 * reached >= whole - slack).argmax(axis=0)
    just = np.abs(2 * np.take_along_axis(reached, low[None], axis=0)[0] - whole) <= slack
    high = np.minimum(low + just, len(ranks) - 1)
    at_low = np.take_along_axis(ranks, low[None], axis=0)[0]
    at_high = np.take_along_axis(ranks, high[None], axis=0)[0]
    median: Block = at_low / 2 + at_high / 2
    return median


def _mean(ranks: Block, by: Block) -> Block:
    mean: Block = (ranks * (by / by.sum(axis=0))).sum(axis=0)
    return mean
