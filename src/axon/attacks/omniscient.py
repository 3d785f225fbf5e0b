"""Attacks that know what the honest nodes send in the same step, and hide among it.

They are quiet: what they send lies within, or near, the spread of the honest vectors.
"""

from __future__ import annotations

from dataclasses import dataclass
from statistics import NormalDist
from typing import ClassVar

import numpy as np

from axon.attacks.seam import Scene, as_vector, honest_of
from axon.errors import ConfigurationError
from axon.values import Vector, check_amount, check_positive, check_whole


@dataclass(frozen=True, slots=True)
class InnerProduct:
    """Sends the mean of the honest turned round and shortened: -epsilon x mean.

    Fall of empires (Xie, Koyejo, Gupta 2019): the aggregate's inner product with the true direction
    becomes negative. A small epsilon puts the vectors near the origin, where the median and Krum
    take them for the best as soon as honest vectors spread more than they agree; a mean needs an
    epsilon above the number of honest nodes for each attacker.
    """

    omniscient: ClassVar[bool] = True
    remembers: ClassVar[int] = 0
    epsilon: float = 0.1

    def __post_init__(self) -> None:
        check_positive("epsilon", self.epsilon)

    def __call__(self, own: Vector, scene: Scene) -> Vector:  # noqa: ARG002  (part of the seam)
        """The same from every attacker."""
        mean = np.stack(honest_of(scene, self)).mean(axis=0, dtype=np.float64)
        return as_vector(-self.epsilon * mean)


@dataclass(frozen=True, slots=True)
class LittleIsEnough:
    """Sends the mean of the honest less z standard deviations, in each coordinate.

    A little is enough (Baruch, Baruch, Goldberg 2019): so near the others that median, trimmed
    mean, Krum and Bulyan take it for one of them, and always to the same side. Works the better the
    more the honest vectors differ; where they agree it does nothing.
    """

    omniscient: ClassVar[bool] = True
    remembers: ClassVar[int] = 0
    z: float | None = None
    """None for the largest that the paper allows for so many nodes and attackers."""

    def __post_init__(self) -> None:
        if self.z is not None:
            check_amount("z", self.z)

    def __call__(self, own: Vector, scene: Scene) -> Vector:  # noqa: ARG002  (part of the seam)
        """The same from every attacker."""
        honest = np.stack(honest_of(scene, self))
        z = self.z
        if z is None:
            z = largest_z(len(honest) + scene.attackers, scene.attackers)
        with np.errstate(invalid="ignore"):
            mean = honest.mean(axis=0, dtype=np.float64)
            return as_vector(mean - z * honest.std(axis=0, dtype=np.float64))


def largest_z(nodes: int, attackers: int) -> float:
    """How far an attack may go for a majority to lie on its side of the mean: of normal vectors.

    It has s = floor(n/2 + 1) - f honest vectors to win over, and z is the normal quantile of
    (n - f - s) / (n - f). A single attacker's is 0 or below for want of allies.
    """
    honest, supporters = nodes - attackers, nodes // 2 + 1 - attackers
    if not 0 < supporters < honest:
        raise ConfigurationError(
            f"there is no largest z for {attackers} attackers among {nodes} nodes",
            hint="have at least 3 nodes and fewer than half of them attackers, or choose z",
        )
    return NormalDist().inv_cdf((honest - supporters) / honest)


@dataclass(frozen=True, slots=True)
class Mimic:
    """Sends what one honest node sends, again.

    Mimic (Karimireddy, He, Jaggi 2022): no vector looks wrong, but where nodes have different data,
    one node's count several times and the rest too little. Works against the median, Krum and all
    rules that choose among vectors; mixing or bucketing them beforehand helps.
    """

    omniscient: ClassVar[bool] = True
    remembers: ClassVar[int] = 0
    which: int = 0
    """Its place among the honest vectors."""

    def __post_init__(self) -> None:
        check_whole("which", self.which, least=0)

    def __call__(self, own: Vector, scene: Scene) -> Vector:  # noqa: ARG002  (part of the seam)
        """A vector that is there already."""
        honest = honest_of(scene, self)
        if self.which >= len(honest):
            raise ConfigurationError(
                f"mimic copies honest vector {self.which}, there are {len(honest)} from 0 on"
            )
        return honest[self.which]
