"""Who owns which samples, where data stays on the devices it was made on.

Each division is a function of the labels, the devices' names and a random generator; it gives
each device the indices of its samples, in ascending order. As policies, with their settings
chosen, they are `Iid`, `Dirichlet` and `Fegan`.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, TypeAlias

import numpy as np
from numpy.typing import NDArray

from axon.errors import ConfigurationError
from axon.values import check_positive, check_whole

Parts: TypeAlias = dict[str, NDArray[np.intp]]
Partition: TypeAlias = Callable[[NDArray[Any], Sequence[str], np.random.Generator], Parts]

_REDRAWS = 1000


def iid(labels: NDArray[Any], devices: Sequence[str], random: np.random.Generator) -> Parts:
    """Equal parts of the shuffled samples; their sizes differ by one at most."""
    _check(labels, devices, least=len(devices))
    parts = np.array_split(random.permutation(len(labels)), len(devices))
    return {device: _ascending(part) for device, part in zip(devices, parts, strict=True)}


def dirichlet(
    labels: NDArray[Any], devices: Sequence[str], random: np.random.Generator, *, alpha: float
) -> Parts:
    """Label skew: each class is divided in proportions drawn from a Dirichlet distribution.

    A small alpha gives a class to few devices, a large one spreads it evenly. Every sample goes
    to one device. Proportions that leave a device with nothing are drawn again; after a thousand
    such draws the division is refused.
    """
    _check(labels, devices, least=len(devices))
    check_positive("alpha", alpha)
    kinds, sizes = np.unique(labels, return_counts=True)
    borders = _borders(sizes, len(devices), random, alpha)
    pieces = [
        np.split(random.permutation(np.flatnonzero(labels == kind)), cuts)
        for kind, cuts in zip(kinds, borders, strict=True)
    ]
    return {
        device: _ascending(np.concatenate(own))
        for device, own in zip(devices, zip(*pieces, strict=True), strict=True)
    }


def fegan(
    labels: NDArray[Any],
    devices: Sequence[str],
    random: np.random.Generator,
    *,
    max_class: int,
    max_samples: int,
) -> Parts:
    """FeGAN's skew and imbalance: the later a device comes, the more it may have.

    Device i of n has r_c classes, r_c uniform in [1, max_class * i / n], and of each of them r_s
    samples, r_s uniform in [1, min(i**2, max_samples * i / n)] and drawn anew for each class.
    A bound below 1 reads as 1, and nobody gets more than there is. Each device draws from the
    whole set, so two may own the same sample, and some samples may have no owner.
    """
    _check(labels, devices, least=1)
    pools = [np.flatnonzero(labels == kind) for kind in np.unique(labels)]
    parts: Parts = {}
    for i, device in enumerate(devices, start=1):
        most_classes = max(1, max_class * i // len(devices))
        most_samples = max(1, min(i**2, max_samples * i // len(devices)))
        own = _draw(np.arange(len(pools)), most_classes, random)
        pieces = [_draw(pools[kind], most_samples, random) for kind in own]
        parts[device] = _ascending(np.concatenate(pieces))
    return parts


@dataclass(frozen=True, slots=True)
class Iid:
    """`iid`, ready to hand on."""

    def __call__(
        self, labels: NDArray[Any], devices: Sequence[str], random: np.random.Generator
    ) -> Parts:
        return iid(labels, devices, random)


@dataclass(frozen=True, slots=True)
class Dirichlet:
    """`dirichlet` with its skew chosen."""

    alpha: float

    def __post_init__(self) -> None:
        check_positive("alpha", self.alpha)

    def __call__(
        self, labels: NDArray[Any], devices: Sequence[str], random: np.random.Generator
    ) -> Parts:
        return dirichlet(labels, devices, random, alpha=self.alpha)


@dataclass(frozen=True, slots=True)
class Fegan:
    """`fegan` with its bounds chosen."""

    max_class: int
    max_samples: int

    def __post_init__(self) -> None:
        check_whole("max_class", self.max_class, least=1)
        check_whole("max_samples", self.max_samples, least=1)

    def __call__(
        self, labels: NDArray[Any], devices: Sequence[str], random: np.random.Generator
    ) -> Parts:
        return fegan(
            labels, devices, random, max_class=self.max_class, max_samples=self.max_samples
        )


@dataclass(frozen=True, slots=True)
class Form:
    """How a partition is written on a command line."""

    usage: str
    make: Callable[..., Partition]
    numbers: tuple[type[int] | type[float], ...] = ()


PARTITIONS: Mapping[str, Form] = {
    "iid": Form("iid", Iid),
    "dirichlet": Form("dirichlet:ALPHA", Dirichlet, (float,)),
    "fegan": Form("fegan:MAX_CLASS,MAX_SAMPLES", Fegan, (int, int)),
}


def partition_of(text: str) -> Partition:
    """The partition that is written so: `iid`, `dirichlet:0.3`, `fegan:5,100`."""
    kind, colon, option = text.partition(":")
    form = PARTITIONS.get(kind)
    if form is None:
        usages = ", ".join(form.usage for form in PARTITIONS.values())
        raise ConfigurationError(f"there is no partition {kind!r}", hint=f"known are {usages}")
    words = option.split(",") if colon else []
    try:
        numbers = [of(word) for of, word in zip(form.numbers, words, strict=True)]
    except ValueError as error:
        raise ConfigurationError(
            f"{text!r} does not say which {kind} partition", hint=f"write {form.usage}"
        ) from error
    return form.make(*numbers)


def _borders(
    sizes: NDArray[np.intp], devices: int, random: np.random.Generator, alpha: float
) -> NDArray[np.intp]:
    """Where each class (a row) is cut between one device and the next, so that none goes empty."""
    for _ in range(_REDRAWS):
        proportions = random.dirichlet(np.full(devices, alpha), size=len(sizes))
        ends = np.rint(np.cumsum(proportions, axis=1) * sizes[:, np.newaxis])
        if np.diff(ends, axis=1, prepend=0).sum(axis=0).min() >= 1:
            return ends[:, :-1].astype(np.intp)
    raise ConfigurationError(
        f"{_REDRAWS} draws with alpha {alpha:g} always left one of {devices} devices with none of "
        f"the {sizes.sum()} samples",
        hint="choose a larger alpha or fewer devices",
    )


def _draw(choices: NDArray[np.intp], most: int, random: np.random.Generator) -> NDArray[np.intp]:
    """From one to `most` of the choices, any number as likely as another; all if that is more."""
    count = int(random.integers(1, most, endpoint=True))
    return random.choice(choices, min(count, len(choices)), replace=False)


def _ascending(indices: NDArray[Any]) -> NDArray[np.intp]:
    return np.sort(indices).astype(np.intp, copy=False)


def _check(labels: NDArray[Any], devices: Sequence[str], *, least: int) -> None:
    if not devices or len(set(devices)) != len(devices):
        raise ConfigurationError(
            f"a partition needs devices of different names, got {list(devices)}"
        )
    if len(labels) < least:
        raise ConfigurationError(
            f"{len(devices)} devices need at least {least} samples, got {len(labels)}"
        )
