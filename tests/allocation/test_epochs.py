"""How many samples and epochs fit: against counting, at ties, and where rounding swallows times."""

from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from axon.allocation.epochs import EpochTime, Problem, pose
from tests.allocation.oracle import seconds


def alone(time: EpochTime, *, period_s: float, upper: int = 10**6) -> Problem:
    return pose([time], total=1, period_s=period_s, lower=1, upper=upper)


def most_samples(time: EpochTime, epochs: int, *, period_s: float, upper: int) -> int:
    # The upper bound of a problem is cut down to the total, so that is what is asked for.
    problem = pose([time], total=1, period_s=period_s, lower=1, upper=None)
    wide = Problem(
        per_sample_epoch_s=problem.per_sample_epoch_s,
        per_sample_s=problem.per_sample_s,
        fixed_s=problem.fixed_s,
        lower=problem.lower,
        upper=np.array([upper]),
        total=upper,
        period_s=period_s,
    )
    return int(wide.most_samples(epochs)[0])


def most_epochs(time: EpochTime, samples: int, *, period_s: float) -> int:
    return int(alone(time, period_s=period_s).most_epochs(np.array([samples]))[0])


costs = st.builds(
    lambda each, once, fixed: EpochTime(per_sample_epoch_s=each, per_sample_s=once, fixed_s=fixed),
    st.one_of(st.floats(1e-12, 1e3), st.integers(1, 40).map(lambda tenths: tenths / 10)),
    st.one_of(st.just(0.0), st.floats(0.0, 10.0)),
    st.one_of(st.just(0.0), st.floats(0.0, 10.0)),
)
periods = st.one_of(st.floats(1e-3, 1e4), st.integers(1, 300).map(lambda tenths: tenths / 10))


@settings(max_examples=150, deadline=None)
@given(costs, periods, st.integers(1, 10**6))
def test_the_most_that_fit_fit_and_one_more_does_not(
    time: EpochTime, period_s: float, number: int
) -> None:
    if seconds(time, 1, 1) > period_s:
        with pytest.raises(ValueError, match="learner 0 cannot do 1 epoch of 1 samples"):
            alone(time, period_s=period_s)
        return
    epochs = most_epochs(time, number, period_s=period_s)
    assert epochs == 0 or seconds(time, epochs, number) <= period_s
    assert seconds(time, epochs + 1, number) > period_s
    samples = most_samples(time, number, period_s=period_s, upper=10**6)
    assert samples == 0 or seconds(time, number, samples) <= period_s
    assert samples == 10**6 or seconds(time, number, samples + 1) > period_s


def test_times_that_meet_the_period_exactly_fit() -> None:
    time = EpochTime(per_sample_epoch_s=2.0, per_sample_s=1.0, fixed_s=3.0)
    # 3 epochs of 4 samples take 24 + 4 + 3 s.
    assert most_epochs(time, 4, period_s=31.0) == 3
    assert most_epochs(time, 4, period_s=math.nextafter(31.0, 0.0)) == 2
    assert most_samples(time, 3, period_s=31.0, upper=100) == 4
    assert most_samples(time, 3, period_s=31.0, upper=3) == 3
    assert most_samples(time, 14, period_s=31.0, upper=100) == 0


def test_a_fixed_time_that_swallows_the_others() -> None:
    # No time is left by subtraction, but 2 ** -53 s and less are lost in rounding when added to 1.
    time = EpochTime(per_sample_epoch_s=2.0**-70, fixed_s=1.0)
    assert most_epochs(time, 1, period_s=1.0) == 2**17
    assert most_samples(time, 8, period_s=1.0, upper=10**6) == 2**14


def test_times_beyond_all_numbers_do_not_fit() -> None:
    time = EpochTime(per_sample_epoch_s=1e307, per_sample_s=1e308)
    assert most_samples(time, 5, period_s=1.5e308, upper=10**15) == 1
    assert most_samples(time, 10**6, period_s=1.5e308, upper=10**15) == 0
    assert most_epochs(time, 1, period_s=1.5e308) == 5
    assert most_epochs(time, 100, period_s=1.5e308) == 0


def test_upper_bounds_are_those_that_can_be_reached() -> None:
    times = [EpochTime(per_sample_epoch_s=each) for each in (1.0, 2.0, 0.001)]
    problem = pose(times, total=9, period_s=8.0, lower=[1, 2, 3], upper=[20, 3, 5000])
    assert problem.lower.tolist() == [1, 2, 3]
    assert problem.upper.tolist() == [8, 3, 9]


@pytest.mark.parametrize("field", ["per_sample_epoch_s", "per_sample_s", "fixed_s"])
@pytest.mark.parametrize("value", [-1.0, math.nan, math.inf, "1", True])
def test_costs_must_be_times(field: str, value: object) -> None:
    with pytest.raises(ValueError, match=f"{field} must be a finite number"):
        EpochTime(**{"per_sample_epoch_s": 1.0, field: value})  # type: ignore[arg-type]


def test_training_takes_time() -> None:
    with pytest.raises(ValueError, match="per_sample_epoch_s must be a finite number above 0"):
        EpochTime(per_sample_epoch_s=0.0)
    assert EpochTime(per_sample_epoch_s=1.0, per_sample_s=0.0, fixed_s=0.0).fixed_s == 0.0
