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

    @pytest.mark.parametrize("seed", range(8))
    def test_where_rows_stand_changes_no_bit(self, seed: int) -> None:
        stack = drawn(9, 50, seed)
        order = stream(seed, "order").permutation(9)
        assert geometric_median(stack[order]).tobytes() == geometric_median(stack).tobytes()

    def test_refused(self) -> None:
        with pytest.raises(ConfigurationError, match=r"at least 2f\+1 = 5 updates, got 4"):
            geometric_median(drawn(4, 2), f=2)
        with pytest.raises(ConfigurationError, match=r"bears f = 1 updates .* got 3 of 3"):
            geometric_median(np.full((3, 2), np.nan))
        with pytest.raises(ConfigurationError, match="a tolerance above 0, got nan"):
            geometric_median(drawn(3, 2), tolerance=float("nan"))
        for rule in (geometric_median, centered_clipping):
            with pytest.raises(ConfigurationError, match="iterations of at least 0, got -3"):
                rule(drawn(3, 2), iterations=-3)

    @pytest.mark.parametrize("far", [1e2, 1e6, 1e30])
    def test_equal_rows_in_the_majority_hold_it(self, far: float) -> None:
        stack = np.array([[1.0], [1.0], [1.0], [far], [far]], dtype=np.float32)
        assert geometric_median(stack, f=2).tolist() == [1.0]

    @pytest.mark.parametrize(
        ("rows", "weights", "expected"),
        [
            ([[1.0, 0], [0, 1], [0, 0]], None, [(3 - np.sqrt(3)) / 6] * 2),
            ([[0.0], [1], [9]], [5.0, 1.0, 1.0], [0.0]),
            ([[np.nan], [np.nan], [-0.44], [0.39], [-0.94]], None, [-0.44]),
            ([[0.0], [4.0]], None, [2.0]),
        ],
    )
    def test_where_the_median_is_one_of_the_rows(
        self, rows: list[list[float]], weights: list[float] | None, expected: list[float]
    ) -> None:
        found = geometric_median(np.array(rows), weights=weights)
        np.testing.assert_allclose(found, expected, rtol=1e-5, atol=1e-7)

    def test_a_row_at_the_coordinates_median_does_not_hold_it(self) -> None:
        honest = np.abs(drawn(6, 200)).astype(np.float64) ** 3
        stack = np.concatenate([honest, median(honest)[None]])
        found = geometric_median(stack, f=1)
        assert summed(stack, found) < summed(stack, stack[6]) * (1 - 1e-3)

    @pytest.mark.parametrize("seed", range(6))
    def test_liars_that_nearly_coincide(self, seed: int) -> None:
        stack = (30 + 1e-3 * drawn(10, 1 + seed % 3, seed)).astype(np.float32)
        stack[[4, 6, 7]] *= -100
        found = geometric_median(stack, f=3)
        honest = np.delete(stack, [4, 6, 7], axis=0)
        assert (found >= honest.min(axis=0) - 1e-5).all()
        assert (found <= honest.max(axis=0) + 1e-5).all()

    def test_rows_that_nearly_coincide(self) -> None:
        stack = (100 + 1e-4 * drawn(7, 30)).astype(np.float32)
        found = geometric_median(stack).astype(np.float64)
        wide = geometric_median(stack.astype(np.float64))
        # No further than half the step from one float to the next.
        assert np.abs(found - wide).max() < 8e-6


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

    @pytest.mark.parametrize("seed", range(8))
    def test_where_rows_stand_changes_no_bit(self, seed: int) -> None:
        stack = drawn(9, 50, seed)
        order = stream(seed, "order").permutation(9)
        assert centered_clipping(stack[order]).tobytes() == centered_clipping(stack).tobytes()

    def test_refused(self) -> None:
        with pytest.raises(ConfigurationError, match="a radius above 0, got 0"):
            centered_clipping(drawn(4, 2), radius=0)
        with pytest.raises(ConfigurationError, match="stack's kind, ndarray, got Tensor"):
            centered_clipping(drawn(4, 2), centre=torch.zeros(2))
        stack = drawn(5, 2)
        stack[:3] = np.nan
        for given in (None, np.zeros(2, np.float32)):
            with pytest.raises(ConfigurationError, match=r"bears f = 2 updates .* got 3 of 5"):
                centered_clipping(stack, centre=given)
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
