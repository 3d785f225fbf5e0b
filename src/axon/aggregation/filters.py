"""What is done to a stack before a rule: rows cut short, put in buckets, mixed with neighbours.

Each gives another stack. Rows with NaN or infinity stay such rows, for the rule to leave out or to
refuse; what is told an f refuses more than f itself (`wholeness`).
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, cast

import numpy as np
from numpy.typing import NDArray

from axon.aggregation.engines import average, lengths, squared_distances
from axon.aggregation.ordering import canonical_order
from axon.aggregation.stacks import (
    S,
    Stack,
    check_above_0,
    check_count,
    check_stack,
    check_tolerance,
    check_weights,
)
from axon.aggregation.wholeness import check_whole, whole_rows
from axon.seeds import stream


def clipping(stack: S, *, radius: float | None = None, f: int | None = None) -> S:
    """The rows, those longer than a radius scaled down to it.

    Without a radius: the median of the lengths, or with f that of the (n-f)th shortest row, which
    f rows that are anything cannot make longer than an honest one.
    """
    check_stack(stack, name="clipping")
    n = len(stack)
    check_tolerance(n, f or 0, name="clipping", times=1, plus=1)
    if radius is not None:
        check_above_0(radius, name="clipping", what="radius")
    long = lengths(stack)
    if f is not None:
        check_whole(np.flatnonzero(np.isfinite(long)), n, f, name="clipping")
    reach = _reach(long, f) if radius is None else radius
    factors = np.ones(n)
    longer = (long > reach) & np.isfinite(long)
    factors[longer] = reach / long[longer]
    return _scaled(stack, factors)


def bucketing(stack: S, *, size: int, seed: int = 0, weights: Sequence[float] | None = None) -> S:
    """The means of buckets of `size` rows, dealt out at random; the last may have fewer.

    Karimireddy et al. 2022. It brings rows that differ by their data closer together, at the price
    that one bad row spoils a bucket: a rule for f rows then bears f buckets. Which rows share a
    bucket depends on the seed and on what they hold, not on where they stand.
    """
    check_stack(stack, name="bucketing")
    by = np.ones(len(stack)) if weights is None else check_weights(weights, len(stack))
    dealt = buckets(stack, size=size, seed=seed)
    return _stacked([average(stack, bucket, _or_alike(by, bucket)) for bucket in dealt])


def buckets(stack: Stack, *, size: int, seed: int = 0) -> list[NDArray[np.intp]]:
    """Which rows share a bucket."""
    check_count(size, name="bucketing", what="size", least=1)
    n = len(stack)
    dealt = canonical_order(stack)[stream(seed, "buckets", n).permutation(n)]
    return [dealt[first : first + size] for first in range(0, n, size)]


def nearest_neighbour_mixing(stack: S, *, f: int) -> S:
    """Each row replaced by the mean of its n-f nearest, itself among them. Needs n ≥ 2f+1.

    Allouah et al. 2023. It brings honest rows closer together without moving their mean far, which
    makes the rules after it as good as can be when the rows' data differ.
    """
    check_stack(stack, name="nearest_neighbour_mixing")
    n = len(stack)
    check_tolerance(n, f, name="nearest_neighbour_mixing", times=2, plus=1)
    distances = squared_distances(stack)
    whole = whole_rows(stack, distances)
    check_whole(whole, n, f, name="nearest_neighbour_mixing")
    place = np.argsort(canonical_order(stack))
    mixed: list[S] = []
    for row in range(n):
        if row not in whole:
            mixed.append(_held(stack)[row])
            continue
        away = distances[row].copy()
        away[row] = -1.0
        nearest = np.lexsort([place, away])[: n - f]
        mixed.append(average(stack, np.intersect1d(nearest, whole), [1.0] * n))
    return _stacked(mixed)


def _reach(lengths: NDArray[np.float64], f: int | None) -> float:
    reach = float(np.median(lengths) if f is None else np.sort(lengths)[len(lengths) - f - 1])
    finite = lengths[np.isfinite(lengths)]
    return reach if np.isfinite(reach) or not finite.size else float(finite.max())


def _scaled(stack: S, factors: NDArray[np.float64]) -> S:
    if isinstance(stack, np.ndarray):
        by_row = factors[:, None].astype(stack.dtype)
        return cast(S, (stack * by_row).astype(stack.dtype, copy=False))
    import torch

    by = torch.from_numpy(factors).to(device=stack.device, dtype=stack.dtype)
    return cast(S, stack.detach() * by.unsqueeze(1))


def _held(stack: S) -> Any:
    """The stack without what torch remembers of how it was made."""
    return stack if isinstance(stack, np.ndarray) else stack.detach()


def _or_alike(weights: NDArray[np.float64], bucket: NDArray[np.intp]) -> list[float]:
    """The weights, or all alike for a bucket whose rows all weigh nothing."""
    return weights.tolist() if weights[bucket].any() else [1.0] * len(weights)


def _stacked(rows: list[S]) -> S:
    if isinstance(rows[0], np.ndarray):
        stacked = np.stack(cast("list[NDArray[Any]]", rows))
        # Stacking forgets an order of bytes that is not this machine's.
        return cast(S, stacked.astype(rows[0].dtype, copy=False))
    import torch

    return cast(S, torch.stack(cast("list[torch.Tensor]", rows)))
