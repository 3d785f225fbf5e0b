"""The engine for stacks in this machine's memory: chunks that a cache holds, cores side by side.

Whether a chunk holds NaN or infinity is seen from sums of it, made when it has come into the cache
anyway; the networks are then given +inf for NaN.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from axon.aggregation import gram
from axon.aggregation.networks import Schedule, schedule
from axon.aggregation.ordering import canonical_order, classes
from axon.aggregation.parts import PART, chunk_size, in_parts, parts
from axon.aggregation.stacks import S, Stack, as_array, like
from axon.aggregation.wholeness import Watch

Array = NDArray[Any]

GROUP = 8
"""Rows added up in the stack's precision before their sum is added to the others in double."""

SHORT = 1 << 13
"""Values whose product with others a linear algebra library does in one thread, in one order."""


def ranked_mean(stack: S, first: int, last: int, watch: Watch | None = None) -> S:
    """In each coordinate the mean of the values of rank first..last-1; NaN counts as +inf."""
    values = as_array(stack)
    wanted = range(first, last)
    plan = schedule(len(values), tuple(wanted))

    def mean(places: dict[int, Array]) -> Array:
        return _added_up([places[rank] for rank in wanted]) * _as(values, 1 / len(wanted))

    def carefully(pieces: list[Array]) -> Array:
        return _mean_of(_sorted(pieces)[first:last])

    return like(_by_network(list(values), plan, (mean, carefully), watch), stack)


def around_median(stack: S, rows: Sequence[int], keep: int, watch: Watch | None = None) -> S:
    """In each coordinate the mean of the `keep` values of these rows nearest to their median.

    NaN counts as +inf, and of two values equally near the smaller is kept.
    """
    values = as_array(stack)
    count = len(rows)
    plan = schedule(count, tuple(range(count)))

    def mean(places: dict[int, Array]) -> Array:
        ranks = [places[rank] for rank in range(count)]
        return _added_up(_nearest(ranks, keep)) * _as(values, 1 / keep)

    def carefully(pieces: list[Array]) -> Array:
        return _mean_of(np.stack(_nearest(list(_sorted(pieces)), keep)))

    chosen = [values[int(row)] for row in rows]
    return like(_by_network(chosen, plan, (mean, carefully), watch), stack)


def squared_distances(stack: Stack) -> NDArray[np.float64]:
    """Between all rows: symmetric, 0 on the diagonal, inf from a row with NaN or infinity.

    Made from the rows in an order of their content, so that moving them moves the distances alone.
    Rows that are alike are measured once.
    """
    values = as_array(stack)
    alike = classes(values)
    kinds = np.empty(len(values), dtype=np.intp)
    for kind, rows in enumerate(alike):
        kinds[rows] = kind
    between = gram.pairwise([values[rows[0]] for rows in alike])
    for kind, rows in enumerate(alike):
        if len(rows) > 1 and np.isinf(np.delete(between[kind], kind)).all():
            between[kind, kind] = 0.0 if np.isfinite(values[rows[0]]).all() else np.inf
    distances = between[np.ix_(kinds, kinds)]
    np.fill_diagonal(distances, 0.0)
    return distances


def inner_products(
    stack: Stack, centre: Stack, rows: Sequence[int] | NDArray[np.intp]
) -> NDArray[np.float64]:
    """Of some rows' differences from a centre, in the order in which the rows are given."""
    values = as_array(stack)
    return gram.inner_products([values[row] for row in rows], as_array(centre))


def combine(stack: S, factors: Sequence[float]) -> S:
    """Σ factor · row; rows of factor 0 are never read."""
    values = as_array(stack)
    # Added in an order of content, so that no bit depends on where a row stands.
    used = canonical_order(values, [row for row, by in enumerate(factors) if by], factors)
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


def lengths(stack: Stack) -> NDArray[np.float64]:
    """Of each row; inf for a row with NaN or infinity, and for no other."""
    values = as_array(stack)
    norms = _squared_norms(list(values))
    faint = gram.FLOOR * values.shape[1]
    long = np.sqrt(norms)
    for row in np.flatnonzero(~((norms >= faint) & (norms < np.inf))):
        long[row] = _scaled_length(values[row])
    return long


class _Network:
    """The rows of memory that a schedule works in, used again for each chunk."""

    def __init__(self, plan: Schedule, kind: np.dtype[Any]) -> None:
        self.plan = plan
        # The values pass through once; what is written is read again.
        self.width = chunk_size(plan.scratch, kind.itemsize)
        self.scratch = np.empty((plan.scratch, self.width), dtype=kind)

    def run(self, values: list[Array]) -> dict[int, Array]:
        """The rows that hold the wanted ranks of values without NaN."""
        rows = [*values, *self.scratch[:, : len(values[0])]]
        for takes_low, left, right, into in self.plan.moves:
            (np.minimum if takes_low else np.maximum)(rows[left], rows[right], out=rows[into])
        return {rank: rows[place] for rank, place in self.plan.places.items()}


Means = tuple[Callable[[dict[int, Array]], Array], Callable[[list[Array]], Array]]
"""From the rows that hold the wanted ranks, and with care from the values."""


def _by_network(rows: list[Array], plan: Schedule, means: Means, watch: Watch | None) -> Array:
    """A vector made chunk by chunk with a network, and with care where that is not finite."""
    size = len(rows[0])
    result = np.empty(size, dtype=rows[0].dtype)
    mean, carefully = means

    def work(begin: int, end: int) -> None:
        network = _Network(plan, result.dtype)
        for chunk in _chunks(begin, end, network.width):
            pieces, odd = without_nan([row[chunk] for row in rows])
            if watch is not None:
                watch.odd.update(odd)
            # Which of two zeros came first must not show: adding 0 makes -0 one of them.
            np.add(mean(network.run(pieces)), 0, out=result[chunk])
            if not np.isfinite(result[chunk]).all():
                result[chunk] = carefully(pieces)

    _quietly(work, size)
    return result


def without_nan(pieces: list[Array]) -> tuple[list[Array], list[int]]:
    """The pieces as they are, but +inf for NaN, and which hold what is no number."""
    kept, odd = [], []
    for place, piece in enumerate(pieces):
        # Of large values the sum overflows, which is told from infinity when it happens.
        if not np.isfinite(np.add.reduce(piece)) and not np.isfinite(piece).all():
            odd.append(place)
            kept.append(np.fmin(piece, _as(piece, np.inf)))
        else:
            kept.append(piece)
    return kept, odd


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


def _sorted(pieces: list[Array]) -> Array:
    wide = np.stack(pieces).astype(np.float64)
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


def _squared_norms(rows: list[Array]) -> NDArray[np.float64]:
    size = len(rows[0])
    sums = np.zeros((len(parts(size)), len(rows)))

    def work(begin: int, end: int) -> None:
        for chunk in _chunks(begin, end, SHORT):
            for place, row in enumerate(rows):
                piece = np.ascontiguousarray(row[chunk])
                # Parts are a whole number of chunks, so each sum has one writer.
                sums[chunk.start // PART, place] += np.dot(piece, piece)

    _quietly(work, size)
    total: NDArray[np.float64] = sums.sum(axis=0)
    return total


def _scaled_length(row: Array) -> float:
    """Of a row whose squares overflow or vanish: brought to at most 1 before they are made."""
    largest = float(np.abs(row).max(initial=0.0))
    if largest == 0 or not np.isfinite(largest):
        return 0.0 if largest == 0 else np.inf
    squares = _squared_norms([row.astype(np.float64) / largest])[0]
    return min(largest * float(np.sqrt(squares)), np.finfo(np.float64).max)


def _chunks(begin: int, end: int, width: int) -> Iterator[slice]:
    for start in range(begin, end, width):
        yield slice(start, min(start + width, end))


def _quietly(work: Callable[[int, int], None], size: int) -> None:
    """In parts, without a warning: what overflows or is no number is dealt with."""

    def quiet(begin: int, end: int) -> None:
        with np.errstate(all="ignore"):
            work(begin, end)

    in_parts(quiet, size)
