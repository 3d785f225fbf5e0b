"""The robust rules as policies, ready to hand to a round.

Each is a value that remembers how many updates may be anything, and says with `least` how many
updates it needs. Given fewer it raises `ConfigurationError`.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Protocol, cast

import numpy as np
from numpy.typing import NDArray

from axon.aggregation import coordinatewise, diameters, extraction, filters, geometric, neighbours
from axon.values import Vector


class RobustRule(Protocol):
    """An aggregator that bears some updates which are anything."""

    @property
    def least(self) -> int:
        """The fewest vectors it can work with."""

    def __call__(self, vectors: Sequence[Vector], weights: Sequence[float]) -> Vector:
        """One vector of many."""


@dataclass(frozen=True, slots=True)
class Median:
    """`median`, by weight: bears updates that together weigh less than half."""

    f: int | None = None

    @property
    def least(self) -> int:
        """2f+1, or 1 where no f was said."""
        return 2 * (self.f or 0) + 1

    def __call__(self, vectors: Sequence[Vector], weights: Sequence[float]) -> Vector:
        """The weighted median of each coordinate."""
        return coordinatewise.median(_stack(vectors), f=self.f, weights=weights)


@dataclass(frozen=True, slots=True)
class TrimmedMean:
    """`trimmed_mean`; what is not cut off is averaged by weight."""

    f: int

    @property
    def least(self) -> int:
        """2f+1."""
        return 2 * self.f + 1

    def __call__(self, vectors: Sequence[Vector], weights: Sequence[float]) -> Vector:
        """The trimmed mean of each coordinate."""
        return coordinatewise.trimmed_mean(_stack(vectors), f=self.f, weights=weights)


@dataclass(frozen=True, slots=True)
class MeanAroundMedian:
    """`mean_around_median`, by weight."""

    f: int

    @property
    def least(self) -> int:
        """2f+1."""
        return 2 * self.f + 1

    def __call__(self, vectors: Sequence[Vector], weights: Sequence[float]) -> Vector:
        """The mean of the values nearest to the median."""
        return coordinatewise.mean_around_median(_stack(vectors), f=self.f, weights=weights)


@dataclass(frozen=True, slots=True)
class Krum:
    """`krum`: one of the updates. The weights are not heeded, as nothing is averaged."""

    f: int

    @property
    def least(self) -> int:
        """2f+3."""
        return 2 * self.f + 3

    def __call__(
        self,
        vectors: Sequence[Vector],
        weights: Sequence[float],  # noqa: ARG002  (part of the seam)
    ) -> Vector:
        """The update with the nearest neighbours."""
        return neighbours.krum(_stack(vectors), f=self.f)


@dataclass(frozen=True, slots=True)
class MultiKrum:
    """`multi_krum`; the selected are averaged by weight."""

    f: int
    m: int | None = None

    @property
    def least(self) -> int:
        """2f+3, or f+m where that is more."""
        return max(2 * self.f + 3, self.f + (self.m or 0))

    def __call__(self, vectors: Sequence[Vector], weights: Sequence[float]) -> Vector:
        """The mean of the updates with the nearest neighbours."""
        return neighbours.multi_krum(_stack(vectors), f=self.f, m=self.m, weights=weights)


@dataclass(frozen=True, slots=True)
class MDA:
    """`mda`; the selected are averaged by weight."""

    f: int

    @property
    def least(self) -> int:
        """2f+1."""
        return 2 * self.f + 1

    def __call__(self, vectors: Sequence[Vector], weights: Sequence[float]) -> Vector:
        """The mean of the updates that lie closest together."""
        return diameters.mda(_stack(vectors), f=self.f, weights=weights)


@dataclass(frozen=True, slots=True)
class Bulyan:
    """`bulyan`. The weights are not heeded: a coordinate's values come from several updates."""

    f: int

    @property
    def least(self) -> int:
        """4f+3."""
        return 4 * self.f + 3

    def __call__(
        self,
        vectors: Sequence[Vector],
        weights: Sequence[float],  # noqa: ARG002  (part of the seam)
    ) -> Vector:
        """The mean around the median of the updates that Krum selects one after the other."""
        return extraction.bulyan(_stack(vectors), f=self.f)


@dataclass(frozen=True, slots=True)
class GeometricMedian:
    """`geometric_median`, by weight: bears updates that together weigh less than half."""

    f: int | None = None

    @property
    def least(self) -> int:
        """2f+1, or 1 where no f was said."""
        return 2 * (self.f or 0) + 1

    def __call__(self, vectors: Sequence[Vector], weights: Sequence[float]) -> Vector:
        """The point of the least sum of distances."""
        return geometric.geometric_median(_stack(vectors), f=self.f, weights=weights)


@dataclass(frozen=True, slots=True)
class CenteredClipping:
    """`centered_clipping`. The weights are not heeded: they would lift the limit on each update."""

    f: int | None = None
    radius: float | None = None
    iterations: int = 3

    @property
    def least(self) -> int:
        """2f+1, or 1 where no f was said."""
        return 2 * (self.f or 0) + 1

    def __call__(
        self,
        vectors: Sequence[Vector],
        weights: Sequence[float],  # noqa: ARG002  (part of the seam)
    ) -> Vector:
        """The median moved by differences that are cut to a radius."""
        return geometric.centered_clipping(
            _stack(vectors), f=self.f, radius=self.radius, iterations=self.iterations
        )


@dataclass(frozen=True, slots=True)
class Clipped:
    """A rule behind `clipping`: longer updates are cut short first."""

    rule: RobustRule
    radius: float | None = None
    f: int | None = None

    @property
    def least(self) -> int:
        """As many as the rule needs, and more than f."""
        return max(self.rule.least, (self.f or 0) + 1)

    def __call__(self, vectors: Sequence[Vector], weights: Sequence[float]) -> Vector:
        """What the rule makes of the updates, none longer than the radius."""
        stack = filters.clipping(_stack(vectors), radius=self.radius, f=self.f)
        return self.rule(_rows(stack), weights)


@dataclass(frozen=True, slots=True)
class Bucketed:
    """A rule behind `bucketing`: it gets the weighted means of a few updates each.

    A bucket weighs as much as what is in it.
    """

    rule: RobustRule
    size: int
    seed: int = 0

    @property
    def least(self) -> int:
        """So many that they fill the buckets that the rule needs, the last with 1."""
        return (self.rule.least - 1) * self.size + 1

    def __call__(self, vectors: Sequence[Vector], weights: Sequence[float]) -> Vector:
        """What the rule makes of the buckets."""
        stack = _stack(vectors)
        dealt = filters.buckets(stack, size=self.size, seed=self.seed)
        means = filters.bucketing(stack, size=self.size, seed=self.seed, weights=weights)
        return self.rule(_rows(means), [sum(weights[row] for row in bucket) for bucket in dealt])


@dataclass(frozen=True, slots=True)
class Mixed:
    """A rule behind `nearest_neighbour_mixing`: it gets means of neighbours, f left out of each."""

    rule: RobustRule
    f: int

    @property
    def least(self) -> int:
        """As many as the rule needs, and at least 2f+1."""
        return max(self.rule.least, 2 * self.f + 1)

    def __call__(self, vectors: Sequence[Vector], weights: Sequence[float]) -> Vector:
        """What the rule makes of the mixed updates."""
        stack = filters.nearest_neighbour_mixing(_stack(vectors), f=self.f)
        return self.rule(_rows(stack), weights)


RULES: Mapping[str, Callable[[int], RobustRule]] = {
    "median": Median,
    "trimmed-mean": TrimmedMean,
    "mean-around-median": MeanAroundMedian,
    "krum": Krum,
    "multi-krum": MultiKrum,
    "mda": MDA,
    "bulyan": Bulyan,
    "geometric-median": GeometricMedian,
    "centered-clipping": CenteredClipping,
}
"""Every rule by its name, to be made for some f."""


def _stack(vectors: Sequence[Vector]) -> NDArray[Any]:
    """One row a vector; what is a stack already is not copied."""
    if isinstance(vectors, np.ndarray):
        return vectors
    shapes = sorted({vector.shape for vector in vectors})
    if len(shapes) > 1:
        raise ValueError(f"a rule needs vectors of one size, got {shapes[0]} and {shapes[-1]}")
    return np.stack(vectors) if vectors else np.empty((0, 0), dtype=np.float32)


def _rows(stack: NDArray[Any]) -> Sequence[Vector]:
    return cast(Sequence[Vector], stack)
