"""Krum and Multi-Krum: the vectors with the nearest neighbours.

A score sums the squared distances to the nearest others. Both rules bear f rows that hold anything,
NaN and infinity included; a row that is not whole is never selected, and more than f are refused
(`wholeness`). Equal scores are told apart by
scores over all rows, then by what the rows hold, never by where they stand.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from axon.aggregation.engines import average, squared_distances
from axon.aggregation.ordering import canonical_order
from axon.aggregation.stacks import S, Stack, check_count, check_stack, check_tolerance, weighed
from axon.aggregation.wholeness import check_whole, whole_rows
from axon.errors import ConfigurationError

Key = tuple[NDArray[np.float64], ...]
"""What rows are compared by, the most important first."""


def krum(stack: S, *, f: int) -> S:
    """The row of the smallest score: squared distances to its n-f-2 nearest. Needs n ≥ 2f+3.

    The result is one of the rows, whatever f is, so it does not become the mean for f = 0. Weights
    do not apply: nothing is averaged.
    """
    check_stack(stack, name="krum")
    check_tolerance(len(stack), f, name="krum", times=2, plus=3)
    near = Neighbourhood(stack, f, name="krum")
    return average(stack, near.ranked()[:1], [1.0] * len(stack))


def multi_krum(
    stack: S, *, f: int, m: int | None = None, weights: Sequence[float] | None = None
) -> S:
    """The mean of the m rows of the smallest scores, m = n-f-2 unless said. Needs n ≥ 2f+3.

    For f = 0 two rows are still left out. With weights, the weighted mean of the selected: which
    rows these are does not depend on weights, so a lying weight does no more than pull the result
    towards a row that was close to the others anyway. Rows of weight 0 do not count.
    """
    check_stack(stack, name="multi_krum")
    stack, by = weighed(stack, weights)
    n = len(stack)
    check_tolerance(n, f, name="multi_krum", times=2, plus=3)
    count = n - f - 2 if m is None else m
    check_count(count, name="multi_krum", what="m", least=1)
    if count > n - f:
        raise ConfigurationError(f"multi_krum needs m from 1 to n-f = {n - f}, got {m}")
    near = Neighbourhood(stack, f, by, name="multi_krum")
    return average(stack, near.ranked()[:count], [1.0] * n if by is None else by.tolist())


class Neighbourhood:
    """The distances between rows, with each row's neighbours in the order of nearness."""

    def __init__(
        self, stack: Stack, f: int, weights: NDArray[np.float64] | None = None, *, name: str
    ) -> None:
        self.stack = stack
        self.f = f
        self.weights = weights
        distances = squared_distances(stack)
        self.whole = whole_rows(stack, distances)
        check_whole(self.whole, len(stack), f, name=name)
        np.fill_diagonal(distances, np.nan)
        # NaN sorts last: a row is dropped from its own neighbours.
        self.order = np.argsort(distances, axis=1, kind="stable")[:, :-1]
        self.sorted = np.take_along_axis(distances, self.order, axis=1)
        self.keys = (*scores(self.sorted[:, : max(0, len(stack) - f - 2)]), *scores(self.sorted))
        """Scores, and for those that are equal the same over all rows."""

    def ranked(self) -> NDArray[np.intp]:
        """The whole rows by their scores, then by what they hold."""
        keys = [values[self.whole] for values in reversed(self.keys)]
        ranked: NDArray[np.intp] = self.whole[np.lexsort(keys)]
        if np.logical_and.reduce([np.diff(values[ranked]) == 0 for values in self.keys]).any():
            ranked = self.whole[np.lexsort([self.places[self.whole], *keys])]
        return ranked

    def best(self, rows: NDArray[np.intp], key: Key) -> int:
        """The row of the smallest key, given in the order of the rows; ties as in `ranked`."""
        keys = np.array(key)
        for level in range(len(keys)):
            smallest = keys[level] == keys[level].min()
            rows, keys = rows[smallest], keys[:, smallest]
        for values in self.keys:
            rows = rows[values[rows] == values[rows].min()]
        return int(rows[0] if len(rows) == 1 else rows[self.places[rows].argmin()])

    @cached_property
    def places(self) -> NDArray[np.intp]:
        """Where each row comes in an order of content: looked for only where all else is equal."""
        return np.argsort(canonical_order(self.stack, by=self.weights))


def scores(nearest: NDArray[np.float64]) -> Key:
    """Of each row, from its nearest squared distances: how many are infinite, the others' sum."""
    endless = np.isinf(nearest)
    # One after the other: the same distances give the same bits.
    sums = np.cumsum(np.where(endless, 0.0, nearest), axis=1)
    last = sums[:, -1] if sums.shape[1] else np.zeros(len(sums))
    return endless.sum(axis=1).astype(np.float64), last
