"""Median, trimmed mean and mean around the median: against loops, and beyond what loops meet."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from axon.aggregation import mean_around_median, median, trimmed_mean
from axon.errors import ConfigurationError
from axon.seeds import stream
from tests.aggregation import oracles
from tests.aggregation.oracles import drawn

Rule = Callable[[Any, int], Any]
RULES: dict[str, Rule] = {
    "median": lambda stack, f: median(stack, f=f),
    "trimmed_mean": lambda stack, f: trimmed_mean(stack, f=f),
    "mean_around_median": lambda stack, f: mean_around_median(stack, f=f),
}
ORACLES: dict[str, Rule] = {
    "median": lambda stack, f: oracles.median(stack),
    "trimmed_mean": oracles.trimmed_mean,
    "mean_around_median": lambda stack, f: oracles.around_median(stack, len(stack) - f),
}
every_rule = pytest.mark.parametrize("name", RULES)


@every_rule
@pytest.mark.parametrize(("n", "f"), [(1, 0), (2, 0), (3, 1), (4, 1), (9, 4), (10, 4), (17, 3)])
def test_against_loops(name: str, n: int, f: int) -> None:
    stack = drawn(n, 33)
    np.testing.assert_allclose(RULES[name](stack, f), ORACLES[name](stack, f), rtol=2e-6, atol=1e-6)


@every_rule
def test_ties(name: str) -> None:
    stack = stream(3, "ties").integers(-2, 3, (9, 200)).astype(np.float32)
    np.testing.assert_allclose(RULES[name](stack, 3), ORACLES[name](stack, 3), atol=1e-6)


@every_rule
def test_many_coordinates(name: str) -> None:
    stack = drawn(5, 33_001)
    np.testing.assert_allclose(RULES[name](stack, 2), ORACLES[name](stack, 2), atol=2e-6)


@every_rule
@settings(max_examples=30, deadline=None)
@given(seed=st.integers(0, 10**6), n=st.integers(1, 12), share=st.floats(0, 1))
def test_where_rows_stand_changes_no_bit(name: str, seed: int, n: int, share: float) -> None:
    stack, f = drawn(n, 40, seed), int(share * ((n - 1) // 2))
    moved = stack[stream(seed, "permutation").permutation(n)]
    assert RULES[name](moved, f).tobytes() == RULES[name](stack, f).tobytes()


@every_rule
@pytest.mark.parametrize(("by", "shift"), [(3.0, 0.0), (-2.0, 0.0), (1.0, 5.0), (-1.0, 8.0)])
def test_equivariance(name: str, by: float, shift: float) -> None:
    stack = drawn(9, 60).astype(np.float64)
    moved = RULES[name](by * stack + shift, 3)
    np.testing.assert_allclose(moved, by * RULES[name](stack, 3) + shift, rtol=1e-12)


@every_rule
@pytest.mark.parametrize("bad", [np.nan, np.inf, -np.inf, 3e38, -3e38])
def test_f_rows_that_are_anything_never_reach_the_result(name: str, bad: float) -> None:
    stack = drawn(9, 50)
    spoiled = stack.copy()
    spoiled[[1, 4, 8]] = bad
    spoiled[4, ::2] = -bad
    found = RULES[name](spoiled, 3)
    assert np.isfinite(found).all()
    whole = np.delete(stack, [1, 4, 8], axis=0)
    assert (found >= whole.min(axis=0)).all()
    assert (found <= whole.max(axis=0)).all()


@every_rule
def test_one_bad_value_is_left_out_and_the_rest_of_its_row_counts(name: str) -> None:
    stack = drawn(5, 40_000)
    spoiled = stack.copy()
    spoiled[2, 35_000] = np.nan
    found = RULES[name](spoiled, 1)
    assert np.isfinite(found).all()
    expected = np.delete(RULES[name](stack, 1), 35_000)
    np.testing.assert_allclose(np.delete(found, 35_000), expected, rtol=1e-6, atol=1e-7)


@every_rule
@pytest.mark.parametrize("kind", [np.float32, np.float64])
def test_more_bad_rows_than_that_are_refused(name: str, kind: Any) -> None:
    stack = drawn(9, 40_000).astype(kind)
    # One value each, in other coordinates, of either sign: no result shows them.
    stack[2, 7], stack[5, 39_000], stack[8, 20_000] = np.nan, np.inf, -np.inf
    assert np.isfinite(RULES[name](stack, 3)).all()
    with pytest.raises(ConfigurationError, match=rf"{name} bears f = 2 updates .* got 3 of 9"):
        RULES[name](stack, 2)


def test_without_f_the_median_bears_fewer_than_half() -> None:
    stack = drawn(6, 9)
    stack[:2] = np.nan
    assert np.isfinite(median(stack)).all()
    stack[2] = np.inf
    with pytest.raises(ConfigurationError, match=r"bears f = 2 updates .* got 3 of 6"):
        median(stack)
    with pytest.raises(ConfigurationError, match=r"bears f = 2 updates .* got 3 of 6"):
        median(torch.from_numpy(stack), weights=[1, 2, 3, 4, 5, 6])


@every_rule
def test_values_near_the_largest_there_are(name: str) -> None:
    stack = np.full((4, 3), 3e38, dtype=np.float32)
    np.testing.assert_allclose(RULES[name](stack, 1), stack[0], rtol=1e-6)


@every_rule
def test_preconditions(name: str) -> None:
    with pytest.raises(
        ConfigurationError, match=rf"{name} needs at least 2f\+1 = 7 updates, got 6"
    ):
        RULES[name](drawn(6, 2), 3)
    for f in (-1, 1.5, True):
        with pytest.raises(ConfigurationError, match="needs a whole f of at least 0, got"):
            RULES[name](drawn(6, 2), f)  # type: ignore[arg-type]


@pytest.mark.parametrize("rule", [trimmed_mean, mean_around_median])
def test_the_mean_for_none(rule: Callable[..., Any]) -> None:
    with pytest.raises(ConfigurationError, match="a whole f of at least 0, got None"):
        rule(drawn(6, 30), f=None)
    stack = drawn(6, 30)
    np.testing.assert_allclose(rule(stack, f=0), stack.mean(axis=0, dtype=np.float64), rtol=1e-6)


def test_zeros_have_one_sign() -> None:
    stack = np.array([[0.0], [-0.0], [-0.0]], dtype=np.float32)
    assert median(stack).tobytes() == median(stack[::-1]).tobytes()


class TestWeights:
    def test_equal_weights_give_the_rule(self) -> None:
        stack = drawn(6, 20)
        for weight in (0.1, 7.0):
            weights = [weight] * 6
            np.testing.assert_array_equal(median(stack, weights=weights), median(stack))
            np.testing.assert_array_equal(
                trimmed_mean(stack, f=2, weights=weights), trimmed_mean(stack, f=2)
            )

    def test_a_weight_counts_as_so_many_rows(self) -> None:
        stack, weights = drawn(5, 40), [3, 1, 4, 1, 2]
        copies = np.repeat(stack, weights, axis=0)
        np.testing.assert_allclose(median(stack, weights=weights), median(copies), rtol=1e-6)

    def test_half_reached_just_between_two(self) -> None:
        stack = np.array([[1.0], [2.0], [5.0]], dtype=np.float64)
        assert median(stack, weights=[0.1, 0.2, 0.3]).tolist() == [3.5]
        assert median(stack, weights=[0.1, 0.2, 0.31]).tolist() == [5.0]

    def test_trimmed_mean_by_hand(self) -> None:
        stack = np.array([[9.0], [1.0], [2.0], [4.0]])
        found = trimmed_mean(stack, f=1, weights=[100, 100, 3, 1])
        assert found.tolist() == [pytest.approx((3 * 2 + 4) / 4)]

    def test_mean_around_median_by_hand(self) -> None:
        stack = np.array([[9.0], [1.0], [2.0], [4.0]])
        # The weighted median is 4, from which 9 is furthest.
        found = mean_around_median(stack, f=1, weights=[2, 1, 1, 3])
        assert found.tolist() == [pytest.approx((4 * 3 + 2 + 1) / 5)]

    def test_a_row_of_weight_0_does_not_count(self) -> None:
        stack = drawn(4, 10)
        stack[1] = np.nan
        found = median(stack, weights=[1, 0, 1, 1])
        np.testing.assert_array_equal(found, median(np.delete(stack, 1, axis=0)))

    @pytest.mark.parametrize("rule", [median, trimmed_mean, mean_around_median])
    def test_bad_rows_and_places(self, rule: Callable[..., Any]) -> None:
        stack, weights = drawn(7, 30), np.array([1.0, 2, 3, 1, 2, 1, 2])
        stack[[0, 3]] = np.nan
        found = rule(stack, f=2, weights=weights)
        assert np.isfinite(found).all()
        order = stream(5, "places").permutation(7)
        moved = rule(stack[order], f=2, weights=weights[order])
        assert moved.tobytes() == found.tobytes()

    @pytest.mark.parametrize("rule", [median, trimmed_mean, mean_around_median])
    def test_one_precision_as_the_other(self, rule: Callable[..., Any]) -> None:
        # Single precision is sorted by a network with the rows' numbers in spare bits.
        stack, weights = drawn(9, 300), stream(2, "by").integers(1, 9, 9)
        stack[:, ::3] = np.round(stack[:, ::3])
        stack[4], stack[6, ::2], stack[6, 1::2] = np.nan, np.inf, -np.inf
        options = {"f": 2, "weights": weights}
        wide = rule(stack.astype(np.float64), **options)
        np.testing.assert_array_equal(rule(stack, **options), wide.astype(np.float32))

    def test_refused(self) -> None:
        for weights in ([10**400, 1, 1], "abc", [1, None, 1]):
            with pytest.raises(ConfigurationError, match="weights must be"):
                median(drawn(3, 2), weights=weights)  # type: ignore[arg-type]
        with pytest.raises(ConfigurationError, match="3 updates need as many weights, got 2"):
            median(drawn(3, 2), weights=[1, 2])
        with pytest.raises(ConfigurationError, match=r"got -1\.0 at 1"):
            median(drawn(3, 2), weights=[1, -1, 1])
        with pytest.raises(ConfigurationError, match="at least 1 of 3 weights must be above 0"):
            median(drawn(3, 2), weights=[0, 0, 0])


@every_rule
@pytest.mark.parametrize("kind", [torch.float64, torch.float32, torch.bfloat16, torch.float16])
def test_kinds_of_torch(name: str, kind: torch.dtype) -> None:
    stack = torch.from_numpy(drawn(7, 40)).to(kind)
    found = RULES[name](stack, 2)
    assert found.dtype == kind
    expected = torch.tensor(ORACLES[name](stack.double(), 2), dtype=torch.float64)
    slack = 1e-2 if kind.itemsize < 4 else 1e-5
    torch.testing.assert_close(found.double(), expected, rtol=slack, atol=1e-6)


@every_rule
def test_kinds_of_numpy_and_strides(name: str) -> None:
    stack = drawn(7, 40)
    for other in (stack.astype(np.float64), np.asfortranarray(stack), stack[:, ::-1][:, ::-1]):
        found = RULES[name](other, 2)
        assert found.dtype == other.dtype
        np.testing.assert_allclose(found, RULES[name](stack, 2), rtol=1e-6)
    assert RULES[name](stack.astype(np.float16), 2).dtype == np.float16
    across = torch.from_numpy(stack).t().contiguous().t()
    np.testing.assert_array_equal(RULES[name](across, 2).numpy(), RULES[name](stack, 2))
