"""Made-up data whose difficulty is chosen, for tests and first tries."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from axon.data.datasets import Dataset
from axon.errors import ConfigurationError
from axon.seeds import stream
from axon.values import Samples, check_whole

_WIDEST = 12.0
"""Six deviations either side of the border: nothing crosses it."""


def synthetic(
    *,
    samples: int = 2000,
    features: int = 20,
    classes: int = 4,
    difficulty: float = 0.3,
    seed: int = 0,
) -> Dataset:
    """Gaussian blobs of deviation 1, one a class, as many samples in each as in the next.

    The two nearest centres are 12 * (1 - difficulty)**2 apart: at 0 the classes are linearly
    separable, at 0.5 some 7 % of two neighbours lie on the wrong side of the border between them,
    and at 1 all centres are one, which leaves nothing but guessing. A fifth of the samples,
    rounded down, are the test set.
    """
    check_whole("samples", samples, least=5)
    check_whole("features", features, least=1)
    check_whole("classes", classes, least=2)
    if not 0 <= difficulty <= 1:
        raise ConfigurationError(f"difficulty must be from 0 to 1, got {difficulty!r}")
    centres = _centres(classes, features, stream(seed, "synthetic", "centres"))
    labels = stream(seed, "synthetic", "labels").permutation(np.arange(samples) % classes)
    noise = stream(seed, "synthetic", "noise").standard_normal((samples, features))
    inputs = (_WIDEST * (1 - difficulty) ** 2 * centres[labels] + noise).astype(np.float32)
    inputs.flags.writeable = labels.flags.writeable = False
    whole = Samples(inputs, labels)
    train = samples - samples // 5
    return Dataset(
        name=f"synthetic:{difficulty:g}",
        train=whole.take(slice(train)),
        test=whole.take(slice(train, None)),
        classes=classes,
    )


def _centres(classes: int, features: int, random: np.random.Generator) -> NDArray[np.float64]:
    """Points in random directions, the two nearest of them 1 apart."""
    centres = random.standard_normal((classes, features))
    apart = np.linalg.norm(centres[:, np.newaxis] - centres, axis=2)
    nearest = apart[~np.eye(classes, dtype=bool)].min()
    return np.asarray(centres / nearest)
