"""Points made of rows, centre + Σ shareᵢ (xᵢ - centre): how far from each row they lie.

All that is asked follows from the inner products of the rows' differences from the centre, a few
numbers however long the rows are. With the centre among most rows nothing is lost to rounding: of a
row far away a point holds the less, the further it is.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

Array = NDArray[np.float64]

STRICTLY = 1 - 1e-5
"""Of a row's weight: what draws away from it must be less, with what rounding may have changed."""


class Hull:
    """Rows around a centre, known by their inner products."""

    def __init__(self, products: Array) -> None:
        self.products = products
        self.norms = products.diagonal()
        # Nearer than this a point is at a row, as far as the products can tell.
        self.rounding = 64 * float(np.finfo(np.float64).eps)

    def length(self, shares: Array) -> float:
        """Of Σ shareᵢ (xᵢ - centre)."""
        return float(np.sqrt(max(float((shares * self._along(shares)).sum()), 0.0)))

    def away(self, shares: Array) -> Array:
        """The distance of the point from each row, 0 where rounding leaves nothing else."""
        own = self.length(shares) ** 2
        squares = self.norms - 2 * self._along(shares) + own
        apart: Array = np.sqrt(np.where(squares > self.rounding * (self.norms + own), squares, 0.0))
        return apart

    def _along(self, shares: Array) -> Array:
        # Not by a linear algebra library, whose sums may depend on the number of threads.
        along: Array = (self.products * shares).sum(axis=1)
        return along


def resting_row(products: Array, distances: Array, pull: Array) -> int | None:
    """The row at which the sum of weighted distances is least, where there is such a row.

    There, the rows elsewhere draw with no more than the weight of those that lie at this very
    place (Vardi and Zhang 2000): Σ wⱼ (xⱼ - xᵢ) / |xⱼ - xᵢ| is no longer than Σ w of these.
    """
    apart = np.sqrt(distances)
    heavy = 2 * np.where(apart == 0, pull, 0.0).sum(axis=1) > float(pull.sum())
    if heavy.any():
        return int(heavy.argmax())
    row = int(_sums(products, apart, pull).argmin())
    there = apart[row] == 0
    along = np.where(there, 0.0, pull / np.where(there, 1.0, apart[row]))
    drawn = float((along[:, None] * _from_row(products, distances, row) * along).sum())
    held = float(pull[there].sum())
    return row if np.sqrt(max(drawn, 0.0)) < STRICTLY * held else None


def _sums(products: Array, apart: Array, pull: Array) -> Array:
    """Of each row Σ wⱼ |xⱼ - xᵢ|, less that of the centre.

    The differences are of squares divided by sums, so that those of rows far away do not drown the
    others: |xⱼ - xᵢ|² - |xⱼ|² = |xᵢ|² - 2 xᵢ·xⱼ, counted from the centre.
    """
    norms = products.diagonal()
    whole = apart + np.sqrt(norms)
    less = (norms[:, None] - 2 * products) / np.where(whole > 0, whole, 1.0)
    sums: Array = (pull * less).sum(axis=1)
    return sums


def _from_row(products: Array, distances: Array, row: int) -> Array:
    """The inner products of the differences from a row, for rows near it from their distances."""
    around = distances[row]
    by_products = products - products[row] - products[:, row, None] + products[row, row]
    by_distances = (around[:, None] + around - distances) / 2
    near = around < products[row, row]
    from_row: Array = np.where(near[:, None] & near, by_distances, by_products)
    return from_row


def drawn_to(hull: Hull, pull: Array, *, tolerance: float, iterations: int) -> Array:
    """The shares of the point with the least sum of weighted distances, sought from the centre.

    Weiszfeld's iteration, with the step of Vardi and Zhang (2000) where the point is at a row:
    towards where the others draw it, but held back by the weight of what is there.
    """
    shares = np.zeros(len(pull))
    away = hull.away(shares)
    enough = tolerance * _typical(away, pull)
    for _ in range(iterations):
        there = away == 0
        along = np.where(there, 0.0, pull / np.where(there, 1.0, away))
        total = float(along.sum())
        if total == 0:
            break
        step = along / total - shares
        if there.any():
            drawn = total * hull.length(step)
            held = float(pull[there].sum())
            step *= 1 - held / drawn if drawn > held else 0.0
        shares = shares + step
        if hull.length(step) <= enough:
            break
        away = hull.away(shares)
    return shares


def _typical(away: Array, pull: Array) -> float:
    """The distance at which half of the weight is reached."""
    order = np.argsort(away, kind="stable")
    reached = np.cumsum(pull[order])
    return float(away[order[np.searchsorted(reached, reached[-1] / 2)]])
