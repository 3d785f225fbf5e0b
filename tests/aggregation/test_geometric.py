"""The geometric median and centred clipping: what defines them, and rows that are anything."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import torch
from numpy.typing import NDArray

from axon.aggregation import centered_clipping, geometric_median, median
from axon.errors import ConfigurationError
from axon.seeds import stream
from tests.aggregation.oracles import drawn


def summed(stack: NDArray[Any], point: NDArray[Any], weights: list[float] | None = None) -> float:
    """Σ wᵢ |xᵢ - point|, which the geometric median makes least."""
    away = np.linalg.norm(stack.astype(np.float64) - point, axis=1)
    return float(np.average(away, weights=weights))


class TestGeometricMedian:
    def test_the_middle_of_a_line_is_the_median(self) -> None:
        stack = np.array([[0.0, 0.0], [1.0, 1.0], [7.0, 7.0]])
        np.testing.assert_allclose(geometric_median(stack), [1.0, 1.0], atol=1e-4)

    def test_of_a_square_with_its_centre(self) -> None:
        corners = np.array([[1.0, 1], [1, -1], [-1, 1], [-1, -1]])
        np.testing.assert_allclose(geometric_median(corners + 5), [5.0, 5.0], atol=1e-4)

    @pytest.mark.parametrize("weights", [None, [1.0, 2.0, 3.0, 4.0, 1.0, 2.0, 2.0]])
    def test_no_point_near_it_is_better(self, weights: list[float] | None) -> None:
        stack = drawn(7, 20).astype(np.float64)
        found = geometric_median(stack, weights=weights)
        least = summed(stack, found, weights)
        random = stream(1, "near")
        for _ in range(50):
            step = 0.05 * random.standard_normal(20)
            assert summed(stack, found + step, weights) > least
        assert least < summed(stack, median(stack), weights)

    def test_bears_rows_far_away_and_rows_that_are_no_numbers(self) -> None:
        stack = drawn(9, 50)
        honest = geometric_median(stack[3:])
        stack[0], stack[1], stack[2] = 1e30, np.nan, -1e6
        found = geometric_median(stack, f=3)
        spread = np.linalg.norm(stack[3:] - honest, axis=1).max()
        assert np.linalg.norm(found - honest) < spread

    def test_equal_rows(self) -> None:
        stack = np.ones((5, 3), dtype=np.float32)
        np.testing.assert_array_equal(geometric_median(stack), stack[0])
        stack[4] = 2.0
        np.testing.assert_allclose(geometric_median(stack), stack[0], atol=1e-4)

    def test_equivariance(self) -> None:
        stack = drawn(7, 20).astype(np.float64)
        moved = geometric_median(-2 * stack + 3)
        np.testing.assert_allclose(moved, -2 * geometric_median(stack) + 3, rtol=1e-9)

    def test_where_rows_stand_changes_no_bit(self) -> None:
        stack = drawn(7, 200)
        order = stream(2, "order").permutation(7)
        assert geometric_median(stack[order]).tobytes() == geometric_median(stack).tobytes()

    def test_refused(self) -> None:
        with pytest.raises(ConfigurationError, match=r"at least 2f\+1 = 5 updates, got 4"):
            geometric_median(drawn(4, 2), f=2)
        with pytest.raises(ValueError, match="got 0 of 3"):
            geometric_median(np.full((3, 2), np.nan))


class TestCenteredClipping:
    def test_by_hand(self) -> None:
        stack = np.array([[0.0], [2.0], [10.0]])
        centre = np.array([1.0])
        # Differences -1, 1 and 9, the last cut to 3.
        found = centered_clipping(stack, radius=3.0, centre=centre, iterations=1)
        np.testing.assert_allclose(found, [2.0])

    def test_the_mean_where_nothing_is_cut(self) -> None:
        stack = drawn(5, 30)
        found = centered_clipping(stack, radius=1e3)
        np.testing.assert_allclose(found, stack.mean(axis=0), rtol=1e-5, atol=1e-6)

    def test_a_row_moves_it_no_further_than_its_share_of_the_radius(self) -> None:
        stack = drawn(9, 40)
        centre = median(stack)
        others = centered_clipping(stack, radius=2.0, centre=centre, iterations=1)
        stack[3] = 1e20
        moved = centered_clipping(stack, radius=2.0, centre=centre, iterations=1)
        assert np.linalg.norm(moved - others) <= 2 * 2.0 / 9 + 1e-5

    @pytest.mark.parametrize("bad", [np.nan, np.inf, 1e30])
    def test_bad_rows(self, bad: float) -> None:
        stack = drawn(9, 40)
        stack[[0, 4, 5]] = bad
        whole = np.delete(stack, [0, 4, 5], axis=0)
        found = centered_clipping(stack, f=3)
        spread = np.linalg.norm(whole - whole.mean(axis=0), axis=1).max()
        assert np.linalg.norm(found - whole.mean(axis=0)) < spread

    def test_equal_rows(self) -> None:
        stack = np.ones((4, 3), dtype=np.float32)
        np.testing.assert_array_equal(centered_clipping(stack), stack[0])

    def test_where_rows_stand_changes_no_bit(self) -> None:
        stack = drawn(7, 200)
        order = stream(2, "order").permutation(7)
        assert centered_clipping(stack[order]).tobytes() == centered_clipping(stack).tobytes()

    def test_refused(self) -> None:
        with pytest.raises(ConfigurationError, match="a radius above 0, got 0"):
            centered_clipping(drawn(4, 2), radius=0)
        for centre in (np.zeros(3, np.float32), np.full(2, np.nan, np.float32)):
            with pytest.raises(ConfigurationError, match="a centre of 2 finite values, got shape"):
                centered_clipping(drawn(4, 2), centre=centre)


@pytest.mark.parametrize("rule", [geometric_median, centered_clipping])
@pytest.mark.parametrize("kind", [torch.float64, torch.float32, torch.bfloat16])
def test_kinds(rule: Any, kind: torch.dtype) -> None:
    stack = torch.from_numpy(drawn(7, 40)).to(kind)
    found = rule(stack)
    assert found.dtype == kind
    expected = torch.from_numpy(rule(stack.double().numpy()))
    slack = 1e-2 if kind == torch.bfloat16 else 1e-4
    torch.testing.assert_close(found.double(), expected, rtol=slack, atol=slack)
