"""Clipping, bucketing and mixing: what each makes of a stack."""

from __future__ import annotations

import numpy as np
import pytest
import torch

from axon.aggregation import bucketing, clipping, nearest_neighbour_mixing
from axon.aggregation.filters import buckets
from axon.errors import ConfigurationError
from axon.seeds import stream
from tests.aggregation import oracles
from tests.aggregation.oracles import drawn


class TestClipping:
    def test_by_hand(self) -> None:
        stack = np.array([[3.0, 4.0], [0.3, 0.4], [-6.0, -8.0]])
        np.testing.assert_allclose(
            clipping(stack, radius=1), [[0.6, 0.8], [0.3, 0.4], [-0.6, -0.8]]
        )

    def test_to_the_median_length(self) -> None:
        stack = np.array([[1.0], [-2.0], [9.0]])
        assert clipping(stack).tolist() == [[1.0], [-2.0], [2.0]]

    def test_to_the_length_that_f_rows_cannot_exceed(self) -> None:
        stack = np.array([[1.0], [-2.0], [9.0], [3.0]])
        assert clipping(stack, f=1).tolist() == [[1.0], [-2.0], [3.0], [3.0]]

    def test_a_row_that_is_not_whole_stays_as_it_is(self) -> None:
        stack = np.array([[1.0], [-2.0], [np.nan], [9.0]])
        np.testing.assert_array_equal(clipping(stack, f=2), [[1.0], [-2.0], [np.nan], [2.0]])

    def test_directions_stay(self) -> None:
        stack = drawn(6, 30)
        cut = clipping(stack)
        along = (cut * stack).sum(axis=1)
        lengths = np.linalg.norm(cut, axis=1) * np.linalg.norm(stack, axis=1)
        np.testing.assert_allclose(along, lengths, rtol=1e-5)

    def test_torch(self) -> None:
        stack = torch.from_numpy(drawn(5, 8))
        np.testing.assert_allclose(clipping(stack).numpy(), clipping(stack.numpy()), rtol=1e-6)

    def test_squares_that_overflow(self) -> None:
        stack = np.array([[1.0, 1.0], [1e200, 1e200], [2.0, 2.0]])
        np.testing.assert_allclose(np.linalg.norm(clipping(stack, radius=1), axis=1), 1.0)
        # Nor do those vanish that are smaller than any float64.
        np.testing.assert_allclose(clipping(stack * 1e-200)[1], [2e-200, 2e-200])

    def test_gradients_are_not_followed(self) -> None:
        stack = torch.from_numpy(drawn(5, 8)).requires_grad_()
        assert not clipping(stack).requires_grad

    def test_refused(self) -> None:
        stack = drawn(4, 2)
        stack[:2] = np.nan
        with pytest.raises(ConfigurationError, match=r"clipping bears f = 1 updates .* got 2 of 4"):
            clipping(stack, f=1)
        with pytest.raises(ConfigurationError, match="a radius above 0, got -1"):
            clipping(drawn(3, 2), radius=-1)
        with pytest.raises(ConfigurationError, match=r"at least 1f\+1 = 4 updates, got 3"):
            clipping(drawn(3, 2), f=3)


class TestBucketing:
    def test_each_row_is_in_one_bucket(self) -> None:
        stack = drawn(11, 20)
        dealt = buckets(stack, size=3, seed=4)
        assert [len(bucket) for bucket in dealt] == [3, 3, 3, 2]
        assert sorted(int(row) for bucket in dealt for row in bucket) == list(range(11))
        found = bucketing(stack, size=3, seed=4)
        expected = [stack[bucket].mean(axis=0) for bucket in dealt]
        np.testing.assert_allclose(found, expected, rtol=1e-5, atol=1e-6)

    def test_the_seed_deals(self) -> None:
        stack = drawn(12, 4)
        same = bucketing(stack, size=2, seed=1)
        np.testing.assert_array_equal(bucketing(stack, size=2, seed=1), same)
        assert not np.array_equal(bucketing(stack, size=2, seed=2), same)

    def test_where_rows_stand_changes_no_bit(self) -> None:
        stack = drawn(9, 30)
        order = stream(2, "order").permutation(9)
        moved = bucketing(stack[order], size=2, seed=3)
        assert moved.tobytes() == bucketing(stack, size=2, seed=3).tobytes()

    def test_weights(self) -> None:
        stack = np.array([[1.0], [5.0]])
        assert bucketing(stack, size=2, weights=[3, 1]).tolist() == [[2.0]]
        assert bucketing(stack, size=1, weights=[0, 1]).shape == (2, 1)

    def test_a_bad_row_spoils_one_bucket(self) -> None:
        stack = drawn(8, 5)
        stack[3] = np.nan
        assert np.isnan(bucketing(stack, size=2)).any(axis=1).sum() == 1

    def test_torch(self) -> None:
        stack = drawn(7, 8)
        found = bucketing(torch.from_numpy(stack), size=2)
        np.testing.assert_allclose(found.numpy(), bucketing(stack, size=2), rtol=1e-6)

    @pytest.mark.parametrize("size", [0, 1.5, True])
    def test_refused(self, size: int) -> None:
        with pytest.raises(ConfigurationError, match=f"a whole size of at least 1, got {size}"):
            bucketing(drawn(3, 2), size=size)


class TestMixing:
    def test_against_loops(self) -> None:
        stack = drawn(7, 20)
        listed = oracles.rows(stack)
        expected = []
        for row in listed:
            nearest = sorted(listed, key=lambda other: oracles.squared_distance(row, other))
            expected.append(oracles.mean(nearest[:5]))
        found = nearest_neighbour_mixing(stack, f=2)
        np.testing.assert_allclose(found, expected, rtol=1e-5, atol=1e-6)

    def test_moving_rows_moves_mixed_rows(self) -> None:
        stack = drawn(7, 20)
        order = stream(2, "order").permutation(7)
        moved = nearest_neighbour_mixing(stack[order], f=3)
        assert moved.tobytes() == nearest_neighbour_mixing(stack, f=3)[order].tobytes()

    def test_bad_rows_do_not_spread(self) -> None:
        stack = drawn(7, 20)
        stack[[1, 5]] = np.nan
        found = nearest_neighbour_mixing(stack, f=2)
        assert np.isnan(found[[1, 5]]).all()
        assert np.isfinite(np.delete(found, [1, 5], axis=0)).all()

    def test_the_mean_for_none(self) -> None:
        stack = torch.from_numpy(drawn(4, 6))
        found = nearest_neighbour_mixing(stack, f=0)
        torch.testing.assert_close(found, stack.mean(dim=0).expand(4, 6))

    def test_refused(self) -> None:
        stack = drawn(5, 2)
        stack[:2] = np.nan
        with pytest.raises(ConfigurationError, match=r"mixing bears f = 1 updates .* got 2 of 5"):
            nearest_neighbour_mixing(stack, f=1)
        with pytest.raises(ConfigurationError, match=r"at least 2f\+1 = 5 updates, got 4"):
            nearest_neighbour_mixing(drawn(4, 2), f=2)
