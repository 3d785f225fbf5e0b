"""The simulated world: a fleet in one process, in virtual time, the same in every run.

    world = axon.testbed.simulated("thesis", seed=7)
    records = world.run(lambda fleet: Orchestrator(run, dataset, fleet).run())

Learners are of the same class as on a real device. Between them and the orchestrator lies a
reckoned link in place of sockets, and what they compute is real but charged with a sleep.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable, Collection, Mapping, Sequence
from contextlib import asynccontextmanager
from random import Random
from typing import NamedTuple, ParamSpec, TypeVar

import msgspec
import torch

from axon.allocation.dab import shard_bound
from axon.errors import ConfigurationError
from axon.learning.batched import BatchedTrainer
from axon.learning.evaluation import flops_per_sample
from axon.learning.learner import Abilities, Answer, Learner
from axon.learning.pace import Pace
from axon.policies import SelfAllocator, Trainer
from axon.rounds.depot import Depot
from axon.rounds.fleet import Report
from axon.rpc.memory.network import HEAD_BYTES
from axon.seeds import plain_stream, stream
from axon.testbed import virtual
from axon.testbed.activity import Activity, Contention, contention, draw
from axon.testbed.catalogue import Device, check_members
from axon.testbed.catalogue import fleet as devices_of
from axon.testbed.charged import ChargedCompute, JobPool
from axon.testbed.entering import within
from axon.testbed.reckoned import Host, ReckonedLink
from axon.values import Capability, Declined, Order, Samples, TaskSpec, Update, Vector

T = TypeVar("T")
P = ParamSpec("P")


def simulated(
    devices: str | Sequence[str | Device] | Mapping[str, Device] = "thesis",
    *,
    seed: int = 0,
    data: Mapping[str, Samples] | None = None,
    activity: Mapping[str, Activity] | None = None,
    trainer: Trainer | None = None,
    allocate: SelfAllocator | None = None,
    dynamic: bool = False,
    private: Collection[str] = (),
) -> Simulated:
    """A world of devices from the catalogue, or of your own.

    `data` gives learners samples of their own, by name; `activity` says what their owners do with
    them meanwhile; `allocate` is how learners decide for themselves, and `dynamic` ones keep a
    margin that they learn from their own misses; `private` ones do not tell their capability.
    """
    named = dict(devices) if isinstance(devices, Mapping) else devices_of(devices)
    if not named:
        raise ConfigurationError("a fleet needs at least one device")
    check_members("private", private, named)
    pool = JobPool(trainer or BatchedTrainer())
    learners = {
        name: SimulatedLearner(
            name,
            named[name],
            pool,
            Abilities(
                allocate=allocate or shard_bound,
                data=(data or {}).get(name),
                memory_bytes=named[name].memory_bytes,
                dynamic=dynamic,
                discloses=name not in private,
            ),
            (activity or {}).get(name),
        )
        for name in sorted(named)
    }
    return Simulated(SimulatedFleet(learners, seed))


class Simulated:
    """A world to run something in."""

    def __init__(self, fleet: SimulatedFleet) -> None:
        self.fleet = fleet
        self._threads = 1

    def run(self, main: Callable[[SimulatedFleet], Awaitable[T]], *, start_s: float = 0.0) -> T:
        """Run `main` with the fleet, in virtual time that begins at `start_s`."""
        return virtual.run(within(self, main), start=start_s)

    async def __aenter__(self) -> SimulatedFleet:
        if not isinstance(asyncio.get_running_loop(), virtual.VirtualLoop):
            raise ConfigurationError(
                "the simulated world needs virtual time", hint="use world.run(main)"
            )
        # One thread: the last bits of a sum must not depend on how many cores there are.
        self._threads = torch.get_num_threads()
        torch.set_num_threads(1)
        return self.fleet

    async def __aexit__(self, *exception: object) -> None:
        torch.set_num_threads(self._threads)


class SimulatedFleet:
    """The learners of a simulated world, and the faults one may inject."""

    def __init__(self, learners: Mapping[str, SimulatedLearner], seed: int) -> None:
        self.learners = dict(learners)
        self._seed = seed
        self._away: set[str] = set()

    @asynccontextmanager
    async def hosting(self, depot: Depot) -> AsyncIterator[None]:
        for learner in self.learners.values():
            learner.depot = depot
        yield

    async def muster(self, cycle: int) -> Mapping[str, SimulatedLearner]:
        for learner in self.learners.values():
            learner.begin(self._seed, cycle)
        return {name: learner for name, learner in self.learners.items() if name not in self._away}

    async def aside(self, function: Callable[P, T], *args: P.args, **kwargs: P.kwargs) -> T:
        return function(*args, **kwargs)  # Threads are invisible to a jumping clock.

    def snapshot(self) -> str:
        known = {name: learner.snapshot() for name, learner in self.learners.items()}
        return msgspec.json.encode((known, sorted(self._away))).decode()

    def restore(self, snapshot: str) -> None:
        known, away = msgspec.json.decode(snapshot, type=tuple[dict[str, Remembered], list[str]])
        self._away = set(away)
        for name, remembered in known.items():
            if name in self.learners:
                self.learners[name].restore(remembered)

    # Faults

    def crash(self, name: str) -> None:
        """The device goes down, and what it was doing is lost."""
        self.learners[name].host.crash()

    def start(self, name: str) -> None:
        """A device that went down comes back."""
        self.learners[name].host.start()

    def partition(self, name: str) -> None:
        """Nothing passes to or from the device any more; one that is frozen looks the same."""
        self.learners[name].cut()

    def heal(self, name: str) -> None:
        """Messages pass again, those that waited first."""
        self.learners[name].heal()

    def leave(self, name: str) -> None:
        """The device takes no part from the next cycle on."""
        self._away.add(name)

    def join(self, name: str) -> None:
        """The device takes part again from the next cycle on."""
        self._away.discard(name)


class Remembered(NamedTuple):
    """What of a simulated learner must outlive its process."""

    paces: tuple[tuple[TaskSpec, Pace], ...]
    is_down: bool
    is_cut: bool


class SimulatedLearner:
    """A learner as the orchestrator reaches it, across a reckoned link."""

    def __init__(
        self,
        name: str,
        device: Device,
        pool: JobPool,
        abilities: Abilities,
        activity: Activity | None,
    ) -> None:
        self.learner = Learner(name, ChargedCompute(pool, self._batch_s), abilities)
        self.host = Host(name)
        self.depot: Depot | None = None
        self._name = name
        self._device = device
        self._activity = activity
        self._contention = Contention()
        self._link: ReckonedLink | None = None
        self._is_cut = False
        self._begun = (0, 0)

    def begin(self, seed: int, cycle: int) -> None:
        """Draw this cycle's chances anew, so that a cycle never depends on those before it."""
        self._begun = (seed, cycle)
        self._face(cycle, plain_stream(seed, "link", cycle, self._name))

    def _face(self, cycle: int, flights: Random) -> None:
        """A link with chances of its own, and an owner in the state of that cycle."""
        self._link = ReckonedLink(self._device.link, flights)
        if self._is_cut:
            self._link.cut()
        if self._activity is not None:
            seed, _ = self._begun
            state = draw(self._activity, stream(seed, "activity", cycle, self._name))
            self._contention = contention(state)

    def snapshot(self) -> Remembered:
        return Remembered(tuple(self.learner.paces.items()), self.host.is_down, self._is_cut)

    def restore(self, remembered: Remembered) -> None:
        self.learner.paces.update(remembered.paces)
        self.host.is_down = remembered.is_down
        self._is_cut = remembered.is_cut

    def cut(self) -> None:
        self._is_cut = True
        if self._link is not None:
            self._link.cut()

    def heal(self) -> None:
        self._is_cut = False
        if self._link is not None:
            self._link.heal()

    async def train(self, order: Order, report: Report | None) -> Answer:
        """Do an order, at the device's pace."""
        return await self.host.serve(self._train(order, report))

    async def _train(self, order: Order, report: Report | None) -> Answer:
        await self._wire.send("down", HEAD_BYTES)
        answer = await self.learner.train(order, self, report)
        size = 0
        if isinstance(answer, Update):
            size = sum(part.nbytes for part in answer.payload.values())
        await self._wire.send("up", HEAD_BYTES + size)
        return answer

    async def benchmark(self, order: Order, disclose: bool) -> Capability | Declined | None:
        """Benchmark itself, at the device's pace; see `Peer.benchmark`."""
        return await self.host.serve(self._benchmark(order, disclose))

    async def _benchmark(self, order: Order, disclose: bool) -> Capability | Declined | None:
        seed, cycle = self._begun
        # Other chances than those of the cycle that follows, which is then the same without it.
        self._face(order.cycle, plain_stream(seed, "link", order.cycle, cycle, self._name))
        try:
            await self._wire.send("down", HEAD_BYTES)
            answer = await self.learner.benchmark(order, self, disclose)
            await self._wire.send("up", HEAD_BYTES)
        finally:
            self.begin(seed, cycle)
        return answer

    # The learner's source

    async def model(self, run: str, cycle: int) -> Vector:
        vector = self._stock.model(run, cycle)
        await self._download(vector.nbytes)
        return vector

    async def shards(self, run: str, cycle: int, ticket: str, count: int) -> Samples:
        samples = self._stock.shards(run, cycle, ticket, count)
        await self._download(samples.nbytes)
        return samples

    async def _download(self, size: int) -> None:
        extra = self._contention.extra_download_bytes
        await self._wire.ask(HEAD_BYTES, HEAD_BYTES + size + extra)

    @property
    def _wire(self) -> ReckonedLink:
        assert self._link is not None, "a cycle begins with a muster"
        return self._link

    @property
    def _stock(self) -> Depot:
        assert self.depot is not None, "a run begins with hosting"
        return self.depot

    def _batch_s(self, spec: TaskSpec, samples: int) -> float:
        return self._contention.batch_s(self._device, flops_per_sample(spec), samples)
