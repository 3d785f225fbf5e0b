"""How the global model takes up what the learners' updates were averaged to."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np

from axon.errors import ConfigurationError
from axon.values import Vector, check_positive


@dataclass(frozen=True, slots=True)
class Replace:
    """The aggregate becomes the model: federated averaging as it was first described."""

    def __call__(
        self,
        current: Vector,  # noqa: ARG002  (part of the seam)
        aggregate: Vector,
        state: Mapping[str, Vector],  # noqa: ARG002  (part of the seam)
    ) -> tuple[Vector, dict[str, Vector]]:
        """The aggregate, and no state."""
        return aggregate, {}


@dataclass(frozen=True, slots=True)
class Momentum:
    """Server momentum, FedAvgM: cycles that pull the same way add up, the others cancel out.

    m ← momentum · m + (aggregate - current), and the next model is current + rate · m. It evens out
    what learners with different data do to the average. Hsu, Qi and Brown, "Measuring the Effects
    of Non-Identical Data Distribution for Federated Visual Classification", 2019.
    """

    rate: float = 1.0
    momentum: float = 0.9

    def __post_init__(self) -> None:
        check_positive("rate", self.rate)
        if not 0 <= self.momentum < 1:
            raise ConfigurationError(
                f"momentum must be at least 0 and below 1, got {self.momentum!r}",
                hint="at 1 and above the model would never come to rest",
            )

    def __call__(
        self, current: Vector, aggregate: Vector, state: Mapping[str, Vector]
    ) -> tuple[Vector, dict[str, Vector]]:
        """The next model, and the momentum to hand in with the next aggregate."""
        moved = aggregate - current
        if "momentum" in state:
            moved += np.float32(self.momentum) * state["momentum"]
        return current + np.float32(self.rate) * moved, {"momentum": moved}
