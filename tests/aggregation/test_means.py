"""The mean: against double precision, its invariants, and what it refuses."""

from __future__ import annotations

import math
import tracemalloc
from random import Random

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray

from axon.aggregation import Mean, WeightedMean, weighted_mean
from axon.aggregation.means import BLOCK
from axon.policies import Aggregator
from axon.seeds import stream
from axon.values import Vector


def vector(*values: float) -> Vector:
    return np.array(values, dtype=np.float32)


def drawn(count: int, size: int, seed: int) -> tuple[list[Vector], list[float]]:
    """Vectors around 1 with scales of their own, and weights as batches are."""
    random = stream(seed, "mean")
    scales = 10.0 ** random.uniform(-3, 3, count)
    vectors = [(1 + random.standard_normal(size) * scale).astype(np.float32) for scale in scales]
    return vectors, [float(weight) for weight in random.integers(1, 500, count)]


def oracle(vectors: list[Vector], weights: list[float]) -> NDArray[np.float64]:
    return np.average(np.array(vectors, dtype=np.float64), axis=0, weights=weights)


def slack(vectors: list[Vector], weights: list[float]) -> NDArray[np.float64]:
    """A millionth of what goes into each coordinate."""
    return 1e-6 * np.average(np.abs(np.array(vectors, dtype=np.float64)), axis=0, weights=weights)


cases = st.tuples(st.integers(1, 40), st.integers(1, 50), st.integers(0, 10**6))


def test_by_hand() -> None:
    vectors = [vector(1, 0, -4), vector(3, 8, 4)]
    np.testing.assert_allclose(WeightedMean()(vectors, [3, 1]), [1.5, 2, -2], rtol=1e-7)
    np.testing.assert_array_equal(Mean()(vectors, [3, 1]), [2, 4, 0])


def test_the_result_is_a_vector_of_its_own() -> None:
    only = vector(0.1, 1e-30, -3e38)
    mean = weighted_mean([only], [7])
    np.testing.assert_array_equal(mean, only)
    assert mean.dtype == np.float32
    assert not np.shares_memory(mean, only)


@settings(max_examples=50, deadline=None)
@given(cases)
def test_it_is_the_mean_in_double_precision(case: tuple[int, int, int]) -> None:
    vectors, weights = drawn(*case)
    error = np.abs(weighted_mean(vectors, weights) - oracle(vectors, weights))
    assert (error <= slack(vectors, weights)).all()


def test_a_thousand_vectors_over_several_blocks_stay_within_a_millionth() -> None:
    vectors, weights = drawn(10, 2 * BLOCK + 3, seed=1)
    many, their_weights = vectors * 100, weights * 100
    error = np.abs(weighted_mean(many, their_weights) - oracle(vectors, weights))
    assert (error <= slack(vectors, weights)).all()


@settings(max_examples=30, deadline=None)
@given(cases, st.randoms(use_true_random=False))
def test_the_order_of_the_pairs_hardly_matters(
    case: tuple[int, int, int], shuffler: Random
) -> None:
    vectors, weights = drawn(*case)
    order = list(range(len(vectors)))
    shuffler.shuffle(order)
    shuffled = weighted_mean([vectors[i] for i in order], [weights[i] for i in order])
    error = np.abs(shuffled - weighted_mean(vectors, weights))
    assert (error <= slack(vectors, weights)).all()


@settings(max_examples=30, deadline=None)
@given(cases, st.sampled_from([1e-300, 0.1, 3.0, 1e300]))
def test_only_the_ratios_of_the_weights_matter(case: tuple[int, int, int], factor: float) -> None:
    vectors, weights = drawn(*case)
    scaled = weighted_mean(vectors, [weight * factor for weight in weights])
    error = np.abs(scaled - weighted_mean(vectors, weights))
    assert (error <= slack(vectors, weights)).all()


@settings(max_examples=30, deadline=None)
@given(cases)
def test_it_lies_among_the_vectors(case: tuple[int, int, int]) -> None:
    vectors, weights = drawn(*case)
    mean, room = weighted_mean(vectors, weights), slack(vectors, weights)
    assert (mean >= np.min(vectors, axis=0) - room).all()
    assert (mean <= np.max(vectors, axis=0) + room).all()


@settings(max_examples=30, deadline=None)
@given(cases)
def test_equal_weights_give_the_plain_mean(case: tuple[int, int, int]) -> None:
    vectors, weights = drawn(*case)
    equal = weighted_mean(vectors, [7.0] * len(vectors))
    np.testing.assert_array_equal(equal, Mean()(vectors, weights))
    ones = [1.0] * len(vectors)
    assert (np.abs(equal - oracle(vectors, ones)) <= slack(vectors, ones)).all()


def test_a_vector_of_no_weight_is_not_looked_at() -> None:
    vectors = [vector(math.nan, math.inf), vector(1, 2)]
    np.testing.assert_array_equal(weighted_mean(vectors, [0, 5]), [1, 2])


def test_the_largest_numbers_do_not_overflow() -> None:
    largest = vector(3e38)
    mean = weighted_mean([largest] * 20, [1e308] * 20)
    np.testing.assert_allclose(mean, largest, rtol=1e-6)


def test_memory_does_not_grow_with_the_number_of_vectors() -> None:
    one = np.ones(1 << 20, dtype=np.float32)
    tracemalloc.start()
    weighted_mean([one] * 16, [1.0] * 16)
    _, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert peak < one.nbytes + (2 << 20)


@pytest.mark.parametrize("rule", [WeightedMean(), Mean()])
def test_vectors_that_cannot_be_averaged(rule: Aggregator) -> None:
    with pytest.raises(ValueError, match="at least 1 vector, got 0"):
        rule([], [])
    with pytest.raises(ValueError, match=r"got shape \(2,\) at 2 and \(3,\) at 0"):
        rule([vector(1, 2, 3), vector(1, 2, 3), vector(1, 2)], [1, 1, 1])
    with pytest.raises(ValueError, match=r"flat vectors .* \(1, 2\) at 0"):
        rule([vector(1, 2).reshape(1, 2)], [1])


@pytest.mark.parametrize("bad", [-1.0, math.nan, math.inf])
def test_weights_must_be_finite_and_not_negative(bad: float) -> None:
    with pytest.raises(ValueError, match=f"weights must be .* got {bad} at 1"):
        weighted_mean([vector(1), vector(2)], [1, bad])


def test_weights_must_be_as_many_and_not_all_zero() -> None:
    with pytest.raises(ValueError, match=r"more than 1\.8e308 at 0"):
        weighted_mean([np.zeros(1, dtype=np.float32)] * 2, [10**400, 1])
    with pytest.raises(ValueError, match="2 vectors need as many weights, got 1"):
        weighted_mean([vector(1), vector(2)], [1])
    with pytest.raises(ValueError, match="at least 1 of 2 weights must be above 0"):
        weighted_mean([vector(1), vector(2)], [0, 0])
