"""How far a mean can be trusted: Student's 95 % intervals.

mean_interval([9.8, 10.1, 10.3])      # Interval(value=10.067, low=9.442, high=10.692)
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

# The 97.5 % quantiles of Student's distribution with 1, 2, … 10 degrees of freedom, below which
# the expansion about the normal distribution is not good enough.
_FEW = (12.706205, 4.302653, 3.182446, 2.776445, 2.570582, 2.446912, 2.364624, 2.306004, 2.262157,
        2.228139)  # fmt: skip
_NORMAL = 1.959963985


@dataclass(frozen=True, slots=True)
class Interval:
    """A value, and the bounds between which the true one lies 95 times out of 100."""

    value: float
    low: float
    high: float

    @property
    def half(self) -> float:
        """Half its width: what stands behind the plus-minus sign."""
        return (self.high - self.low) / 2


def student_t(freedom: int) -> float:
    """The 97.5 % quantile of Student's distribution; infinite without a degree of freedom."""
    if freedom < 1:
        return math.inf
    if freedom <= len(_FEW):
        return _FEW[freedom - 1]
    z, n = _NORMAL, float(freedom)
    # Cornish and Fisher's expansion, to the third order.
    first = (z**3 + z) / 4
    second = (5 * z**5 + 16 * z**3 + 3 * z) / 96
    third = (3 * z**7 + 19 * z**5 + 17 * z**3 - 15 * z) / 384
    return z + first / n + second / n**2 + third / n**3


def mean_interval(values: Sequence[float]) -> Interval:
    """The mean of independent measurements; of a single one the bounds are infinite."""
    if not values:
        raise ValueError("a mean needs at least 1 value, got 0")
    count = len(values)
    mean = math.fsum(values) / count
    if count == 1:
        return Interval(mean, -math.inf, math.inf)
    variance = math.fsum((value - mean) ** 2 for value in values) / (count - 1)
    half = student_t(count - 1) * math.sqrt(variance / count)
    return Interval(mean, mean - half, mean + half)
