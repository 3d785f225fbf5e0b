"""Cutting a training set into shards, and drawing some of them."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray

from axon.data import Shards, draw_uniform
from axon.errors import ConfigurationError
from axon.policies import Sampler
from axon.seeds import stream
from axon.values import Samples


def numbered(count: int) -> Samples:
    """Samples that tell which they are: input [2i, 2i + 1], label i."""
    inputs = np.arange(2 * count, dtype=np.uint16).reshape(count, 2)
    return Samples(inputs, np.arange(count, dtype=np.uint8), 0.5)


def numbers(*values: int) -> NDArray[np.intp]:
    return np.array(values, dtype=np.intp)


def test_the_left_over_take_no_part() -> None:
    shards = Shards(numbered(11), 3, seed=1)
    assert (len(shards), shards.shard_samples) == (3, 3)
    # Three samples of two numbers of two bytes, and a label of one.
    assert shards.shard_bytes == 3 * (2 * 2 + 1)
    labels = shards.take(numbers(0, 1, 2)).labels
    assert len(set(labels.tolist())) == 9


@given(samples=st.integers(1, 60), shard_samples=st.integers(1, 60), seed=st.integers(0, 5))
@settings(max_examples=50)
def test_shards_are_equal_apart_and_keep_their_labels(
    samples: int, shard_samples: int, seed: int
) -> None:
    whole = numbered(samples)
    if shard_samples > samples:
        with pytest.raises(ConfigurationError, match=f"{shard_samples} .* from {samples}"):
            Shards(whole, shard_samples, seed=seed)
        return
    shards = Shards(whole, shard_samples, seed=seed)
    parts = [shards.take(numbers(number)) for number in range(len(shards))]
    assert {len(part) for part in parts} == {shard_samples}
    assert {part.nbytes for part in parts} == {shards.shard_bytes}
    labels = np.concatenate([part.labels for part in parts])
    assert len(set(labels.tolist())) == len(labels) > samples - shard_samples
    for part in parts:
        np.testing.assert_array_equal(part.inputs, whole.inputs[part.labels])


def test_several_come_in_the_order_asked_for() -> None:
    shards = Shards(numbered(20), 4, seed=2)
    together = shards.take(numbers(3, 0, 4))
    parts = [shards.take(numbers(number)) for number in (3, 0, 4)]
    assert together.scale == 0.5
    np.testing.assert_array_equal(together.labels, np.concatenate([p.labels for p in parts]))
    np.testing.assert_array_equal(together.inputs, np.concatenate([p.inputs for p in parts]))
    assert len(shards.take(numbers())) == 0


def test_one_shard_is_a_view_that_cannot_be_written_to() -> None:
    shards = Shards(numbered(20), 4, seed=2)
    first, again = shards.take(numbers(1)), shards.take(numbers(1))
    assert np.shares_memory(first.inputs, again.inputs)
    with pytest.raises(ValueError, match="read-only"):
        first.inputs[0] = 0


def test_the_cut_depends_on_the_seed_alone_and_leaves_the_original_be() -> None:
    whole = numbered(50)
    first, same, other = (Shards(whole, 10, seed=seed).take(numbers(0)) for seed in (1, 1, 2))
    np.testing.assert_array_equal(first.labels, same.labels)
    assert not np.array_equal(first.labels, other.labels)
    np.testing.assert_array_equal(whole.labels, np.arange(50))
    assert whole.labels.flags.writeable


@pytest.mark.parametrize("wrong", [(5,), (0, 7), (-1,), (2, -3)])
def test_a_number_that_is_no_shard_is_refused(wrong: tuple[int, ...]) -> None:
    with pytest.raises(ConfigurationError, match=f"no shard {wrong[-1]}: the 5 shards"):
        Shards(numbered(20), 4, seed=2).take(numbers(*wrong))


@pytest.mark.parametrize("size", [0, -1])
def test_a_shard_has_at_least_one_sample(size: int) -> None:
    with pytest.raises(ConfigurationError, match="shard_samples"):
        Shards(numbered(20), size, seed=2)


@given(shards=st.integers(1, 200), count=st.integers(0, 300), seed=st.integers(0, 9))
@settings(max_examples=50)
def test_a_draw_has_different_numbers_in_range(shards: int, count: int, seed: int) -> None:
    sampler: Sampler = draw_uniform
    drawn = sampler(shards, count, stream(seed, "draw")).tolist()
    assert len(drawn) == len(set(drawn)) == min(count, shards)
    assert all(0 <= number < shards for number in drawn)


def test_every_shard_is_drawn_as_often_as_any_other_at_every_place() -> None:
    random = stream(7, "uniform")
    draws = np.stack([draw_uniform(10, 3, random) for _ in range(6000)])
    for place in range(3):
        seen = np.bincount(draws[:, place], minlength=10)
        # Chi-square with 9 degrees of freedom: 27.9 is passed once in a thousand.
        assert ((seen - 600) ** 2 / 600).sum() < 27.9


def test_wanting_more_than_there_are_gives_all_of_them_shuffled() -> None:
    drawn = draw_uniform(50, 80, stream(1, "draw")).tolist()
    assert sorted(drawn) == list(range(50)) != drawn


def test_one_devices_draw_is_its_own() -> None:
    def draw(device: str) -> list[int]:
        return list(map(int, draw_uniform(100, 10, stream(7, "shards", 3, device))))

    alone = draw("pi-1")
    draw("laptop")
    assert draw("pi-1") == alone != draw("laptop")


def test_a_negative_count_is_refused() -> None:
    with pytest.raises(ConfigurationError, match="count"):
        draw_uniform(5, -1, stream(1))
