"""Squared distances between rows from one product of matrices, without losing those that are small.

|x - y|² = |x|² + |y|² - 2 x·y loses everything where x and y are large and close together. So the
product is made of differences from one of the rows, chosen among those that most others are near
to. Rows that still lie close together but far from it, such as attackers that send nearly the same,
are measured again from one of their own, and those whose squares overflow or vanish in double.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from axon.aggregation.parts import PART, in_parts, parts

Array = NDArray[Any]
Matrix = NDArray[np.float64]

DEEP = 256
"""Coordinates added up in the rows' own precision; sums of these are added in double."""

ONE_THREAD = 1 << 18
"""Multiplications up to which a linear algebra library keeps to the thread that calls it."""

WIDE = 1 << 14
"""Coordinates of which the differences are made at a time."""

CLOSE = 1 / 32
"""Of the squared distances from the centre: a pair closer than this has lost too much."""

PROBES, PROBE = 16, 16
"""Places looked at to choose the centre, and coordinates at each."""

FLOOR = 1e-31
"""For each coordinate: below, squares in single precision have too few bits left, or none."""

DOUBLE: np.dtype[Any] = np.dtype(np.float64)


def pairwise(rows: list[Array]) -> Matrix:
    """Squared distances: 0 on the diagonal, inf from a row with NaN or infinity to any other."""
    kind = rows[0].dtype
    with np.errstate(all="ignore"):
        product = _product(rows, rows[_central(rows)], kind)
        broken = ~np.isfinite(product.diagonal())
        whole = [at for at, row in enumerate(rows) if not broken[at] or np.isfinite(row).all()]
        distances = np.full((len(rows), len(rows)), np.inf)
        some = [rows[at] for at in whole]
        distances[np.ix_(whole, whole)] = _measured(some, product[np.ix_(whole, whole)], kind)
        np.fill_diagonal(distances, 0.0)
    return distances


def inner_products(rows: list[Array], centre: Array) -> Matrix:
    """Of the rows' differences from a centre; nothing of use where a row is not whole."""
    kind = rows[0].dtype
    with np.errstate(all="ignore"):
        product = _product(rows, centre, kind)
        norms = product.diagonal()
        broken = [at for at in np.flatnonzero(~np.isfinite(norms)) if np.isfinite(rows[at]).all()]
        # Rows much nearer than most need no more bits than these.
        faint = float(np.median(norms)) < FLOOR * len(centre)
        if kind != DOUBLE and (broken or faint):
            product = _product(rows, centre, DOUBLE)
    return product


def _measured(rows: list[Array], product: Matrix, kind: np.dtype[Any]) -> Matrix:
    """The distances that a product gives, with those that it cannot give measured again.

    The row that others are measured from knows them all then, in double at the latest, so that the
    groups left get smaller.
    """
    size = len(rows[0]) if rows else 0
    distances, lost, blurred = _from_product(product, size, kind)
    groups = [(group, blurred) for group in _connected(lost | blurred)]
    while groups:
        group, blurred = groups.pop()
        inner = np.ix_(group, group)
        near = [rows[at] for at in group]
        finer = DOUBLE if blurred[inner].any() else kind
        product = _product(near, near[_central(near)], finer)
        distances[inner], lost, unsure = _from_product(product, size, finer)
        blurred = np.zeros_like(blurred)
        blurred[inner] = unsure
        left = [[group[at] for at in smaller] for smaller in _connected(lost | unsure)]
        groups += [(smaller, blurred) for smaller in left]
    return distances


def _from_product(
    product: Matrix, size: int, kind: np.dtype[Any]
) -> tuple[Matrix, NDArray[np.bool_], NDArray[np.bool_]]:
    """Squared distances, between whom they are mostly rounding, and who needs more precision.

    That are squares which overflow or vanish. In double one of two that overflows is far away from
    the other, and two that do may be anything to one another.
    """
    norms = product.diagonal()
    both = norms[:, None] + norms[None, :]
    distances = np.maximum(both - product - product.T, 0.0)
    endless = ~np.isfinite(norms)
    if kind == DOUBLE:
        blurred = endless[:, None] & endless[None, :]
    else:
        blurred = endless[:, None] | endless[None, :] | (distances < FLOOR * size)
    # Overflow leaves inf - inf: far away.
    distances[np.isnan(distances)] = np.inf
    lost = distances < CLOSE * both
    for matrix in (distances, lost, blurred):
        np.fill_diagonal(matrix, 0)
    return distances, lost, blurred


def _connected(linked: NDArray[np.bool_]) -> list[list[int]]:
    """Groups of at least two, each joined by links."""
    left = set(np.flatnonzero(linked.any(axis=1)).tolist())
    groups = []
    while left:
        group, fresh = set(), {min(left)}
        while fresh:
            group |= fresh
            fresh = set(np.flatnonzero(linked[sorted(fresh)].any(axis=0)).tolist()) - group
        groups.append(sorted(group))
        left -= group
    return groups


def _product(rows: list[Array], centre: Array, kind: np.dtype[Any]) -> Matrix:
    """Of all rows' differences from the centre with one another, summed part by part."""
    n, size = len(rows), len(centre)
    sums = np.zeros((len(parts(size)), n, n))

    def work(begin: int, end: int) -> None:
        with np.errstate(all="ignore"):
            multiply = _Multiply(n, min(size, WIDE), kind)
            for start in range(begin, end, WIDE):
                # Parts are a whole number of these, so each sum has one writer.
                sums[start // PART] += multiply(rows, centre, start, min(start + WIDE, end))

    in_parts(work, size)
    total: Matrix = sums.sum(axis=0)
    return total


class _Multiply:
    """The product of one piece of the rows' differences, in memory used again for the next."""

    def __init__(self, n: int, size: int, kind: np.dtype[Any]) -> None:
        self.n = n
        self.deep = max(32, min(DEEP, ONE_THREAD // (n * (n + 1)) // 32 * 32))
        # With a row of zeros more on one side: the library's way for a matrix and its own
        # transpose is half as fast for few rows.
        self.apart = np.zeros((n + 1, -(-size // self.deep) * self.deep), dtype=kind)

    def __call__(self, rows: list[Array], centre: Array, begin: int, end: int) -> Matrix:
        apart = self.apart
        middle = centre[begin:end]
        for row, into in zip(rows, apart, strict=False):
            np.subtract(row[begin:end], middle, out=into[: end - begin], dtype=apart.dtype)
        apart[: self.n, end - begin :] = 0
        used = -(-(end - begin) // self.deep) * self.deep
        deep = apart[:, :used].reshape(self.n + 1, -1, self.deep).transpose(1, 0, 2)
        product: Matrix = (deep[:, : self.n] @ deep.transpose(0, 2, 1)).sum(
            axis=0, dtype=np.float64
        )
        return product[:, : self.n]


def _central(rows: list[Array]) -> int:
    """The row whose typical distance from the others is least, going by a few coordinates."""
    size = len(rows[0])
    starts = np.linspace(0, max(size - PROBE, 0), PROBES).astype(int).tolist()
    # Each once: in a short row the places overlap.
    columns = np.unique([at for start in starts for at in range(start, min(start + PROBE, size))])
    sample = np.array([row[columns] for row in rows], dtype=np.float64)
    apart = np.array([np.square(sample - row).sum(axis=1) for row in sample])
    apart[np.isnan(apart)] = np.inf
    return int(np.median(apart, axis=1).argmin())
