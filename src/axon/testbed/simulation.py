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
from typing import NamedTuple, ParamSpec, TypeVar

import msgspec
import torch

from axon.allocation.dab import shard_bound
from axon.devices.states import StateEstimate
from axon.errors import ConfigurationError
from axon.learning.batched import BatchedTrainer
from axon.learning.evaluation import flops_per_sample
from axon.learning.experience import Kept
from axon.learning.learner import Abilities, Answer, Learner
from axon.learning.pace import Pace
from axon.policies import SelfAllocator, Trainer
from axon.rounds.depot import Depot
from axon.rounds.fleet import Report
from axon.rpc.memory.network import HEAD_BYTES
from axon.seeds import Name, plain_stream, stream
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
        self.seed = seed
        self._away: set[str] = set()
        self._out: dict[SimulatedPart, set[str]] = {}
        """Learners in a cycle of a part that has not ended, by part."""

    @asynccontextmanager
    async def hosting(self, depot: Depot) -> AsyncIterator[None]:
        for learner in self.learners.values():
            learner.depots[depot.run] = depot
        try:
            yield
        finally:
            for learner in self.learners.values():
                learner.depots.pop(depot.run, None)

    @asynccontextmanager
    async def watching(self) -> AsyncIterator[None]:
        yield  # Everybody is known beforehand.

    def part(self, members: Callable[[], Collection[str]]) -> SimulatedPart:
        """See `SharedFleet.part`."""
        return SimulatedPart(self, members)

    async def roster(self) -> tuple[str, ...]:
        return tuple(name for name in self.learners if name not in self._away)

    async def muster(self, cycle: int) -> Mapping[str, SimulatedLearner]:
        for learner in self.learners.values():
            learner.begin(self.seed, cycle)
        return {name: learner for name, learner in self.learners.items() if name not in self._away}

    async def tellers(self, names: Collection[str], cycle: int) -> dict[str, SimulatedLearner]:
        """See `SharedFleet.tellers`; their links have other chances than in the cycles."""
        here = {name: self.learners[name] for name in await self.roster() if name in names}
        for learner in here.values():
            learner.begin(self.seed, cycle, "states")
        return here

    async def aside(self, function: Callable[P, T], *args: P.args, **kwargs: P.kwargs) -> T:
        return function(*args, **kwargs)  # Threads are invisible to a jumping clock.

    def snapshot(self) -> str:
        return self._snapshot(self.learners)

    def _snapshot(self, names: Collection[str]) -> str:
        known = {name: self.learners[name].snapshot() for name in names}
        return msgspec.json.encode((known, sorted(self._away))).decode()

    def go_out(self, part: SimulatedPart, names: Collection[str]) -> dict[str, SimulatedLearner]:
        """Those of the names who are there, out with a part until its cycle has ended."""
        known = self.learners.items()
        here = {name: one for name, one in known if name in names and name not in self._away}
        self._out[part] = set(here)
        return here

    def come_back(self, part: SimulatedPart) -> str:
        """A snapshot of everybody who is in no other part's cycle, now that this one's has ended.

        Whoever is in one will do it again after a crash, from where it began.
        """
        self._out.pop(part, None)
        out = set().union(*self._out.values())
        return self._snapshot([name for name in self.learners if name not in out])

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


class SimulatedPart:
    """Some learners of a simulated fleet for a run beside others, with chances of its own."""

    def __init__(self, fleet: SimulatedFleet, members: Callable[[], Collection[str]]) -> None:
        self._fleet = fleet
        self._members = members
        self._run = ""

    @asynccontextmanager
    async def hosting(self, depot: Depot) -> AsyncIterator[None]:
        self._run = depot.run
        async with self._fleet.hosting(depot):
            try:
                yield
            finally:
                self._fleet.come_back(self)

    async def muster(self, cycle: int) -> Mapping[str, SimulatedLearner]:
        here = self._fleet.go_out(self, self._members())
        for learner in here.values():
            learner.begin(self._fleet.seed, cycle, self._run)
        return here

    async def aside(self, function: Callable[P, T], *args: P.args, **kwargs: P.kwargs) -> T:
        return await self._fleet.aside(function, *args, **kwargs)

    def snapshot(self) -> str:
        return self._fleet.come_back(self)

    def restore(self, snapshot: str) -> None:
        known, _ = msgspec.json.decode(snapshot, type=tuple[dict[str, Remembered], list[str]])
        for name in self._members():
            if name in known and name in self._fleet.learners:
                self._fleet.learners[name].restore(known[name])


class Remembered(NamedTuple):
    """What of a simulated learner must outlive its process."""

    paces: tuple[tuple[TaskSpec, Pace], ...]
    is_down: bool
    is_cut: bool
    experience: Kept = Kept()


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
        self.depots: dict[str, Depot] = {}
        """Where it fetches from, by run."""
        self._name = name
        self._device = device
        self._activity = activity
        self._contention = Contention()
        self._link: ReckonedLink | None = None
        self._is_cut = False
        self._begun = (0, 0, "")

    def begin(self, seed: int, cycle: int, run: str = "") -> None:
        """Draw this cycle's chances anew, so that a cycle never depends on those before it.

        Where several runs go on at once, the same cycle of another run has other chances.
        """
        self._begun = (seed, cycle, run)
        self._face(cycle, self._named(cycle))

    def _named(self, *numbers: int) -> tuple[Name, ...]:
        _, _, run = self._begun
        return (run, *numbers, self._name) if run else (*numbers, self._name)

    def _face(self, cycle: int, flights: tuple[Name, ...]) -> None:
        """A link with chances of its own, and an owner in the state of that cycle."""
        seed, _, _ = self._begun
        random = plain_stream(seed, "link", *flights)
        self._link = ReckonedLink(self._device.link, random)
        if self._is_cut:
            self._link.cut()
        if self._activity is not None:
            state = draw(self._activity, stream(seed, "activity", *self._named(cycle)))
            self._contention = contention(state)

    def snapshot(self) -> Remembered:
        paces, kept = tuple(self.learner.paces.items()), self.learner.experience.keep()
        return Remembered(paces, self.host.is_down, self._is_cut, kept)

    def restore(self, remembered: Remembered) -> None:
        self.learner.paces.update(remembered.paces)
        self.host.is_down = remembered.is_down
        self._is_cut = remembered.is_cut
        self.learner.experience.take_up(remembered.experience)

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
        begun = _, cycle, _ = self._begun
        # Other chances than those of the cycle that follows, which is then the same without it.
        self._face(order.cycle, self._named(order.cycle, cycle))
        try:
            await self._wire.send("down", HEAD_BYTES)
            answer = await self.learner.benchmark(order, self, disclose)
            await self._wire.send("up", HEAD_BYTES)
        finally:
            self.begin(*begun)
        return answer

    async def states(self, kinds: Sequence[str]) -> tuple[StateEstimate, ...] | Declined:
        """What it tells of its states; see `Tells.states`."""
        return await self.host.serve(self._states(kinds))

    async def _states(self, kinds: Sequence[str]) -> tuple[StateEstimate, ...] | Declined:
        await self._wire.send("down", HEAD_BYTES)
        answer = self.learner.states(kinds)
        await self._wire.send("up", HEAD_BYTES)
        return answer

    # The learner's source

    async def model(self, run: str, cycle: int) -> Vector:
        vector = self._stock(run).model(run, cycle)
        await self._download(vector.nbytes)
        return vector

    async def shards(self, run: str, cycle: int, ticket: str, count: int) -> Samples:
        samples = self._stock(run).shards(run, cycle, ticket, count)
        await self._download(samples.nbytes)
        return samples

    async def _download(self, size: int) -> None:
        extra = self._contention.extra_download_bytes
        await self._wire.ask(HEAD_BYTES, HEAD_BYTES + size + extra)

    @property
    def _wire(self) -> ReckonedLink:
        assert self._link is not None, "a cycle begins with a muster"
        return self._link

    def _stock(self, run: str) -> Depot:
        assert run in self.depots, "a run begins with hosting"
        return self.depots[run]

    def _batch_s(self, spec: TaskSpec, samples: int) -> float:
        return self._contention.batch_s(self._device, flops_per_sample(spec), samples)
