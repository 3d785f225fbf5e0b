"""A device's part in a cycle: fetch the model and shards, train until it is time, answer.

The same learner runs in every world. Its `Source` is where it fetches from, its `Compute` is where
it trains; both wait for the world, and the rest is arithmetic on the loop's clock.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Protocol

from axon.allocation.dab import shard_bound
from axon.allocation.margin import MARGIN
from axon.compression.codecs import codec
from axon.devices.states import StateEstimate
from axon.devices.subset import Method, Point
from axon.errors import ConfigurationError
from axon.learning.benchmark import measure, trial
from axon.learning.experience import Experience
from axon.learning.pace import Pace, rate
from axon.learning.room import Room, Unable
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

REMEMBERED_TASKS = 32

UNUSED = 0.1
"""The part of a deadline that a dynamic learner sooner leaves unused than its passes undone."""

PRIVATE = "it keeps its capability to itself"

Report = Callable[[int, int], None]
Answer = Update | Declined


class Source(Protocol):
    """Where a learner fetches what an order does not carry."""

    async def model(self, run: str, cycle: int) -> Vector:
        """The parameters that this cycle starts from."""

    async def shards(self, run: str, cycle: int, ticket: str, count: int) -> Samples:
        """That many shards, drawn for the device with this ticket."""


@dataclass(frozen=True, slots=True)
class Abilities:
    """What a learner brings along, beside its name."""

    allocate: SelfAllocator = shard_bound
    data: Samples | None = None
    """Samples of its own; a learner that has them downloads none."""
    memory_bytes: int | None = None
    """What it may fill; None for no bound."""
    method: Method = "affine"
    """How it reckons from a benchmark to the whole."""
    dynamic: bool = False
    """Whether it heeds its last few cycles and its own misses, and not its last cycle alone.

    It answers in time and leaves little of it unused, because it takes what it could do at its best
    of late and is cut short when it is not so quick. That is the price: on devices that their
    owners use too, most of its answers are cut short, with half to nine tenths of the passes done
    on average and a tenth or less in its worst cycles. A batch is never cut: where one takes a
    third of a deadline, a third may stay unused. With a grace nothing is cut short, and it takes
    what it could do at its worst: then it is late more often, and uses about half of the time.
    """
    discloses: bool = True
    """Whether it tells its capability and its states when it is asked."""


class Learner:
    """Trains shares of any task, and remembers how quick it was."""

    def __init__(self, name: str, compute: Compute, abilities: Abilities | None = None) -> None:
        self.name = name
        self._compute = compute
        self._own = abilities or Abilities()
        self.paces: dict[TaskSpec, Pace] = {}
        """What it knows of itself, by task."""
        self.experience = Experience()
        """What it has seen of itself, over all tasks."""

    def pace_of(self, spec: TaskSpec) -> Pace:
        """What it knows of itself on that task; what it learns is remembered there."""
        if spec not in self.paces:
            while len(self.paces) >= REMEMBERED_TASKS:
                # The one that was met first; orders may name any number of tasks.
                del self.paces[next(iter(self.paces))]
            self.paces[spec] = Pace()
        return self.paces[spec]

    async def benchmark(
        self, order: Order, source: Source, disclose: bool
    ) -> Capability | Declined | None:
        """Find out how quick it is at a task, on the shards of an order of cycle 0.

        What it found stays here, unless it is asked for and this learner tells it.
        """
        if disclose and not self._own.discloses:
            # Nothing is measured for somebody who has no use for it.
            return self._declined(order, PRIVATE)
        try:
            found = await measure(order, source, self._compute, self._own)
        except (Unable, ConfigurationError) as problem:
            return self._declined(order, str(problem))
        pace = self.pace_of(order.spec)
        pace.training.learn(found.training)
        pace.link.learn(found.link)
        return found.capability(order.shard_samples) if disclose else None

    def states(self, kinds: Sequence[str]) -> tuple[StateEstimate, ...] | Declined:
        """How likely it is found in which state, and how quick it then is at tasks of these kinds.

        As far as its cycles tell, by `kind_of`: nothing before the first one.
        """
        reason = PRIVATE
        if self._own.discloses:
            try:
                return self.experience.states(kinds)
            except ConfigurationError as problem:
                reason = str(problem)
        # The question belongs to no run.
        return Declined(run="", cycle=0, device=self.name, reason=reason)

    async def train(self, order: Order, source: Source, report: Report | None = None) -> Answer:
        """Do an order; what cannot be done is declined with the reason."""
        try:
            return await _Errand(self, order, source).run(report)
        except (Unable, ConfigurationError) as problem:
            # No time, no memory, or a task that is not known here or cannot be built.
            return self._declined(order, str(problem))

    def _declined(self, order: Order, reason: str) -> Declined:
        return Declined(run=order.run, cycle=order.cycle, device=self.name, reason=reason)


class _Errand:
    """One order, from its arrival to its answer."""

    def __init__(self, learner: Learner, order: Order, source: Source) -> None:
        self._name = learner.name
        self._compute = learner._compute
        self._own = learner._own
        self._order = order
        self._source = source
        self._room = Room(order, learner._own.memory_bytes)
        self._time = asyncio.get_running_loop().time
        self._began_s = self._time()
        self._ends_s = self._began_s + order.deadline_s * (1.0 - MARGIN) + order.grace_s
        self._pace = learner.pace_of(order.spec)
        self._experience = learner.experience
        self._downloads: list[Point] = []
        """The bytes and seconds of each."""

    async def run(self, report: Report | None) -> Answer:
        """Do it; how far it is nobody hears who may not know how quick this learner is."""
        order, pace = self._order, self._pace
        pace.hear(order.previous_s, order.deadline_s)
        self._room.check()
        model = await self._source.model(order.run, order.cycle)
        model_s = self._since(self._began_s)
        self._downloads.append((model.nbytes, model_s))
        until_s = self._ends_s - self._way_back_s(model_s)
        samples, shards = await self._fetch(model, model_s, until_s)
        fetched_s = self._time()
        job = Job(
            spec=order.spec,
            start=model,
            samples=samples,
            passes=order.share.passes,
            stream=(order.seed, "batches", order.cycle, self._name),
        )
        self._check_first_batch(job, until_s)
        trained = await self._compute.train(
            job, until_s=until_s, report=report if self._tells else None
        )
        train_s = self._since(fetched_s)
        if trained.batches == 0:
            pace.doubt(dynamic=self._own.dynamic)
            raise Unable(f"no batch could be trained within {order.deadline_s:g} s")
        pace.training.note((self._amount(trained), train_s))
        self._experience.note(order, trained, train_s, self._downloads)
        pace.returned_s = self._since(self._began_s)
        pace.ended_s = min(until_s - self._began_s, pace.returned_s)
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
            timings=timings if self._tells else None,
        )

    @property
    def _tells(self) -> bool:
        """Whether its times may be known: who decides for itself keeps its pace to itself."""
        return self._order.share.shards is not None and self._own.discloses

    def _amount(self, trained: Trained) -> int:
        """The samples that its time is reckoned by; who hopes counts those that had room.

        A batch takes about as long if it is not full, so of few samples too little would be hoped.
        """
        return trained.batches * self._order.spec.batch_size if self._hopes else trained.samples

    def _way_back_s(self, model_s: float) -> float:
        """What is kept for the way back, beside the margin.

        It may be as slow as the way here was just now, or as slow as it was before. A dynamic
        learner that has seen ways back goes by those.
        """
        tails, deadline_s = self._pace.tails, self._order.deadline_s
        if not self._own.dynamic:
            return max(model_s, self._pace.upload_s)
        reserve_s = tails.reserve_s(deadline_s) - deadline_s * MARGIN
        # With the shards and the way back as slow as the model, no time might be left to train:
        # then only trying tells.
        if tails.last_s or 3 * model_s > deadline_s * (1.0 - MARGIN):
            return reserve_s
        return max(model_s, reserve_s)

    def _check_first_batch(self, job: Job, until_s: float) -> None:
        """Decline where not even one batch would be done: nothing stops a batch half way."""
        pace, order = self._pace, self._order
        size = min(order.spec.batch_size, len(job.samples))
        samples_per_s, _ = self._outlook()
        if samples_per_s and self._time() + size / samples_per_s > until_s:
            pace.doubt(dynamic=self._own.dynamic)
            raise Unable(f"no batch can be trained within {order.deadline_s:g} s")

    async def _fetch(self, model: Vector, model_s: float, until_s: float) -> tuple[Samples, int]:
        """The samples to train on, and how many shards they are."""
        order, wanted = self._order, self._order.share.shards
        if wanted == 0:
            raise Unable("its share is empty")
        if self._own.data is not None:
            return self._own_samples(self._own.data, wanted)
        if wanted is None:
            wanted = await self._allocate(model, model_s, until_s)
        elif wanted > order.shards:
            raise Unable(f"{wanted} shards were asked for, there are {order.shards}")
        else:
            self._room.check_shards(wanted)
        if wanted == 0:
            # What it believes of itself may be out of date, and only training would tell.
            self._pace.doubt(dynamic=self._own.dynamic)
            self._pace.link.doubt(dynamic=self._own.dynamic)
            raise Unable(f"not one shard can be trained within {order.deadline_s:g} s")
        began_s = self._time()
        samples = await self._shards(wanted, until_s)
        self._downloads.append((samples.nbytes, self._since(began_s)))
        # Who hopes takes what the model's request cost beside its bytes for a matter of this cycle.
        paid_s = self._request_s(model_s) if self._hopes else 0.0
        self._pace.link.note(*self._downloads, fixed_s=paid_s)
        return samples, wanted

    async def _shards(self, wanted: int, until_s: float) -> Samples:
        """So many shards; a dynamic learner does not wait for them until it is given up itself."""
        order, began_s = self._order, self._time()
        try:
            async with asyncio.timeout_at(until_s if self._own.dynamic else None) as scope:
                return await self._source.shards(
                    order.run, order.cycle, order.ticket or self._name, wanted
                )
        except TimeoutError:
            if not scope.expired():
                raise
            waited_s = self._since(began_s)
            if waited_s > 0.0:
                # So many had not come in that time, so the link is no quicker than that.
                self._pace.link.note((wanted * order.cost.shard_bytes, waited_s))
            raise Unable(f"its shards did not come within {order.deadline_s:g} s") from None

    def _own_samples(self, data: Samples, wanted: int | None) -> tuple[Samples, int]:
        """Its own data, or as much of it as was asked for, drawn at random."""
        size = self._order.shard_samples
        held = -(-len(data) // size)
        if wanted is None:
            wanted = min(held, self._room.shards)
        else:
            self._room.check_shards(min(wanted, held))
        if wanted >= held:
            return data, held
        random = stream(self._order.seed, "own", self._order.cycle, self._name)
        return data.take(random.permutation(len(data))[: wanted * size]), wanted

    async def _allocate(self, model: Vector, model_s: float, until_s: float) -> int:
        """Decide how many shards to take, by what this learner knows of itself."""
        order, pace = self._order, self._pace
        began_s = self._time()
        if not pace.training.rates:
            pace.training.note(await trial(order, self._compute, self._ends_s))
        samples_per_s, bytes_per_s = self._outlook()
        capability = Capability(
            shards_per_s=samples_per_s / order.shard_samples,
            bytes_per_s=bytes_per_s or rate(model.nbytes, model_s),
        )
        left_s = order.deadline_s * (1.0 - MARGIN) - self._since(began_s)
        left_s -= self._beyond_bound_s(capability, model_s)
        most = min(order.shards, self._room.shards)
        if self._hopes:
            left_s = self._filled_s(left_s, capability)
            most = min(most, self._fetched_by(until_s, model_s, capability))
        return min(self._own.allocate(capability, order.cost, left_s), most) if left_s > 0.0 else 0

    def _filled_s(self, left_s: float, capability: Capability) -> float:
        """The time to reckon with where training is cut short.

        It is that of one shard more if whole ones would leave much of it unused, or if it is too
        short for one.
        """
        cost = self._order.cost
        models_s = 2 * cost.model_bytes / capability.bytes_per_s
        shard_s = cost.passes / capability.shards_per_s + cost.shard_bytes / capability.bytes_per_s
        whole, unused_s = divmod(max(0.0, left_s - models_s), shard_s)
        if whole and unused_s <= UNUSED * self._order.deadline_s:
            return left_s
        # The bound is a strict one; half a shard more keeps it from being met exactly.
        return max(left_s, models_s + shard_s / 2) + shard_s

    def _fetched_by(self, until_s: float, model_s: float, capability: Capability) -> int:
        """How many shards would be here in time for a batch if it came to the worst; at least 1."""
        order, pace = self._order, self._pace
        batch_s = order.spec.batch_size / min(pace.training.rates)
        left_s = until_s - self._time() - batch_s - self._request_s(model_s)
        bytes_per_s = min(pace.link.rates, default=capability.bytes_per_s)
        return max(1, int(left_s * bytes_per_s / order.cost.shard_bytes))

    def _beyond_bound_s(self, capability: Capability, model_s: float) -> float:
        """What a cycle takes that the bound does not reckon: all that is no matter of bytes."""
        pace = self._pace
        # The way back may be slower than the way here, which is all that the rate was taken from.
        reserved_s = self._way_back_s(model_s) - model_s
        # The bound charges a model each way at the rate it is given; beside it comes what each
        # request costs, or, from one who gave a rate of other cycles, the difference to this one.
        models_s = 2 * pace.link.fixed_s
        if self._own.dynamic:
            models_s = 2 * (model_s - self._order.cost.model_bytes / capability.bytes_per_s)
        requests_s = models_s + self._request_s(model_s)
        return reserved_s + requests_s + pace.training.fixed_s

    def _request_s(self, model_s: float) -> float:
        """What a request costs beside its bytes; a dynamic learner sees by the model what it is."""
        fixed_s, (_, bytes_per_s) = self._pace.link.fixed_s, self._outlook()
        if not self._own.dynamic or not bytes_per_s:
            return fixed_s
        return max(fixed_s, model_s - self._order.cost.model_bytes / bytes_per_s)

    @property
    def _hopes(self) -> bool:
        """Whether it may: if its training ends with the deadline; with a grace it would go on."""
        return self._own.dynamic and self._order.grace_s == 0.0

    def _outlook(self) -> tuple[float, float]:
        return self._pace.outlook(dynamic=self._own.dynamic, cut_short=self._order.grace_s == 0.0)

    def _since(self, moment_s: float) -> float:
        return self._time() - moment_s
