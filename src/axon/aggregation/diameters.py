"""Minimum-diameter averaging: the mean of the n-f rows that lie closest together."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from axon.aggregation.cover import find, lightest
from axon.aggregation.engines import average, squared_distances
from axon.aggregation.ordering import canonical_order
from axon.aggregation.stacks import S, check_stack, check_tolerance, weighed
from axon.aggregation.wholeness import check_whole, whole_rows

FAR = 1e300
"""Stands for a distance whose square overflows: sums of it still do not."""


def mda(stack: S, *, f: int, weights: Sequence[float] | None = None) -> S:
    """The mean of the n-f rows of the least diameter, the largest distance between two of them.

    Needs n ≥ 2f+1, and is the mean for f = 0. Bears f rows that hold anything, NaN and infinity
    included, and refuses more than f that are not whole. Of sets of one diameter that of the least
    sum of squared distances is taken, then by what the rows hold. With weights, their weighted
    mean: which rows these are does not depend on weights, so a lying weight pulls the result
    towards a row within that diameter of all the others, no further. Rows of weight 0 do not count.

    Which set it is, is a hard problem: the search is exact as long as `cover.SEARCHED` steps are
    enough for each diameter tried, and then gives the least diameter for which it found a set of
    n-f rows, at most twice the least there is. The choice among sets of one diameter ends after
    `cover.PATIENCE` steps likewise. Measured on one core: milliseconds for 51 rows with f = 25, up
    to 2 s for 101 rows whose distances were made for this, and 1 to 2 s for 201 and 301 honest ones
    with f = 40 and 20.
    """
    check_stack(stack, name="mda")
    stack, by = weighed(stack, weights)
    n = len(stack)
    check_tolerance(n, f, name="mda", times=2, plus=1)
    distances = squared_distances(stack)
    whole = whole_rows(stack, distances)
    check_whole(whole, n, f, name="mda")
    if len(whole) > n - f:
        whole = canonical_order(stack, whole, by)
        inside = np.minimum(distances[np.ix_(whole, whole)], FAR)
        whole = whole[closest(inside, n - f)]
    return average(stack, whole, [1.0] * n if by is None else by.tolist())


def closest(distances: NDArray[np.float64], count: int) -> NDArray[np.intp]:
    """Which `count` rows have the least diameter, of those the least sum, of those the first.

    A set with no two rows further apart than some distance is what remains when every longer pair
    has lost one row or both: the rows to leave out cover these pairs. The least such distance is
    searched for among those there are, then the best cover for it. It is at most the diameter of
    the nearest to some row, and not less than half of that.
    """
    spare = len(distances) - count
    ball = np.argsort(distances, axis=1, kind="stable")[:, :count]
    widths = [distances[np.ix_(rows, rows)].max(initial=0.0) for rows in ball]
    start = int(np.argmin(widths))
    known = sum(1 << int(row) for row in set(range(len(distances))) - set(ball[start].tolist()))
    lengths = np.unique(distances[np.triu_indices(len(distances), 1)])
    low, high = 0, int(np.searchsorted(lengths, widths[start]))
    while low < high:
        middle = (low + high) // 2
        cover = find(_longer(distances, lengths[middle]), spare)
        if cover is None:
            low = middle + 1
        else:
            high, known = middle, cover
    if not lengths.size:
        return np.arange(count)
    left_out = lightest(_longer(distances, lengths[high]), distances, spare, known)
    return np.setdiff1d(np.arange(len(distances)), left_out)


def _longer(distances: NDArray[np.float64], length: float) -> list[int]:
    """For each row the rows further from it than the length, as the bits of a number."""
    packed = np.packbits(distances > length, axis=1, bitorder="little")
    return [int.from_bytes(row.tobytes(), "little") for row in packed]
