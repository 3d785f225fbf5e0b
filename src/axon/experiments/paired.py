"""What two things differ by that were measured in the same repeats, with 95 % intervals.

Such repeats share a seed, so that what they have in common cancels.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from statistics import fmean, median

from axon.intervals import Interval, mean_interval

CONFIDENCE = 0.95


def difference(ones: Sequence[float], others: Sequence[float]) -> Interval:
    """By how much the first are above the second, on average."""
    return mean_interval([one - other for one, other in zip(ones, others, strict=True)])


def cut(ones: Sequence[float], others: Sequence[float]) -> Interval:
    """By how many per cent the mean of the first is below that of the second.

    Single quotients may have next to nothing below the line, so it is the quotient of the means,
    with the bounds of its linear approximation.
    """
    whole = fmean(others)
    part = fmean(ones) / whole
    rests = [(one - part * other) / whole for one, other in zip(ones, others, strict=True)]
    half, value = 100.0 * mean_interval(rests).half, 100.0 * (1.0 - part)
    return Interval(value, value - half, value + half)


def median_interval(known: Sequence[tuple[float, float]]) -> Interval:
    """The median of numbers of which each is only known to lie between two bounds.

    Nothing is assumed of how they are distributed: its bounds are two of the numbers, counted from
    either end. Fewer than six give none. The value is not a number where the median is not known.
    """
    lows, highs = (sorted(ends) for ends in zip(*known, strict=True))
    middle = median(lows)
    value = middle if middle == median(highs) else math.nan
    left_out = _left_out(len(known))
    if left_out < 0:
        return Interval(value, -math.inf, math.inf)
    return Interval(value, lows[left_out], highs[-1 - left_out])


def _left_out(count: int) -> int:
    """How many of the numbers lie outside on either side; -1 where even all are too few."""
    outside, chance = -1, 0.0
    while (chance := chance + 2 * math.comb(count, outside + 1) / 2**count) <= 1.0 - CONFIDENCE:
        outside += 1
    return outside
