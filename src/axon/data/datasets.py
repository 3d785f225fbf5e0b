"""Data sets by name, the way a command line or an experiment asks for them."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from importlib import resources
from typing import TypeAlias

import numpy as np

from axon.data import locate
from axon.errors import ConfigurationError
from axon.seeds import stream
from axon.values import Samples

_DIGITS_TRAIN = 1500


@dataclass(frozen=True, slots=True)
class Dataset:
    """What there is to learn from, and what to be tested on; its arrays cannot be written to."""

    name: str
    train: Samples
    test: Samples
    classes: int

    @property
    def shape(self) -> tuple[int, ...]:
        """Of one input; an image's first number is its channels."""
        return self.train.inputs.shape[1:]


_Loader: TypeAlias = Callable[[str, str | None, int], Dataset]


def load(name: str, *, seed: int = 0) -> Dataset:
    """The data set of that name; `synthetic:0.3` also chooses the difficulty.

    The seed is for sets that are made up: the real ones are the same for everybody, and so is
    their division into training and test.
    """
    kind, colon, option = name.partition(":")
    if kind not in _LOADERS:
        raise ConfigurationError(
            f"there is no data set {kind!r}", hint=f"known are {', '.join(sorted(_LOADERS))}"
        )
    return _LOADERS[kind](kind, option if colon else None, seed)


def _digits(name: str, option: str | None, _seed: int) -> Dataset:
    _refuse_option(name, option)
    resource = resources.files("axon.data") / "digits.npz"
    with resource.open("rb") as file, np.load(file, allow_pickle=False) as stored:
        inputs, labels = stored["inputs"][:, np.newaxis], stored["labels"]
    order = stream(0, "digits", "split").permutation(len(labels))
    whole = Samples(inputs[order], labels[order], 1 / 16)
    _forbid_writing(whole)
    train, test = slice(_DIGITS_TRAIN), slice(_DIGITS_TRAIN, None)
    return Dataset(name, whole.take(train), whole.take(test), classes=10)


def _idx(name: str, option: str | None, _seed: int) -> Dataset:
    _refuse_option(name, option)
    source = locate.SOURCES[name]

    def samples(inputs: str, labels: str) -> Samples:
        images = locate.read(source, inputs)[:, np.newaxis]
        return Samples(images, locate.read(source, labels), 1 / 255)

    train = samples(locate.TRAIN_INPUTS, locate.TRAIN_LABELS)
    test = samples(locate.TEST_INPUTS, locate.TEST_LABELS)
    return Dataset(name, train, test, classes=10)


def _synthetic(name: str, option: str | None, seed: int) -> Dataset:
    # Imported here because what it makes is a `Dataset`.
    from axon.data.synthetic import synthetic

    if option is None:
        return synthetic(seed=seed)
    try:
        difficulty = float(option)
    except ValueError as error:
        raise ConfigurationError(
            f"{name} takes a difficulty from 0 to 1, got {option!r}", hint=f"such as {name}:0.3"
        ) from error
    return synthetic(difficulty=difficulty, seed=seed)


_LOADERS: Mapping[str, _Loader] = {
    "digits": _digits,
    "fashion-mnist": _idx,
    "mnist": _idx,
    "synthetic": _synthetic,
}


def _refuse_option(name: str, option: str | None) -> None:
    if option is not None:
        raise ConfigurationError(f"{name} takes no option, got {option!r}")


def _forbid_writing(samples: Samples) -> None:
    samples.inputs.flags.writeable = False
    samples.labels.flags.writeable = False
