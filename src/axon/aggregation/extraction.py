"""Bulyan: rows selected one after the other, then in each coordinate what is nearest the median."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from axon.aggregation.engines import engine_for
from axon.aggregation.neighbours import Neighbourhood, scores
from axon.aggregation.stacks import S, check_stack, check_tolerance


def bulyan(stack: S, *, f: int) -> S:
    """Krum's choice from those left, n-2f times over; then the mean of the n-4f nearest the median.

    Needs n ≥ 4f+3; for f = 0 it is the mean. Bears f rows that hold anything, NaN and infinity
    included, and refuses more than f that are not whole. Weights do not apply: values of one
    coordinate come from several rows.
    """
    check_stack(stack, name="bulyan")
    n = len(stack)
    check_tolerance(n, f, name="bulyan", times=4, plus=3)
    selected = extracted(Neighbourhood(stack, f, name="bulyan"), n - 2 * f)
    return engine_for(stack).around_median(stack, [int(row) for row in selected], n - 4 * f)


def extracted(near: Neighbourhood, count: int) -> NDArray[np.intp]:
    """θ rows, each the one of the smallest score among those left when it is its turn.

    With r rows left a score goes over the r-f-2 nearest of them. When that is none, all are equal,
    and the scores over all rows decide.
    """
    rows, order, distances = np.arange(len(near.stack)), near.order, near.sorted
    able = np.isin(rows, near.whole)
    selected: list[int] = []
    for _ in range(count):
        nearest = max(0, len(rows) - near.f - 2)
        key = scores(distances[able, :nearest])
        selected.append(near.best(rows[able], key))
        # Every other row has the one selected among its neighbours once.
        stays = rows != selected[-1]
        kept = order[stays] != selected[-1]
        shape = (len(rows) - 1, max(0, len(rows) - 2))
        order, distances = order[stays][kept].reshape(shape), distances[stays][kept].reshape(shape)
        rows, able = rows[stays], able[stays]
    return np.array(sorted(selected), dtype=np.intp)
