"""A cluster as one value, and the nodes that are made from it: the same on every transport."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from functools import lru_cache
from typing import TypeAlias

from axon.attacks.seam import Attack, Poisonous
from axon.byzantine.behaviours import Behaviour, Flooding, Misbehaving, Remembered
from axon.byzantine.board import WINDOW, Board, Readable
from axon.byzantine.computing import Computing
from axon.byzantine.hostile import Both, ByzantineServer, ByzantineWorker, Malice
from axon.byzantine.loops import LOOPS, Loop, Training
from axon.byzantine.quorum import Terms
from axon.byzantine.roles import Party, check_roles, known_to, members
from axon.byzantine.server import Links, Server, Task
from axon.byzantine.sources import FromOne, FromPrimary, FromQuorum, Own, Source
from axon.byzantine.worker import Worker
from axon.data.datasets import Dataset
from axon.data.partitions import Iid, Partition
from axon.errors import ConfigurationError, QuorumNotReached
from axon.learning.nets import initial
from axon.learning.tasks import Blueprint, blueprint
from axon.seeds import stream
from axon.topology import Topology
from axon.values import Samples, TaskSpec, check_positive, check_whole

Reach: TypeAlias = Callable[[str], Readable]
"""Gives the way to a node, by its name."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Cluster:
    """Who trains what with whom, by which rules, and who of them is hostile.

    Every process of a cluster builds the same value; all that is drawn by chance comes from
    `seed`.
    """

    topology: Topology
    spec: TaskSpec
    dataset: Dataset
    training: Training
    partition: Partition = field(default_factory=Iid)
    seed: int = 0
    hostile: Mapping[str, Attack | Behaviour] = field(default_factory=dict)
    """What some nodes do instead of what they should, by name."""
    patience_s: float = 60.0
    """How long a node waits for its quorum before it gives up."""
    primary_patience_s: float = 2.0
    """How long a worker waits for a silent primary, where servers may crash."""
    window: int = WINDOW
    loop: Loop | None = None
    """What a server does, in place of what its topology has it do."""

    def __post_init__(self) -> None:
        check_positive("patience_s", self.patience_s)
        check_positive("primary_patience_s", self.primary_patience_s)
        check_whole("window", self.window, least=1)
        check_roles(self.topology, self.hostile)
        self._check_patience()
        self.topology.check_rules(_least(self.training.rule), _least(self.training.model_rule))

    def _check_patience(self) -> None:
        """Servers outwait the workers' search for a primary that lives."""
        search_s = self.primary_patience_s * len(self.topology.servers)
        if self.topology.kind == "crash-tolerant" and self.patience_s <= search_s:
            raise ConfigurationError(
                f"patience_s must be above {len(self.topology.servers)} servers x "
                f"primary_patience_s = {search_s:g}, got {self.patience_s:g}"
            )

    @property
    def honest_servers(self) -> tuple[str, ...]:
        """The servers that do as they should."""
        return tuple(name for name in self.topology.servers if name not in self.hostile)

    @property
    def size(self) -> int:
        """Numbers in a vector."""
        return _size(self.spec, blueprint(self.spec.net))

    def samples_of(self, worker: str) -> Samples:
        """The training samples that a worker owns, poisoned where its attack is on the data."""
        labels, workers = self.dataset.train.labels, self.topology.workers
        parts = self.partition(labels, workers, stream(self.seed, "partition"))
        own = self.dataset.train.take(parts[worker])
        attack = self.hostile.get(worker)
        return attack.poison(own, self.spec.classes) if isinstance(attack, Poisonous) else own


class Node:
    """One node: what it offers to others, and what it does by itself.

    `reach` gives the way to any other. `watch` is how a lying one reads what the honest send, where
    that is another way.
    """

    def __init__(
        self,
        cluster: Cluster,
        name: str,
        reach: Reach,
        computing: Computing,
        *,
        watch: Reach | None = None,
    ) -> None:
        self.name = name
        self.server: Server | None = None
        self.worker: Worker | None = None
        self._cluster = cluster
        self._reach = reach
        self._watch = watch or reach
        self._computing = computing
        topology = cluster.topology
        board = Board(window=cluster.window)
        if name in topology.workers:
            self.worker = self._made_worker(board)
        if name in topology.servers:
            self.server = self._made_server(board)
        server = None if self.server is None else self.server.board
        self.beneath = _joined(server, self.worker)
        """The node as it would be if it were honest."""
        self.broken: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        """Has the error, once one came up within its attack."""
        self.offered = self._faced()

    async def train(self) -> None:
        """Do what a server does, to its last step; raises what made it give up."""
        if self.server is None:
            raise ConfigurationError(
                f"{self.name} is no server, so it does not train by itself",
                hint="it answers for as long as it is served",
            )
        cluster = self._cluster
        loop = cluster.loop or LOOPS[cluster.topology.kind]
        try:
            await loop(self.server, cluster.topology, cluster.training)
            if not self.server.is_tested:
                await self.server.compute_accuracy()
        except QuorumNotReached:
            # How good the model is with which it was left tells how it failed.
            await self.server.compute_accuracy()
            raise
        finally:
            self.server.finish()

    async def misbehave(self) -> None:
        """Do what a hostile node does unasked, for ever; raises what fails in its attack."""
        behaviour = self._cluster.hostile.get(self.name)
        if isinstance(behaviour, Flooding):
            others = [name for name in self._cluster.topology.nodes if name != self.name]
            await behaviour.flood({name: self._reach(name) for name in others})
        await self.broken

    async def close(self) -> None:
        """Stop what is under way."""
        if self.worker is not None:
            await self.worker.close()

    def _made_worker(self, board: Board) -> Worker:
        cluster = self._cluster
        return Worker(
            self.name,
            cluster.spec,
            cluster.samples_of(self.name),
            self._source(board),
            self._computing,
            seed=cluster.seed,
            window=cluster.window,
        )

    def _source(self, board: Board) -> Source:
        cluster, topology = self._cluster, self._cluster.topology
        servers = {name: self._reach(name) for name in topology.servers if name != self.name}
        terms = Terms(size=cluster.size, patience_s=cluster.patience_s)
        if topology.kind == "decentralised":
            return Own(board)
        if topology.kind == "crash-tolerant":
            brief = Terms(size=cluster.size, patience_s=cluster.primary_patience_s)
            return FromPrimary(servers, brief)
        if topology.kind == "replicated-servers":
            rule = cluster.training.model_rule
            return FromQuorum(servers, topology.models, rule, terms, self._computing)
        (name, server), *_ = servers.items()
        return FromOne(name, server, terms)

    def _made_server(self, board: Board) -> Server:
        cluster, topology = self._cluster, self._cluster.topology
        workers: dict[str, Readable] = {
            name: self._reach(name) for name in topology.workers if name != self.name
        }
        if self.worker is not None:
            workers[self.name] = self.worker
        return Server(
            self.name,
            Task(spec=cluster.spec, test=cluster.dataset.test, seed=cluster.seed),
            Links(
                workers=workers,
                servers={name: self._reach(name) for name in topology.servers if name != self.name},
            ),
            self._computing,
            board=board,
            patience_s=cluster.patience_s,
        )

    def _faced(self) -> Readable:
        """The node as others see it."""
        role = self._cluster.hostile.get(self.name)
        if role is None:
            return self.beneath
        if isinstance(role, Behaviour):
            return Misbehaving(Remembered(self.beneath), role)
        server: Readable | None = None
        worker: Readable | None = None
        if self.server is not None:
            server = ByzantineServer(self.server.board, self._malice(role, "servers"))
        if self.worker is not None:
            worker = ByzantineWorker(self.worker, self._malice(role, "workers"))
        return _joined(server, worker)

    def _malice(self, attack: Attack, party: Party) -> Malice:
        cluster = self._cluster
        names = members(cluster.topology, party)
        honest = [name for name in names if name not in cluster.hostile]
        return Malice(
            name=self.name,
            attack=attack,
            honest={name: self._watch(name) for name in honest},
            known=known_to(cluster.topology, cluster.hostile, party),
            attackers=len(names) - len(honest),
            terms=Terms(size=cluster.size, patience_s=cluster.patience_s),
            seed=cluster.seed,
            broken=self._break,
        )

    def _break(self, error: Exception) -> None:
        if not self.broken.done():
            self.broken.set_exception(error)


def _joined(server: Readable | None, worker: Readable | None) -> Readable:
    if server is not None and worker is not None:
        return Both(server, worker)
    only = server if worker is None else worker
    assert only is not None, "a node is a server, a worker or both"
    return only


@lru_cache(maxsize=64)
def _size(spec: TaskSpec, _net: Blueprint) -> int:
    return len(initial(spec, 0))


def _least(rule: object) -> int:
    """The fewest vectors a rule works with; one that does not say needs one."""
    return int(getattr(rule, "least", 1))
