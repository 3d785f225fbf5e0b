"""The narrowest window: its two ends, learners that jump over it, and all windows tried."""

from __future__ import annotations

import pytest

from axon.allocation.epochs import EpochTime, Problem, pose
from axon.allocation.windows import Window, first, least_in_common, most_in_common, narrowest
from tests.allocation.oracle import Case, cases, every_plan


def problem_of(case: Case) -> Problem:
    return pose(
        case.times,
        total=case.total,
        period_s=case.period_s,
        lower=case.lower,
        upper=case.upper,
    )


def solvable(seed: int, count: int) -> list[tuple[Case, list[tuple[int, ...]]]]:
    found = [(case, list(every_plan(case, case.total))) for case in cases(seed, count)]
    return [(case, plans) for case, plans in found if plans]


def times(*each_s: float) -> tuple[EpochTime, ...]:
    return tuple(EpochTime(per_sample_epoch_s=each) for each in each_s)


def test_the_ends_are_those_that_no_plan_can_pass() -> None:
    for case, plans in solvable(seed=11, count=120):
        problem = problem_of(case)
        at_least, at_most = most_in_common(problem), least_in_common(problem)
        assert at_least == max(min(epochs) for epochs in plans)
        assert at_most == min(max(epochs) for epochs in plans)
        assert at_least <= at_most


def test_no_plan_fits_a_narrower_window_or_a_higher_one() -> None:
    for case, plans in solvable(seed=12, count=120):
        problem = problem_of(case)
        window = narrowest(problem)
        spans = [(max(epochs) - min(epochs), -min(epochs)) for epochs in plans]
        assert (window.width, -window.fewest) == min(spans)


def test_samples_that_bring_everybody_into_a_window() -> None:
    # In 12 s: 12, 6, 4, 3, 2, 2, 1, ... epochs of 1, 2, 3, ... samples, and half of that.
    problem = problem_of(Case(times(1.0, 2.0), total=9, period_s=12.0, upper=20))
    lo, hi = Window(2, 4).samples(problem)
    assert (lo.tolist(), hi.tolist()) == ([3, 2], [6, 3])
    # Five epochs are nobody's.
    lo, hi = Window(5, 5).samples(problem)
    assert (lo > hi).all()


@pytest.mark.parametrize(
    ("second_s", "total", "wanted"),
    [
        # The second does 60 epochs of its one sample, and so can the third of the rest. The first
        # does 100 epochs of one sample and 50 of two: 50 is nearer.
        (1.65, 168, Window(50, 60)),
        # Here it is 90 epochs, and 100 is nearer.
        (1.1, 113, Window(90, 100)),
        # And here 75, as far from one as from the other: more epochs are better.
        (1.333, 135, Window(75, 100)),
    ],
)
def test_who_jumps_over_the_window_is_let_in_where_it_is_nearer(
    second_s: float, total: int, wanted: Window
) -> None:
    case = Case(times(1.0, second_s, 0.01), total, 100.0, upper=(2, 1, 200))
    problem = problem_of(case)
    assert most_in_common(problem) == least_in_common(problem)
    assert narrowest(problem) == wanted
    spans = [(max(epochs) - min(epochs), -min(epochs)) for epochs in every_plan(case, total)]
    assert min(spans) == (wanted.width, -wanted.fewest)


def test_a_search_for_the_first() -> None:
    assert first(lambda number: number >= -3, -10, 10) == -3
    assert first(lambda _: True, 5, 9) == 5
    assert first(lambda _: False, 5, 9) == 9
