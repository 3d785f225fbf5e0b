"""Clusters of GARFIELD's evaluation in virtual time: the paper's models, networks and counts.

Nothing is learned here; what counts is how long a step takes. Vectors of `STAND_IN` numbers stand
for those of a model, over links that are slower by as much as the vectors are shorter, so that each
takes as long as the model's would.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from statistics import fmean
from typing import Any

import numpy as np

from axon.byzantine import Cluster, Outcome, StepRecord, Training, World, in_memory
from axon.byzantine.computing import Work
from axon.data.datasets import Dataset
from axon.errors import ConfigurationError
from axon.experiments.byz_cost_rules import Costs, Meter, Metered
from axon.experiments.byzantine_world import (
    USUAL,
    Counts,
    System,
    crash_tolerant_system,
    decentralised_system,
    replicated_system,
    single_server_system,
    vanilla_system,
)
from axon.learning.tasks import default_spec
from axon.policies import Aggregator
from axon.rpc.address import Address
from axon.rpc.link import Link
from axon.rpc.memory.network import MemoryTransport, Network
from axon.rpc.messages import Request, Response
from axon.testbed import virtual
from axon.topology import single_server
from axon.values import Samples

MODELS: Mapping[str, int] = {
    "MNIST_CNN": 79_510,
    "CifarNet": 1_756_426,
    "Inception": 5_602_874,
    "ResNet50": 23_539_850,
    "ResNet200": 62_697_610,
    "VGG19": 128_807_306,
}
"""Numbers in each model of the paper's table 3.1."""
GRADIENT_S = 1.6 / MODELS["ResNet50"]
"""Seconds of computing a gradient, for each number of the model: section 3.6.6 has 1.6 s for
ResNet50 on its CPUs."""
ETHERNET = Link(latency_s=5e-5, up_bytes_per_s=1.25e9, down_bytes_per_s=1.25e9)
"""The paper's 10 Gbit/s: every node has a full-duplex port at a switch that holds nobody up."""
HOME = Link(latency_s=3e-4, up_bytes_per_s=1.25e8, down_bytes_per_s=1.25e8)
"""1 Gbit/s."""
CORES = 20
"""Of a node of the paper."""
STAND_IN = 40_480
"""Numbers in the vectors that really travel: TwoNN's, of images of 28 x 28."""
PACKET_BYTES = 1500
"""A question does not wait until the vectors before it have left: each has its own connection."""
STEPS = 5
"""The first is not counted: nobody has anything to wait for behind it."""

VANILLA, SSMW, EARLY, CRASH, MSMW, PEERS = SYSTEMS = (
    "vanilla", "SSMW", "SSMW of n - f", "crash-tolerant", "MSMW", "decentralised",
)  # fmt: skip
"""SSMW waits for all workers, as listing 3.1 does, and once more for n - f of them."""


def _waiting_for_all(counts: Counts) -> System:
    """SSMW in a synchronous network, listing 3.1."""
    topology = single_server(counts.workers, faulty=counts.faulty_workers, synchronous=True)
    return replace(single_server_system(counts), topology=topology)


_MADE: Mapping[str, Callable[[Counts], System]] = {
    VANILLA: vanilla_system,
    SSMW: _waiting_for_all,
    EARLY: single_server_system,
    CRASH: crash_tolerant_system,
    MSMW: replicated_system,
    PEERS: decentralised_system,
}


@dataclass(frozen=True, slots=True, kw_only=True)
class Deployment:
    """One system that trains one model over one network."""

    name: str
    size: int
    """Numbers in the model."""
    link: Link
    counts: Counts = USUAL
    gradient_s: float = GRADIENT_S
    """For each number of the model."""
    rule: Aggregator | None = None
    """For gradients and models, instead of the system's own where liars are borne."""
    costs: Costs | None = None
    """What rules take on one core; nothing where it is left out."""
    cores: int = CORES
    """Of a node, among which a rule's work is shared."""

    @property
    def system(self) -> System:
        """Who there is, and by which rules."""
        if self.name not in SYSTEMS:
            raise ConfigurationError(
                f"there is no system {self.name!r}", hint=f"known are {', '.join(SYSTEMS)}"
            )
        made = _MADE[self.name](self.counts)
        if self.rule is None or self.name in (VANILLA, CRASH):
            return made
        return replace(made, rule=self.rule, model_rule=self.rule)

    def metered(self, meter: Meter) -> tuple[Metered, Metered]:
        """The rules, each of which notes what it takes on a node."""
        costs = self.costs
        rule, model_rule = (
            Metered(each, meter, costs.of(each, self.size, self.cores) if costs else None)
            for each in (self.system.rule, self.system.model_rule)
        )
        return rule, model_rule


@dataclass(frozen=True, slots=True, kw_only=True)
class Taken:
    """Where the time of a step went, at the server that was fastest; seconds, on average."""

    step_s: float
    computation_s: float
    aggregation_s: float
    """On the server, and on the workers where they aggregate models."""
    gradients: float
    """Of how many workers a server used the gradients."""
    vectors: float = 0.0
    """That arrived anywhere, a step; where they were counted."""

    @property
    def communication_s(self) -> float:
        """What is left of the step."""
        return max(0.0, self.step_s - self.computation_s - self.aggregation_s)

    @property
    def throughput(self) -> float:
        """Steps per second."""
        return 1.0 / self.step_s

    @property
    def communication(self) -> float:
        """In per cent of the step."""
        return 100.0 * self.communication_s / self.step_s

    @property
    def aggregation(self) -> float:
        """In per cent of the step."""
        return 100.0 * self.aggregation_s / self.step_s


def simulate(deployment: Deployment, *, steps: int = STEPS, seed: int = 0) -> Taken:
    """Run a deployment in virtual time, and say where a step's time went."""
    meter = Meter()
    rule, model_rule = deployment.metered(meter)
    computation_s = deployment.gradient_s * deployment.size

    def charge(_node: str, work: Work) -> float:
        if work == "aggregation":
            return meter.seconds
        return computation_s if work == "gradient" else 0.0

    cluster = Cluster(
        topology=deployment.system.topology,
        spec=default_spec("twonn", NOISE.shape, NOISE.classes, batch_size=1),
        dataset=NOISE,
        training=Training(steps=steps, rule=rule, model_rule=model_rule, accuracy_every=steps),
        seed=seed,
        patience_s=PATIENCE_S,
        primary_patience_s=PATIENCE_S / 100,
    )
    slower = slowed(deployment.link, cluster.size / deployment.size)
    network = CountingNetwork(packet_bytes=PACKET_BYTES)
    world = World(
        network=network,
        links=dict.fromkeys(cluster.topology.nodes, slower),
        charge=charge,
    )
    outcome = virtual.run(in_memory(cluster, world))
    met = model_rule.seconds(cluster.topology.models) if deployment.name == MSMW else 0.0
    taken = _taken(outcome, computation_s, met)
    return replace(taken, vectors=network.vectors / steps)


class CountingNetwork(Network):
    """A network that counts the vectors which arrive; questions are too short to be any."""

    vectors = 0

    def transport(self, host: str) -> MemoryTransport:
        """The network as seen from a host."""
        return _Counting(self, self._join(host))


class _Counting(MemoryTransport):
    def __init__(self, network: CountingNetwork, host: Any) -> None:
        super().__init__(network, host)
        self._counter = network

    async def exchange(self, address: Address, request: Request) -> Response:
        answer = await super().exchange(address, request)
        self._counter.vectors += sum(map(len, answer.body)) > PACKET_BYTES
        return answer


def slowed(link: Link, part: float) -> Link:
    """A link on which that part of a message takes as long as the whole does on this one."""
    up, down = (part * rate for rate in (link.up_bytes_per_s, link.down_bytes_per_s))
    return replace(link, up_bytes_per_s=up, down_bytes_per_s=down)


def _taken(outcome: Outcome, computation_s: float, on_workers_s: float) -> Taken:
    failures = [each.failure for each in outcome.servers.values() if each.failure]
    if failures:
        raise ConfigurationError(f"a server gave up: {failures[0]}")
    fastest = min(
        (each.records for each in outcome.servers.values()), key=lambda records: records[-1].ended_s
    )
    counted = fastest[1:]
    return Taken(
        step_s=step_s(fastest),
        computation_s=computation_s,
        aggregation_s=on_workers_s + fmean(record.aggregation_s for record in counted),
        gradients=fmean(len(record.gradients_from) for record in counted),
    )


def step_s(records: tuple[StepRecord, ...]) -> float:
    """The mean time of a step, without the first, and without measuring the accuracy."""
    return fmean(record.duration_s for record in records[1:])


def _noise() -> Dataset:
    """Something to compute gradients of, a little for each of many workers."""
    random = np.random.default_rng(0)
    inputs = random.integers(0, 256, (64, 1, 28, 28), dtype=np.uint8)
    samples = Samples(inputs, np.arange(64) % 10, scale=1 / 255)
    return Dataset("noise", samples, samples.take(slice(0, 10)), 10)


NOISE = _noise()
PATIENCE_S = 1e6
"""Nobody is lost here, and a step over a slow link takes minutes."""
