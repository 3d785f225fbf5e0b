"""The sets by name: the digits that ship, and MNIST where this machine has it."""

from __future__ import annotations

import hashlib
import os
from importlib import resources
from pathlib import Path

import numpy as np
import pytest

from axon.data import Dataset, load
from axon.data.locate import SOURCES, find
from axon.errors import ConfigurationError

BESIDE = Path(__file__).resolve().parents[3] / "shared" / "data"


@pytest.fixture(scope="module")
def digits() -> Dataset:
    return load("digits")


def test_digits_have_their_shape_and_scale(digits: Dataset) -> None:
    assert (digits.name, digits.classes, digits.shape) == ("digits", 10, (1, 8, 8))
    assert (len(digits.train), len(digits.test)) == (1500, 297)
    for part in (digits.train, digits.test):
        assert part.inputs.dtype == part.labels.dtype == np.uint8
        assert part.inputs.max() * part.scale == 1.0
        assert part.inputs.min() == 0


def test_digits_are_scikit_learns(digits: Dataset) -> None:
    labels = np.concatenate([digits.train.labels, digits.test.labels])
    assert np.bincount(labels).tolist() == [178, 182, 177, 183, 181, 182, 181, 179, 174, 180]
    with np.load(Path(str(resources.files("axon.data") / "digits.npz"))) as stored:
        inputs, labels = stored["inputs"], stored["labels"]
    assert (inputs.shape, labels.shape) == ((1797, 8, 8), (1797,))
    # Of `sklearn.datasets.load_digits()`, as bytes.
    assert hashlib.sha256(inputs.tobytes()).hexdigest() == (
        "8f26b2bd9d135c256808f68f14fdabddde6d9c7f869ae419704b051f0f14b3b3"
    )
    assert hashlib.sha256(labels.tobytes()).hexdigest() == (
        "8ba4f891220f5e4c9c819638d1602d74b83618f167043c6da52a2a247841ddf0"
    )


def test_the_split_of_the_digits_is_the_same_for_everybody(digits: Dataset) -> None:
    again = load("digits", seed=5)
    np.testing.assert_array_equal(again.train.inputs, digits.train.inputs)
    assert digits.test.labels[:8].tolist() == [7, 1, 1, 0, 1, 0, 2, 5]


def test_images_and_labels_stay_together_in_the_split(digits: Dataset) -> None:
    means = np.stack(
        [digits.train.inputs[digits.train.labels == digit].mean(axis=0) for digit in range(10)]
    )
    distances = ((digits.test.inputs[:, None] - means) ** 2).sum(axis=(2, 3, 4))
    assert (distances.argmin(axis=1) == digits.test.labels).mean() > 0.85


@pytest.mark.parametrize("name", ["digits", "synthetic"])
def test_what_is_loaded_cannot_be_written_to(name: str) -> None:
    dataset = load(name)
    for part in (dataset.train, dataset.test):
        for array in (part.inputs, part.labels):
            with pytest.raises(ValueError, match="read-only"):
                array[0] = 1


def test_synthetic_takes_its_difficulty_and_seed() -> None:
    easy, hard = load("synthetic:0", seed=1), load("synthetic:0.9", seed=1)
    assert (easy.name, hard.name) == ("synthetic:0", "synthetic:0.9")
    assert easy.shape == (20,)
    assert not np.array_equal(easy.train.inputs, hard.train.inputs)
    assert not np.array_equal(easy.train.inputs, load("synthetic:0", seed=2).train.inputs)
    assert np.array_equal(easy.train.inputs, load("synthetic:0", seed=1).train.inputs)


@pytest.mark.parametrize(
    ("name", "message"),
    [
        ("cifar", "no data set 'cifar' .*digits, fashion-mnist, mnist, synthetic"),
        ("digits:3", "digits takes no option, got '3'"),
        ("mnist:", "mnist takes no option, got ''"),
        ("synthetic:hard", "difficulty from 0 to 1, got 'hard' .*synthetic:0.3"),
        ("synthetic:", "difficulty from 0 to 1, got ''"),
        ("synthetic:1.5", "difficulty must be from 0 to 1, got 1.5"),
        ("synthetic:nan", "difficulty must be from 0 to 1, got nan"),
    ],
)
def test_a_name_that_cannot_be_meant_says_what_can(name: str, message: str) -> None:
    with pytest.raises(ConfigurationError, match=message):
        load(name)


@pytest.mark.parametrize(
    ("name", "labels"), [("mnist", [5, 0, 4, 1, 9]), ("fashion-mnist", [9, 0, 0, 3, 0])]
)
def test_the_real_set_is_read_where_there_is_one(
    name: str, labels: list[int], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("AXON_DATA", os.environ.get("AXON_TEST_DATA", str(BESIDE)))
    if not all(find(SOURCES[name], file) for file in SOURCES[name].digests):
        pytest.skip(f"{name} is not on this machine; AXON_TEST_DATA may point at it")
    dataset = load(name)
    assert (dataset.name, dataset.classes, dataset.shape) == (name, 10, (1, 28, 28))
    assert (len(dataset.train), len(dataset.test)) == (60000, 10000)
    assert dataset.train.labels[:5].tolist() == labels
    assert dataset.train.inputs.max() * dataset.train.scale == 1.0
    assert not dataset.train.inputs.flags.writeable
