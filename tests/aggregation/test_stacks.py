"""Stacks: what is refused, an order of content, and which rows are whole."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import torch

from axon.aggregation import RULES, krum, mean, median, weighted_mean
from axon.aggregation.ordering import canonical_order
from axon.aggregation.stacks import check_tolerance
from axon.aggregation.wholeness import whole_rows
from axon.errors import ConfigurationError
from axon.seeds import stream
from tests.aggregation.oracles import drawn


@pytest.mark.parametrize(
    ("stack", "message"),
    [
        (np.zeros(3), r"needs a stack of shape \(n, d\), got shape \(3,\)"),
        (torch.zeros(2, 3, 4), r"got shape \(2, 3, 4\)"),
        (np.zeros((2, 3), dtype=np.int64), "needs a stack of floats, got int64"),
        (torch.zeros(2, 3, dtype=torch.int32), "needs a stack of floats, got torch.int32"),
        (np.zeros((0, 3)), "needs at least 1 update, got 0"),
        ([[1.0], [2.0]], r"got shape \(\)"),
    ],
)
def test_refused(stack: Any, message: str) -> None:
    with pytest.raises(ConfigurationError, match=message):
        mean(stack)
    with pytest.raises(ConfigurationError, match=message):
        krum(stack, f=0)


@pytest.mark.parametrize("name", RULES)
def test_no_coordinates_give_none(name: str) -> None:
    rule = RULES[name](0)
    assert rule(list(np.zeros((5, 0), dtype=np.float32)), [1.0] * 5).shape == (0,)


def test_the_hint_says_how_many_are_borne() -> None:
    with pytest.raises(ConfigurationError, match=r"7 updates bear f of at most 2\)"):
        check_tolerance(7, 3, name="krum", times=2, plus=3)


def test_order_goes_by_content() -> None:
    stack = np.array([[2.0, 0.0], [1.0, 5.0], [1.0, np.nan], [-np.inf, 0.0], [1.0, 4.0]])
    assert canonical_order(stack).tolist() == [3, 4, 1, 2, 0]
    assert canonical_order(stack, [0, 2, 1]).tolist() == [1, 2, 0]


@pytest.mark.parametrize("column", [0, 63, 64, 100, 70_000])
def test_order_of_rows_that_begin_alike(column: int) -> None:
    stack = np.zeros((6, 70_001), dtype=np.float32)
    stack[:, column] = [3, 1, 2, 2, 0, 1]
    stack[3, 70_000] += 1 if column < 70_000 else 0.5
    order = stream(1, "order").permutation(6)
    first, moved = stack[canonical_order(stack)], stack[order][canonical_order(stack[order])]
    np.testing.assert_array_equal(first, moved)
    assert first[:, column].tolist() == sorted(stack[:, column].tolist())


def test_whole_rows() -> None:
    stack = drawn(4, 5)
    stack[1, 2], stack[3, 0] = np.nan, -np.inf
    assert whole_rows(stack).tolist() == [0, 2]
    assert whole_rows(torch.from_numpy(stack)).tolist() == [0, 2]


@pytest.mark.parametrize("name", RULES)
def test_bytes_in_the_other_order(name: str) -> None:
    stack = drawn(7, 30)
    swapped = stack.astype(">f4")
    found = RULES[name](1)(swapped, [1.0, 2.0] * 3 + [1.0])  # type: ignore[arg-type]
    assert found.dtype == swapped.dtype
    expected = RULES[name](1)(list(stack), [1.0, 2.0] * 3 + [1.0])
    np.testing.assert_array_equal(found, expected)


class TestMean:
    @pytest.mark.parametrize("kind", [torch.float64, torch.float32, torch.bfloat16])
    def test_of_a_stack(self, kind: torch.dtype) -> None:
        stack = torch.from_numpy(drawn(6, 40)).to(kind)
        found = weighted_mean(stack, [1, 2, 3, 0, 1, 1])
        assert found.dtype == kind
        weights = torch.tensor([1.0, 2, 3, 0, 1, 1], dtype=torch.float64).unsqueeze(1)
        expected = (stack.double() * weights).sum(dim=0) / 8
        torch.testing.assert_close(
            found.double(), expected, rtol=1e-2 if kind == torch.bfloat16 else 1e-5, atol=1e-6
        )

    def test_of_numpy(self) -> None:
        stack = drawn(6, 40).astype(np.float64)
        np.testing.assert_allclose(mean(stack), stack.mean(axis=0), rtol=1e-12)
        assert np.isnan(mean(np.array([[1.0], [np.nan]]))).all()

    def test_gradients_are_not_followed(self) -> None:
        stack = torch.zeros(3, 4, requires_grad=True)
        assert not median(stack).requires_grad
        assert not mean(stack).requires_grad
