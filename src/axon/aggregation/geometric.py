"""Rules that look for a point in the middle of all rows: geometric median and centred clipping."""

from __future__ import annotations

from collections.abc import Sequence
from typing import cast

import numpy as np
from numpy.typing import NDArray

from axon.aggregation.coordinatewise import median
from axon.aggregation.engines import engine_for, squared_norms
from axon.aggregation.stacks import (
    S,
    check_stack,
    check_tolerance,
    check_whole,
    is_finite,
    narrowed,
    weighed,
    widened,
)
from axon.errors import ConfigurationError

SMOOTHING = 1e-6
"""Of the typical distance from the start: rows nearer to the point count as being this far, so
that none draws it without end."""


def geometric_median(
    stack: S,
    *,
    f: int | None = None,
    weights: Sequence[float] | None = None,
    tolerance: float = 1e-5,
    iterations: int = 100,
) -> S:
    """The point of the least weighted sum of distances (not squared) to all rows.

    Weiszfeld's iteration, smoothed, from the coordinate-wise median until a step is below
    `tolerance` of the typical distance, or `iterations` are done. Needs n ≥ 2f+1; rows that are not
    whole do not count. A row draws the point with a force of its weight however far away it lies,
    so rows are borne while they weigh less than half of all: a lying weight counts as so many rows.
    """
    check_stack(stack, name="geometric_median")
    some, by = weighed(widened(stack), weights)
    check_tolerance(len(some), f or 0, name="geometric_median", times=2, plus=1)
    pull = np.ones(len(some)) if by is None else by
    point = median(some)
    away = _distances(some, point, name="geometric_median")
    typical = float(np.median(away[np.isfinite(away)]))
    if typical == 0:
        typical = float(away[np.isfinite(away)].max())
    for _ in range(iterations if typical > 0 else 0):
        factors = pull / np.maximum(away, SMOOTHING * typical)
        factors /= factors.sum()
        before, point = point, engine_for(some).combine(some, factors.tolist())
        moved = squared_norms(before[None], point)[0] ** 0.5
        if moved <= tolerance * typical:
            break
        away = _distances(some, point, name="geometric_median")
    return narrowed(point, stack)


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
    distance from there unless given. Needs n ≥ 2f+1. A row moves the result by at most
    `iterations` · r / n; one that is not whole does not move it. Weights do not apply: they would
    lift that limit.
    """
    check_stack(stack, name="centered_clipping")
    n = len(stack)
    check_tolerance(n, f or 0, name="centered_clipping", times=2, plus=1)
    if radius is not None and not radius > 0:
        raise ConfigurationError(f"centered_clipping needs a radius above 0, got {radius}")
    some = widened(stack)
    point = median(some) if centre is None else _checked(widened(centre), some)
    away = _distances(some, point, name="centered_clipping")
    reach = float(np.median(away)) if radius is None else radius
    if not np.isfinite(reach):
        reach = float(away[np.isfinite(away)].max())
    if reach == 0:
        return narrowed(point, stack)
    for step in range(iterations):
        if step:
            away = _distances(some, point, name="centered_clipping")
        # Infinitely far away, nothing is left of a row: it is not read.
        share = reach / np.maximum(away, reach) / n
        moved = engine_for(some).combine(some, share.tolist())
        point = cast(S, moved + point * (1.0 - float(share.sum())))
    return narrowed(point, stack)


def _checked(centre: S, stack: S) -> S:
    if centre.shape != stack.shape[1:] or not is_finite(centre):
        raise ConfigurationError(
            f"centered_clipping needs a centre of {stack.shape[1]} finite values, "
            f"got shape {tuple(centre.shape)}"
        )
    return centre


def _distances(stack: S, point: S, *, name: str) -> NDArray[np.float64]:
    """Of each row from the point; infinite for rows that are not whole, of which some must be."""
    away = np.sqrt(squared_norms(stack, point))
    check_whole(np.flatnonzero(np.isfinite(away)), len(stack), name=name)
    return away
