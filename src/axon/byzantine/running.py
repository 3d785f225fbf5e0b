"""Running a cluster: all of it in this process and in memory, or one node of it over HTTP.

    outcome = axon.testbed.virtual.run(in_memory(cluster))           # the simulated world
    async with serving(cluster, "worker-3", addresses): ...          # a process for each node

The nodes are the same objects in both.
"""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import AsyncIterator, Callable, Iterator, Mapping
from contextlib import AsyncExitStack, asynccontextmanager, contextmanager
from dataclasses import dataclass, field

import torch

from axon import client
from axon.byzantine.cluster import Cluster, Node
from axon.byzantine.computing import Charged, Computing, Threaded, Work
from axon.byzantine.records import StepRecord
from axon.byzantine.wire import MOST_READS, SERVICE, BoardService, Fair, RemoteBoard, serving_limits
from axon.errors import QuorumNotReached
from axon.rounds.remote import Hosting
from axon.rpc.address import Address
from axon.rpc.http.transport import HttpTransport
from axon.rpc.limits import Limits
from axon.rpc.link import Link
from axon.rpc.memory.network import Network
from axon.rpc.messages import Transport
from axon.values import Vector
from axon.worker import Worker as RpcWorker

PORT = 7000
"""Of every node in memory, where each has a host of its own."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Trained:
    """What came of one server."""

    records: tuple[StepRecord, ...]
    model: Vector
    failure: str = ""
    """Why it gave up before its last step."""

    @property
    def accuracy(self) -> float | None:
        """Of the last model that was tested."""
        tested = [record.accuracy for record in self.records if record.accuracy is not None]
        return tested[-1] if tested else None


@dataclass(frozen=True, slots=True, kw_only=True)
class Outcome:
    """What came of a cluster."""

    servers: Mapping[str, Trained]
    """The honest ones, by name."""
    computing_s: Mapping[str, Mapping[int, float]]
    """By worker and step: how long its gradient took to compute."""

    @property
    def accuracy(self) -> float:
        """Of the honest server that is worst off."""
        return min(each.accuracy or 0.0 for each in self.servers.values())


@dataclass(frozen=True, slots=True, kw_only=True)
class World:
    """What a cluster in memory meets: links, costs of computing, and faults to order."""

    network: Network = field(default_factory=Network)
    """Crash or cut off its hosts, which bear the nodes' names, at will."""
    links: Mapping[str, Link] = field(default_factory=dict)
    charge: Callable[[str, Work], float] = lambda _node, _work: 0.0
    """The seconds that a node is charged with for a piece of work."""


async def in_memory(cluster: Cluster, world: World | None = None) -> Outcome:
    """Run a whole cluster on this loop until every honest server has ended.

    Under virtual time (`axon.testbed.virtual.run`) two runs of one cluster are the same to the
    bit. A server that gave up is part of the outcome, with its `failure`: that a baseline diverges
    under attack is a result.
    """
    chosen = world or World()
    async with AsyncExitStack() as stack:
        stack.enter_context(_one_thread())
        nodes = [
            await stack.enter_async_context(_in_memory_node(cluster, name, chosen))
            for name in cluster.topology.nodes
        ]
        failures = await _run_all(cluster, nodes)
        return _outcome(cluster, nodes, failures)


@asynccontextmanager
async def serving(
    cluster: Cluster,
    name: str,
    addresses: Mapping[str, str],
    *,
    hosting: Hosting | None = None,
) -> AsyncIterator[Node]:
    """Offer one node over HTTP at its own address for as long as the block lasts.

    `addresses` are those of all nodes by name; `hosting` brings key and certificates. The node
    answers from now on; `train` lets a server do its steps.
    """
    chosen = hosting or Hosting()
    at = Address.parse(addresses[name], tls=chosen.tls is not None)
    on_a_host = _nodes_on_a_host(addresses)
    limits = serving_limits(len(cluster.topology.nodes), on_a_host)
    async with AsyncExitStack() as stack:
        transport = chosen.transport or _http(chosen, limits)
        if chosen.transport is None:
            stack.push_async_callback(transport.close)
        computing = Threaded()
        stack.callback(computing.close)
        fair = Fair(transport, MOST_READS * on_a_host)
        way = _Way(fair, chosen.access, addresses)
        options = {"key": chosen.key, "insecure": chosen.insecure, "announce": False}
        node = _node(cluster, name, way, computing)
        stack.push_async_callback(node.close)
        served = _offer(node, cluster, at, way.transport, **options)
        await stack.enter_async_context(served)
        await stack.enter_async_context(_misbehaving(node))
        yield node


async def train(node: Node) -> Trained:
    """Let the server of a node do its steps, until it is done or has given up.

    Go on serving afterwards: a server that is behind has yet to read from this one.
    """
    try:
        await node.train()
    except QuorumNotReached as error:
        return _trained(node, str(error))
    return _trained(node, "")


@dataclass(frozen=True, slots=True)
class _Way:
    """How a node is offered and how it reaches the others."""

    transport: Transport
    access: client.Access
    addresses: Mapping[str, str]


def _node(cluster: Cluster, name: str, way: _Way, computing: Computing) -> Node:
    def link(other: str) -> RemoteBoard:
        where, patience_s = way.addresses[other], cluster.patience_s
        return RemoteBoard(where, way.access, cluster.size, patience_s=patience_s)

    return Node(cluster, name, link, computing)


@asynccontextmanager
async def _in_memory_node(cluster: Cluster, name: str, world: World) -> AsyncIterator[Node]:
    if name in world.links:
        world.network.set_link(name, world.links[name])
    transport = world.network.transport(name)
    addresses = {other: f"memory://{other}:{PORT}" for other in cluster.topology.nodes}
    access = client.access(transport=transport, reconnect_s=0.0)
    way = _Way(Fair(transport), access, addresses)
    node = _node(cluster, name, way, Charged(lambda work: world.charge(name, work)))
    at = Address(name, PORT, "memory")
    async with _offer(node, cluster, at, way.transport), _misbehaving(node):
        try:
            yield node
        finally:
            await node.close()


@asynccontextmanager
async def _misbehaving(node: Node) -> AsyncIterator[None]:
    """Let a hostile node do what it does unasked, for as long as the block lasts."""
    mischief = asyncio.ensure_future(node.misbehave())
    try:
        yield
    finally:
        await _end([mischief])


@asynccontextmanager
async def _offer(
    node: Node, cluster: Cluster, at: Address, transport: Transport, **options: object
) -> AsyncIterator[None]:
    worker = RpcWorker(node.name)
    worker.service(BoardService(node.offered), SERVICE)
    limits = serving_limits(len(cluster.topology.nodes))
    # No grace: whoever still waits for something waits for what will not come.
    options |= {"limits": limits, "grace_s": 0.0, "tracebacks": False}
    async with worker.serving(at.host, at.port, transport=transport, **options):
        yield


async def _run_all(cluster: Cluster, nodes: list[Node]) -> dict[str, str]:
    """Let all servers train until the honest ones have ended; why some of them gave up."""
    loop = asyncio.get_running_loop()
    running = {
        node.name: loop.create_task(node.train()) for node in nodes if node.server is not None
    }
    honest = {name: running[name] for name in cluster.honest_servers}
    try:
        await asyncio.wait(honest.values())
    finally:
        await _end(list(running.values()))
    failures: dict[str, str] = {}
    for name, task in honest.items():
        error = task.exception()
        if isinstance(error, QuorumNotReached):
            failures[name] = str(error)
        elif error is not None:
            raise error
    return failures


async def _end(tasks: list[asyncio.Task[None]]) -> None:
    for task in tasks:
        task.cancel()
    await asyncio.gather(*tasks, return_exceptions=True)


def _outcome(cluster: Cluster, nodes: list[Node], failures: Mapping[str, str]) -> Outcome:
    made = {
        node.name: _trained(node, failures.get(node.name, ""))
        for node in nodes
        if node.name in cluster.honest_servers
    }
    computing = {
        node.name: dict(sorted(node.worker.computing_s.items()))
        for node in nodes
        if node.worker is not None
    }
    return Outcome(servers=made, computing_s=computing)


def _trained(node: Node, failure: str) -> Trained:
    assert node.server is not None, "only a server trains"
    return Trained(records=node.server.records, model=node.server.model, failure=failure)


def _nodes_on_a_host(addresses: Mapping[str, str]) -> int:
    """The most nodes that call from one host, and so count as one caller."""
    hosts = Counter(Address.parse(address).host for address in addresses.values())
    return max(hosts.values())


def _http(hosting: Hosting, limits: Limits) -> HttpTransport:
    if hosting.tls is None:
        return HttpTransport(limits=limits)
    from axon.rpc.security.tls import worker_context  # Late: certificates are the exception.

    return HttpTransport(limits=limits, worker_tls=worker_context(hosting.tls, mutual=False))


@contextmanager
def _one_thread() -> Iterator[None]:
    """The last bits of a sum must not depend on how many cores there are."""
    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    try:
        yield
    finally:
        torch.set_num_threads(threads)
