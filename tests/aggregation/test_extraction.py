"""Bulyan: against loops, ties by construction, and rows that are anything."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from axon.aggregation import bulyan
from axon.errors import ConfigurationError
from axon.seeds import stream
from tests.aggregation import oracles
from tests.aggregation.oracles import drawn
from tests.aggregation.test_gram import clustered


@pytest.mark.parametrize(("n", "f"), [(3, 0), (7, 1), (8, 1), (11, 2), (15, 3), (17, 3)])
@pytest.mark.parametrize("d", [1, 30])
def test_against_loops(n: int, f: int, d: int) -> None:
    stack = drawn(n, d)
    np.testing.assert_allclose(bulyan(stack, f=f), oracles.bulyan(stack, f), rtol=1e-6, atol=1e-6)


@pytest.mark.parametrize("seed", range(5))
def test_ties_go_by_content(seed: int) -> None:
    stack = stream(seed, "lattice").integers(0, 3, (9, 3)).astype(np.float32)
    np.testing.assert_allclose(bulyan(stack, f=1), oracles.bulyan(stack, 1), rtol=1e-6, atol=1e-6)


@settings(max_examples=30, deadline=None)
@given(seed=st.integers(0, 10**6), n=st.integers(3, 16), d=st.integers(1, 300))
def test_where_rows_stand_changes_no_bit(seed: int, n: int, d: int) -> None:
    stack, f = drawn(n, d, seed), (n - 3) // 4
    moved = stack[stream(seed, "permutation").permutation(n)]
    assert bulyan(moved, f=f).tobytes() == bulyan(stack, f=f).tobytes()


def test_what_rows_hold_decides_where_all_else_is_equal() -> None:
    # Two squares, one in the other: two of the outer corners are selected, and all are alike.
    stack = np.array([[1.0, 1], [1, -1], [-1, 1], [-1, -1], [3, 0], [-3, 0], [0, 3], [0, -3]])
    for seed in range(10):
        moved = stack[stream(seed, "order").permutation(8)]
        np.testing.assert_array_equal(bulyan(moved, f=1), bulyan(stack, f=1))


@settings(max_examples=20, deadline=None)
@given(seed=st.integers(0, 10**6), by=st.sampled_from([2.0, -1.0, -0.3]))
def test_equivariance(seed: int, by: float) -> None:
    stack = drawn(11, 20, seed).astype(np.float64)
    moved = bulyan(by * stack + 3, f=2)
    np.testing.assert_allclose(moved, by * bulyan(stack, f=2) + 3, rtol=1e-9, atol=1e-9)


@pytest.mark.parametrize("scale", [None, -100.0, 1e6])
def test_rows_that_nearly_coincide(scale: float | None) -> None:
    stack = clustered(11, 1000, 1e-4)
    if scale is not None:
        stack[[0, 7]] = scale * stack[0]
    found = bulyan(stack, f=2)
    np.testing.assert_allclose(found, bulyan(stack.astype(np.float64), f=2), rtol=1e-6)


@pytest.mark.parametrize("bad", [np.nan, np.inf, 1e30])
def test_bad_rows_never_reach_the_result(bad: float) -> None:
    stack = drawn(11, 40)
    stack[[2, 5]] = bad
    whole = np.delete(stack, [2, 5], axis=0)
    found = bulyan(stack, f=2)
    assert (found >= whole.min(axis=0)).all()
    assert (found <= whole.max(axis=0)).all()


def test_more_bad_rows_than_that() -> None:
    stack = drawn(7, 4)
    stack[1:] = np.nan
    with pytest.raises(ConfigurationError, match=r"bulyan bears f = 1 updates .* got 6 of 7"):
        bulyan(stack, f=1)


def test_a_row_infinitely_far_from_all_in_double() -> None:
    stack = drawn(9, 40).astype(np.float64)
    stack[3] = 1e200
    assert abs(bulyan(stack, f=1)).max() < 10


def test_the_mean_for_none() -> None:
    stack = drawn(5, 9)
    np.testing.assert_allclose(bulyan(stack, f=0), stack.mean(axis=0), rtol=1e-6)


def test_preconditions() -> None:
    with pytest.raises(ConfigurationError, match=r"bulyan needs at least 4f\+3 = 11 .* got 10"):
        bulyan(drawn(10, 2), f=2)


@pytest.mark.parametrize("kind", [torch.float64, torch.bfloat16, torch.float16])
def test_kinds(kind: torch.dtype) -> None:
    found = bulyan(torch.from_numpy(drawn(7, 40)).to(kind), f=1)
    assert found.dtype == kind
    expected = torch.from_numpy(bulyan(drawn(7, 40).astype(np.float64), f=1))
    torch.testing.assert_close(found.double(), expected, rtol=0.05, atol=0.05)
