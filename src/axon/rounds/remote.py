"""A fleet of learners on other devices, or in other processes of this one, over the network."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass, replace
from typing import Any, ParamSpec, TypeVar

from axon import client
from axon.errors import ConfigurationError
from axon.learning.service import SERVICE
from axon.rounds.collect import LINGER
from axon.rounds.depot import Depot
from axon.rounds.fleet import Report
from axon.rpc.address import Address
from axon.rpc.calling.callers import caller_for
from axon.values import Order, Samples, Vector
from axon.worker import Worker

P = ParamSpec("P")
T = TypeVar("T")

INTRODUCTION_S = 2.0
"""How long a device may take to say its name before a cycle goes on without it."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Hosting:
    """Where the orchestrator offers its depot, and how learners are reached."""

    host: str = "127.0.0.1"
    port: int = 0
    """0 takes a free one."""
    key: Any = None
    """A key file or a keyring, the same on every device."""
    tls: str | None = None
    """The folder of certificates."""
    insecure: bool = False
    """Serve other machines without any key: say it to mean it."""
    transport: Any = None
    """In place of HTTP."""

    @property
    def access(self) -> client.Access:
        """How learners are reached; for a dead one nobody waits, the deadline is the others'."""
        return client.access(key=self.key, tls=self.tls, transport=self.transport, reconnect_s=0.0)

    @property
    def serve_options(self) -> dict[str, Any]:
        """How the depot is served."""
        return {
            "key": self.key,
            "tls": self.tls,
            "insecure": self.insecure,
            "transport": self.transport,
            "announce": False,
        }


class RemoteFleet:
    """Learners at addresses that are listed, and, where wanted, those the network announces."""

    def __init__(
        self,
        addresses: Mapping[str, str] | Sequence[str] = (),
        *,
        hosting: Hosting | None = None,
        discover: bool = False,
    ) -> None:
        self._hosting = hosting or Hosting()
        self._access = self._hosting.access
        self._named: dict[str, Address] = {}
        self._unnamed: list[Address] = []
        if isinstance(addresses, Mapping):
            self._named = {name: self._parsed(where) for name, where in addresses.items()}
        else:
            self._unnamed = [self._parsed(where) for where in addresses]
        self._discover = discover
        self._directory: client.Directory | None = None
        self._depot_at: Address | None = None
        self._peers: dict[str, RemotePeer] = {}

    def _parsed(self, where: str) -> Address:
        return Address.parse(where, tls=self._hosting.tls is not None).origin

    def join(self, name: str, address: str) -> None:
        """Take a device in, from the next cycle on."""
        self._named[name] = self._parsed(address)

    def leave(self, name: str) -> None:
        """Leave a device out, from the next cycle on."""
        self._named.pop(name, None)

    @asynccontextmanager
    async def hosting(self, depot: Depot) -> AsyncIterator[None]:
        chosen = self._hosting
        worker = Worker("orchestrator")
        worker.service(DepotService(depot), "depot", executor="inline")
        async with AsyncExitStack() as stack:
            serving = await stack.enter_async_context(
                worker.serving(chosen.host, chosen.port, **chosen.serve_options)
            )
            self._depot_at = serving.address
            if self._discover:
                self._directory = await stack.enter_async_context(client.watch(access=self._access))
            yield

    async def muster(self, cycle: int) -> Mapping[str, RemotePeer]:  # noqa: ARG002
        await self._introduce()
        addresses = self._named | self._announced()
        if not addresses:
            raise ConfigurationError(
                "there is no learner to train with",
                hint="start `axon worker` on a device, or name its host",
            )
        self._peers = {name: await self._peer(name, addresses[name]) for name in sorted(addresses)}
        return self._peers

    async def _introduce(self) -> None:
        """Ask devices that are known by address alone for their names."""
        pending, self._unnamed = self._unnamed, []
        answers = await client.gather(
            {where: self._ask_name(where) for where in pending}, deadline_s=INTRODUCTION_S
        )
        for where, name in answers.outcomes.items():
            if isinstance(name, str):
                self._named[name] = where
            else:
                # Recorded under its address for now, and asked again before the next cycle.
                self._unnamed.append(where)

    async def _ask_name(self, where: Address) -> str:
        stub = await client.connect(where, way=self._access)
        described = await getattr(stub, SERVICE).describe()
        return str(described["name"])

    def _announced(self) -> dict[str, Address]:
        known = {str(where): where for where in self._unnamed}
        if self._directory is None:
            return known
        for found in self._directory.workers:
            if f"{SERVICE}/train" in found.functions:
                known.setdefault(found.name, found.address)
        return known

    async def _peer(self, name: str, address: Address) -> RemotePeer:
        peer = self._peers.get(name)
        if peer is not None and peer.address == address:
            return peer
        return RemotePeer(name, address, self._access, await self._depot_towards(address))

    async def _depot_towards(self, address: Address) -> str:
        """The depot's address, as the device at that address sees it."""
        at = self._depot_at
        assert at is not None, "a fleet is mustered while it hosts"
        if at.host in ("0.0.0.0", "::"):  # noqa: S104  (a comparison)
            caller = await caller_for(self._access)
            at = replace(at, host=await caller.host_towards(address))
        return str(at)

    async def aside(self, function: Callable[P, T], *args: P.args, **kwargs: P.kwargs) -> T:
        return await asyncio.to_thread(function, *args, **kwargs)

    def snapshot(self) -> str:
        return ""  # Devices remember for themselves.

    def restore(self, snapshot: str) -> None:
        """Nothing: whoever is there answers for himself."""


class RemotePeer:
    """A learner on another device."""

    def __init__(self, name: str, address: Address, access: client.Access, depot: str) -> None:
        self.name = name
        self.address = address
        self._access = access
        self._depot = depot
        self._train: Any = None

    async def train(self, order: Order, report: Report | None) -> object:
        if self._train is None:
            stub = await client.connect(self.address, way=self._access)
            self._train = getattr(stub, SERVICE).train
        # As long as late answers are counted, and not longer: the device is told to stop then too.
        options: dict[str, Any] = {"deadline_s": order.deadline_s * (1.0 + LINGER)}
        if report is not None:
            options["progress"] = lambda value: _pass_on(value, report)
        return await self._train.options(**options)(replace(order, source=self._depot))


def _pass_on(value: object, report: Report) -> None:
    """Progress as a learner tells it; what is not two counts is not passed on."""
    if isinstance(value, (list, tuple)) and len(value) == 2:
        done, total = value
        if type(done) is int and type(total) is int and 0 <= done <= total:
            report(done, total)


class DepotService:
    """What learners may ask of the depot; its other side is not theirs."""

    def __init__(self, depot: Depot) -> None:
        self._depot = depot

    def model(self, run: str, cycle: int) -> Vector:
        """The parameters that this cycle starts from."""
        return self._depot.model(run, cycle)

    def shards(self, run: str, cycle: int, device: str, count: int) -> Samples:
        """`count` shards drawn for this device and cycle."""
        return self._depot.shards(run, cycle, device, count)
