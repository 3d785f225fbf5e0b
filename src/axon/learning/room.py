"""Whether an order fits in a learner's memory, before anything is fetched or built."""

from __future__ import annotations

import math
import sys
from dataclasses import dataclass

from axon.values import Order

TRAINING_COPIES = 4
"""The model, its gradient, its optimiser's memory and the update: what training holds at once."""

TRIAL_BATCHES = 8
"""A learner that does not know a task yet tries it on this many batches."""


class Unable(Exception):
    """The learner sits an order out, and why."""


@dataclass(frozen=True, slots=True)
class Room:
    """What an order may fill."""

    order: Order
    memory_bytes: int | None
    """None for no bound."""

    @property
    def shards(self) -> int:
        """How many shards fit beside the model."""
        if self.memory_bytes is None:
            return sys.maxsize
        left = self.memory_bytes - TRAINING_COPIES * self.order.cost.model_bytes
        return max(0, left // self._shard_bytes)

    def check(self) -> None:
        """Raise `Unable` where not even one shard fits, or not the batches of a trial."""
        self.check_shards(1)
        spec, memory = self.order.spec, self.memory_bytes
        batch = 4 * spec.batch_size * math.prod(spec.inputs) * TRIAL_BATCHES
        if memory is not None and batch > memory:
            raise Unable(
                f"batches of {spec.batch_size} samples need {batch / 1e6:.0f} MB to be tried, "
                "which is more than it has"
            )

    def check_shards(self, count: int) -> None:
        """Raise `Unable` where so many do not fit."""
        if count <= self.shards:
            return
        need = TRAINING_COPIES * self.order.cost.model_bytes + count * self._shard_bytes
        # How much it has is its own business: the reason travels.
        raise Unable(
            f"the model and {count} shards need {need / 1e6:.0f} MB to train, "
            "which is more than it has"
        )

    @property
    def _shard_bytes(self) -> int:
        """A shard as it came, and as floats."""
        order = self.order
        return order.cost.shard_bytes + 4 * order.shard_samples * math.prod(order.spec.inputs)
