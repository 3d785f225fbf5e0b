"""Made-up data: balanced, reproducible, and as hard as it was asked to be."""

from __future__ import annotations

from itertools import pairwise

import numpy as np
import pytest

from axon.data import Dataset
from axon.data.synthetic import synthetic
from axon.errors import ConfigurationError


def nearest_centroid_accuracy(dataset: Dataset) -> float:
    train, test = dataset.train, dataset.test
    centroids = np.stack(
        [train.inputs[train.labels == kind].mean(axis=0) for kind in range(dataset.classes)]
    )
    distances = np.linalg.norm(test.inputs[:, None] - centroids, axis=2)
    return float((distances.argmin(axis=1) == test.labels).mean())


def test_it_has_the_asked_sizes_and_balance() -> None:
    dataset = synthetic(samples=103, features=7, classes=3, difficulty=0.5, seed=1)
    assert (len(dataset.train), len(dataset.test)) == (83, 20)
    assert (dataset.shape, dataset.classes) == ((7,), 3)
    assert dataset.train.inputs.dtype == np.float32
    labels = np.concatenate([dataset.train.labels, dataset.test.labels])
    assert np.bincount(labels).tolist() == [35, 34, 34]


@pytest.mark.parametrize("seed", [0, 1, 2])
def test_it_gets_harder_from_separable_to_guessing(seed: int) -> None:
    accuracies = [
        nearest_centroid_accuracy(synthetic(samples=5000, difficulty=d, seed=seed))
        for d in (0.0, 0.5, 0.7, 0.85, 1.0)
    ]
    assert accuracies[0] == 1.0
    assert all(easier > harder for easier, harder in pairwise(accuracies))
    assert accuracies[-1] == pytest.approx(0.25, abs=0.05)


def test_the_nearest_centres_are_as_far_apart_as_the_rule_says() -> None:
    dataset = synthetic(samples=100_000, features=3, classes=2, difficulty=0.5, seed=3)
    train = dataset.train
    means = [train.inputs[train.labels == kind].mean(axis=0) for kind in range(2)]
    assert np.linalg.norm(means[0] - means[1]) == pytest.approx(12 * 0.5**2, abs=0.05)
    # Half of 3 deviations is 1.5: the normal distribution has 6.7 % beyond it.
    assert nearest_centroid_accuracy(dataset) == pytest.approx(0.933, abs=0.01)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"samples": 4}, "samples .* at least 5, got 4"),
        ({"features": 0}, "features .* at least 1, got 0"),
        ({"classes": 1}, "classes .* at least 2, got 1"),
    ],
)
def test_sizes_that_cannot_be_meant_are_refused(options: dict[str, int], message: str) -> None:
    with pytest.raises(ConfigurationError, match=message):
        synthetic(
            samples=options.get("samples", 100),
            classes=options.get("classes", 4),
            features=options.get("features", 2),
        )
