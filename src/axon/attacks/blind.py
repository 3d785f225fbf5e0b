"""Attacks that know nothing but what their own node would have sent.

Any rule that is made for so many attackers bears the loud ones among them, noise and what is
turned round and amplified; the mean bears neither from a single node.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from axon.attacks.seam import Scene, as_vector
from axon.errors import ConfigurationError
from axon.values import Vector, check_positive, check_whole

MOST_STEPS = 1000
"""Of which a vector each is kept."""


@dataclass(frozen=True, slots=True)
class Random:
    """Sends noise: every coordinate normal with mean 0 and this standard deviation.

    GARFIELD's random vectors. One of them ruins the mean, whose error it fills with its own size.
    """

    omniscient: ClassVar[bool] = False
    remembers: ClassVar[int] = 0
    scale: float = 10.0

    def __post_init__(self) -> None:
        check_positive("scale", self.scale)

    def __call__(self, own: Vector, scene: Scene) -> Vector:
        """Noise of the size of `own`."""
        return as_vector(self.scale * scene.random.standard_normal(own.size))


@dataclass(frozen=True, slots=True)
class Reversed:
    """Sends its own vector turned round and amplified: factor x own.

    GARFIELD's reversed vectors. At -100 a single one outweighs up to 99 honest vectors in a mean.
    """

    omniscient: ClassVar[bool] = False
    remembers: ClassVar[int] = 0
    factor: float = -100.0

    def __post_init__(self) -> None:
        if not math.isfinite(self.factor) or self.factor >= 0:
            raise ConfigurationError(f"factor must be a finite number below 0, got {self.factor!r}")

    def __call__(self, own: Vector, scene: Scene) -> Vector:  # noqa: ARG002  (part of the seam)
        """The factor times `own`."""
        return as_vector(self.factor * own.astype(np.float64))


@dataclass(frozen=True, slots=True)
class SignFlip:
    """Sends its own vector with every sign changed.

    Of the size of an honest one, so no bound on norms sees it. The mean is slowed by it, and turned
    round once half of the nodes do it.
    """

    omniscient: ClassVar[bool] = False
    remembers: ClassVar[int] = 0

    def __call__(self, own: Vector, scene: Scene) -> Vector:  # noqa: ARG002  (part of the seam)
        """The negative of `own`."""
        return -own


@dataclass(frozen=True, slots=True)
class Drop:
    """Sends nothing, though it lives and takes its orders.

    GARFIELD's dropped vectors. No rule is hurt by it: it works against whoever waits for everybody,
    and a quorum is the answer.
    """

    omniscient: ClassVar[bool] = False
    remembers: ClassVar[int] = 0

    def __call__(self, own: Vector, scene: Scene) -> None:
        """Nothing."""


@dataclass(frozen=True, slots=True)
class Stale:
    """Sends what it computed so many steps ago, again and again a vector that was once right.

    It slows the mean, and distances hardly tell it from an honest vector where little changes
    between two steps. Before there are so many steps, it sends the oldest vector it has.
    """

    omniscient: ClassVar[bool] = False
    steps: int = 5

    def __post_init__(self) -> None:
        check_whole("steps", self.steps, least=1)
        if self.steps > MOST_STEPS:
            raise ConfigurationError(f"steps must be at most {MOST_STEPS}, got {self.steps}")

    @property
    def remembers(self) -> int:
        return self.steps

    def __call__(self, own: Vector, scene: Scene) -> Vector:
        """What it would have sent then; in its first step there is nothing older than `own`."""
        past = scene.past[-self.steps :]
        return past[0] if past else own
