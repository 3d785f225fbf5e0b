"""A fleet of learners on other devices, or in other processes of this one, over the network."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from contextlib import AsyncExitStack, asynccontextmanager, suppress
from dataclasses import dataclass, replace
from typing import Any, ParamSpec, TypeVar

from axon import client
from axon.errors import AxonError, ConfigurationError, ProtocolError
from axon.learning.compute import REPORT_EVERY_S
from axon.learning.service import SERVICE
from axon.rounds.collect import LINGER
from axon.rounds.depot import Depot
from axon.rounds.fleet import Report
from axon.rpc.address import Address
from axon.rpc.calling.callers import caller_for
from axon.rpc.calling.options import CallOptions
from axon.rpc.calling.stubs import GenericStub, RemoteFunction
from axon.values import Order, Samples, Vector
from axon.worker import Worker

P = ParamSpec("P")
T = TypeVar("T")

LONGEST_NAME = 200
"""In characters; a name stands in every record."""

INTRODUCTION_S = 2.0
"""How long a device may take to say its name before the first cycle goes on without it."""

AGAIN_S = 0.1
"""How long every later cycle waits for one that has not said it."""


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
            self._unnamed = list(dict.fromkeys(map(self._parsed, addresses)))
        self._discover = discover
        self._directory: client.Directory | None = None
        self._depot_at: Address | None = None
        self._peers: dict[str, RemotePeer] = {}
        self._asked: dict[Address, asyncio.Task[str]] = {}
        self._patience_s = INTRODUCTION_S

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
            self._peers = {}  # Those of an earlier run know its depot.
            self._patience_s = INTRODUCTION_S
            stack.push_async_callback(self._stop_asking)
            if self._discover:
                self._directory = await stack.enter_async_context(client.watch(access=self._access))
            yield

    async def muster(self, cycle: int) -> Mapping[str, RemotePeer]:  # noqa: ARG002
        await self._introduce()
        # Whoever is listed stands: anybody on the network can announce a name.
        addresses = self._announced() | self._named
        if not addresses:
            raise ConfigurationError(
                "there is no learner to train with",
                hint="start `axon worker` on a device, or name its host",
            )
        self._peers = {name: await self._peer(name, addresses[name]) for name in sorted(addresses)}
        return self._peers

    async def _introduce(self) -> None:
        """Ask devices that are known by address alone for their names.

        One that keeps silent holds up the first cycle, and no later one for more than a moment.
        """
        for where in self._unnamed:
            if where not in self._asked:
                self._asked[where] = asyncio.ensure_future(self._ask_name(where))
        if self._asked:
            await asyncio.wait(self._asked.values(), timeout=self._patience_s)
        self._patience_s = AGAIN_S
        # Recorded under their addresses for now, and asked again before the next cycle.
        self._unnamed = [where for where in self._unnamed if not self._is_named(where)]

    def _is_named(self, where: Address) -> bool:
        """Whether a device has said its name, which is then known."""
        if not self._asked[where].done():
            return False
        answer = self._asked.pop(where)
        error = answer.exception()
        if error is None:
            # Whoever comes second with a name does not take it from the first.
            return self._named.setdefault(answer.result(), where) == where
        if not isinstance(error, AxonError):
            raise error
        return False

    async def _stop_asking(self) -> None:
        asked, self._asked = self._asked, {}
        for answer in asked.values():
            answer.cancel()
        await asyncio.gather(*asked.values(), return_exceptions=True)

    async def _ask_name(self, where: Address) -> str:
        # Asked anew after a while: a connection may have been opened to where nobody was.
        describe = _function(self._access, where, "describe").options(deadline_s=INTRODUCTION_S)
        described = await describe()
        name = described.get("name") if isinstance(described, dict) else None
        if not isinstance(name, str) or not 0 < len(name) <= LONGEST_NAME or not name.isprintable():
            raise ProtocolError(f"{where} does not say its name like a learner")
        return name

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
        self._depot = depot
        self._train = _function(access, address, "train")
        self._watch = _function(access, address, "watch")

    async def train(self, order: Order, report: Report | None) -> object:
        # As long as late answers are counted, and not longer: the device is told to stop then too.
        limit_s = order.deadline_s * (1.0 + LINGER)
        call = self._train.options(deadline_s=limit_s)(replace(order, source=self._depot))
        if report is None:
            return await call
        follower = asyncio.ensure_future(self._follow(order.ticket, limit_s, report))
        try:
            return await call
        finally:
            follower.cancel()

    async def _follow(self, ticket: str, limit_s: float, report: Report) -> None:
        """Pass progress on; that there is none is nobody's loss, and the order tells why."""
        with suppress(AxonError):
            async for value in self._watch.options(deadline_s=limit_s)(ticket):
                _pass_on(value, report)
                # Whoever reports faster than that waits: it would only take time from the others.
                await asyncio.sleep(REPORT_EVERY_S / 2)


def _function(access: client.Access, where: Address, name: str) -> RemoteFunction:
    """A function of the learner there; looked up when it is called, so that nobody need be there.

    By its path and not as an attribute of a stub, which has whatever the other side says it has.
    """
    return RemoteFunction(access, where, f"{SERVICE}/{name}", GenericStub, CallOptions())


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

    def shards(self, run: str, cycle: int, ticket: str, count: int) -> Samples:
        """`count` shards drawn for the device with this ticket in this cycle."""
        return self._depot.shards(run, cycle, ticket, count)
