"""Lines through benchmarks: by hand, against a search, and against chance itself."""

from __future__ import annotations

import itertools
import math

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from axon.devices.subset import QUICKEST_S, Line, Point, fit, nested
from axon.errors import ConfigurationError
from axon.seeds import stream


@pytest.mark.parametrize(
    ("most", "sizes"),
    [(1, (1,)), (2, (1, 2)), (3, (1, 3)), (4, (1, 2, 4)), (8, (2, 4, 8)), (10, (2, 5, 10))],
)
def test_sizes_are_a_quarter_half_and_all(most: int, sizes: tuple[int, ...]) -> None:
    assert nested(most) == sizes


def test_a_line_by_hand() -> None:
    # Weights 1, 1/2 and 1/4: centre 12/7, mean 29/7 s; slopes 175/49 over 91/49.
    line = fit([(1, 3.0), (2, 4.0), (4, 9.0)])
    assert line.each_s == pytest.approx(25 / 13)
    assert line.fixed_s == pytest.approx(11 / 13)
    assert line.rate == pytest.approx(13 / 25)
    # Residuals 3/13, -9/13 and 6/13, so that squares / amount add up to 4.5/13.
    assert line.doubt is not None
    assert line.doubt.freedom == 1
    assert line.doubt.variance == pytest.approx(4.5 / 13)
    found = line.predict(8)
    assert found.value == pytest.approx(211 / 13)
    # 8 for what is new; 4/7 and (8 - 12/7)^2 * 7/13 for the line.
    unsure = 8 + 4 / 7 + (44 / 7) ** 2 * 7 / 13
    assert found.half == pytest.approx(12.706205 * math.sqrt(4.5 / 13 * unsure))


def test_the_ratio_is_that_of_the_largest_and_nothing_is_paid_once() -> None:
    points = [(2.0, 9.0), (8.0, 4.0), (4.0, 9.0)]
    assert fit(points, "ratio") == Line(0.0, 0.5)
    twice = fit([*points, (8.0, 6.0)], "ratio")
    assert (twice.fixed_s, twice.each_s) == (0.0, 10 / 16)
    # Each is 1 s off: a variance of 2/8, and 12.7 times its root to either side.
    half = 12.706205 * math.sqrt(0.25 * (16 + 16**2 / 16))
    assert twice.predict(16).half == pytest.approx(half)


def test_one_distinct_amount_gives_the_ratio() -> None:
    assert fit([(4.0, 2.0)]) == Line(0.0, 0.5)
    assert fit([(4.0, 1.0), (4.0, 3.0)]) == fit([(4.0, 1.0), (4.0, 3.0)], "ratio")
    assert fit([(1e9, 1.0), (1e9 + 1e-3, 2.0)]).fixed_s == 0.0


def test_without_a_point_to_spare_anything_may_be() -> None:
    for line in (fit([(4.0, 2.0)]), fit([(2.0, 2.0), (4.0, 3.0)])):
        found = line.predict(10.0)
        assert (found.low, found.high) == (-math.inf, math.inf)
    assert fit([(2.0, 2.0), (4.0, 3.0)]).fixed_s == pytest.approx(1.0)


def test_a_negative_part_is_set_to_nothing() -> None:
    # The free line would start at -1 s; the best through the origin is all over all.
    steep = fit([(1.0, 1.0), (2.0, 3.0), (3.0, 5.0)])
    assert (steep.fixed_s, steep.each_s) == (0.0, 1.5)
    assert steep.doubt is not None
    assert steep.doubt.freedom == 2
    # More took less: there is no rate in that, so none is promised beyond the one that was seen.
    falling = fit([(1.0, 3.0), (2.0, 2.0), (3.0, 1.0)])
    assert (falling.fixed_s, falling.each_s) == (0.0, 1.0)


def test_what_took_no_time_is_quick_enough() -> None:
    assert fit([(1.0, 0.0), (2.0, 0.0)]).each_s == QUICKEST_S
    assert fit([(3.0, 0.0)], "ratio").each_s == QUICKEST_S


def misfit(points: list[Point], fixed_s: float, each_s: float) -> float:
    """What least squares make least."""
    return sum((took - fixed_s - each_s * amount) ** 2 / amount for amount, took in points)


@pytest.mark.parametrize("seed", range(6))
def test_no_line_of_a_search_fits_better(seed: int) -> None:
    random = stream(seed, "points")
    for _ in range(5):
        amounts = random.uniform(1, 50, size=5)
        points = [(float(x), float(0.3 + 0.1 * x + random.uniform(0, 2))) for x in amounts]
        line = fit(points)
        best = min(
            misfit(points, fixed / 20, each / 400)
            for fixed, each in itertools.product(range(60), range(1, 100))
        )
        slope = free_slope(points)
        if slope > 0:
            assert misfit(points, line.fixed_s, line.each_s) <= best + 1e-9
        else:
            assert line.fixed_s == 0.0


def free_slope(points: list[Point]) -> float:
    """By the normal equations as they stand, bounds or not."""
    ones = sum(1 / x for x, _ in points)
    seconds = sum(t / x for x, t in points)
    amounts, together = float(len(points)), sum(t for _, t in points)
    squares = sum(x for x, _ in points)
    return (ones * together - amounts * seconds) / (ones * squares - amounts**2)


def test_nineteen_of_twenty_predictions_hold() -> None:
    random, held, trials = stream(0, "coverage"), 0, 1500
    for _ in range(trials):
        noise = random.standard_normal(5)
        amounts = (50.0, 100.0, 200.0, 400.0)
        points = [
            (x, 0.5 + 0.01 * x + 0.01 * math.sqrt(x) * n)
            for x, n in zip(amounts, noise, strict=False)
        ]
        taken = 0.5 + 0.01 * 2000 + 0.01 * math.sqrt(2000) * noise[4]
        predicted = fit(points).predict(2000)
        held += predicted.low <= taken <= predicted.high
    assert 0.93 <= held / trials <= 0.985


amounts = st.lists(st.integers(1, 10**9), min_size=2, max_size=8, unique=True)


@settings(max_examples=80, deadline=None)
@given(amounts, st.floats(0.0, 10.0), st.floats(1e-9, 1.0))
def test_an_exact_line_is_found_again(sizes: list[int], fixed_s: float, each_s: float) -> None:
    line = fit([(size, fixed_s + each_s * size) for size in sizes])
    for size in (min(sizes), max(sizes)):
        wanted = fixed_s + each_s * size
        assert line.predict(size).value == pytest.approx(wanted, rel=1e-6)
    assert line.each_s == pytest.approx(each_s, rel=0.01, abs=1e-6 * line.predict(1).value)


points_of = st.tuples(st.floats(1e-3, 1e9), st.floats(0.0, 1e6))


@settings(max_examples=80, deadline=None)
@given(st.lists(points_of, min_size=1, max_size=8), st.sampled_from(["affine", "ratio"]))
def test_neither_part_is_ever_negative(points: list[Point], method: str) -> None:
    line = fit(points, method)  # type: ignore[arg-type]  # (drawn from the two there are)
    assert line.fixed_s >= 0.0
    assert line.each_s > 0.0
    assert line.predict(7.0).low <= line.predict(7.0).value <= line.predict(7.0).high


@pytest.mark.parametrize(
    ("points", "complaint"),
    [
        ([], "at least 1 point, got 0"),
        ([(0.0, 1.0)], "the amount of a point must be .* above 0, got 0.0"),
        ([(1.0, 1.0), (-2.0, 1.0)], "the amount of a point .* got -2.0"),
        ([(math.nan, 1.0)], "the amount of a point .* got nan"),
        ([(math.inf, 1.0)], "the amount of a point .* got inf"),
        ([(1.0, -1.0)], "the seconds of a point must be .* at least 0, got -1.0"),
        ([(1.0, math.nan)], "the seconds of a point .* got nan"),
        ([(1.0, math.inf)], "the seconds of a point .* got inf"),
    ],
)
def test_nonsense_is_named(points: list[Point], complaint: str) -> None:
    for method in ("affine", "ratio"):
        with pytest.raises(ConfigurationError, match=complaint):
            fit(points, method)


def test_an_unknown_method_lists_the_known_and_no_shards_are_no_benchmark() -> None:
    with pytest.raises(ConfigurationError, match=r"no method 'cubic' .*known: affine, ratio"):
        fit([(1.0, 1.0)], "cubic")  # type: ignore[arg-type]  # (what a setting may say)
    with pytest.raises(ConfigurationError, match=r"shards of a benchmark must be .* got 0"):
        nested(0)
    with pytest.raises(ConfigurationError, match=r"amount must be .* got nan"):
        Line(0.0, 1.0).predict(math.nan)
