"""The verbs a user may replace, each a callable with one decision to make.

In the order a round meets them: who takes part (`Selector`), how much each does (`Allocator`, or a
learner's own `SelfAllocator`), on which shards (`Sampler`), how it trains (`Trainer`) and where
that runs (`Compute`), how its update travels (`Codec`), how many become one (`Aggregator`), and
how the global model takes it up (`GlobalStep`).

All but `Compute` are plain functions of values: no clock, no network, no state of their own. What
they draw by chance comes from the generator they are handed.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Protocol

import numpy as np
from numpy.typing import NDArray

from axon.values import Capability, Job, Payload, Share, TaskCost, Trained, Vector


class Selector(Protocol):
    """Chooses who takes part in a cycle."""

    def __call__(self, members: Sequence[str], random: np.random.Generator) -> Sequence[str]:
        """Some of the members, who come in the order of their names."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Situation:
    """What an allocator knows when it plans a cycle."""

    cycle: int
    deadline_s: float
    cost: TaskCost
    shards: int
    """How many there are."""
    capabilities: Mapping[str, Capability] = field(default_factory=dict)
    """What learners have told of themselves; only a scheme that asks for it knows any."""


class Allocator(Protocol):
    """Decides, on the orchestrator's side, how much each learner does."""

    def __call__(self, members: Sequence[str], situation: Situation) -> Mapping[str, Share]:
        """A share for each member; a member without one sits the cycle out."""


class SelfAllocator(Protocol):
    """Decides, on a learner's side, how many shards it can do by the deadline."""

    def __call__(self, capability: Capability, cost: TaskCost, deadline_s: float) -> int:
        """The number of shards; 0 sits the cycle out."""


class Sampler(Protocol):
    """Draws a learner's shards."""

    def __call__(self, shards: int, count: int, random: np.random.Generator) -> NDArray[np.intp]:
        """`count` different numbers below `shards`."""


class Trainer(Protocol):
    """Trains; several jobs at once where that is cheaper than one after the other."""

    def __call__(self, jobs: Sequence[Job]) -> Sequence[Trained]:
        """What came of each job, in their order; the same as if each had been alone."""


class Compute(Protocol):
    """Where a learner's training runs, and what it costs there: a thread, or virtual time."""

    async def train(
        self, job: Job, *, until_s: float, report: Callable[[int, int], None] | None = None
    ) -> Trained:
        """Train until the job is done or the loop's clock would pass `until_s`.

        `report` hears the batches done and to do. Cancelling stops the training.
        """


class Codec(Protocol):
    """Packs an update for its way to the orchestrator, and unpacks it there."""

    def encode(self, parameters: Vector, reference: Vector) -> Payload:
        """`reference` is the model that both sides have: what training started from."""

    def decode(self, payload: Payload, reference: Vector) -> Vector:
        """Raises `ValueError` for a payload that is none of its own."""


class Aggregator(Protocol):
    """Makes one vector of many."""

    def __call__(self, vectors: Sequence[Vector], weights: Sequence[float]) -> Vector:
        """Weights are batches trained; a rule that cannot heed them says so in its docstring."""


class GlobalStep(Protocol):
    """Takes the aggregate up into the global model."""

    def __call__(
        self, current: Vector, aggregate: Vector, state: Mapping[str, Vector]
    ) -> tuple[Vector, dict[str, Vector]]:
        """The next model and the step's next state, which is empty at first and checkpointed."""
