"""The paper's approximations: optimal in real numbers, feasible in whole ones, then improved."""

from __future__ import annotations

import numpy as np
import pytest

from axon.allocation.epochs import EpochTime, Problem, Real, pose
from axon.allocation.relaxation import (
    apportion,
    epochs_of,
    optimum,
    relaxed,
    suggest_and_improve,
    suggestion,
)
from axon.seeds import stream
from tests.allocation.oracle import rank


def spread(problem: Problem, samples: Real) -> float:
    epochs = epochs_of(problem, samples)
    return float(epochs.max() - epochs.min())


def random_problem(seed: int, learners: int, *, total: int = 400) -> Problem:
    random = stream(seed, "relaxation")
    times = [
        EpochTime(per_sample_epoch_s=each, per_sample_s=once, fixed_s=fixed)
        for each, once, fixed in zip(
            (10 ** random.uniform(-3, -1, learners)).tolist(),
            random.uniform(0, 0.01, learners).tolist(),
            random.uniform(0, 1, learners).tolist(),
            strict=True,
        )
    ]
    lower = random.integers(1, 30, learners).tolist()
    upper = [
        low + more
        for low, more in zip(lower, random.integers(200, 350, learners).tolist(), strict=True)
    ]
    return pose(times, total=total, period_s=60.0, lower=lower, upper=upper)


@pytest.mark.parametrize("seed", range(20))
def test_no_two_real_numbers_are_less_stale(seed: int) -> None:
    problem = random_problem(seed, 2)
    found = optimum(problem)
    assert found.sum() == pytest.approx(problem.total)
    first = np.linspace(problem.lower[0], problem.upper[0], 4001)
    second = problem.total - first
    inside = (problem.lower[1] <= second) & (second <= problem.upper[1])
    tried = [
        spread(problem, np.array(each)) for each in zip(first[inside], second[inside], strict=True)
    ]
    assert spread(problem, found) <= min(tried) + 1e-6


@pytest.mark.parametrize("seed", range(20))
def test_the_stationary_point_is_an_optimum_too(seed: int) -> None:
    problem = random_problem(seed, 3, total=600)
    found = suggestion(problem)
    assert found.sum() == pytest.approx(problem.total)
    assert spread(problem, found) == pytest.approx(spread(problem, optimum(problem)), abs=1e-6)
    # Whoever is not at a bound does as many epochs as all others that are not.
    free = (found > problem.lower + 1e-9) & (found < problem.upper - 1e-9)
    assert np.ptp(epochs_of(problem, found)[free]) < 1e-6


def test_by_hand() -> None:
    # 12 / d and 6 / d epochs: 4 and 2 samples for 3 epochs each.
    times = [EpochTime(per_sample_epoch_s=each) for each in (1.0, 2.0)]
    problem = pose(times, total=6, period_s=12.0, lower=1, upper=None)
    assert optimum(problem).tolist() == pytest.approx([4.0, 2.0])
    assert relaxed(problem).tolist() == [4, 2]
    # The second may not have more than 1; the first has to take what it leaves.
    problem = pose(times, total=6, period_s=12.0, lower=1, upper=[9, 1])
    assert optimum(problem).tolist() == pytest.approx([5.0, 1.0])
    assert suggest_and_improve(problem).tolist() == [5, 1]


@pytest.mark.parametrize(
    ("wanted", "total", "given"),
    [
        ([2.7, 3.2, 4.1], 10, [3, 3, 4]),
        ([2.7, 3.8, 4.5], 11, [3, 4, 4]),
        ([2.0, 3.0, 4.0], 14, [4, 5, 5]),  # Five are missing: one each, the others evenly.
        ([0.0, 9.9, 9.9], 10, [1, 4, 5]),  # The bounds are 1 and 5.
        ([5.0, 5.0, 5.0], 6, [2, 2, 2]),
    ],
)
def test_fractions_become_whole_numbers(wanted: list[float], total: int, given: list[int]) -> None:
    times = [EpochTime(per_sample_epoch_s=1.0)] * 3
    problem = pose(times, total=total, period_s=5.0, lower=1, upper=5)
    assert sorted(apportion(np.array(wanted), problem).tolist()) == sorted(given)


def test_improving_never_makes_it_worse_and_often_better() -> None:
    better = 0
    for seed in range(40):
        problem = random_problem(seed, 8, total=900)
        first = problem.most_epochs(apportion(suggestion(problem), problem)).tolist()
        samples = suggest_and_improve(problem)
        last = problem.most_epochs(samples).tolist()
        assert samples.sum() == problem.total
        assert (problem.lower <= samples).all()
        assert (samples <= problem.upper).all()
        (width, _, apart), (old_width, _, old_apart) = rank(last), rank(first)
        assert (width, apart) <= (old_width, old_apart)
        better += (width, apart) < (old_width, old_apart)
    assert better >= 3


def test_learners_of_very_different_scale() -> None:
    # What the first can do in epochs takes the second longer than there are numbers for.
    times = [EpochTime(per_sample_epoch_s=each) for each in (1e290, 1e300)]
    problem = pose(times, total=9, period_s=2e300, lower=1, upper=None)
    assert relaxed(problem).tolist() == [8, 1]
    assert suggest_and_improve(problem).tolist() == [8, 1]
