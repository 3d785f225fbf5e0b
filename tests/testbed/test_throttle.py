"""Rests between batches on a clock that the tests move."""

from __future__ import annotations

import time

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from axon.seeds import plain_stream
from axon.testbed.catalogue import device
from axon.testbed.throttle import DutyCycle, rest_s


class Clock:
    """Time that passes when it is told to, and sleeps that end `late_s` late."""

    def __init__(self, late_s: float = 0.0) -> None:
        self.now_s = 50.0
        self.late_s = late_s
        self.slept: list[float] = []

    def __call__(self) -> float:
        return self.now_s

    def sleep(self, wanted_s: float) -> None:
        self.slept.append(wanted_s)
        self.now_s += wanted_s + self.late_s


def paced(clock: Clock) -> DutyCycle:
    return DutyCycle(device("ideal"), clock=clock, sleep=clock.sleep)


def train(cycle: DutyCycle, clock: Clock, busy_s: float, target_s: float = 1.0) -> None:
    began_s = clock.now_s
    clock.now_s += busy_s
    cycle.pace(target_s, began_s=began_s)


@pytest.mark.parametrize(
    ("busy_s", "target_s", "expected"), [(0.25, 1.0, 0.75), (1.0, 1.0, 0.0), (3.0, 1.0, 0.0)]
)
def test_a_rest_fills_what_is_left(busy_s: float, target_s: float, expected: float) -> None:
    assert rest_s(busy_s, target_s) == expected


def test_an_overrun_is_taken_off_the_next_rests() -> None:
    clock = Clock()
    cycle = paced(clock)
    train(cycle, clock, 1.75)
    assert (clock.slept, cycle.debt_s) == ([], 0.75)
    train(cycle, clock, 0.5)
    assert (clock.slept, cycle.debt_s) == ([], 0.25)
    train(cycle, clock, 0.5)
    assert (clock.slept, cycle.debt_s) == ([0.25], 0.0)
    train(cycle, clock, 0.5)
    assert clock.slept == [0.25, 0.5]
    assert clock.now_s == 54.0


def test_a_sleep_that_ends_late_is_taken_off_the_next_rest() -> None:
    clock = Clock(late_s=0.125)
    cycle = paced(clock)
    train(cycle, clock, 0.5)
    train(cycle, clock, 0.5)
    assert clock.slept == [0.5, 0.375]
    assert cycle.debt_s == 0.125


def test_time_between_batches_is_no_part_of_them() -> None:
    clock = Clock()
    cycle = paced(clock)
    train(cycle, clock, 0.5)
    clock.now_s += 7.0
    train(cycle, clock, 0.5)
    assert clock.slept == [0.5, 0.5]


@pytest.mark.parametrize("seed", range(5))
def test_a_hundred_noisy_batches_take_a_hundred_targets(seed: int) -> None:
    clock, random = Clock(late_s=0.02), plain_stream(seed, "noise")
    cycle = paced(clock)
    for _ in range(100):
        # Some overrun, and sleeps end late: without a debt it would come to 103 or more.
        train(cycle, clock, random.uniform(0.0, 1.2))
    assert clock.now_s - 50.0 == pytest.approx(100.0, abs=1.0)


@settings(max_examples=50)
@given(st.lists(st.tuples(st.floats(0, 5), st.floats(0, 5)), max_size=30), st.floats(0, 0.5))
def test_time_passed_is_the_targets_and_the_debt(
    batches: list[tuple[float, float]], late_s: float
) -> None:
    clock = Clock(late_s)
    cycle = paced(clock)
    for busy_s, target_s in batches:
        train(cycle, clock, busy_s, target_s)
    wanted_s = sum(target_s for _, target_s in batches)
    assert clock.now_s - 50.0 == pytest.approx(wanted_s + cycle.debt_s)
    assert cycle.debt_s >= -1e-9


def test_targets_come_from_the_device_and_its_state() -> None:
    idle = DutyCycle(device("ideal"))
    busy = DutyCycle(device("ideal"), state="training")
    assert idle.target_s(1e6, 542) == pytest.approx(0.000542)
    assert busy.target_s(1e6, 542) == pytest.approx(0.002)


def test_the_real_clock_is_the_default() -> None:
    cycle = DutyCycle(device("ideal"))
    began_s = time.monotonic()
    cycle.pace(0.02, began_s=began_s)
    passed_s = time.monotonic() - began_s
    assert passed_s >= 0.02
    assert 0.0 <= cycle.debt_s <= passed_s - 0.02
