"""A fleet of learners on other devices, or in other processes of this one, over the network."""

from __future__ import annotations

import asyncio
import ipaddress
from collections import Counter
from collections.abc import AsyncIterator, Callable, Collection, Iterable, Mapping, Sequence
from contextlib import AsyncExitStack, asynccontextmanager, suppress
from dataclasses import dataclass, replace
from typing import Any, ParamSpec, TypeVar

from axon import client
from axon.errors import AxonError, ConfigurationError, ProtocolError
from axon.learning.service import SERVICE, SPARE_BYTES, taking
from axon.rounds.depot import Depot
from axon.rounds.remote_peer import RemotePeer, function_of
from axon.rpc.address import Address
from axon.rpc.calling.callers import caller_for
from axon.values import Samples, Vector
from axon.worker import Worker

P = ParamSpec("P")
T = TypeVar("T")

LONGEST_NAME = 200
"""In characters; a name stands in every record."""

INTRODUCTION_S = 2.0
"""How long a device may take to say its name before the first cycle goes on without it."""

AGAIN_S = 0.1
"""How long every later cycle waits for one that has not said it."""

LOOK_S = 0.05
"""How often the first cycle looks for a device that announces itself, where none is listed."""


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
        self._words = taking(self._access, SPARE_BYTES)
        self._named: dict[str, Address] = {}
        self._unnamed: list[Address] = []
        self._said: dict[Address, str] = {}
        """What devices that are listed by address alone call themselves."""
        if isinstance(addresses, Mapping):
            self._named = {name: self._parsed(where) for name, where in addresses.items()}
        else:
            self._unnamed = list(dict.fromkeys(map(self._parsed, addresses)))
        self._discover = discover
        self._directory: client.Directory | None = None
        self._depot_at: Address | None = None
        self._peers: dict[str, RemotePeer] = {}
        self._asked: dict[Address, asyncio.Task[str]] = {}
        self._is_first = True

    def __repr__(self) -> str:
        where = [*self._named, *map(str, self._unnamed)]
        found = ["whoever announces himself"] if self._discover else []
        return f"<{type(self).__name__} of {', '.join(where + found)}>"

    def _parsed(self, where: str) -> Address:
        return Address.parse(where, tls=self._hosting.tls is not None).origin

    def join(self, name: str, address: str) -> None:
        """Take a device in, from the next cycle on, in the place of one of that name."""
        self.leave(name)
        self._named[name] = self._parsed(address)

    def leave(self, name: str) -> None:
        """Leave a device out, from the next cycle on."""
        self._named.pop(name, None)
        if name in self._peers:
            self._said.pop(self._peers[name].address, None)

    @asynccontextmanager
    async def hosting(self, depot: Depot) -> AsyncIterator[None]:
        chosen = self._hosting
        worker = Worker("orchestrator")
        worker.service(DepotService(depot), "depot", executor="inline")
        async with worker.serving(chosen.host, chosen.port, **chosen.serve_options) as serving:
            self._depot_at = serving.address
            self._peers = {}  # Those of an earlier run know its depot.
            async with self.watching():
                yield

    @asynccontextmanager
    async def watching(self) -> AsyncIterator[None]:
        self._is_first = True
        async with AsyncExitStack() as stack:
            stack.push_async_callback(self._stop_asking)
            if self._discover:
                self._directory = await stack.enter_async_context(client.watch(access=self._words))
            yield

    def part(self, members: Callable[[], Collection[str]]) -> RemoteFleet:
        """See `SharedFleet.part`; each part has a depot of its own, at a free port."""
        return RemotePart(self, members)

    async def tellers(self, names: Collection[str], cycle: int) -> dict[str, RemotePeer]:  # noqa: ARG002
        """See `SharedFleet.tellers`."""
        return {
            name: RemotePeer(said_name, address, self._access, depot="")
            for name, (said_name, address) in sorted(self._members().items())
            if name in names
        }

    async def roster(self) -> tuple[str, ...]:
        await self._acquaint()
        return tuple(sorted(self._members()))

    async def muster(self, cycle: int) -> Mapping[str, RemotePeer]:  # noqa: ARG002
        first = await self._acquaint()
        members = self._members()
        if first and not members:
            raise ConfigurationError(
                "there is no learner to train with",
                hint="start `axon worker` on a device, or name its host",
            )
        return await self._gathered(members)

    async def _gathered(self, members: Mapping[str, tuple[str, Address]]) -> dict[str, RemotePeer]:
        self._peers = {name: await self._peer(name, *members[name]) for name in sorted(members)}
        return self._peers

    async def _acquaint(self) -> bool:
        """Find out who is who; the first time, which it tells, there is more patience for it."""
        first, self._is_first = self._is_first, False
        await self._introduce(INTRODUCTION_S if first else AGAIN_S)
        if first:
            await self._look_out()
        return first

    async def _introduce(self, patience_s: float) -> None:
        """Ask devices that are known by address alone for their names.

        One that keeps silent holds up the first cycle, and no later one for more than a moment.
        """
        for where in self._unnamed:
            if where not in self._asked:
                self._asked[where] = asyncio.ensure_future(self._ask_name(where))
        if self._asked:
            await asyncio.wait(self._asked.values(), timeout=patience_s)
        # Recorded under their addresses for now, and asked again before the next cycle.
        self._unnamed = [where for where in self._unnamed if not self._is_named(where)]

    async def _look_out(self) -> None:
        """Where nobody is listed, wait a little until somebody is heard of: nobody is at once."""
        if self._directory is None:
            return
        with suppress(TimeoutError):
            async with asyncio.timeout(INTRODUCTION_S):
                while not self._members():  # noqa: ASYNC110  (the list tells of changes to nobody)
                    await asyncio.sleep(LOOK_S)

    def _members(self) -> dict[str, tuple[str, Address]]:
        """The name each device calls itself and its address, by the name it is recorded under.

        Whoever is listed by name stands. Of others with one name none displaces another: each is
        recorded with its address.
        """
        listed = {str(where): where for where in self._unnamed} | self._named
        members = {name: (name, where) for name, where in listed.items()}
        said = [(name, where) for where, name in self._said.items()] + self._announced()
        times = Counter(name for name, _ in said)
        for name, where in said:
            alone = times[name] == 1 and name not in listed
            members.setdefault(name if alone else f"{name}@{_place(where)}", (name, where))
        return members

    def _is_named(self, where: Address) -> bool:
        """Whether a device has said its name, which is then known."""
        if not self._asked[where].done():
            return False
        answer = self._asked.pop(where)
        error = answer.exception()
        if error is None:
            self._said[where] = answer.result()
        elif not isinstance(error, AxonError):
            raise error
        return error is None

    async def _stop_asking(self) -> None:
        asked, self._asked = self._asked, {}
        for answer in asked.values():
            answer.cancel()
        await asyncio.gather(*asked.values(), return_exceptions=True)

    async def _ask_name(self, where: Address) -> str:
        # Asked anew after a while: a connection may have been opened to where nobody was.
        describe = function_of(self._words, where, "describe").options(deadline_s=INTRODUCTION_S)
        described = await describe()
        name = described.get("name") if isinstance(described, dict) else None
        if not _is_name(name, self._places()):
            raise ProtocolError(f"{where} does not say its name like a learner")
        return str(name)

    def _places(self) -> set[str]:
        """What is the address of somebody listed, and so the name of nobody."""
        listed = [*self._named.values(), *self._said, *self._unnamed]
        return {text for where in listed for text in _texts(where)}

    def _announced(self) -> list[tuple[str, Address]]:
        """Whoever the network tells of, less those listed: anybody can announce a name."""
        if self._directory is None:
            return []
        names = {*self._named, *self._said.values()}
        listed = {*self._named.values(), *self._said, *self._unnamed}
        found = [
            worker
            for worker in self._directory.workers
            if f"{SERVICE}/train" in worker.functions and worker.address not in listed
        ]
        places = self._places().union(*(_texts(worker.address) for worker in found))
        named = [
            (worker.name if _is_name(worker.name, places) else str(worker.address), worker.address)
            for worker in found
        ]
        return [(name, where) for name, where in named if name not in names]

    async def _peer(self, name: str, said_name: str, address: Address) -> RemotePeer:
        peer = self._peers.get(name)
        if peer is not None and (peer.said_name, peer.address) == (said_name, address):
            return peer
        depot = await self._depot_towards(address)
        return RemotePeer(said_name, address, self._access, depot)

    async def _depot_towards(self, address: Address) -> str:
        """The depot's address, as the device at that address sees it."""
        at = self._depot_at
        assert at is not None, "a fleet is mustered while it hosts"
        if at.host in ("0.0.0.0", "::"):  # noqa: S104  (a comparison)
            caller = await caller_for(self._words)
            at = replace(at, host=await caller.host_towards(address))
        return str(at)

    async def aside(self, function: Callable[P, T], *args: P.args, **kwargs: P.kwargs) -> T:
        return await asyncio.to_thread(function, *args, **kwargs)

    def snapshot(self) -> str:
        return ""  # Devices remember for themselves.

    def restore(self, snapshot: str) -> None:
        """Nothing: whoever is there answers for himself."""


class RemotePart(RemoteFleet):
    """Some learners of a remote fleet, as it knows them, with a depot of their own."""

    def __init__(self, whole: RemoteFleet, members: Callable[[], Collection[str]]) -> None:
        # Only one depot can have the port that was asked for.
        super().__init__(hosting=replace(whole._hosting, port=0))
        self._whole = whole
        self._chosen = members

    def _members(self) -> dict[str, tuple[str, Address]]:
        chosen = self._chosen()
        found = self._whole._members()
        return {name: who for name, who in found.items() if name in chosen}

    async def muster(self, cycle: int) -> Mapping[str, RemotePeer]:  # noqa: ARG002
        return await self._gathered(self._members())

    async def aside(self, function: Callable[P, T], *args: P.args, **kwargs: P.kwargs) -> T:
        return await self._whole.aside(function, *args, **kwargs)


def _place(where: Address) -> str:
    """An address without its scheme."""
    return str(where).partition("://")[2]


def _texts(where: Address) -> Iterable[str]:
    """What people write for an address; a host's name may be its device's too, its number not."""
    yield from (str(where).lower(), _place(where).lower())
    with suppress(ValueError):
        yield str(ipaddress.ip_address(where.host))


def _is_name(said: object, places: set[str]) -> bool:
    """Whether a device can be known by what it says: short, printable, and nobody's address."""
    if not isinstance(said, str) or not 0 < len(said) <= LONGEST_NAME or not said.isprintable():
        return False
    return places.isdisjoint((said.lower(), said.lower().rpartition("@")[2]))


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
