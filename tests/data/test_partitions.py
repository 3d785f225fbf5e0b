"""Dividing samples among devices."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray

from axon.data.partitions import (
    PARTITIONS,
    Dirichlet,
    Fegan,
    Iid,
    Partition,
    Parts,
    dirichlet,
    fegan,
    iid,
    partition_of,
)
from axon.errors import ConfigurationError
from axon.seeds import stream

BALANCED = np.arange(1000) % 10
EXAMPLES = {"iid": "iid", "dirichlet": "dirichlet:0.3", "fegan": "fegan:5,100"}


def names(count: int) -> list[str]:
    return [f"device-{number}" for number in range(count)]


def assert_exact_cover(parts: Parts, samples: int) -> None:
    every = np.concatenate(list(parts.values()))
    assert sorted(every.tolist()) == list(range(samples))


def mean_entropy(parts: Parts, labels: NDArray[np.int_]) -> float:
    """Of the labels that a device has, in bits, averaged over the devices."""
    entropies = []
    for part in parts.values():
        shares = np.bincount(labels[part], minlength=10) / len(part)
        shares = shares[shares > 0]
        entropies.append(float(-(shares * np.log2(shares)).sum()))
    return float(np.mean(entropies))


def test_every_partition_has_an_example() -> None:
    assert EXAMPLES.keys() == PARTITIONS.keys()


@pytest.mark.parametrize("text", EXAMPLES.values())
@given(devices=st.integers(1, 30), seed=st.integers(0, 1000))
@settings(max_examples=20)
def test_every_partition_keeps_its_contract(text: str, devices: int, seed: int) -> None:
    partition = partition_of(text)
    parts = partition(BALANCED, names(devices), stream(seed, "parts"))
    again = partition(BALANCED, names(devices), stream(seed, "parts"))
    assert list(parts) == names(devices)
    for device, part in parts.items():
        assert part.dtype == np.intp
        assert len(part) >= 1
        assert (np.diff(part) > 0).all()
        assert 0 <= part[0] <= part[-1] < len(BALANCED)
        np.testing.assert_array_equal(part, again[device])


@pytest.mark.parametrize("partition", [Iid(), Dirichlet(1.0), Fegan(2, 2)])
def test_devices_without_different_names_and_samples_for_all_are_refused(
    partition: Partition,
) -> None:
    for devices in ([], ["a", "a"]):
        with pytest.raises(ConfigurationError, match="different names"):
            partition(BALANCED, devices, stream(1))
    with pytest.raises(ConfigurationError, match=r"2 devices need at least [12] samples, got 0"):
        partition(BALANCED[:0], ["a", "b"], stream(1))


@given(samples=st.integers(1, 100), devices=st.integers(1, 20))
@settings(max_examples=50)
def test_iid_parts_cover_all_and_differ_by_one_at_most(samples: int, devices: int) -> None:
    labels = np.zeros(samples, dtype=np.uint8)
    if samples < devices:
        with pytest.raises(ConfigurationError, match=f"at least {devices} samples, got {samples}"):
            iid(labels, names(devices), stream(1))
        return
    parts = iid(labels, names(devices), stream(1))
    assert_exact_cover(parts, samples)
    sizes = [len(part) for part in parts.values()]
    assert max(sizes) - min(sizes) <= 1


def test_iid_is_shuffled() -> None:
    first = iid(BALANCED, names(2), stream(1))["device-0"]
    assert not np.array_equal(first, np.arange(500))
    assert len(np.intersect1d(first, np.arange(500))) == pytest.approx(250, abs=50)


@given(
    labels=st.lists(st.integers(0, 4), min_size=12, max_size=80),
    devices=st.integers(1, 3),
    alpha=st.sampled_from([0.3, 1.0, 100.0]),
)
@settings(max_examples=50)
def test_dirichlet_gives_every_sample_to_one_device(
    labels: list[int], devices: int, alpha: float
) -> None:
    parts = dirichlet(np.array(labels), names(devices), stream(3), alpha=alpha)
    assert_exact_cover(parts, len(labels))
    assert min(len(part) for part in parts.values()) >= 1


def test_dirichlet_is_more_skewed_the_smaller_alpha_is() -> None:
    entropies = [
        mean_entropy(dirichlet(BALANCED, names(8), stream(1), alpha=alpha), BALANCED)
        for alpha in (0.1, 0.5, 2.0, 1000.0)
    ]
    assert entropies == sorted(entropies)
    assert entropies[0] < 2.0
    assert entropies[-1] == pytest.approx(np.log2(10), abs=0.05)


def test_dirichlet_with_a_huge_alpha_divides_each_class_evenly() -> None:
    labels = np.array([0, 0, 0, 0, 1, 1, 1, 1, 1, 1])
    parts = dirichlet(labels, ["a", "b", "c"], stream(1), alpha=1e9)
    counts = [np.bincount(labels[part], minlength=2).tolist() for part in parts.values()]
    # The first class ends at 1.33, 2.67 and 4, rounded to the nearest; the second at 2, 4 and 6.
    assert counts == [[1, 2], [2, 2], [1, 2]]


def test_dirichlet_with_one_class_and_a_tiny_alpha_has_no_division_and_says_so() -> None:
    with pytest.raises(ConfigurationError, match=r"1000 draws with alpha 0.001 .* larger alpha"):
        dirichlet(np.zeros(100), names(10), stream(1), alpha=0.001)


def test_dirichlet_refuses_fewer_samples_than_devices() -> None:
    with pytest.raises(ConfigurationError, match="3 devices need at least 3 samples, got 2"):
        dirichlet(np.array([0, 1]), names(3), stream(1), alpha=1.0)


def test_fegan_keeps_its_bounds_and_reaches_them() -> None:
    devices, max_class, max_samples = 10, 5, 40
    most_classes, most_samples = np.zeros(devices, int), np.zeros(devices, int)
    least_classes = np.full(devices, 99)
    for seed in range(200):
        parts = fegan(
            BALANCED, names(devices), stream(seed), max_class=max_class, max_samples=max_samples
        )
        for index, part in enumerate(parts.values()):
            sizes = np.bincount(BALANCED[part], minlength=10)
            most_samples[index] = max(most_samples[index], sizes.max())
            most_classes[index] = max(most_classes[index], (sizes > 0).sum())
            least_classes[index] = min(least_classes[index], (sizes > 0).sum())
    # For i = 1..10: floor(5i / 10), at least 1; and min(i**2, 4i).
    assert most_classes.tolist() == [1, 1, 1, 2, 2, 3, 3, 4, 4, 5]
    assert most_samples.tolist() == [1, 4, 9, 16, 20, 24, 28, 32, 36, 40]
    assert least_classes.tolist() == [1] * 10


def test_fegan_draws_a_number_for_each_class_of_a_device() -> None:
    part = fegan(BALANCED, ["a", *names(9)], stream(4), max_class=10, max_samples=50)["device-8"]
    sizes = np.bincount(BALANCED[part])
    assert len(set(sizes[sizes > 0].tolist())) > 1


def test_fegan_gives_no_more_than_there_is_and_lets_devices_share() -> None:
    labels = np.array([0, 1, 1])
    parts = fegan(labels, names(50), stream(1), max_class=99, max_samples=999)
    assert parts["device-49"].tolist() == [0, 1, 2]
    assert sum(len(part) for part in parts.values()) > len(labels)


@pytest.mark.parametrize(
    ("text", "partition"),
    [("iid", Iid()), ("dirichlet:0.3", Dirichlet(0.3)), ("fegan:5,100", Fegan(5, 100))],
)
def test_a_partition_is_known_by_its_text(text: str, partition: Partition) -> None:
    assert partition_of(text) == partition


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("random", "no partition 'random' .*iid, dirichlet:ALPHA, fegan:MAX_CLASS,MAX_SAMPLES"),
        ("iid:3", "'iid:3' does not say which iid partition .write iid"),
        ("dirichlet", "write dirichlet:ALPHA"),
        ("dirichlet:", "write dirichlet:ALPHA"),
        ("dirichlet:x", "write dirichlet:ALPHA"),
        ("dirichlet:0", "alpha must be a finite number above 0, got 0.0"),
        ("dirichlet:nan", "alpha must be a finite number above 0, got nan"),
        ("fegan:5", "write fegan:MAX_CLASS,MAX_SAMPLES"),
        ("fegan:5,1.5", "write fegan:MAX_CLASS,MAX_SAMPLES"),
        ("fegan:0,5", "max_class must be a whole number of at least 1, got 0"),
    ],
)
def test_a_text_that_cannot_be_meant_says_what_can(text: str, message: str) -> None:
    with pytest.raises(ConfigurationError, match=message):
        partition_of(text)
