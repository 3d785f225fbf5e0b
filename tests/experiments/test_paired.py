"""What two things differ by, against numbers computed by hand."""

from __future__ import annotations

import math

import numpy as np
import pytest

from axon.experiments.paired import cut, difference, median_interval
from axon.seeds import stream


def test_a_difference_is_taken_repeat_by_repeat() -> None:
    # The repeats differ much, and what is compared by 1 in each of them.
    found = difference([2.0, 51.0, 9.0], [1.0, 50.0, 8.0])
    assert (found.value, found.half) == (1.0, 0.0)
    assert math.isinf(difference([2.0], [1.0]).half)


def test_a_cut_is_of_the_means_and_bears_a_repeat_that_is_next_to_nothing() -> None:
    assert cut([2.0, 4.0], [8.0, 16.0]).value == pytest.approx(75.0)
    assert cut([2.0, 4.0], [8.0, 16.0]).half == pytest.approx(0.0)
    assert cut([1.0, 1.0], [0.0, 4.0]).value == pytest.approx(50.0)
    # Rests of (1 - 0.5 * 0) / 2 and (1 - 0.5 * 4) / 2, whose mean deviates by 0.5.
    assert cut([1.0, 1.0], [0.0, 4.0]).half == pytest.approx(100 * 12.706205 * 0.5)


def test_the_bounds_of_a_cut_hold_as_often_as_they_say() -> None:
    random, held = stream(1, "cuts"), 0
    for _ in range(400):
        ones, others = random.exponential(3.0, 30), random.exponential(10.0, 30)
        found = cut(ones.tolist(), others.tolist())
        held += found.low <= 70.0 <= found.high
    assert 0.90 <= held / 400 <= 0.98


def test_a_median_has_bounds_from_six_numbers_on() -> None:
    numbers = [(float(number), float(number)) for number in (4, 1, 3, 9, 2, 5)]
    found = median_interval(numbers)
    assert (found.value, found.low, found.high) == (3.5, 1.0, 9.0)
    few = median_interval(numbers[:5])
    assert (few.value, few.low, few.high) == (3.0, -math.inf, math.inf)
    # Of nine, one on either side lies outside: 2 * (1 + 9) / 512 is 3.9 %.
    nine = median_interval([(float(number), float(number)) for number in range(9)])
    assert (nine.low, nine.high) == (1.0, 7.0)


def test_a_median_of_what_is_known_by_halves() -> None:
    sure, beyond, unknown = (2.0, 2.0), (4.0, math.inf), (-math.inf, math.inf)
    found = median_interval([sure] * 4 + [beyond] * 2)
    assert (found.value, found.low, found.high) == (2.0, 2.0, math.inf)
    found = median_interval([beyond] * 6)
    assert math.isnan(found.value)
    assert (found.low, found.high) == (4.0, math.inf)
    found = median_interval([sure] * 5 + [unknown])
    assert (found.value, found.low, found.high) == (2.0, -math.inf, math.inf)


def test_the_bounds_of_a_median_hold_as_often_as_they_say() -> None:
    random = stream(2, "medians")
    draws = random.lognormal(0.0, 1.0, (1000, 8))
    held = 0
    for row in np.asarray(draws).tolist():
        found = median_interval([(each, each) for each in row])
        held += found.low <= 1.0 <= found.high
    assert held / 1000 >= 0.95
