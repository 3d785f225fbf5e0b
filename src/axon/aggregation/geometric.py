"""Rules that look for a point in the middle of all rows: geometric median and centred clipping.

Both start from a point and move it by the rows' differences from there. Where it goes is found from
the inner products of these (`hull`), so that the rows are gone over a few times, however many steps
it takes.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import cast

import numpy as np
from numpy.typing import NDArray

from axon.aggregation.coordinatewise import middle
from axon.aggregation.engines import average, engine_for, inner_products, squared_distances
from axon.aggregation.hull import Hull, drawn_to, resting_row
from axon.aggregation.ordering import canonical_order
from axon.aggregation.stacks import (
    S,
    check_above_0,
    check_count,
    check_stack,
    check_tolerance,
    narrowed,
    weighed,
    widened,
)
from axon.aggregation.wholeness import borne, check_whole, is_finite
from axon.errors import ConfigurationError


def geometric_median(
    stack: S,
    *,
    f: int | None = None,
    weights: Sequence[float] | None = None,
    tolerance: float = 1e-6,
    iterations: int = 1000,
) -> S:
    """The point of the least weighted sum of distances (not squared) to all rows.

    Where it is one of the rows, that row; else found by Weiszfeld's iteration from the
    coordinate-wise median, until a step is no longer than `tolerance` of the typical distance or
    `iterations` are done. Needs n ≥ 2f+1, without f it bears (n-1)//2; rows that are not whole do
    not count, nor does a row whose squared distance no float64 holds, and more than f that are not
    whole are refused. A row draws the point with a force of its weight however far away it lies, so
    rows are borne while they weigh less than half of all: a lying weight counts as so many rows.
    """
    name = "geometric_median"
    check_stack(stack, name=name)
    check_count(iterations, name=name, what="number of iterations")
    check_above_0(tolerance, name=name, what="tolerance")
    some, by = weighed(widened(stack), weights)
    check_tolerance(len(some), 0 if f is None else f, name=name, times=2, plus=1)
    point, whole = middle(some, by, borne(len(some), f), name=name)
    pull = np.ones(len(some)) if by is None else by
    order = canonical_order(some, whole, pull)
    products = inner_products(some, point, order)
    near = np.isfinite(products.diagonal())
    order, products = order[near], products[np.ix_(near, near)]
    distances = squared_distances(some)[np.ix_(order, order)]
    row = resting_row(products, distances, pull[order]) if iterations else None
    if row is not None:
        return narrowed(average(some, order[[row]], [1.0] * len(some)), stack)
    hull = Hull(products)
    shares = drawn_to(hull, pull[order], tolerance=tolerance, iterations=iterations)
    return narrowed(_placed(some, point, order, shares), stack)


def centered_clipping(
    stack: S,
    *,
    f: int | None = None,
    radius: float | None = None,
    centre: S | None = None,
    iterations: int = 3,
) -> S:
    """A centre moved by the mean of the rows' differences from it, each cut to a radius.

    Karimireddy et al. 2021: v ← v + 1/n Σ (xᵢ - v) min(1, r / |xᵢ - v|). It starts from the centre
    given, such as the last aggregate, or from the coordinate-wise median; the radius is the median
    distance from there unless given. Needs n ≥ 2f+1, without f it bears (n-1)//2. A row moves the
    result by at most `iterations` · r / n; one that is not whole does not move it, nor does one
    whose squared distance no float64 holds, and more than f that are not whole are refused. Weights
    do not apply: they would lift that limit.
    """
    name, n = "centered_clipping", len(stack)
    check_stack(stack, name=name)
    check_tolerance(n, 0 if f is None else f, name=name, times=2, plus=1)
    check_count(iterations, name=name, what="number of iterations")
    if radius is not None:
        check_above_0(radius, name=name, what="radius")
    some = widened(stack)
    if centre is None:
        point, whole = middle(some, None, borne(n, f), name=name)
    else:
        point, whole = _checked(centre, some), np.arange(n)
    order = canonical_order(some, whole)
    products = inner_products(some, point, order)
    near = np.isfinite(products.diagonal())
    if centre is not None:
        whole = order[[ok or is_finite(some[row]) for row, ok in zip(order, near, strict=True)]]
        check_whole(whole, n, borne(n, f), name=name)
    hull = Hull(products[np.ix_(near, near)])
    shares = _clipped(hull, n, radius, iterations)
    return narrowed(_placed(some, point, order[near], shares), stack)


def _clipped(hull: Hull, n: int, radius: float | None, iterations: int) -> NDArray[np.float64]:
    """The shares of a centre moved so many times; rows that are not in the hull are not near."""
    shares = np.zeros(len(hull.norms))
    away = hull.away(shares)
    if radius is None:
        # Of all rows: those that are not whole are infinitely far.
        everyone = np.sort([*away, *[np.inf] * (n - len(away))])
        radius = float((everyone[(n - 1) // 2] + everyone[n // 2]) / 2)
        radius = radius if math.isfinite(radius) else float(away.max(initial=0.0))
    for _ in range(iterations if radius > 0 else 0):
        far = away > radius
        share = np.where(far, radius / np.where(far, away, 1.0), 1.0) / n
        shares = shares * (1 - float(share.sum())) + share
        away = hull.away(shares)
    return shares


def _placed(stack: S, centre: S, rows: NDArray[np.intp], shares: NDArray[np.float64]) -> S:
    """The centre moved by shares of the rows' differences from it."""
    factors = np.zeros(len(stack))
    factors[rows] = shares
    rest = 1 - float(shares.sum())
    moved = engine_for(stack).combine(stack, factors.tolist())
    # What is left is nothing but rounding once the point is made of rows alone.
    return moved if abs(rest) < 1e-12 else cast(S, moved + centre * rest)


def _checked(centre: S, stack: S) -> S:
    if type(centre) is not type(stack):
        raise ConfigurationError(
            f"centered_clipping needs a centre of the stack's kind, {type(stack).__name__}, "
            f"got {type(centre).__name__}"
        )
    like = narrowed(widened(centre), stack)
    if tuple(like.shape) != tuple(stack.shape[1:]) or not is_finite(like):
        raise ConfigurationError(
            f"centered_clipping needs a centre of {stack.shape[1]} finite values, "
            f"got shape {tuple(like.shape)}"
        )
    return like
