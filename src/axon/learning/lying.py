"""A learner that wears an attack: it trains as it should, and sends something else.

    lying = Lying(Learner("pi-1", compute), Reversed(), seed=7)

It stands wherever a learner does, in every world. What it sends is well-formed, of the right cycle
and of the size that was asked for: only robust aggregation is left to bear it.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Sequence
from dataclasses import replace
from typing import NoReturn

import numpy as np

from axon.attacks.seam import Attack, Poisonous, Scene
from axon.compression.codecs import codec
from axon.devices.states import StateEstimate
from axon.errors import ConfigurationError
from axon.learning.learner import Answer, Report, Source
from axon.learning.service import Learning
from axon.seeds import stream
from axon.values import Capability, Declined, Order, Samples, Update, Vector

REMEMBERED_RUNS = 8
"""Runs whose past vectors are kept at the same time."""

Memory = tuple[tuple[str, str, tuple[bytes, ...]], ...]
"""What is remembered of runs, as it is kept: the run, its owner, and the vectors, oldest first."""


class Lying:
    """A learner, and an attack on what it sends.

    The attack acts on what training changed: the difference of the update's parameters to the model
    that the cycle started from. One that sends nothing is silent until it is called off, so that a
    cycle waits for it as for a device that was lost.

    An attack on the data poisons the shards that the learner fetches. Samples of its own lie inside
    the learner, which has to be made with them `poisoned`.
    """

    def __init__(self, learner: Learning, attack: Attack, seed: int) -> None:
        check_bearable(attack)
        self._learner = learner
        self._attack = attack
        self._seed = seed
        self._past: dict[tuple[str, str], deque[Vector]] = {}
        """Honest differences of the cycles before, by run and owner."""

    @property
    def name(self) -> str:
        return self._learner.name

    async def train(self, order: Order, source: Source, report: Report | None = None) -> Answer:
        """Do an order, and answer with a lie; what the learner declines is declined."""
        tapped = _Tapped(source, self._attack, order.spec.classes)
        answer = await self._learner.train(order, tapped, report)
        if not isinstance(answer, Update) or tapped.start is None:
            return answer
        lie = self._lie(answer, order, tapped.start)
        if lie is None:
            await silence()
        return lie

    async def benchmark(
        self, order: Order, source: Source, disclose: bool
    ) -> Capability | Declined | None:
        """See `Learner.benchmark`; of its pace it tells the truth."""
        return await self._learner.benchmark(order, source, disclose)

    def states(self, kinds: Sequence[str]) -> tuple[StateEstimate, ...] | Declined:
        """See `Learner.states`."""
        return self._learner.states(kinds)

    def keep(self) -> Memory:
        """What it remembers, to be kept with a run that may be taken up again."""
        return tuple(
            (run, owner, tuple(vector.tobytes() for vector in past))
            for (run, owner), past in self._past.items()
        )

    def take_up(self, memory: Memory) -> None:
        """Remember what `keep` gave, and nothing else."""
        self._past.clear()
        for run, owner, vectors in memory:
            past = self._past_of(run, owner)
            past.extend(np.frombuffer(vector, np.float32) for vector in vectors)

    def _lie(self, update: Update, order: Order, start: Vector) -> Update | None:
        packing = codec(order.codec)
        with np.errstate(over="ignore", invalid="ignore"):
            own = packing.decode(update.payload, start) - start
            sent = self._attack(own, self._scene(order, own.size))
            if self._attack.remembers:
                self._past_of(order.run, order.owner).append(own)
            if sent is None:
                return None
            if sent is own:
                return update  # In every bit, which the start taken off and added again is not.
            return replace(update, payload=packing.encode(start + sent, start))

    def _scene(self, order: Order, size: int) -> Scene:
        past = self._past.get((order.run, order.owner), ())
        return Scene(
            step=order.cycle,
            honest=(),
            attackers=1,  # It knows of no other.
            # An orchestrator may have begun again under the same names with another model.
            past=tuple(vector for vector in past if vector.size == size),
            random=stream(self._seed, "attack", order.seed, order.run, order.cycle, self.name),
        )

    def _past_of(self, run: str, owner: str) -> deque[Vector]:
        if (run, owner) not in self._past:
            while len(self._past) >= REMEMBERED_RUNS:
                del self._past[next(iter(self._past))]
            self._past[run, owner] = deque(maxlen=self._attack.remembers)
        return self._past[run, owner]


class _Tapped:
    """A source that notes the model it hands on, and poisons the shards if the attack does."""

    def __init__(self, source: Source, attack: Attack, classes: int) -> None:
        self._source = source
        self._attack = attack
        self._classes = classes
        self.start: Vector | None = None
        """The model that training starts from."""

    async def model(self, run: str, cycle: int) -> Vector:
        self.start = await self._source.model(run, cycle)
        return self.start

    async def shards(self, run: str, cycle: int, ticket: str, count: int) -> Samples:
        samples = await self._source.shards(run, cycle, ticket, count)
        return poisoned(samples, self._attack, self._classes)


async def silence() -> NoReturn:
    """Wait for nothing, until somebody calls it off."""
    while True:
        await asyncio.get_running_loop().create_future()


def poisoned(samples: Samples, attack: Attack, classes: int | None = None) -> Samples:
    """The samples as a learner with that attack has them: as they are, unless it is on the data."""
    return attack.poison(samples, classes) if isinstance(attack, Poisonous) else samples


def check_bearable(attack: Attack) -> None:
    """Raise for an attack that a learner cannot wear, which knows no update but its own."""
    if attack.omniscient:
        raise ConfigurationError(
            f"{type(attack).__name__} goes by what the honest nodes send, which a learner of a run "
            "cannot know",
            hint="`axon reproduce byz-attacks` shows it at work; choose another for a run",
        )
