"""Rules that look at each coordinate by itself: median, trimmed mean, mean around the median.

All bear f rows that hold anything, NaN and infinity included: these never reach the result. More
than f rows that are not whole are refused, as everywhere (`wholeness`).

Weights can be lied about. A row's weight moves the weighted median as that many copies of the row
would, so that f rows are borne only while they weigh less than half of all. In the trimmed mean and
the mean around the median no weight keeps a value from being cut off, but a heavy row draws the
result towards those of its values that are kept. Without weights no row can do more than another.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np
from numpy.typing import NDArray

from axon.aggregation import weighing
from axon.aggregation.engines import engine_for
from axon.aggregation.stacks import S, check_count, check_stack, check_tolerance, rows_of, weighed
from axon.aggregation.wholeness import Watch, borne, check_whole, is_finite

Weights = NDArray[np.float64] | None
Rule = Callable[[S, Weights, int, Watch], S]
"""Of a stack, with weights or all alike, and so many rows cut off or left out."""


def median(stack: S, *, f: int | None = None, weights: Sequence[float] | None = None) -> S:
    """The median of each coordinate; of an even count the mean of the two middle values.

    Needs n ≥ 2f+1; without f it bears as many as that allows, (n-1)//2. With weights, the value at
    which half of the weight is reached, or the mean of two where it is reached just between them:
    equal weights give the median. Rows of weight 0 do not count.
    """
    return _applied(_median, stack, f, weights, name="median")


def trimmed_mean(stack: S, *, f: int, weights: Sequence[float] | None = None) -> S:
    """In each coordinate the mean of all but the f lowest and the f highest values.

    Needs n ≥ 2f+1, and is the mean for f = 0. With weights, what is left is averaged by weight; how
    many are cut off does not depend on them. Rows of weight 0 do not count.
    """

    def rule(some: S, by: Weights, cut: int, watch: Watch) -> S:
        if by is not None:
            return weighing.weighted_trimmed_mean(some, by, cut, watch)
        return engine_for(some).ranked_mean(some, cut, len(some) - cut, watch)

    check_count(f, name="trimmed_mean", what="f")
    return _applied(rule, stack, f, weights, name="trimmed_mean")


def mean_around_median(stack: S, *, f: int, weights: Sequence[float] | None = None) -> S:
    """In each coordinate the mean of the n-f values nearest to the median.

    Needs n ≥ 2f+1, and is the mean for f = 0. Of two values equally near the smaller is kept. With
    weights, nearest to the weighted median, and averaged by weight. Rows of weight 0 do not count.
    """

    def rule(some: S, by: Weights, left_out: int, watch: Watch) -> S:
        keep = len(some) - left_out
        if by is not None:
            return weighing.weighted_mean_around_median(some, by, keep, watch)
        return engine_for(some).around_median(some, range(len(some)), keep, watch)

    check_count(f, name="mean_around_median", what="f")
    return _applied(rule, stack, f, weights, name="mean_around_median")


def middle(stack: S, by: Weights, f: int, *, name: str) -> tuple[S, NDArray[np.intp]]:
    """The median of the whole rows, and which these are, for a rule that starts from there."""
    watch, n = Watch(), len(stack)
    point = _median(stack, by, f, watch)
    whole = watch.whole_rows(stack)
    check_whole(whole, n, f, name=name)
    if len(whole) < n:
        point = _median(rows_of(stack, whole), None if by is None else by[whole], f, watch)
    return point, whole


def _median(some: S, by: Weights, _: int, watch: Watch) -> S:
    if by is not None:
        return weighing.weighted_median(some, by, watch)
    n = len(some)
    return engine_for(some).ranked_mean(some, (n - 1) // 2, n // 2 + 1, watch)


def _applied(
    rule: Rule[S], stack: S, f: int | None, weights: Sequence[float] | None, *, name: str
) -> S:
    """What the rule makes of the stack, or of its whole rows where that is not finite."""
    check_stack(stack, name=name)
    stack, by = weighed(stack, weights)
    n, watch = len(stack), Watch()
    check_tolerance(n, 0 if f is None else f, name=name, times=2, plus=1)
    f = borne(n, f)
    result = rule(stack, by, f, watch)
    if not watch.odd:
        return result
    whole = watch.whole_rows(stack)
    check_whole(whole, n, f, name=name)
    if is_finite(result):
        return result
    # A row that is not whole had more than its share of the weight; it was among the f.
    left = f - (n - len(whole))
    return rule(rows_of(stack, whole), None if by is None else by[whole], left, watch)
