"""What every robust rule keeps to as a policy, and what single ones add."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Callable

import numpy as np
import pytest

import axon.aggregation
from axon.aggregation import (
    RULES,
    Bucketed,
    Clipped,
    Krum,
    Median,
    Mixed,
    MultiKrum,
    RobustRule,
    TrimmedMean,
    multi_krum,
    trimmed_mean,
)
from axon.errors import ConfigurationError
from axon.policies import Aggregator
from axon.seeds import stream
from axon.values import Vector
from tests.aggregation.oracles import drawn

MAKERS: dict[str, Callable[[int], RobustRule]] = {
    **RULES,
    "clipped": lambda f: Clipped(Median(f), f=f),
    "bucketed": lambda f: Bucketed(TrimmedMean(f), size=2),
    "mixed": lambda f: Mixed(TrimmedMean(f), f=f),
}
every_rule = pytest.mark.parametrize("name", MAKERS)


def given(n: int, d: int = 30, seed: int = 1) -> tuple[list[Vector], list[float]]:
    return list(drawn(n, d, seed)), [float(w) for w in stream(seed, "w").integers(1, 9, n)]


@every_rule
def test_makes_one_vector_of_many(name: str) -> None:
    rule: Aggregator = MAKERS[name](2)
    vectors, weights = given(15)
    before = [vector.copy() for vector in vectors]
    found = rule(vectors, weights)
    assert found.dtype == np.float32
    assert found.shape == (30,)
    assert all(np.array_equal(a, b) for a, b in zip(before, vectors, strict=True))
    assert not any(np.shares_memory(found, vector) for vector in vectors)


@every_rule
@pytest.mark.parametrize("f", [0, 1, 2])
def test_the_fewest_it_can_work_with(name: str, f: int) -> None:
    rule = MAKERS[name](f)
    vectors, weights = given(rule.least)
    assert np.isfinite(rule(vectors, weights)).all()
    with pytest.raises(ConfigurationError, match=r"needs (at least|a stack)"):
        rule(vectors[1:], weights[1:])


@every_rule
def test_f_updates_that_are_anything_are_borne(name: str) -> None:
    rule = MAKERS[name](2)
    vectors, _ = given(15)
    honest = np.mean(vectors[2:], axis=0)
    for bad in (np.nan, np.inf, -1e30, 1e6):
        vectors[0] = np.full(30, bad, dtype=np.float32)
        vectors[1] = np.full(30, -bad, dtype=np.float32)
        assert np.abs(rule(vectors, [1.0] * 15) - honest).max() < 3


@every_rule
def test_places_do_not_matter(name: str) -> None:
    rule = MAKERS[name](2)
    vectors, weights = given(15)
    order = stream(4, "order").permutation(15)
    moved = rule([vectors[row] for row in order], [weights[row] for row in order])
    assert moved.tobytes() == rule(vectors, weights).tobytes()


@every_rule
def test_equal_updates_give_themselves(name: str) -> None:
    vector = drawn(1, 20)[0]
    found = MAKERS[name](1)([vector] * 9, [1.0, 2.0, 3.0] * 3)
    np.testing.assert_allclose(found, vector, rtol=1e-6)


@every_rule
def test_vectors_of_several_sizes_are_refused(name: str) -> None:
    vectors, weights = given(9)
    vectors[3] = vectors[3][:-1]
    with pytest.raises(ValueError, match=r"vectors of one size, got \(29,\) and \(30,\)"):
        MAKERS[name](0)(vectors, weights)
    with pytest.raises(ValueError, match="got 0"):
        MAKERS[name](0)([], [])


def test_rules_are_values() -> None:
    assert Krum(2) == Krum(2)
    assert hash(Mixed(Krum(2), 2)) == hash(Mixed(Krum(2), 2))


def test_weights_are_heeded_where_they_can_be() -> None:
    vectors, weights = given(9)
    stack = np.stack(vectors)
    expected = trimmed_mean(stack, f=2, weights=weights)
    np.testing.assert_array_equal(TrimmedMean(2)(vectors, weights), expected)
    assert not np.array_equal(expected, TrimmedMean(2)(vectors, [1.0] * 9))
    expected = multi_krum(stack, f=2, weights=weights)
    np.testing.assert_array_equal(MultiKrum(2)(vectors, weights), expected)
    np.testing.assert_array_equal(Krum(2)(vectors, weights), Krum(2)(vectors, [1.0] * 9))


def test_a_bucket_weighs_what_is_in_it() -> None:
    vectors = [np.array([value], dtype=np.float32) for value in (1, 2, 3, 10)]
    found = Bucketed(TrimmedMean(0), size=2)(vectors, [1, 1, 1, 5])
    np.testing.assert_allclose(found, [56 / 8], rtol=1e-6)


def test_every_name_is_there() -> None:
    for name in axon.aggregation.__all__:
        assert getattr(axon.aggregation, name) is not None
    assert dir(axon.aggregation) == sorted(axon.aggregation.__all__)


@pytest.mark.slow
def test_numpy_stacks_need_no_torch() -> None:
    program = (
        "import sys, numpy as np\n"
        "from axon.aggregation import RULES\n"
        "for make in RULES.values(): make(1)(list(np.eye(9, dtype=np.float32)), [1.0] * 9)\n"
        "assert 'torch' not in sys.modules"
    )
    subprocess.run([sys.executable, "-c", program], check=True, timeout=50)
