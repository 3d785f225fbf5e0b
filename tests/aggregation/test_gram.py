"""Squared distances: against differences in double, where products of matrices lose everything."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray

from axon.aggregation import chunked, gram, plain
from axon.seeds import stream
from tests.aggregation.oracles import drawn


def by_differences(stack: NDArray[Any]) -> NDArray[np.float64]:
    wide = stack.astype(np.float64)
    return np.array([np.square(wide - row).sum(axis=1) for row in wide])


def clustered(n: int, d: int, spread: float, seed: int = 0) -> NDArray[np.float32]:
    """Rows that nearly coincide, far from zero."""
    random = stream(seed, "clustered")
    point = random.standard_normal(d)
    return (point + spread * random.standard_normal((n, d))).astype(np.float32)


@pytest.mark.parametrize("n", [1, 2, 5, 17, 60])
@pytest.mark.parametrize("d", [1, 15, 256, 5000])
def test_honest_rows(n: int, d: int) -> None:
    stack = drawn(n, d)
    np.testing.assert_allclose(chunked.squared_distances(stack), by_differences(stack), rtol=2e-5)


@pytest.mark.parametrize("scale", [None, -100.0, 1e6])
def test_rows_that_nearly_coincide(scale: float | None) -> None:
    stack = clustered(11, 3000, 1e-4)
    if scale is not None:
        stack[[2, 5, 9]] = scale * stack[[2, 5, 9]]
    np.testing.assert_allclose(chunked.squared_distances(stack), by_differences(stack), rtol=2e-5)


def test_attackers_that_send_nearly_the_same_are_told_apart() -> None:
    stack = clustered(11, 3000, 1e-4)
    stack[:4] = clustered(4, 3000, 1e-2, seed=1) * 1e3
    stack[1] = stack[0]
    stack[3] = stack[2] + clustered(1, 3000, 1, seed=2)[0] * 1e-3
    found = chunked.squared_distances(stack)
    np.testing.assert_allclose(found, by_differences(stack), rtol=2e-5)
    assert found[0, 1] == 0.0


def test_attackers_in_the_majority_where_the_centre_is_looked_for() -> None:
    stack = clustered(9, 4096, 1e-4)
    # Six rows coincide wherever the centre is chosen by, and are elsewhere far away.
    stack[:6] = stack[8]
    stack[:6, 17:100] += 1e4
    np.testing.assert_allclose(chunked.squared_distances(stack), by_differences(stack), rtol=2e-5)


@pytest.mark.parametrize("scale", [1.0, -100.0, 1e6])
def test_honest_rows_are_measured_once(scale: float, monkeypatch: pytest.MonkeyPatch) -> None:
    measured = []

    def product(rows: list[Any], *rest: Any) -> Any:
        measured.append(len(rows))
        return made(rows, *rest)

    made = gram._product
    monkeypatch.setattr(gram, "_product", product)
    stack = clustered(11, 3000, 1e-2)
    stack[:3] = scale * stack[:3]
    chunked.squared_distances(stack)
    # Attackers that lie close together far away are measured again, they alone.
    assert measured == ([11] if scale == 1.0 else [11, 3])


@settings(max_examples=25, deadline=None)
@given(seed=st.integers(0, 10**6), n=st.integers(2, 12), large=st.sampled_from([1.0, 1e3, 1e6]))
def test_moving_rows_moves_distances_and_nothing_else(seed: int, n: int, large: float) -> None:
    stack = clustered(n, 300, 1e-3, seed)
    stack[: n // 3] *= large
    order = stream(seed, "order").permutation(n)
    moved = chunked.squared_distances(stack[order])
    assert moved.tobytes() == chunked.squared_distances(stack)[np.ix_(order, order)].tobytes()


@pytest.mark.parametrize("bad", [np.nan, np.inf, -np.inf])
@pytest.mark.parametrize("at", [0, 2047])
def test_rows_that_are_not_whole_are_infinitely_far(bad: float, at: int) -> None:
    stack = drawn(6, 2048)
    spoiled = stack.copy()
    spoiled[1, at] = bad
    spoiled[4] = bad
    expected = by_differences(stack)
    expected[[1, 4]] = np.inf
    expected[:, [1, 4]] = np.inf
    np.fill_diagonal(expected, 0.0)
    np.testing.assert_allclose(chunked.squared_distances(spoiled), expected, rtol=2e-5)


def test_a_centre_that_is_not_whole() -> None:
    # All rows are equal where the centre is looked for, so the first in order is taken.
    stack = np.zeros((5, 4096), dtype=np.float32)
    stack[:, 20] = np.arange(5)
    stack[0, 21] = np.nan
    found = chunked.squared_distances(stack)
    np.testing.assert_array_equal(found[1:, 1:], by_differences(stack[1:]))
    assert np.isinf(found[0, 1:]).all()


@pytest.mark.parametrize("scale", [1e25, 3e37])
def test_squares_that_overflow_in_single_precision(scale: float) -> None:
    stack = drawn(5, 100)
    stack[3] *= scale
    stack[4] *= -scale
    np.testing.assert_allclose(chunked.squared_distances(stack), by_differences(stack), rtol=2e-5)


def test_squares_that_overflow_in_double_are_infinite() -> None:
    stack = np.ones((3, 4))
    stack[1:] = [[1e200] * 4, [-1e200] * 4]
    found = chunked.squared_distances(stack)
    assert np.isinf(found[np.triu_indices(3, 1)]).all()
    assert not found.diagonal().any()


def test_plain_says_the_same() -> None:
    stack = drawn(7, 5000)
    stack[2, 3] = np.nan
    found = plain.squared_distances(torch.from_numpy(stack)).numpy()
    np.testing.assert_allclose(chunked.squared_distances(stack), found, rtol=2e-5)
