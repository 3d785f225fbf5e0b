"""Labels turned round."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from axon.attacks import LabelFlip, Poisonous, Reversed
from axon.errors import ConfigurationError
from axon.values import Samples
from tests.attacks.scenes import scene, vector


def samples(labels: list[int], dtype: Any = np.uint8) -> Samples:
    return Samples(np.arange(len(labels), dtype=np.float32), np.array(labels, dtype), scale=0.5)


@pytest.mark.parametrize("dtype", [np.uint8, np.int64, np.float32])
def test_the_first_class_becomes_the_last(dtype: Any) -> None:
    honest = samples([0, 1, 9, 4], dtype)
    turned = LabelFlip().poison(honest, 10)
    assert turned.labels.tolist() == [9, 8, 0, 5]
    assert (turned.labels.dtype, turned.scale) == (dtype, 0.5)
    assert turned.inputs is honest.inputs
    assert honest.labels.tolist() == [0, 1, 9, 4]


def test_its_own_number_of_classes_goes_before_the_tasks() -> None:
    assert LabelFlip(classes=3).poison(samples([0, 1, 2]), 10).labels.tolist() == [2, 1, 0]
    # More than a byte holds.
    assert LabelFlip(classes=301).poison(samples([0, 255])).labels.tolist() == [300, 45]
    assert len(LabelFlip(classes=3).poison(samples([]))) == 0


def test_what_is_sent_is_what_came_of_it() -> None:
    own = vector(1, 2)
    assert LabelFlip()(own, scene()) is own


def test_attacks_on_data_are_told_from_the_others() -> None:
    assert isinstance(LabelFlip(), Poisonous)
    assert not isinstance(Reversed(), Poisonous)


def test_labels_that_cannot_be_turned_round_are_refused() -> None:
    with pytest.raises(ConfigurationError, match=r"how many classes .*label-flip:10"):
        LabelFlip().poison(samples([0]))
    with pytest.raises(ConfigurationError, match="labels from 0 to 2 round, got 0 to 3"):
        LabelFlip().poison(samples([0, 3]), 3)
    with pytest.raises(ConfigurationError, match=r"classes must be .* at least 1, got 0"):
        LabelFlip(classes=0)
