"""Student's intervals, against tables and against chance itself."""

from __future__ import annotations

import math

import pytest

from axon.intervals import Interval, mean_interval, student_t
from axon.seeds import stream


@pytest.mark.parametrize(
    ("freedom", "quantile"),
    [
        (1, 12.7062),
        (2, 4.3027),
        (10, 2.2281),
        (11, 2.2010),
        (12, 2.1788),
        (29, 2.0452),
        (44, 2.0154),
        (100, 1.9840),
        (10_000, 1.9602),
    ],
)
def test_the_quantile_is_that_of_the_tables(freedom: int, quantile: float) -> None:
    assert student_t(freedom) == pytest.approx(quantile, abs=2e-4)


def test_the_quantile_falls_without_a_step_between_its_two_ways() -> None:
    quantiles = [student_t(freedom) for freedom in range(1, 200)]
    assert quantiles == sorted(quantiles, reverse=True)
    assert student_t(0) == math.inf


def test_a_mean_by_hand() -> None:
    # Deviations -1, 0, 1: a variance of 1, and 4.302653 / sqrt(3) to either side.
    found = mean_interval([9.0, 10.0, 11.0])
    assert found.value == 10.0
    assert found.half == pytest.approx(2.484138, abs=1e-6)
    assert (found.low, found.high) == pytest.approx((7.515862, 12.484138), abs=1e-6)


def test_equal_values_leave_no_doubt_and_one_value_leaves_all() -> None:
    assert mean_interval([3.0] * 5) == Interval(3.0, 3.0, 3.0)
    assert mean_interval([3.0]) == Interval(3.0, -math.inf, math.inf)
    with pytest.raises(ValueError, match="at least 1 value, got 0"):
        mean_interval([])


def test_nineteen_of_twenty_intervals_hold_the_true_mean() -> None:
    samples = stream(0, "coverage").normal(5.0, 2.0, size=(2000, 4))
    found = [mean_interval(row) for row in samples.tolist()]
    held = sum(each.low <= 5.0 <= each.high for each in found) / len(found)
    assert held == pytest.approx(0.95, abs=0.015)
