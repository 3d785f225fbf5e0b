"""What the rules really take on this machine, measured before a run and then charged.

So the virtual time of a run is the same however busy the machine is while it runs.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

import numpy as np

from axon.policies import Aggregator
from axon.seeds import stream
from axon.values import Vector

MOST_MEASURED, QUICK_MEASURED = 2_000_000, 100_000
"""Numbers in a vector up to which a rule is measured; what it takes for more grows with them."""
TIMES = 3


@dataclass(slots=True)
class Costs:
    """The seconds of each rule, all of its work on one core of this machine.

    They are the processor's seconds, which do not grow where the machine is busy.
    """

    most: int = MOST_MEASURED
    _known: dict[tuple[Aggregator, int, int], float] = field(default_factory=dict)

    def __call__(self, rule: Aggregator, count: int, size: int) -> float:
        """How long a rule takes for so many vectors of so many numbers."""
        measured = min(size, self.most)
        key = rule, count, measured
        if key not in self._known:
            self._known[key] = self._measured(rule, count, measured)
        return self._known[key] * size / measured

    def of(self, rule: Aggregator, size: int, cores: int) -> Callable[[int], float]:
        """By the number of vectors alone, where so many cores share the work evenly."""
        return lambda count: self(rule, count, size) / cores

    @staticmethod
    def _measured(rule: Aggregator, count: int, size: int) -> float:
        vectors = [
            stream(0, "measured", row).standard_normal(size, dtype=np.float32)
            for row in range(count)
        ]
        taken = []
        for _ in range(TIMES):
            began_s = time.process_time()
            rule(vectors, [1.0] * count)
            taken.append(time.process_time() - began_s)
        return min(taken)


@dataclass(slots=True)
class Meter:
    """What the last aggregation is to be charged with."""

    seconds: float = 0.0


@dataclass(frozen=True, slots=True)
class Metered:
    """A rule that notes what it would have taken with the vectors it stands for."""

    rule: Aggregator
    meter: Meter
    cost: Callable[[int], float] | None = None

    @property
    def least(self) -> int:
        """The fewest vectors the rule works with."""
        return int(getattr(self.rule, "least", 1))

    def seconds(self, count: int) -> float:
        """What it takes for so many vectors."""
        return self.cost(count) if self.cost is not None else 0.0

    def __call__(self, vectors: Sequence[Vector], weights: Sequence[float]) -> Vector:
        """What the rule makes of them."""
        self.meter.seconds = self.seconds(len(vectors))
        return self.rule(vectors, weights)
