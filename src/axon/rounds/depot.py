"""The orchestrator's data service: this cycle's model, and shards drawn for whoever asks."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping

import numpy as np

from axon.data.shards import Shards
from axon.policies import Sampler
from axon.rounds.judge import shortened
from axon.seeds import stream
from axon.values import Samples, Vector


class Depot:
    """Hands out the model and the shards of the cycle under way, and to nobody else's learners.

    What it draws depends on the seed, the cycle and the device alone, so asking twice gives the
    same shards, and it remembers what it gave: no learner can claim to have trained on more.
    """

    def __init__(self, run: str, shards: Shards, sampler: Sampler, seed: int) -> None:
        self.stock = shards
        self._run = run
        self._sampler = sampler
        self._seed = seed
        self._cycle = 0
        self._model: Vector = np.zeros(0, np.float32)
        self._tickets: Mapping[str, str] = {}
        self.served: dict[str, int] = {}
        """Shards handed out in this cycle, by device."""
        self.handed_s: dict[str, float] = {}
        """When each device was last handed something, on the loop's clock."""

    def publish(self, cycle: int, model: Vector, tickets: Mapping[str, str]) -> None:
        """Begin a cycle: from now on only its model and its learners are served.

        Each learner fetches with the ticket of its order, so that none can draw on another's name.
        """
        # Handed out as it is where learners live in this process, so nobody may write to it.
        model.setflags(write=False)
        self._cycle = cycle
        self._model = model
        self._tickets = tickets
        self.served = {}
        self.handed_s = {}

    def model(self, run: str, cycle: int) -> Vector:
        """The parameters that this cycle starts from."""
        self._check(run, cycle)
        return self._model

    def shards(self, run: str, cycle: int, ticket: str, count: int) -> Samples:
        """`count` shards drawn for the device with this ticket in this cycle."""
        self._check(run, cycle)
        device = self._tickets.get(ticket)
        if device is None:
            raise ValueError(f"{shortened(ticket)} is no ticket of cycle {cycle}")
        if isinstance(count, bool) or not isinstance(count, int) or count < 1:
            raise ValueError(f"shards must be a whole number of at least 1, got {count!r}")
        if count > len(self.stock):
            raise ValueError(f"{count} shards were asked for, there are {len(self.stock)}")
        random = stream(self._seed, "shards", cycle, device)
        numbers = self._sampler(len(self.stock), count, random)
        self.served[device] = max(count, self.served.get(device, 0))
        self.handed_s[device] = asyncio.get_running_loop().time()
        return self.stock.take(numbers)

    def _check(self, run: str, cycle: int) -> None:
        if run != self._run:
            raise ValueError(f"this is run {self._run}, not {run}")
        if cycle != self._cycle:
            raise ValueError(f"cycle {cycle} is not under way, {self._cycle} is")
