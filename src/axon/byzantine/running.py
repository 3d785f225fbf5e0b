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
from axon.byzantine.board import Readable
from axon.byzantine.cluster import Cluster, Node, Reach
from axon.byzantine.computing import Charged, Threaded, Work
from axon.byzantine.outcomes import Outcome, Trained, counted_in
from axon.byzantine.wire import MOST_READS, SERVICE, BoardService, Fair, RemoteBoard, serving_limits
from axon.errors import QuorumNotReached
from axon.rounds.remote import Hosting
from axon.rpc.address import Address
from axon.rpc.http.transport import HttpTransport
from axon.rpc.limits import Limits
from axon.rpc.link import Link
from axon.rpc.memory.network import Network
from axon.rpc.messages import Transport
from axon.worker import Worker as RpcWorker

PORT = 7000
"""Of every node in memory, where each has a host of its own."""
MOMENT_S = 1e-6
"""By how much, in memory, what is honest comes later than a lie that was ready at the same time."""


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
    under attack is a result. An error within an attack is none, and is raised.

    The worst is assumed of the hostile: of answers that are ready at the same time theirs are the
    first, and the omniscient see what an honest node has as soon as it has it, whatever its link.
    """
    chosen = world or World()
    beneath: dict[str, Readable] = {}
    async with AsyncExitStack() as stack:
        stack.enter_context(_one_thread())
        nodes: list[Node] = []
        for name in cluster.topology.nodes:
            made = _in_memory_node(cluster, name, chosen, lambda other: _Beneath(other, beneath))
            nodes.append(await stack.enter_async_context(made))
            beneath[name] = nodes[-1].beneath
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
        node = Node(cluster, name, way.reach(cluster), computing)
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

    def reach(self, cluster: Cluster) -> Reach:
        """The way to a node by its name."""

        def reached(other: str) -> RemoteBoard:
            where, patience_s = self.addresses[other], cluster.patience_s
            return RemoteBoard(where, self.access, cluster.size, patience_s=patience_s)

        return reached


@dataclass(frozen=True, slots=True)
class _Beneath:
    """An honest node of this process, read without any way between; it may be made later."""

    name: str
    nodes: Mapping[str, Readable]

    async def read(self, kind: str, step: int, round: int = 0) -> object:
        return await self.nodes[self.name].read(kind, step, round)


@dataclass(frozen=True, slots=True)
class _Outrun:
    """An honest node, whose answers come a moment after those that liars have by then."""

    node: Readable

    async def read(self, kind: str, step: int, round: int = 0) -> object:
        answer = await self.node.read(kind, step, round)
        # In virtual time: once everything has happened that can happen at this moment.
        await asyncio.sleep(MOMENT_S)
        return answer


@asynccontextmanager
async def _in_memory_node(
    cluster: Cluster, name: str, world: World, watch: Reach
) -> AsyncIterator[Node]:
    if name in world.links:
        world.network.set_link(name, world.links[name])
    transport = world.network.transport(name)
    addresses = {other: f"memory://{other}:{PORT}" for other in cluster.topology.nodes}
    access = client.access(transport=transport, reconnect_s=0.0)
    way = _Way(Fair(transport), access, addresses)
    computing = Charged(lambda work: world.charge(name, work))
    node = Node(cluster, name, way.reach(cluster), computing, watch=watch)
    if cluster.hostile and name not in cluster.hostile:
        node.offered = _Outrun(node.offered)
    at = Address(name, PORT, "memory")
    async with _offer(node, cluster, at, way.transport), _misbehaving(node):
        try:
            yield node
        finally:
            await node.close()


@asynccontextmanager
async def _misbehaving(node: Node) -> AsyncIterator[None]:
    """Let a hostile node do what it does unasked; an error within its attack ends the block."""
    wrong: BaseException | None = None
    try:
        async with asyncio.TaskGroup() as group:
            mischief = group.create_task(node.misbehave())
            yield
            if not node.broken.done():
                mischief.cancel()
    except BaseExceptionGroup as errors:
        wrong = errors.exceptions[0]
    if wrong is not None:
        # Outside of the handler: the block's own error goes on as it came.
        raise wrong


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
    records = [record for each in made.values() for record in each.records]
    counted = counted_in(records, cluster.hostile)
    return Outcome(servers=made, computing_s=computing, counted=counted)


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
