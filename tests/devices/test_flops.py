"""The FLOPS baseline: what it counts, what it times, what it predicts."""

from __future__ import annotations

import math

import pytest

from axon.devices import measure_flops, predict_s


def test_the_rate_is_two_operations_a_term_over_the_time_that_passed() -> None:
    ticks = iter([10.0, 10.5])
    assert measure_flops(repeats=3, clock=lambda: next(ticks)) == 2 * 512**3 * 3 / 0.5


def test_a_brake_rests_before_the_first_product_and_within_the_time_of_each() -> None:
    now = 0.0

    def rest() -> None:
        nonlocal now
        now += 0.25

    assert measure_flops(repeats=3, clock=lambda: now, brake=rest) == 2 * 512**3 * 3 / 0.75
    assert now == 1.0


def test_a_real_device_does_something() -> None:
    assert 1e6 < measure_flops(repeats=2) < 1e15


def test_a_clock_that_stands_still_is_no_measure() -> None:
    with pytest.raises(ValueError, match=r"moved by 0.0 s over 2 products \(more repeats"):
        measure_flops(repeats=2, clock=lambda: 1.0)


def test_repeats_must_be_at_least_one() -> None:
    with pytest.raises(ValueError, match=r"repeats must be .* got 0"):
        measure_flops(repeats=0)


def test_a_device_of_half_the_rate_takes_twice_as_long() -> None:
    assert predict_s(12.0, reference_flops=8e9, target_flops=4e9) == 24.0


@pytest.mark.parametrize("bad", [0.0, -1.0, math.nan, math.inf])
def test_predictions_need_positive_numbers(bad: float) -> None:
    with pytest.raises(ValueError, match=f"reference_s must be .* got {bad}"):
        predict_s(bad, 1.0, 1.0)
    with pytest.raises(ValueError, match=f"reference_flops must be .* got {bad}"):
        predict_s(1.0, bad, 1.0)
    with pytest.raises(ValueError, match=f"target_flops must be .* got {bad}"):
        predict_s(1.0, 1.0, bad)
