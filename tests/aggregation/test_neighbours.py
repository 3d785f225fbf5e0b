"""Krum and Multi-Krum: against loops, ties, and rows that are anything."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from axon.aggregation import krum, multi_krum
from axon.errors import ConfigurationError
from axon.seeds import stream
from tests.aggregation import oracles
from tests.aggregation.oracles import drawn
from tests.aggregation.test_gram import clustered


def test_by_hand() -> None:
    stack = np.array([[0.0], [1.0], [3.0], [7.0], [100.0]])
    # With the 2 nearest: 1+9, 1+4, 4+9, 16+36, and far away.
    assert krum(stack, f=1).tolist() == [1.0]
    assert multi_krum(stack, f=1).tolist() == [0.5]
    assert multi_krum(stack, f=1, m=3).tolist() == [pytest.approx(4 / 3)]


@pytest.mark.parametrize(("n", "f"), [(3, 0), (4, 0), (5, 1), (9, 3), (10, 3), (17, 3)])
@pytest.mark.parametrize("d", [1, 40])
def test_against_loops(n: int, f: int, d: int) -> None:
    stack = drawn(n, d)
    np.testing.assert_array_equal(krum(stack, f=f), oracles.multi_krum(stack, f, 1))
    expected = oracles.multi_krum(stack, f, n - f - 2)
    np.testing.assert_allclose(multi_krum(stack, f=f), expected, rtol=1e-6, atol=1e-6)


@pytest.mark.parametrize("seed", range(10))
def test_ties_go_by_content(seed: int) -> None:
    # Few values and few coordinates: many distances are equal.
    stack = stream(seed, "lattice").integers(0, 2, (8, 3)).astype(np.float32)
    np.testing.assert_array_equal(krum(stack, f=2), oracles.multi_krum(stack, 2, 1))
    np.testing.assert_allclose(multi_krum(stack, f=2), oracles.multi_krum(stack, 2, 4), atol=1e-6)


@settings(max_examples=40, deadline=None)
@given(seed=st.integers(0, 10**6), n=st.integers(3, 14), d=st.integers(1, 300))
def test_where_rows_stand_changes_no_bit(seed: int, n: int, d: int) -> None:
    stack, f = drawn(n, d, seed), (n - 3) // 2
    moved = stack[stream(seed, "permutation").permutation(n)]
    assert krum(moved, f=f).tobytes() == krum(stack, f=f).tobytes()
    assert multi_krum(moved, f=f).tobytes() == multi_krum(stack, f=f).tobytes()


@settings(max_examples=30, deadline=None)
@given(seed=st.integers(0, 10**6), n=st.integers(3, 11), by=st.sampled_from([2.0, -1.0, -0.3]))
def test_equivariance(seed: int, n: int, by: float) -> None:
    stack, f = drawn(n, 20, seed).astype(np.float64), (n - 3) // 2
    np.testing.assert_allclose(krum(by * stack + 3, f=f), by * krum(stack, f=f) + 3, rtol=1e-9)
    moved = multi_krum(by * stack + 3, f=f)
    np.testing.assert_allclose(moved, by * multi_krum(stack, f=f) + 3, rtol=1e-9, atol=1e-9)


@pytest.mark.parametrize("scale", [None, -100.0, 1e6])
@pytest.mark.parametrize("seed", range(3))
def test_rows_that_nearly_coincide_are_selected_as_in_double(
    scale: float | None, seed: int
) -> None:
    stack = clustered(11, 2000, 1e-4, seed)
    if scale is not None:
        stack[[0, 4, 7]] = scale * stack[0]
    expected = krum(stack.astype(np.float64), f=3)
    np.testing.assert_array_equal(krum(stack, f=3), expected)
    np.testing.assert_array_equal(krum(stack, f=3), oracles.multi_krum(stack, 3, 1))


@pytest.mark.parametrize("bad", [np.nan, np.inf, -np.inf, 1e30])
def test_bad_rows_are_never_selected(bad: float) -> None:
    stack = drawn(9, 30)
    spoiled = stack.copy()
    spoiled[[0, 5]] = bad
    spoiled[7, 3] = -bad
    np.testing.assert_array_equal(krum(spoiled, f=3), _best_of(stack, [0, 5, 7]))
    assert np.isfinite(multi_krum(spoiled, f=3)).all()
    assert abs(multi_krum(spoiled, f=3)).max() < 10


def _best_of(stack: np.typing.NDArray[np.float32], without: list[int]) -> list[float]:
    """With three rows infinitely far, the others' scores go over the same 4 nearest."""
    whole = np.delete(stack, without, axis=0)
    listed = oracles.rows(whole)
    every = list(range(len(listed)))
    return listed[min(every, key=lambda row: oracles.score(listed, row, every, 4))]


def test_more_bad_rows_than_that() -> None:
    stack = drawn(7, 4)
    stack[1:6] = np.nan
    for rule in (krum, multi_krum):
        with pytest.raises(ConfigurationError, match=r"krum bears f = 2 updates .* got 5 of 7"):
            rule(stack, f=2)


def test_a_weight_does_not_change_who_is_selected() -> None:
    stack = np.array([[0.0], [1.0], [3.0], [7.0], [100.0]])
    assert multi_krum(stack, f=1, weights=[1, 3, 1, 1, 1000]).tolist() == [0.75]


def test_squares_that_overflow_in_double_leave_a_choice() -> None:
    stack = np.array([[1e200], [-1e200], [1.5e200], [3e200]])
    assert krum(stack, f=0)[0] in stack


@pytest.mark.parametrize("m", [0, 2.0, "a", True])
def test_m_is_a_whole_number(m: int) -> None:
    with pytest.raises(ConfigurationError, match="multi_krum needs a whole m of at least 1, got"):
        multi_krum(drawn(7, 2), f=2, m=m)


@pytest.mark.parametrize("scale", [1e-20, 1e-25, 1e-35])
def test_differences_whose_squares_vanish_in_single_precision(scale: float) -> None:
    stack = (scale * drawn(9, 20)).astype(np.float32)
    expected = krum(stack.astype(np.float64) / scale, f=1) * scale
    np.testing.assert_allclose(krum(stack, f=1), expected, rtol=1e-5)


@pytest.mark.parametrize("far", [1e160, 1e200])
def test_a_row_that_is_ordinary_where_the_centre_is_looked_for(far: float) -> None:
    stack = drawn(9, 2000).astype(np.float64)
    stack[0] = stack[1:].mean(axis=0)
    # Between the places at which columns are looked at.
    stack[0, 20:100] = far
    assert abs(krum(stack, f=1)).max() < 10
    assert abs(multi_krum(stack, f=1)).max() < 10


def test_zeros_of_either_sign() -> None:
    stack = np.array([[0.0], [-0.0], [-0.0], [0.0], [1.0]], dtype=np.float32)
    for seed in range(5):
        moved = stack[stream(seed, "order").permutation(5)]
        assert krum(moved, f=1).tobytes() == krum(stack, f=1).tobytes()


def test_preconditions() -> None:
    with pytest.raises(ConfigurationError, match=r"krum needs at least 2f\+3 = 9 updates, got 7"):
        krum(drawn(7, 2), f=3)
    with pytest.raises(ConfigurationError, match="multi_krum needs m from 1 to n-f = 5, got 6"):
        multi_krum(drawn(7, 2), f=2, m=6)


@pytest.mark.parametrize("kind", [torch.float64, torch.float32, torch.bfloat16, torch.float16])
def test_kinds(kind: torch.dtype) -> None:
    stack = torch.from_numpy(drawn(7, 40)).to(kind)
    found = krum(stack, f=2)
    assert found.dtype == kind
    assert any(torch.equal(found, row) for row in stack)
    assert multi_krum(stack, f=2).dtype == kind
