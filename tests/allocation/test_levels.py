"""Spreading the total: as even as can be, and with the least average staleness."""

from __future__ import annotations

import itertools

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from axon.allocation.epochs import EpochTime, pose
from axon.allocation.levels import even, even_out, gather, pair_sum
from axon.allocation.windows import Window, narrowest
from tests.allocation.oracle import cases, every_plan, rank
from tests.allocation.test_windows import problem_of


def wholes(*numbers: int) -> np.ndarray[tuple[int], np.dtype[np.int64]]:
    return np.array(numbers, np.int64)


@pytest.mark.parametrize(
    ("fewest", "most", "total", "wanted"),
    [
        ((0, 0, 0), (9, 9, 9), 11, [4, 4, 3]),
        ((0, 5, 0), (9, 9, 9), 9, [2, 5, 2]),
        ((0, 5, 0), (1, 9, 9), 9, [1, 5, 3]),
        ((1, 2, 3), (1, 2, 3), 6, [1, 2, 3]),
        ((-9, -9), (-1, -4), -9, [-4, -5]),
    ],
)
def test_even_between_bounds(
    fewest: tuple[int, ...], most: tuple[int, ...], total: int, wanted: list[int]
) -> None:
    assert even(wholes(*fewest), wholes(*most), total).tolist() == wanted


@settings(max_examples=60, deadline=None)
@given(st.lists(st.tuples(st.integers(0, 6), st.integers(0, 5)), min_size=1, max_size=4), st.data())
def test_no_numbers_between_the_bounds_are_more_even(
    bounds: list[tuple[int, int]], data: st.DataObject
) -> None:
    fewest, most = wholes(*(low for low, _ in bounds)), wholes(*(sum(pair) for pair in bounds))
    total = data.draw(st.integers(int(fewest.sum()), int(most.sum())))
    numbers = even(fewest, most, total)
    assert numbers.sum() == total
    assert (fewest <= numbers).all()
    assert (numbers <= most).all()
    every = itertools.product(*(range(low, low + more + 1) for low, more in bounds))
    least = min(sum(n * n for n in each) for each in every if sum(each) == total)
    assert (numbers**2).sum() == least


def test_staleness_summed_over_pairs() -> None:
    assert pair_sum(wholes(3, 1, 1, 7)) == 2 + 2 + 4 + 0 + 6 + 6
    assert pair_sum(wholes(5)) == 0
    # More than 64 bits hold.
    many = np.repeat(wholes(0, 2**52), 5000)
    assert pair_sum(many) == 5000 * 5000 * 2**52


@pytest.mark.parametrize(
    ("total", "wanted"),
    [
        # Of 4 samples each does 3 epochs, of 5 or 6 it does 2. One alone can take two more.
        (26, [2, 3, 3, 3, 3, 3]),
        # Three would have to go for five more; but if five do, only five pairs differ and not nine.
        (29, [2, 2, 2, 2, 2, 3]),
        (30, [2, 2, 2, 2, 2, 2]),
    ],
)
def test_as_few_as_possible_leave_a_level(total: int, wanted: list[int]) -> None:
    times = [EpochTime(per_sample_epoch_s=1.0)] * 6
    problem = pose(times, total=total, period_s=12.0, lower=1, upper=6)
    window = narrowest(problem)
    assert window == Window(min(wanted), max(wanted))
    assert sorted(problem.most_epochs(gather(problem, window)).tolist()) == wanted


def test_the_least_average_in_windows_one_step_wide() -> None:
    narrow = 0
    for case in cases(seed=21, count=150):
        plans = list(every_plan(case, case.total))
        if not plans:
            continue
        problem = problem_of(case)
        window = narrowest(problem)
        if window.width <= 1:
            narrow += 1
            samples = gather(problem, window)
            assert samples.sum() == case.total
            assert rank(problem.most_epochs(samples).tolist()) == min(map(rank, plans))
    assert narrow > 20


def test_evening_out_keeps_the_epochs() -> None:
    times = [EpochTime(per_sample_epoch_s=each) for each in (1.0, 1.0, 4.0)]
    problem = pose(times, total=21, period_s=20.0, lower=1, upper=None)
    # Of 7 to 10 samples the first two do 2 epochs, of 3 to 5 the third does one.
    assert even_out(problem, wholes(10, 8, 3)).tolist() == [8, 8, 5]
    # Only of 4 samples does the second do 5.
    assert even_out(problem, wholes(12, 4, 5)).tolist() == [12, 4, 5]
