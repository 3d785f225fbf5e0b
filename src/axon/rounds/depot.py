"""The orchestrator's data service: this cycle's model, and shards drawn for whoever asks."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from itertools import accumulate, pairwise

import numpy as np
from numpy.typing import NDArray

from axon.data.shards import Shards, draw_uniform
from axon.policies import Sampler
from axon.rounds.judge import shortened
from axon.seeds import stream
from axon.values import Samples, Vector


class Depot:
    """Hands out the model and the shards of the cycle under way, and to nobody else's learners.

    What it draws depends on the seed, the cycle and the device alone, so asking twice gives the
    same shards, and it remembers what it gave: no learner can claim to have trained on more.

    Where every learner is told how many shards to train, and there are enough, each shard is
    somebody's alone; then a draw also depends on who else takes part.
    """

    def __init__(self, run: str, shards: Shards, sampler: Sampler, seed: int) -> None:
        self.stock = shards
        self.run = run
        self._sampler = sampler
        self._seed = seed
        self._cycle = 0
        self._model: Vector = np.zeros(0, np.float32)
        self._tickets: Mapping[str, str] = {}
        self._parts: dict[str, NDArray[np.intp]] = {}
        self.served: dict[str, int] = {}
        """Shards handed out in this cycle, by device."""
        self.handed_s: dict[str, float] = {}
        """When each device was last handed something, on the loop's clock."""

    def publish(
        self,
        cycle: int,
        model: Vector,
        tickets: Mapping[str, str],
        told: Mapping[str, int | None] | None = None,
    ) -> None:
        """Begin a cycle: from now on only its model and its learners are served.

        Each learner fetches with the ticket of its order, so that none can draw on another's name.
        `told` is how many shards each is to train, None where it decides.
        """
        # Handed out as it is where learners live in this process, so nobody may write to it.
        model.setflags(write=False)
        self._cycle = cycle
        self._model = model
        self._tickets = tickets
        self._parts = self._deal(cycle, told or {})
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
        numbers = self._numbers(cycle, device, count)
        self.served[device] = max(count, self.served.get(device, 0))
        self.handed_s[device] = asyncio.get_running_loop().time()
        return self.stock.take(numbers)

    def _numbers(self, cycle: int, device: str, count: int) -> NDArray[np.intp]:
        part = self._parts.get(device)
        there = len(self.stock) if part is None else len(part)
        if count > there:
            whose = "" if part is None else f" for {device} in cycle {cycle}"
            raise ValueError(f"{count} shards were asked for, there are {there}{whose}")
        if part is not None:
            return part[:count]
        return self._sampler(len(self.stock), count, stream(self._seed, "shards", cycle, device))

    def _deal(self, cycle: int, told: Mapping[str, int | None]) -> dict[str, NDArray[np.intp]]:
        """A part of the stock for each, by the order of names; none where it does not go round."""
        counts = {name: count for name, count in sorted(told.items()) if count is not None}
        ends = list(accumulate(counts.values(), initial=0))
        # Another sampler has reasons of its own for what it draws.
        if len(counts) < len(told) or ends[-1] > len(self.stock) or self._sampler != draw_uniform:
            return {}
        order = draw_uniform(len(self.stock), ends[-1], stream(self._seed, "deal", cycle))
        return {
            name: order[start:end]
            for name, (start, end) in zip(counts, pairwise(ends), strict=True)
        }

    def _check(self, run: str, cycle: int) -> None:
        if run != self.run:
            raise ValueError(f"this is run {self.run}, not {run}")
        if cycle != self._cycle:
            raise ValueError(f"cycle {cycle} is not under way, {self._cycle} is")
