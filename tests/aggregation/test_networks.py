"""Networks sort whatever they are given: proven by the 0-1 principle."""

from __future__ import annotations

import numpy as np
import pytest
from numpy.typing import NDArray

from axon.aggregation.networks import halves, network, schedule


def zeros_and_ones(n: int) -> NDArray[np.uint8]:
    """Every way to fill n places with them: what sorts these sorts everything."""
    return ((np.arange(1 << n)[None, :] >> np.arange(n)[:, None]) & 1).astype(np.uint8)


@pytest.mark.parametrize("n", range(1, 12))
def test_wanted_ranks_come_to_their_places_in_order(n: int) -> None:
    given = zeros_and_ones(n)
    expected = np.sort(given, axis=0)
    for first in range(n):
        for last in range(first + 1, n + 1):
            rows = given.copy()
            for low, high in network(n, first, last):
                assert low < high
                pair = rows[low].copy(), rows[high].copy()
                rows[low], rows[high] = np.minimum(*pair), np.maximum(*pair)
            np.testing.assert_array_equal(rows[first:last], expected[first:last])


@pytest.mark.parametrize(("n", "first", "last"), [(15, 7, 8), (16, 3, 13), (17, 8, 9)])
def test_larger_networks(n: int, first: int, last: int) -> None:
    rows = zeros_and_ones(n)
    expected = np.sort(rows, axis=0)[first:last]
    for low, high in network(n, first, last):
        pair = rows[low].copy(), rows[high].copy()
        rows[low], rows[high] = np.minimum(*pair), np.maximum(*pair)
    np.testing.assert_array_equal(rows[first:last], expected)


@pytest.mark.parametrize("n", [1, 2, 3, 8, 13])
def test_a_schedule_reads_the_values_and_writes_only_beside_them(n: int) -> None:
    given = zeros_and_ones(n)
    wanted = (0, n // 2) if n > 1 else (0,)
    plan = schedule(n, wanted)
    rows = np.concatenate([given, np.zeros((plan.scratch, given.shape[1]), dtype=np.uint8)])
    for takes_low, left, right, into in plan.moves:
        assert into >= n
        rows[into] = (np.minimum if takes_low else np.maximum)(rows[left], rows[right])
    for rank in wanted:
        np.testing.assert_array_equal(rows[plan.places[rank]], np.sort(given, axis=0)[rank])


def test_what_no_wanted_rank_needs_is_left_out() -> None:
    sorting = halves(17, range(17))
    middle = halves(17, [8])
    assert all(step.keeps_low and step.keeps_high for step in sorting)
    assert sum(s.keeps_low + s.keeps_high for s in middle) < 0.75 * 2 * len(sorting)
    assert schedule(17, (8,)).scratch < 17 + 4


@pytest.mark.parametrize(("n", "first", "last"), [(3, 0, 4), (3, 2, 2), (0, 0, 1), (3, -1, 2)])
def test_ranks_that_do_not_exist(n: int, first: int, last: int) -> None:
    with pytest.raises(ValueError, match=f"a network over {n} values"):
        network(n, first, last)
