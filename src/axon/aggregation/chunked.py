"""The engine for stacks in this machine's memory: chunks that a cache holds, cores side by side.

Nothing is spent on looking for NaN beforehand: a chunk is done as if there were none, and done
again with care where its result is not finite.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from axon.aggregation.gram import pairwise
from axon.aggregation.networks import Schedule, schedule
from axon.aggregation.parts import PART, chunk_size, in_parts, parts
from axon.aggregation.stacks import S, Stack, as_array, canonical_order, like

Array = NDArray[Any]

GROUP = 8
"""Rows added up in the stack's precision before their sum is added to the others in double."""

SHORT = 1 << 13
"""Values whose product with others a linear algebra library does in one thread, in one order."""


def ranked_mean(stack: S, first: int, last: int) -> S:
    """In each coordinate the mean of the values of rank first..last-1; NaN counts as +inf."""
    values = as_array(stack)
    wanted = range(first, last)
    plan = schedule(len(values), tuple(wanted))

    def mean(network: _Network, chunk: slice) -> Array:
        places = network.run(values[:, chunk])
        return _added_up([places[rank] for rank in wanted]) * _as(values, 1 / len(wanted))

    def carefully(chunk: slice) -> Array:
        return _mean_of(_sorted(values[:, chunk])[first:last])

    return like(_by_network(values, plan, mean, carefully), stack)


def around_median(stack: S, rows: Sequence[int], keep: int) -> S:
    """In each coordinate the mean of the `keep` values of these rows nearest to their median.

    NaN counts as +inf, and of two values equally near the smaller is kept.
    """
    values = as_array(stack)
    chosen = [int(row) for row in rows]
    plan = schedule(len(chosen), tuple(range(len(chosen))))

    def mean(network: _Network, chunk: slice) -> Array:
        places = network.run([values[row, chunk] for row in chosen])
        ranks = [places[rank] for rank in range(len(chosen))]
        return _added_up(_nearest(ranks, keep)) * _as(values, 1 / keep)

    def carefully(chunk: slice) -> Array:
        ranks = list(_sorted(np.stack([values[row, chunk] for row in chosen])))
        return _mean_of(np.stack(_nearest(ranks, keep)))

    return like(_by_network(values, plan, mean, carefully), stack)


def squared_distances(stack: Stack) -> NDArray[np.float64]:
    """Between all rows: symmetric, 0 on the diagonal, inf from a row with NaN or infinity.

    Made from the rows in an order of their content, so that moving them moves the distances alone.
    """
    values = as_array(stack)
    order = canonical_order(values)
    distances = np.empty((len(values), len(values)))
    distances[np.ix_(order, order)] = pairwise([values[row] for row in order])
    return distances


def combine(stack: S, factors: Sequence[float]) -> S:
    """Σ factor · row; rows of factor 0 are never read."""
    values = as_array(stack)
    # Added in an order of content, so that no bit depends on where a row stands.
    used = canonical_order(values, [row for row, factor in enumerate(factors) if factor])
    by = np.array([factors[row] for row in used], dtype=np.float64)
    result = np.zeros(values.shape[1], dtype=values.dtype)

    def work(begin: int, end: int) -> None:
        for chunk in _chunks(begin, end, chunk_size(GROUP, values.itemsize)):
            pieces = [values[row, chunk] for row in used]
            result[chunk] = _summed(pieces, by)
            if not np.isfinite(result[chunk]).all():
                wide = np.stack(pieces).astype(np.float64)
                result[chunk] = (wide * by[:, None]).sum(axis=0)

    if used.size:
        _quietly(work, values.shape[1])
    return like(result, stack)


def squared_norms(stack: Stack, centre: Stack | None = None) -> NDArray[np.float64]:
    """Of each row, or of its difference from a centre; inf for a row with NaN or infinity."""
    values = as_array(stack)
    middle = None if centre is None else as_array(centre)
    norms = _squared_norms(list(values), middle, values.dtype)
    bad = np.flatnonzero(~np.isfinite(norms))
    if bad.size:
        # Squares that overflow in single precision do not in double.
        norms[bad] = _squared_norms([values[row] for row in bad], middle, np.dtype(np.float64))
    return np.where(np.isnan(norms), np.inf, norms)


class _Network:
    """The rows of memory that a schedule works in, used again for each chunk."""

    def __init__(self, plan: Schedule, kind: np.dtype[Any]) -> None:
        self.plan = plan
        # The values pass through once; what is written is read again.
        self.width = chunk_size(plan.scratch, kind.itemsize)
        self.scratch = np.empty((plan.scratch, self.width), dtype=kind)

    def run(self, values: Sequence[Array] | Array) -> dict[int, Array]:
        """The rows that hold the wanted ranks; a NaN spreads to at least one of them."""
        rows = [*values, *self.scratch[:, : len(values[0])]]
        for takes_low, left, right, into in self.plan.moves:
            (np.minimum if takes_low else np.maximum)(rows[left], rows[right], out=rows[into])
        return {rank: rows[place] for rank, place in self.plan.places.items()}


def _by_network(
    values: Array,
    plan: Schedule,
    mean: Callable[[_Network, slice], Array],
    carefully: Callable[[slice], Array],
) -> Array:
    """A vector made chunk by chunk with a network, and with care where that is not finite."""
    result = np.empty(values.shape[1], dtype=values.dtype)

    def work(begin: int, end: int) -> None:
        network = _Network(plan, values.dtype)
        for chunk in _chunks(begin, end, network.width):
            # Which of two zeros came first must not show: adding 0 makes -0 one of them.
            np.add(mean(network, chunk), 0, out=result[chunk])
            if not np.isfinite(result[chunk]).all():
                result[chunk] = carefully(chunk)

    _quietly(work, values.shape[1])
    return result


def _nearest(ranks: list[Array], keep: int) -> list[Array]:
    """Of sorted rows, those nearest the median in each coordinate, written over the lowest.

    They are neighbours in rank: the lowest give way to the next above as long as these are nearer,
    rank i to rank i + keep. The answers only go one way, so each pair is asked by itself.
    """
    count = len(ranks)
    # In double, so that rounding decides between two nearly as near as seldom as can be.
    middle = (ranks[(count - 1) // 2].astype(np.float64) + ranks[count // 2]) / 2
    for low in range(count - keep):
        nearer = ranks[low + keep] - middle < middle - ranks[low]
        np.copyto(ranks[low % keep], ranks[low + keep], where=nearer)
    return ranks[:keep]


def _added_up(rows: list[Array]) -> Array:
    """Two and two, in place, so that the error grows with the logarithm of their number only."""
    while len(rows) > 1:
        pairs = zip(rows[::2], rows[1::2], strict=False)
        odd = rows[len(rows) // 2 * 2 :]
        rows = [np.add(left, right, out=left) for left, right in pairs] + odd
    return rows[0]


def _as(values: Array, number: float) -> Array:
    return np.asarray(number, dtype=values.dtype)


def _sorted(block: Array) -> Array:
    wide = block.astype(np.float64)
    wide[np.isnan(wide)] = np.inf
    wide.sort(axis=0)
    return wide


def _mean_of(block: Array) -> Array:
    """Divided before it is added up: the mean of values near the largest there are is finite."""
    mean: Array = (block / len(block)).sum(axis=0)
    return mean


def _summed(pieces: list[Array], factors: NDArray[np.float64]) -> Array:
    """Σ factor · piece, with one multiplication in all where the factors are the same."""
    alike = bool((factors == factors[0]).all())
    by = factors.astype(pieces[0].dtype)
    terms = pieces if alike else [p * factor for p, factor in zip(pieces, by, strict=True)]
    total = np.zeros(1)
    for first in range(0, len(terms), GROUP):
        group = terms[first].copy()
        for term in terms[first + 1 : first + GROUP]:
            group += term
        total = group if first == 0 else total + group.astype(np.float64)
    if alike:
        total *= by[0]
    return total


def _squared_norms(
    rows: list[Array], centre: Array | None, kind: np.dtype[Any]
) -> NDArray[np.float64]:
    size = len(rows[0])
    sums = np.zeros((len(parts(size)), len(rows)))

    def work(begin: int, end: int) -> None:
        for chunk in _chunks(begin, end, SHORT):
            for place, row in enumerate(rows):
                apart = row[chunk].astype(kind, copy=False)
                if centre is not None:
                    apart = apart - centre[chunk]
                # Parts are a whole number of chunks, so each sum has one writer.
                sums[chunk.start // PART, place] += np.dot(apart, apart)

    _quietly(work, size)
    total: NDArray[np.float64] = sums.sum(axis=0)
    return total


def _chunks(begin: int, end: int, width: int) -> Iterator[slice]:
    for start in range(begin, end, width):
        yield slice(start, min(start + width, end))


def _quietly(work: Callable[[int, int], None], size: int) -> None:
    """In parts, without a warning: what overflows or is no number is dealt with."""

    def quiet(begin: int, end: int) -> None:
        with np.errstate(all="ignore"):
            work(begin, end)

    in_parts(quiet, size)
