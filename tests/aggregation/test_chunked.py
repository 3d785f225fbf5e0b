"""The engine in memory: against plain PyTorch, with any number of threads, and its memory."""

from __future__ import annotations

import tracemalloc
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import torch

from axon.aggregation import chunked, parts, plain
from axon.aggregation.engines import engine_for
from axon.seeds import stream
from tests.aggregation.oracles import drawn

CALLS: dict[str, Callable[[Any, Any], Any]] = {
    "ranked_mean": lambda engine, stack: engine.ranked_mean(stack, 2, 5),
    "around_median": lambda engine, stack: engine.around_median(stack, [5, 0, 1, 6, 3], 2),
    "squared_distances": lambda engine, stack: engine.squared_distances(stack),
    "inner_products": lambda engine, stack: engine.inner_products(stack, stack[2], [5, 2, 3]),
    "lengths": lambda engine, stack: engine.lengths(stack),
    "combine": lambda engine, stack: engine.combine(stack, [0.5, 0, -1, 2, 0, 0.25, 0.125]),
}
every_call = pytest.mark.parametrize("name", CALLS)


@every_call
@pytest.mark.parametrize("kind", [torch.float64, torch.float32])
def test_against_plain(name: str, kind: torch.dtype) -> None:
    stack = torch.from_numpy(drawn(7, 40_003)).to(kind)
    found, expected = CALLS[name](chunked, stack), CALLS[name](plain, stack)
    np.testing.assert_allclose(found, expected, rtol=2e-5, atol=2e-6)


@every_call
def test_against_plain_with_bad_values(name: str) -> None:
    stack = drawn(7, 5000)
    stack[1, 7], stack[4] = np.nan, np.inf
    stack[0, 9] = -np.inf
    expected = CALLS[name](plain, torch.from_numpy(stack))
    with np.errstate(invalid="ignore"):
        found = CALLS[name](chunked, stack)
    np.testing.assert_allclose(found, expected, rtol=2e-5, atol=2e-6)


@every_call
def test_threads_change_no_bit(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    stack = drawn(7, 2 * parts.PART + 1001)
    results = []
    for count in (1, 2, 5):
        monkeypatch.setattr(parts, "threads", lambda count=count: count)
        results.append(np.asarray(CALLS[name](chunked, stack)).tobytes())
    assert results[0] == results[1] == results[2]


def test_many_rows() -> None:
    stack = drawn(300, 50)
    expected = np.sort(stack.astype(np.float64), axis=0)[100:201].mean(axis=0)
    np.testing.assert_allclose(chunked.ranked_mean(stack, 100, 201), expected, rtol=1e-6)


def test_rows_of_factor_0_are_not_read() -> None:
    stack = drawn(4, 30)
    stack[2] = np.nan
    assert np.isfinite(chunked.combine(stack, [1, 2, 0, 1])).all()
    assert not chunked.combine(stack, [0, 0, 0, 0]).any()


def test_sums_that_overflow_on_the_way() -> None:
    stack = np.full((4, 3), 3e38, dtype=np.float32)
    np.testing.assert_allclose(chunked.combine(stack, [0.25] * 4), stack[0], rtol=1e-6)


@pytest.mark.parametrize("seed", range(3))
def test_where_rows_stand_changes_no_bit_of_a_sum(seed: int) -> None:
    stack, random = drawn(20, 100, seed), stream(seed, "factors")
    factors, order = random.uniform(size=20), random.permutation(20)
    moved = chunked.combine(stack[order], factors[order].tolist())
    assert moved.tobytes() == chunked.combine(stack, factors.tolist()).tobytes()


@every_call
def test_no_second_copy_of_the_stack(name: str) -> None:
    stack = drawn(7, 1 << 20)
    tracemalloc.start()
    CALLS[name](chunked, stack)
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    # The result, and for each thread what its cache holds.
    assert peak < (4 << 20) + 3 * (parts.CACHED + (1 << 20)) < stack.nbytes


def test_the_engine_of_a_stack() -> None:
    engines: list[object] = [engine_for(drawn(2, 3)), engine_for(torch.zeros(2, 3))]
    assert engines == [chunked, chunked]
    elsewhere: object = engine_for(torch.zeros(2, 3, device="meta"))
    assert elsewhere is plain
