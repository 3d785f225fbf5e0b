"""Tiny fleets, tiny data and learners to order: what the tests of rounds run on."""

from __future__ import annotations

from collections.abc import AsyncIterator, Awaitable, Callable, Mapping, Sequence
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass, replace
from typing import Any, ParamSpec, TypeVar

import numpy as np
from torch import nn

from axon import client
from axon.allocation.equal import Equal
from axon.data.datasets import Dataset
from axon.data.synthetic import synthetic
from axon.learning.learner import Abilities, Learner
from axon.learning.service import SERVICE, LearnerService
from axon.learning.tasks import define
from axon.policies import Trainer
from axon.rounds.depot import Depot
from axon.rounds.events import CycleBegan, Event
from axon.rounds.fleet import Peer, Report
from axon.rounds.orchestrator import Orchestrator
from axon.rounds.remote import Hosting, RemoteFleet
from axon.rounds.settings import Run, Scheme
from axon.rpc.link import Link
from axon.rpc.memory.network import Network
from axon.testbed import virtual
from axon.testbed.activity import Activity
from axon.testbed.catalogue import Device
from axon.testbed.charged import ChargedCompute, JobPool
from axon.testbed.simulation import Simulated, SimulatedFleet, simulated
from axon.values import (
    Capability,
    Job,
    Order,
    RoundRecord,
    Samples,
    Share,
    TaskCost,
    TaskSpec,
    Trained,
    Update,
    Vector,
)
from axon.worker import Worker

P = ParamSpec("P")
T = TypeVar("T")

FEATURES, CLASSES = 4, 2
PARAMETERS = FEATURES * CLASSES + CLASSES
SHARDS = 20
SHARD_SAMPLES = 8
SPEC = TaskSpec(net="rounds-line", inputs=(FEATURES,), classes=CLASSES, batch_size=4)
DATASET: Dataset = synthetic(samples=200, features=FEATURES, classes=CLASSES, seed=1)


@define("rounds-line")
def line(inputs: tuple[int, ...], classes: int) -> nn.Module:
    return nn.Linear(inputs[0], classes)


def run_of(**changes: Any) -> Run:
    # Fake learners fetch nothing, as those with data of their own.
    settings: dict[str, Any] = {"spec": SPEC, "cycles": 3, "deadline_s": 1.0, "own_data": True}
    return Run(**(settings | {"shard_samples": SHARD_SAMPLES, "seed": 7} | changes))


def order_of(**changes: Any) -> Order:
    settings: dict[str, Any] = {
        "run": "run",
        "cycle": 3,
        "device": "pi-1",
        "spec": SPEC,
        "share": Share(shards=2),
        "cost": TaskCost(model_bytes=4 * PARAMETERS, shard_bytes=192),
        "shard_samples": SHARD_SAMPLES,
        "shards": SHARDS,
        "deadline_s": 1.0,
        "seed": 7,
    }
    return Order(**(settings | changes))


def update_for(order: Order, parameters: Vector, **changes: Any) -> Update:
    settings: dict[str, Any] = {
        "run": order.run,
        "cycle": order.cycle,
        "device": order.device,
        "payload": {"parameters": parameters},
        "shards": 1,
        "batches": 2,
        "samples": 1,
        "loss": 0.5,
    }
    return Update(**(settings | changes))


# --- learners that do as they are told ---------------------------------------------------------

Behaviour = Callable[[Order, Depot], Awaitable[object]]


def good(step: float, batches: int = 2, **changes: Any) -> Behaviour:
    """A learner that moves every parameter by so much, and says so."""

    async def behave(order: Order, depot: Depot) -> object:
        moved = depot.model(order.run, order.cycle) + np.float32(step)
        return update_for(order, moved, batches=batches, **changes)

    return behave


Surveyed = Callable[[Order, bool], Awaitable[object]]

CAPABILITY = Capability(shards_per_s=10.0, bytes_per_s=1e6)


async def telling(order: Order, disclose: bool) -> object:
    """A learner that benchmarks itself and tells when it is asked to."""
    return CAPABILITY if disclose else None


@dataclass
class FakePeer:
    """A learner of one behaviour."""

    behaviour: Behaviour
    fleet: FakeFleet

    async def train(self, order: Order, report: Report | None) -> object:
        assert self.fleet.depot is not None
        return await self.behaviour(order, self.fleet.depot)

    async def benchmark(self, order: Order, disclose: bool) -> object:
        self.fleet.asked.append((order, disclose))
        answer = self.fleet.surveyed.get(order.device, telling)
        return await answer(order, disclose)


class FakeFleet:
    """Learners by name, each with its behaviour."""

    def __init__(self, **behaviours: Behaviour) -> None:
        self.peers: dict[str, Peer] = {
            name: FakePeer(behaviour, self) for name, behaviour in sorted(behaviours.items())
        }
        self.depot: Depot | None = None
        self.surveyed: dict[str, Surveyed] = {}
        """How learners take a survey that do not simply tell."""
        self.asked: list[tuple[Order, bool]] = []

    @asynccontextmanager
    async def hosting(self, depot: Depot) -> AsyncIterator[None]:
        self.depot = depot
        yield
        self.depot = None

    async def muster(self, cycle: int) -> Mapping[str, Peer]:
        return self.peers

    async def aside(self, function: Callable[P, T], *args: P.args, **kwargs: P.kwargs) -> T:
        return function(*args, **kwargs)

    def snapshot(self) -> str:
        return ""

    def restore(self, snapshot: str) -> None:
        """Nothing to restore."""


# --- simulated fleets --------------------------------------------------------------------------

LINK = Link(latency_s=0.001, up_bytes_per_s=1e6, down_bytes_per_s=1e6, jitter_s=0.002)
NANO = Device(kind="nano", flops_per_s=1e9, batch_overhead_s=0.01, memory_bytes=1 << 30, link=LINK)
PI = replace(NANO, kind="pi", batch_overhead_s=0.04)
DEVICES = {"nano": NANO, "pi-1": PI, "pi-2": PI}


def sum_up(jobs: Sequence[Job]) -> list[Trained]:
    """A trainer without torch: what comes out tells the start, the samples and the batches."""
    return [_summed(job) for job in jobs]


def _summed(job: Job) -> Trained:
    moved = np.float32(0.001 * job.batches) * job.samples.inputs.mean(axis=0, dtype=np.float32)
    return Trained(
        parameters=job.start + np.resize(moved, job.start.shape),
        batches=job.batches,
        samples=min(job.batches * job.spec.batch_size, len(job.samples) * job.passes),
        loss=float(moved.sum()),
    )


def world_of(
    devices: Mapping[str, Device] = DEVICES,
    *,
    seed: int = 7,
    trainer: Trainer = sum_up,
    data: Mapping[str, Samples] | None = None,
    activity: Mapping[str, Activity] | None = None,
) -> Simulated:
    return simulated(devices, seed=seed, trainer=trainer, data=data, activity=activity)


Forge = Callable[[Any], object]


class TamperedFleet:
    """A simulated fleet some of whose answers are forged on their way, and all of them kept."""

    def __init__(self, fleet: SimulatedFleet, forgeries: Mapping[str, Forge]) -> None:
        self.fleet = fleet
        self.forgeries = dict(forgeries)
        self.answers: dict[tuple[int, str], Any] = {}
        self.hosting = fleet.hosting
        self.aside = fleet.aside
        self.snapshot = fleet.snapshot
        self.restore = fleet.restore

    async def muster(self, cycle: int) -> Mapping[str, Peer]:
        peers = await self.fleet.muster(cycle)
        return {name: _Tampered(name, peer, self) for name, peer in peers.items()}


@dataclass
class _Tampered:
    name: str
    peer: Peer
    fleet: TamperedFleet

    async def train(self, order: Order, report: Report | None) -> object:
        answer = await self.peer.train(order, report)
        self.fleet.answers[order.cycle, self.name] = answer
        forge = self.fleet.forgeries.get(self.name)
        return answer if forge is None else forge(answer)

    async def benchmark(self, order: Order, disclose: bool) -> object:
        return await self.peer.benchmark(order, disclose)


def learner(name: str, batch_s: float = 0.01, trainer: Trainer = sum_up) -> Learner:
    """A learner that computes inline and takes virtual time for it."""
    return Learner(name, ChargedCompute(JobPool(trainer), lambda spec, size: batch_s), Abilities())


class InlineFleet(RemoteFleet):
    """A remote fleet under virtual time, where there are no threads."""

    async def aside(self, function: Callable[P, T], *args: P.args, **kwargs: P.kwargs) -> T:
        return function(*args, **kwargs)


# --- a network in memory ---------------------------------------------------------------------

NAMES = tuple(sorted(DEVICES))


def address_of(name: str) -> str:
    return f"memory://{name}:8000"


class NetworkScene:
    """A network with learners on it, and a run of theirs."""

    def __init__(self, addresses: Any = None, **run: Any) -> None:
        self.addresses = {n: address_of(n) for n in NAMES} if addresses is None else addresses
        self.run = run_of(**({"evaluate_every": 0} | run))
        self.network = Network(seed=1)
        self.events: list[Event] = []
        self.script: Callable[[int], None] = lambda cycle: None
        self.services: dict[str, object] = {}
        self.scheme = Scheme(allocate=Equal(shards=6))
        self.links: dict[str, Link] = {}

    def play(self, *names: str) -> list[RoundRecord]:
        return virtual.run(self.main(names or NAMES))

    async def main(self, names: Sequence[str]) -> list[RoundRecord]:
        async with AsyncExitStack() as stack:
            for name in names:
                await stack.enter_async_context(self.served(name))
            fleet = self.fleet()
            orchestrator = Orchestrator(self.run, DATASET, fleet, self.scheme, listen=self._hear)
            return await orchestrator.run()

    def transport(self, name: str) -> Any:
        return self.network.transport(name)

    def fleet(self) -> InlineFleet:
        transport = self.transport("orchestrator")
        hosting = Hosting(host="orchestrator", port=9000, transport=transport)
        return InlineFleet(self.addresses, hosting=hosting)

    @asynccontextmanager
    async def served(self, name: str) -> AsyncIterator[None]:
        transport = self.transport(name)
        # Something of a network, or nothing would ever be under way.
        self.network.set_link(name, self.links.get(name, Link(latency_s=0.001)))
        access = client.access(transport=transport, reconnect_s=0.0)
        worker = Worker(name)
        service = self.services.get(name) or LearnerService(learner(name), access)
        worker.service(service, SERVICE, depth=2, executor="inline")
        options = {"transport": transport, "announce": False, "grace_s": 0.0}
        async with worker.serving(name, 8000, **options):
            yield

    def _hear(self, event: Event) -> None:
        self.events.append(event)
        if isinstance(event, CycleBegan):
            self.script(event.plan.cycle)
