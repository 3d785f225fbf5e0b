"""A device's part in a cycle: fetch the model and shards, train until it is time, answer.

The same learner runs in every world. Its `Source` is where it fetches from, its `Compute` is where
it trains; both wait for the world, and the rest is arithmetic on the loop's clock.
"""

from __future__ import annotations

import asyncio
import math
import sys
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Protocol

import numpy as np

from axon.allocation.dab import shard_bound
from axon.compression.codecs import codec
from axon.errors import ConfigurationError
from axon.policies import Compute, SelfAllocator
from axon.seeds import stream
from axon.values import (
    Capability,
    Declined,
    Job,
    Order,
    Samples,
    TaskSpec,
    Timings,
    Trained,
    Update,
    Vector,
)

MARGIN = 0.02
"""The part of a deadline kept for what nobody can foresee: a late timer, a busy loop."""

TRIAL_BATCHES = 8
TRIAL_PART = 0.05
"""A learner that does not know a task yet tries this many batches, in this part of its deadline."""

REMEMBERED_TASKS = 32

TRAINING_COPIES = 4
"""The model, its gradient, its optimiser's memory and the update: what training holds at once."""

Report = Callable[[int, int], None]
Answer = Update | Declined


class Source(Protocol):
    """Where a learner fetches what an order does not carry."""

    async def model(self, run: str, cycle: int) -> Vector:
        """The parameters that this cycle starts from."""

    async def shards(self, run: str, cycle: int, ticket: str, count: int) -> Samples:
        """That many shards, drawn for the device with this ticket."""


@dataclass(slots=True)
class Pace:
    """What a learner has seen of itself on one task; it never leaves the device."""

    samples_per_s: float = 0.0
    bytes_per_s: float = 0.0
    upload_s: float = 0.0
    returned_s: float | None = None
    """How long it took, the last time, from the order's arrival to handing back the update."""


@dataclass(frozen=True, slots=True)
class Abilities:
    """What a learner brings along, beside its name."""

    allocate: SelfAllocator = shard_bound
    data: Samples | None = None
    """Samples of its own; a learner that has them downloads none."""
    memory_bytes: int | None = None
    """What it may fill; None for no bound."""


class Learner:
    """Trains shares of any task, and remembers how quick it was."""

    def __init__(self, name: str, compute: Compute, abilities: Abilities | None = None) -> None:
        self.name = name
        self._compute = compute
        self._own = abilities or Abilities()
        self.paces: dict[TaskSpec, Pace] = {}
        """What it knows of itself, by task."""

    def pace_of(self, spec: TaskSpec) -> Pace:
        """What it knows of itself on that task; what it learns is remembered there."""
        if spec not in self.paces:
            while len(self.paces) >= REMEMBERED_TASKS:
                # The one that was met first; orders may name any number of tasks.
                del self.paces[next(iter(self.paces))]
            self.paces[spec] = Pace()
        return self.paces[spec]

    async def train(self, order: Order, source: Source, report: Report | None = None) -> Answer:
        """Do an order; what cannot be done is declined with the reason."""
        try:
            return await _Errand(self, order, source).run(report)
        except _Unable as problem:
            reason = str(problem)
        except ConfigurationError as problem:
            # The task is not known here, or not one that can be built.
            reason = str(problem)
        return Declined(run=order.run, cycle=order.cycle, device=self.name, reason=reason)


class _Unable(Exception):
    """The learner sits this one out."""


class _Errand:
    """One order, from its arrival to its answer."""

    def __init__(self, learner: Learner, order: Order, source: Source) -> None:
        self._name = learner.name
        self._compute = learner._compute
        self._own = learner._own
        self._order = order
        self._source = source
        self._time = asyncio.get_running_loop().time
        self._began_s = self._time()
        self._ends_s = self._began_s + order.deadline_s * (1.0 - MARGIN)
        self._pace = learner.pace_of(order.spec)

    async def run(self, report: Report | None) -> Answer:
        order, pace = self._order, self._pace
        self._note_upload()
        self._check_memory()
        model = await self._source.model(order.run, order.cycle)
        model_s = self._since(self._began_s)
        samples, shards = await self._fetch(model, model_s)
        fetched_s = self._time()
        job = Job(
            spec=order.spec,
            start=model,
            samples=samples,
            passes=order.share.passes,
            stream=(order.seed, "batches", order.cycle, self._name),
        )
        until_s = self._ends_s - max(model_s, pace.upload_s)
        self._check_first_batch(job, until_s)
        trained = await self._compute.train(job, until_s=until_s, report=report)
        train_s = self._since(fetched_s)
        if trained.batches == 0:
            raise _Unable(f"no batch could be trained within {order.deadline_s:g} s")
        pace.samples_per_s = _rate(trained.samples, train_s)
        pace.returned_s = self._since(self._began_s)
        download_s = fetched_s - self._began_s
        timings = Timings(download_s=round(download_s, 6), train_s=round(train_s, 6))
        return self._update(job, trained, shards, timings)

    def _update(self, job: Job, trained: Trained, shards: int, timings: Timings) -> Update:
        order = self._order
        return Update(
            run=order.run,
            cycle=order.cycle,
            device=self._name,
            payload=codec(order.codec).encode(trained.parameters, job.start),
            shards=shards,
            batches=trained.batches,
            samples=trained.samples,
            loss=trained.loss,
            halted=trained.batches < job.batches,
            # Who decides for itself keeps to itself how quick it is.
            timings=None if order.share.shards is None else timings,
        )

    def _check_first_batch(self, job: Job, until_s: float) -> None:
        """Decline where not even one batch would be done: nothing stops a batch half way."""
        pace, order = self._pace, self._order
        size = min(order.spec.batch_size, len(job.samples))
        if pace.samples_per_s and self._time() + size / pace.samples_per_s > until_s:
            pace.samples_per_s = 0.0
            raise _Unable(f"no batch can be trained within {order.deadline_s:g} s")

    async def _fetch(self, model: Vector, model_s: float) -> tuple[Samples, int]:
        """The samples to train on, and how many shards they are."""
        order, wanted = self._order, self._order.share.shards
        if wanted == 0:
            raise _Unable("its share is empty")
        if self._own.data is not None:
            return self._own_samples(self._own.data, wanted)
        if wanted is None:
            wanted = await self._allocate(model, model_s)
        elif wanted > order.shards:
            raise _Unable(f"{wanted} shards were asked for, there are {order.shards}")
        elif wanted > self._room():
            raise _Unable(self._too_large(wanted))
        if wanted == 0:
            # What it believes of itself may be out of date, and only training would tell.
            self._pace.samples_per_s = self._pace.bytes_per_s = 0.0
            raise _Unable(f"not one shard can be trained within {order.deadline_s:g} s")
        began_s = self._time()
        samples = await self._source.shards(
            order.run, order.cycle, order.ticket or self._name, wanted
        )
        took_s = model_s + self._since(began_s)
        self._pace.bytes_per_s = _rate(model.nbytes + samples.nbytes, took_s)
        return samples, wanted

    def _own_samples(self, data: Samples, wanted: int | None) -> tuple[Samples, int]:
        """Its own data, or as much of it as was asked for, drawn at random."""
        size = self._order.shard_samples
        held = -(-len(data) // size)
        if wanted is None:
            wanted = min(held, self._room())
        elif min(wanted, held) > self._room():
            raise _Unable(self._too_large(min(wanted, held)))
        if wanted >= held:
            return data, held
        random = stream(self._order.seed, "own", self._order.cycle, self._name)
        return data.take(random.permutation(len(data))[: wanted * size]), wanted

    async def _allocate(self, model: Vector, model_s: float) -> int:
        """Decide how many shards to take, by what this learner knows of itself."""
        order, pace = self._order, self._pace
        began_s = self._time()
        if pace.samples_per_s == 0.0:
            pace.samples_per_s = await self._try_out(model)
        capability = Capability(
            shards_per_s=pace.samples_per_s / order.shard_samples,
            bytes_per_s=pace.bytes_per_s or _rate(model.nbytes, model_s),
        )
        # The way back may be slower than the way here, which is all that the rate was taken from.
        reserved_s = max(0.0, pace.upload_s - model_s)
        left_s = order.deadline_s * (1.0 - MARGIN) - self._since(began_s) - reserved_s
        if left_s <= 0.0:
            return 0
        return min(self._own.allocate(capability, order.cost, left_s), order.shards, self._room())

    async def _try_out(self, model: Vector) -> float:
        """Samples a second on made-up data; what the dummy learns is thrown away."""
        spec = self._order.spec
        count = spec.batch_size * TRIAL_BATCHES
        random = stream(self._order.seed, "trial", self._name)
        samples = Samples(
            random.standard_normal((count, *spec.inputs), dtype=np.float32),
            random.integers(spec.classes, size=count),
        )
        # The first batch pays for everything that happens once, so it counts only where there is
        # no time for a second.
        until_s = self._time() + self._order.deadline_s * TRIAL_PART
        first = Job(spec=spec, start=model, samples=samples, limit=1)
        rate = 0.0
        for job, halt_s in ((first, self._ends_s), (replace(first, limit=None), until_s)):
            began_s = self._time()
            trained = await self._compute.train(job, until_s=halt_s)
            if trained.batches:
                rate = _rate(trained.samples, self._since(began_s))
        if rate == 0.0:
            raise _Unable(f"no batch could be trained within {self._order.deadline_s:g} s")
        return rate

    def _note_upload(self) -> None:
        """Learn how long the way back takes, from what the orchestrator says of the last time."""
        order, pace = self._order, self._pace
        if order.previous_s is None:
            # Nothing was sent, so nothing was learnt: what was believed is believed less.
            pace.upload_s /= 2
        elif math.isinf(order.previous_s):
            # It was given up; half of the deadline is as much as is ever kept for the way back.
            least_s = max(pace.upload_s, order.deadline_s * MARGIN)
            pace.upload_s = min(2 * least_s, order.deadline_s / 2)
        elif pace.returned_s is not None:
            # What was waited beyond our own work was the way back.
            kept_s = max(0.0, order.previous_s - pace.returned_s)
            pace.upload_s = min(kept_s, order.deadline_s / 2)
        pace.returned_s = None

    def _check_memory(self) -> None:
        """Decline what cannot be held, before anything is fetched or built."""
        spec, memory = self._order.spec, self._own.memory_bytes
        if self._room() < 1:
            raise _Unable(self._too_large(1))
        batch = 4 * spec.batch_size * math.prod(spec.inputs) * TRIAL_BATCHES
        if memory is not None and batch > memory:
            raise _Unable(
                f"batches of {spec.batch_size} samples need {batch / 1e6:.0f} MB to be tried, "
                f"{memory / 1e6:.0f} MB may be used"
            )

    def _room(self) -> int:
        """How many shards fit in memory beside the model."""
        if self._own.memory_bytes is None:
            return sys.maxsize
        left = self._own.memory_bytes - TRAINING_COPIES * self._order.cost.model_bytes
        return max(0, left // self._shard_memory())

    def _shard_memory(self) -> int:
        """A shard as it came, and as floats."""
        order = self._order
        return order.cost.shard_bytes + 4 * order.shard_samples * math.prod(order.spec.inputs)

    def _too_large(self, shards: int) -> str:
        need = TRAINING_COPIES * self._order.cost.model_bytes + shards * self._shard_memory()
        have = self._own.memory_bytes or 0
        return (
            f"the model and {shards} shards need {need / 1e6:.0f} MB to train, "
            f"{have / 1e6:.0f} MB may be used"
        )

    def _since(self, moment_s: float) -> float:
        return self._time() - moment_s


def _rate(amount: float, took_s: float) -> float:
    """So much in a second; what took no time at all was quick enough for any arithmetic."""
    return min(amount / took_s, 1e15) if took_s > 0.0 else 1e15
