"""The radio model, by hand: decibels, path loss, rates, and the times that follow."""

from __future__ import annotations

import dataclasses
import math

import pytest

from axon.allocation.link import (
    DESKTOP_HZ,
    MICROCONTROLLER_HZ,
    MNIST,
    LearningTask,
    Radio,
    epoch_time,
    gain_at,
    ratio,
    watts,
)

# 3 W of signal for every watt of noise, so two bits per hertz and second.
PLAIN = Radio(gain=0.5, bandwidth_hz=1e6, power_w=6e-6, noise_w_per_hz=1e-12)


def test_decibels() -> None:
    assert ratio(0.0) == 1.0
    assert ratio(-30.0) == pytest.approx(1e-3)
    assert ratio(3.0) == pytest.approx(1.9953, abs=1e-4)
    assert watts(0.0) == pytest.approx(1e-3)
    assert watts(23.0) == pytest.approx(0.19953, abs=1e-5)
    assert watts(-174.0) == pytest.approx(3.981e-21, rel=1e-4)


def test_path_loss() -> None:
    # Free space at 2.4 GHz: 40.05 dB at a metre, 20 dB more at ten; from there 35 dB a decade.
    assert -10 * math.log10(gain_at(1.0)) == pytest.approx(40.05, abs=0.01)
    assert -10 * math.log10(gain_at(10.0)) == pytest.approx(60.05, abs=0.01)
    assert -10 * math.log10(gain_at(50.0)) == pytest.approx(60.05 + 35 * math.log10(5), abs=0.01)
    assert gain_at(20.0, breakpoint_m=20.0) / gain_at(20.0) == pytest.approx(2**1.5)
    assert gain_at(5.0, carrier_hz=4.8e9) == pytest.approx(gain_at(5.0) / 4)
    assert gain_at(20.0, far_exponent=2.0) == pytest.approx(gain_at(10.0) / 4)
    assert gain_at(2.0, near_exponent=3.0) == pytest.approx(gain_at(1.0) / 8)
    assert gain_at(0.001) == 1.0  # No more arrives than was sent.


def test_rate() -> None:
    assert PLAIN.bits_per_s == pytest.approx(2e6)
    # At 50 m: 23 - 84.5 dBm arrive over -174 + 67 dBm of noise, 45.5 dB, 15.1 bits per hertz.
    assert Radio(gain=gain_at(50.0)).bits_per_s == pytest.approx(5e6 * 15.11, rel=1e-3)
    # The noise is that of the band: a wider one carries more, but not as much more.
    wide = dataclasses.replace(PLAIN, bandwidth_hz=2e6)
    assert wide.bits_per_s == pytest.approx(2e6 * math.log2(2.5))


def test_the_paper_s_task() -> None:
    assert MNIST.parameters == 280_440
    assert MNIST.parameters * MNIST.bits_per_parameter == 8_974_080


def test_times_of_the_paper_s_learners() -> None:
    for clock_hz in (DESKTOP_HZ, MICROCONTROLLER_HZ):
        time = epoch_time(PLAIN, MNIST, clock_hz)
        assert time.per_sample_epoch_s == pytest.approx(1_123_736 / clock_hz)
        assert time.per_sample_s == pytest.approx(784 * 8 / 2e6)
        assert time.fixed_s == pytest.approx(2 * 8_974_080 / 2e6)


def test_models_that_grow_with_the_data() -> None:
    task = LearningTask(
        features=10,
        bits_per_feature=8,
        bits_per_parameter=32,
        parameters=100,
        parameters_per_sample=5,
        flops_per_sample_epoch=1e3,
    )
    time = epoch_time(PLAIN, task, 1e6)
    assert time.per_sample_epoch_s == 1e-3
    assert time.per_sample_s == pytest.approx((80 + 2 * 160) / 2e6)
    assert time.fixed_s == pytest.approx(6400 / 2e6)
    # Distributed data do not travel, models do.
    there = epoch_time(PLAIN, task, 1e6, distributed=True)
    assert there == dataclasses.replace(time, per_sample_s=there.per_sample_s)
    assert there.per_sample_s == pytest.approx(2 * 160 / 2e6)
    assert epoch_time(PLAIN, MNIST, 1e9, distributed=True).per_sample_s == 0.0


@pytest.mark.parametrize("field", ["gain", "bandwidth_hz", "power_w", "noise_w_per_hz"])
def test_a_radio_has_numbers_above_zero(field: str) -> None:
    with pytest.raises(ValueError, match=f"{field} must be a finite number above 0, got 0"):
        dataclasses.replace(PLAIN, **{field: 0.0})


@pytest.mark.parametrize(
    ("field", "value"),
    [
        ("features", 0),
        ("bits_per_feature", 0),
        ("bits_per_parameter", 1.5),
        ("parameters", -1),
        ("parameters_per_sample", -1),
        ("flops_per_sample_epoch", math.inf),
    ],
)
def test_a_task_has_numbers_that_can_be_meant(field: str, value: float) -> None:
    with pytest.raises(ValueError, match=f"{field} must be a .* got {value}"):
        dataclasses.replace(MNIST, **{field: value})  # type: ignore[arg-type]


def test_distances_and_clocks_are_above_zero() -> None:
    with pytest.raises(ValueError, match="distance_m must be a finite number above 0, got 0"):
        gain_at(0.0)
    with pytest.raises(ValueError, match="clock_hz must be a finite number above 0, got -1"):
        epoch_time(PLAIN, MNIST, -1.0)
