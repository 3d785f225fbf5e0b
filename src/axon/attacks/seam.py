"""What an attack is: what an honest node would send goes in, what a lying one sends comes out.

A vector is whatever nodes exchange and rules aggregate: a gradient, or a model. For a learner that
sends parameters it is the difference to the model that training started from, because the whole of
a model turned round would be no lie about the training. Whoever wears the attack takes that
difference and adds the start again: `axon.learning.lying` does it for learners.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, ClassVar, Protocol, runtime_checkable

import numpy as np
from numpy.typing import NDArray

from axon.errors import ConfigurationError
from axon.values import Samples, Vector, check_whole


@dataclass(frozen=True, slots=True)
class Scene:
    """What an attacker knows when it is about to send, beside its own honest vector."""

    step: int
    honest: Sequence[Vector]
    """What the honest nodes send in this step; empty where the attacker cannot know it."""
    attackers: int
    """How many there are, this one among them."""
    past: Sequence[Vector]
    """Its own honest vectors of the steps before, the newest last, as far as they are kept."""
    random: np.random.Generator

    def __post_init__(self) -> None:
        check_whole("step", self.step, least=0)
        check_whole("attackers", self.attackers, least=1)


class Attack(Protocol):
    """Makes of an honest vector what a lying node sends."""

    omniscient: ClassVar[bool]
    """Whether it has to know what the honest nodes send."""

    @property
    def remembers(self) -> int:
        """How many vectors of the past it goes by; whoever wears it keeps so many."""

    def __call__(self, own: Vector, scene: Scene) -> Vector | None:
        """What is sent in the place of `own`, which stays as it is; None for nothing at all."""


@runtime_checkable
class Poisonous(Protocol):
    """An attack on the data beside, or in place of, one on what is sent."""

    def poison(self, samples: Samples, classes: int | None = None) -> Samples:
        """The samples as they are trained on; `classes` is how many the task has, where known."""


def honest_of(scene: Scene, attack: object) -> Sequence[Vector]:
    """The honest vectors of a step; raises where an attack is to go by none."""
    if not scene.honest:
        raise ConfigurationError(
            f"{type(attack).__name__} is omniscient: it goes by what the honest nodes send, "
            f"and 0 of their vectors are known in step {scene.step}",
            hint="hand them over as scene.honest, or choose an attack that needs none",
        )
    return scene.honest


def as_vector(values: NDArray[Any]) -> Vector:
    """In single precision; what is too large for it becomes infinite, as it would on the wire."""
    with np.errstate(over="ignore"):
        return values.astype(np.float32, copy=False)
