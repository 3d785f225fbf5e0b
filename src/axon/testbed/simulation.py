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
from functools import partial
from typing import ParamSpec, TypeVar

import msgspec
import torch

from axon.allocation.dab import shard_bound
from axon.attacks.seam import Attack
from axon.errors import ConfigurationError
from axon.learning.batched import BatchedTrainer
from axon.learning.learner import Abilities
from axon.policies import SelfAllocator, Trainer
from axon.rounds.depot import Depot
from axon.testbed import virtual
from axon.testbed.activity import Activity
from axon.testbed.catalogue import Device, check_members
from axon.testbed.catalogue import fleet as devices_of
from axon.testbed.charged import JobPool
from axon.testbed.entering import World, run_apart, told, within
from axon.testbed.linked import Remembered, SimulatedLearner
from axon.values import Samples

__all__ = ["Simulated", "SimulatedFleet", "SimulatedLearner", "SimulatedPart", "simulated"]

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


class Simulated(World):
    """A world to run something in."""

    def __init__(self, fleet: SimulatedFleet) -> None:
        self.fleet = fleet
        self._threads = 1

    @property
    def devices(self) -> dict[str, Device]:
        return {name: learner.device for name, learner in self.fleet.learners.items()}

    def lying(self, attacks: Mapping[str, Attack]) -> Simulated:
        """The same world, in which these devices send what their attack makes of their updates."""
        check_members("attacks", attacks, self.fleet.learners)
        for name, attack in attacks.items():
            self.fleet.learners[name].wear(attack, self.fleet.seed)
        return self

    def run(self, main: Callable[[SimulatedFleet], Awaitable[T]], *, start_s: float = 0.0) -> T:
        """Run `main` with the fleet, in virtual time that begins at `start_s`."""
        return run_apart(partial(virtual.run, start=start_s), within(self, main))

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

    def __repr__(self) -> str:
        return f"<SimulatedFleet of {told(self.learners)}>"

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
