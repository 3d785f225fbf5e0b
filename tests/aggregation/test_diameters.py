"""Minimum-diameter averaging: against every subset, and where these are too many to list."""

from __future__ import annotations

import time

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray

from axon.aggregation import cover, diameters, mda, multi_krum
from axon.aggregation.chunked import squared_distances
from axon.aggregation.cover import find
from axon.aggregation.diameters import closest
from axon.errors import ConfigurationError
from axon.seeds import stream
from tests.aggregation import oracles
from tests.aggregation.oracles import drawn


@pytest.mark.parametrize(("n", "f"), [(1, 0), (3, 1), (4, 1), (7, 3), (9, 2), (10, 4)])
@pytest.mark.parametrize("d", [1, 2, 30])
def test_against_every_subset(n: int, f: int, d: int) -> None:
    stack = drawn(n, d)
    np.testing.assert_allclose(mda(stack, f=f), oracles.mda(stack, f), rtol=1e-6, atol=1e-6)


@pytest.mark.parametrize("seed", range(12))
def test_of_equal_diameters_the_least_sum(seed: int) -> None:
    stack = stream(seed, "lattice").integers(0, 3, (8, 2)).astype(np.float32)
    listed = oracles.rows(stack)
    chosen = tuple(closest(squared_distances(stack), 5).tolist())
    best = min(oracles.diameter(listed, members) for members in _subsets(8, 5))
    assert oracles.diameter(listed, chosen) == best


def _subsets(n: int, count: int) -> list[tuple[int, ...]]:
    from itertools import combinations

    return list(combinations(range(n), count))


@settings(max_examples=30, deadline=None)
@given(seed=st.integers(0, 10**6), n=st.integers(1, 12), lattice=st.booleans())
def test_where_rows_stand_changes_no_bit(seed: int, n: int, lattice: bool) -> None:
    stack, f = drawn(n, 5, seed), (n - 1) // 2
    stack = np.round(stack) if lattice else stack
    moved = stack[stream(seed, "permutation").permutation(n)]
    assert mda(moved, f=f).tobytes() == mda(stack, f=f).tobytes()


def test_what_rows_hold_decides_where_all_else_is_equal() -> None:
    stack = np.array([[-1.0], [0.0], [1.0]])
    assert mda(stack, f=1).tolist() == mda(stack[::-1], f=1).tolist()


@pytest.mark.parametrize("by", [2.0, -1.0, -0.3])
def test_equivariance(by: float) -> None:
    stack = drawn(9, 20).astype(np.float64)
    np.testing.assert_allclose(mda(by * stack + 3, f=4), by * mda(stack, f=4) + 3, rtol=1e-9)


@pytest.mark.parametrize("d", [1, 3, 200])
def test_many_rows(d: int) -> None:
    distances = squared_distances(drawn(51, d))
    began_s = time.process_time()
    chosen = closest(distances, 39)
    assert time.process_time() - began_s < 1.0
    widest = distances[np.ix_(chosen, chosen)].max()
    assert len(chosen) == 39
    if d == 1:
        # On a line the best sets are neighbours in order.
        assert widest == pytest.approx(_least_on_a_line(drawn(51, 1)[:, 0], 39))
    # No other 39 lie closer together: the pairs that far apart cannot be covered by 12.
    further = [sum(1 << int(j) for j in np.flatnonzero(row >= widest)) for row in distances]
    assert find(further, 12, 10**6) is None


@pytest.mark.parametrize("spare", range(8))
@pytest.mark.parametrize("seed", range(6))
def test_covers_against_every_subset(seed: int, spare: int) -> None:
    far = stream(seed, "graph").uniform(size=(11, 11)) < (0.15, 0.3, 0.6)[seed % 3]
    far = np.triu(far, 1) | np.triu(far, 1).T
    edges = [sum(1 << int(other) for other in np.flatnonzero(row)) for row in far]
    can = any(_covers(far, gone) for gone in _subsets(11, spare))
    found = find(edges, spare)
    assert (found is not None) == can
    if found is not None:
        gone = tuple(row for row in range(11) if found >> row & 1)
        assert len(gone) <= spare
        assert _covers(far, gone)


def _covers(far: NDArray[np.bool_], gone: tuple[int, ...]) -> bool:
    left = np.setdiff1d(np.arange(len(far)), gone)
    return not far[np.ix_(left, left)].any()


def test_rows_made_to_take_long() -> None:
    # Liars opposite to pairs of the honest: every diameter is a puzzle of its own.
    random = stream(3, "puzzle")
    honest = random.standard_normal((36, 500))
    liars = -(honest[:35] + honest[(np.arange(35) + 7) % 36]) / np.sqrt(2)
    distances = squared_distances(np.concatenate([honest, liars]).astype(np.float32))
    began_s = time.process_time()
    chosen = closest(distances, 36)
    assert time.process_time() - began_s < 1.5
    assert len(chosen) == 36


def test_without_steps_to_search_at_most_twice_the_least_diameter(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    distances = squared_distances(drawn(15, 3))
    best = distances[np.ix_(*[closest(distances, 9)] * 2)].max()
    monkeypatch.setattr(cover, "PATIENCE", 0)
    monkeypatch.setattr(diameters, "find", lambda edges, spare: None)
    chosen = closest(distances, 9)
    assert len(chosen) == 9
    # Squares of distances.
    assert best <= distances[np.ix_(chosen, chosen)].max() <= 4 * best


def test_weights_of_equal_rows_change_no_bit_by_where_they_stand() -> None:
    random = stream(4, "equal")
    stack, weights = drawn(3, 6)[random.integers(0, 3, 9)], random.uniform(0.1, 5, 9)
    for _ in range(20):
        order = random.permutation(9)
        for rule in (mda, multi_krum):
            moved = rule(stack[order], f=1, weights=weights[order].tolist())
            assert moved.tobytes() == rule(stack, f=1, weights=weights.tolist()).tobytes()


def _least_on_a_line(values: NDArray[np.float32], count: int) -> float:
    ordered = np.sort(values.astype(np.float64))
    return float(np.square(ordered[count - 1 :] - ordered[: len(ordered) - count + 1]).min())


def test_many_equal_rows() -> None:
    stack = np.ones((51, 10), dtype=np.float32)
    began_s = time.process_time()
    np.testing.assert_array_equal(mda(stack, f=12), stack[0])
    stack[:20] = 0.0
    assert np.isfinite(mda(stack, f=12)).all()
    assert time.process_time() - began_s < 2.0


@pytest.mark.parametrize("bad", [np.nan, np.inf, 1e30])
def test_bad_rows_are_left_out(bad: float) -> None:
    stack = drawn(7, 20)
    stack[[2, 5]] = bad
    whole = np.delete(stack, [2, 5], axis=0)
    np.testing.assert_allclose(mda(stack, f=2), whole.mean(axis=0), rtol=1e-5, atol=1e-6)


def test_more_bad_rows_than_that() -> None:
    stack = drawn(7, 20)
    stack[:3] = np.nan
    with pytest.raises(ConfigurationError, match=r"mda bears f = 2 updates .* got 3 of 7"):
        mda(stack, f=2)


def test_weights() -> None:
    stack = np.array([[0.0], [1.0], [9.0]])
    assert mda(stack, f=1, weights=[1, 3, 100]).tolist() == [0.75]


def test_the_mean_for_none() -> None:
    stack = drawn(5, 9)
    np.testing.assert_allclose(mda(stack, f=0), stack.mean(axis=0), rtol=1e-6)


def test_preconditions() -> None:
    with pytest.raises(ConfigurationError, match=r"mda needs at least 2f\+1 = 5 updates, got 4"):
        mda(drawn(4, 2), f=2)
