"""Codecs: what comes out is what went in, as closely as they say, and hostile payloads are not."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from axon.compression import CODECS, Half, Plain, codec
from axon.compression.codecs import BLOCK
from axon.errors import ConfigurationError
from axon.seeds import stream
from axon.values import Payload, Vector


def vector(size: int, *, scale: float = 1.0, seed: int = 0) -> Vector:
    return (stream(seed, "codec").standard_normal(size) * scale).astype(np.float32)


def test_names_become_codecs_in_one_table() -> None:
    assert codec("plain") == Plain()
    assert codec("half") == Half()
    with pytest.raises(ConfigurationError, match="no codec 'zip'; there are half, plain"):
        codec("zip")


@pytest.mark.parametrize("name", CODECS)
@pytest.mark.parametrize("size", [0, 1, BLOCK - 1, BLOCK, BLOCK + 1, 3 * BLOCK])
def test_what_is_encoded_can_be_decoded_and_changes_neither_side(name: str, size: int) -> None:
    parameters, reference = vector(size), vector(size, seed=1)
    payload = codec(name).encode(parameters, reference)
    decoded = codec(name).decode(payload, reference)
    assert decoded.dtype == np.float32
    np.testing.assert_allclose(decoded, parameters, rtol=0, atol=4e-3)
    np.testing.assert_array_equal(parameters, vector(size))
    np.testing.assert_array_equal(reference, vector(size, seed=1))


def test_plain_copies_nothing() -> None:
    parameters = vector(100)
    payload = Plain().encode(parameters, vector(100, seed=1))
    assert Plain().decode(payload, parameters) is parameters


def test_half_takes_half() -> None:
    parameters = vector(100_000)
    payload = Half().encode(parameters, vector(100_000, seed=1))
    assert sum(part.nbytes for part in payload.values()) <= parameters.nbytes * 0.501


def test_half_by_hand() -> None:
    reference = np.array([1, 1, 1], dtype=np.float32)
    payload = Half().encode(np.array([1.75, 1, -4], dtype=np.float32), reference)
    # The largest change, 5 = 0.625 * 2**3, goes with the scale 2**(3 - 15).
    np.testing.assert_array_equal(payload["scales"], np.array([2.0**-12], dtype=np.float32))
    assert payload["changes"].tolist() == [0.75 * 2**12, 0, -5 * 2**12]
    np.testing.assert_array_equal(Half().decode(payload, reference), [1.75, 1, -4])


@settings(max_examples=50, deadline=None)
@given(
    st.integers(1, 3 * BLOCK),
    st.floats(-44, 37),
    st.floats(-44, 37),
    st.floats(0, 12),
    st.integers(0, 1000),
)
def test_half_stays_within_its_bound(
    size: int, change: float, base: float, spread: float, seed: int
) -> None:
    random = stream(seed, "half")
    scales = 10.0 ** (change - spread * random.random(size))
    reference = vector(size, scale=10.0**base, seed=seed)
    parameters = (reference + scales * random.uniform(-1, 1, size)).astype(np.float32)
    decoded = Half().decode(Half().encode(parameters, reference), reference)

    changes = np.abs(parameters.astype(np.float64) - reference)
    starts = np.arange(0, size, BLOCK)
    largest = np.repeat(np.maximum.reduceat(changes, starts), BLOCK)[:size]
    rounding = 2.0**-23 * (np.abs(parameters) + changes) + 2.0**-148
    bound = 2.0**-11 * changes + 2.0**-39 * largest + rounding
    assert (np.abs(decoded.astype(np.float64) - parameters) <= bound).all()


def test_a_block_of_large_changes_costs_its_neighbours_nothing() -> None:
    reference = np.zeros(2 * BLOCK, dtype=np.float32)
    parameters = reference.copy()
    parameters[0], parameters[BLOCK] = 3e38, 1e-30
    decoded = Half().decode(Half().encode(parameters, reference), reference)
    np.testing.assert_allclose(decoded[[0, BLOCK]], [3e38, 1e-30], rtol=2.0**-11)


def test_the_smallest_changes_are_kept() -> None:
    reference = np.zeros(3, dtype=np.float32)
    parameters = np.array([1e-44, -1e-40, 0], dtype=np.float32)
    decoded = Half().decode(Half().encode(parameters, reference), reference)
    np.testing.assert_allclose(decoded, parameters, rtol=2.0**-11)


def test_half_passes_what_is_not_a_number_on_without_a_warning() -> None:
    parameters = np.array([1, np.nan, np.inf, 3e38], dtype=np.float32)
    reference = np.array([0, 0, 0, -3e38], dtype=np.float32)
    decoded = Half().decode(Half().encode(parameters, reference), reference)
    assert not np.isfinite(decoded).all()
    scales = np.array([np.nan], dtype=np.float32)
    hostile: Payload = {"changes": np.ones(4, dtype=np.float16), "scales": scales}
    assert np.isnan(Half().decode(hostile, reference)).all()


F16 = np.zeros(5, dtype=np.float16)
F32 = np.zeros(5, dtype=np.float32)
ONE = np.ones(1, dtype=np.float32)
HOSTILE: list[tuple[str, Any, str]] = [
    ("plain", {}, r"fields \['parameters'\], got \[\]"),
    ("plain", None, "got None"),
    ("plain", {"parameters": F32, "more": F32}, "'more'"),
    ("plain", {str(number): F32 for number in range(10_000)}, r"'0', .*\.\.\."),
    ("plain", {"parameters": F32[:4]}, r"5 values of float32, got shape \(4,\) of float32"),
    ("plain", {"parameters": F32.reshape(1, 5)}, r"shape \(1, 5\)"),
    ("plain", {"parameters": F32.astype(np.float64)}, "of float64"),
    ("plain", {"parameters": F32.astype(">f4")}, "of >f4"),
    ("plain", {"parameters": F32.astype(object)}, "of object"),
    ("plain", {"parameters": [0.0] * 5}, "parameters must be an array, got list"),
    ("half", {"changes": F16}, r"fields \['changes', 'scales'\]"),
    ("half", {"changes": F16, "scales": ONE, "more": ONE}, "'more'"),
    ("half", {"changes": F32, "scales": ONE}, "changes must be 5 values of float16"),
    ("half", {"changes": F16[:3], "scales": ONE}, r"got shape \(3,\)"),
    ("half", {"changes": F16.view(np.int16), "scales": ONE}, "of int16"),
    ("half", {"changes": F16, "scales": F32}, r"scales must be 1 values .*, got shape \(5,\)"),
    ("half", {"changes": F16, "scales": ONE[0]}, "scales must be an array, got float32"),
    ("half", {"changes": F16, "scales": ONE.astype(object)}, "of object"),
]


@pytest.mark.parametrize(("name", "payload", "complaint"), HOSTILE)
def test_a_payload_of_anything_else_is_refused(name: str, payload: Payload, complaint: str) -> None:
    with pytest.raises(ValueError, match=complaint) as caught:
        codec(name).decode(payload, F32)
    assert len(str(caught.value)) < 300
