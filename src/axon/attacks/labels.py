"""An attack on the data: what is sent is honest, what it was trained on is not."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import ClassVar

import numpy as np

from axon.attacks.seam import Scene
from axon.errors import ConfigurationError
from axon.values import Samples, Vector, check_whole


@dataclass(frozen=True, slots=True)
class LabelFlip:
    """Trains with wrong labels, classes - 1 - label, and sends what comes of that.

    Mislabelled data as an honest but broken device might have it too. Its vectors are of the usual
    size, so the mean is bent rather than ruined; rules that go by distances bear a few of them.
    """

    omniscient: ClassVar[bool] = False
    remembers: ClassVar[int] = 0
    classes: int | None = None
    """None for as many as the task has."""

    def __post_init__(self) -> None:
        if self.classes is not None:
            check_whole("classes", self.classes, least=1)

    def __call__(self, own: Vector, scene: Scene) -> Vector:  # noqa: ARG002  (part of the seam)
        """`own` as it is."""
        return own

    def poison(self, samples: Samples, classes: int | None = None) -> Samples:
        """The samples with their labels turned round."""
        count = self.classes or classes
        if count is None:
            raise ConfigurationError(
                "label-flip has to know how many classes there are",
                hint="say so, as in label-flip:10",
            )
        if len(samples) and not 0 <= samples.labels.min() <= samples.labels.max() < count:
            raise ConfigurationError(
                f"label-flip turns labels from 0 to {count - 1} round, got "
                f"{samples.labels.min()} to {samples.labels.max()}",
                hint="give it as many classes as the data have",
            )
        kind = np.result_type(samples.labels, np.min_scalar_type(count - 1))
        turned = np.subtract(count - 1, samples.labels, dtype=kind)
        return replace(samples, labels=turned)
