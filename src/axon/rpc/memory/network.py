"""The in-memory transport: named hosts in one process, with shaped links and faults to order.

It keeps the promises of HTTP (a head judged before its body, one fresh buffer for the receiver,
streams with back-pressure, either side able to go away) and reads only the loop's clock, so under
virtual time the same seed gives the same schedule.

A request's head pays the latency and its body follows behind, paying bandwidth alone; an answer
travels whole. A host talking to itself pays nothing. That one side went away the other side learns
at once.
"""

from __future__ import annotations

import asyncio
import contextvars
import itertools
import logging
from collections.abc import Coroutine
from contextlib import suppress
from dataclasses import replace
from random import Random
from typing import Any, TypeVar

from axon.errors import ConfigurationError, ConnectFailed, ConnectionLost
from axon.rpc.address import Address
from axon.rpc.limits import Limits
from axon.rpc.link import Direction, Link, Shaper
from axon.rpc.memory.stream import MemoryStream, collect, shut
from axon.rpc.messages import App, Pieces, Request, Response

log = logging.getLogger("axon.memory")
Result = TypeVar("Result")

HEAD_BYTES = 200
"""What a request line or status line with its headers is taken to weigh."""
MOST_BYTES = Limits().max_body_bytes
"""Of a streamed answer that has to be read whole."""
FIRST_FREE_PORT = 49152


class Network:
    """Hosts that can reach one another by name, and what can go wrong between them.

    `packet_bytes` is as for `Shaper`: up to which size a message does not wait for longer ones.
    """

    def __init__(self, *, seed: int = 0, packet_bytes: int = 0) -> None:
        self._seed = seed
        self._packet_bytes = packet_bytes
        self._hosts: dict[str, _Host] = {}

    def transport(self, host: str) -> MemoryTransport:
        """The network as seen from `host`, which joins it now if it is new."""
        return MemoryTransport(self, self._join(host))

    def set_link(self, host: str, link: Link) -> None:
        """Give `host` this link; messages already flying keep their time."""
        joined = self._join(host)
        joined.up.link = joined.down.link = link

    def partition(self, host: str) -> None:
        """Let nothing pass to or from `host` until it is healed; senders see only silence."""
        self._find(host).healed.clear()

    def heal(self, host: str) -> None:
        """Let pass again, starting with what waited."""
        self._find(host).healed.set()

    def crash(self, host: str) -> None:
        """End every listener and exchange of `host`, as if its process had died."""
        crashed = self._find(host)
        crashed.listeners.clear()
        crashed.exchanges.cut(f"{host} crashed")

    def _find(self, host: str) -> _Host:
        """A host that has joined; raises `ConfigurationError` for any other."""
        if host not in self._hosts:
            known = ", ".join(self._hosts) or "none"
            raise ConfigurationError(f"no host {host!r} on the network", hint=f"known: {known}")
        return self._hosts[host]

    def _join(self, host: str) -> _Host:
        if host not in self._hosts:
            self._hosts[host] = _Host(host, self._seed, self._packet_bytes)
        return self._hosts[host]


class MemoryTransport:
    """`messages.Transport` between the hosts of one `Network`."""

    scheme = "memory"

    def __init__(self, network: Network, host: _Host) -> None:
        self._network = network
        self._host = host
        self._exchanges = _Exchanges()
        self._listeners: list[MemoryListener] = []
        self._closed = False

    async def exchange(self, address: Address, request: Request) -> Response:
        """Send and wait for the answer; see `messages.Transport`."""
        _check_scheme(address)
        if self._closed:
            raise ConnectFailed(f"the transport of {self._host.name} is closed", hint="")
        try:
            target = self._network._find(address.host)
        except ConfigurationError as error:
            raise ConnectFailed(error.message) from error
        exchange = _Exchange(self._host, target, address)
        exchange.enter(self._exchanges)
        return await exchange.run(request)

    async def host_towards(self, address: Address) -> str:  # noqa: ARG002  (as the interface has it)
        """The name of this host: every peer knows it by that."""
        return self._host.name

    async def listen(self, app: App, address: Address) -> MemoryListener:
        """Serve `app` at a port of this host; port 0 takes a free one."""
        _check_scheme(address)
        if address.host != self._host.name:
            raise ConfigurationError(f"{self._host.name} cannot listen as {address.host}")
        port = address.port or self._host.free_port()
        if port in self._host.listeners:
            raise ConfigurationError(f"port {port} of {self._host.name} is taken")
        listener = MemoryListener(app, replace(address, port=port), self._host)
        self._host.listeners[port] = listener
        self._listeners.append(listener)
        return listener

    async def close(self) -> None:
        """Cut the exchanges begun here and close the listeners opened here."""
        self._closed = True
        self._exchanges.cut(f"the transport of {self._host.name} was closed")
        for listener in self._listeners:
            await listener.close()


class MemoryListener:
    """An app served at one port, and the tasks in which it answers."""

    def __init__(self, app: App, address: Address, host: _Host) -> None:
        self.exchanges = _Exchanges()
        self._app = app
        self._address = address
        self._host = host
        self._tasks: dict[asyncio.Task[Any], None] = {}
        # The app must not see the context variables of a caller that would be another machine.
        self._context = contextvars.copy_context()

    @property
    def address(self) -> Address:
        """Where it is, with the port really taken."""
        return self._address

    async def close(self, *, grace_s: float = 0.0) -> None:
        """Stop accepting, let answers under way finish for `grace_s`, then cut."""
        if self._host.listeners.get(self._address.port) is self:
            del self._host.listeners[self._address.port]
        with suppress(TimeoutError):
            async with asyncio.timeout(grace_s):
                await self.exchanges.ended()
        self.exchanges.cut(f"{self._address.origin} was closed")
        # An app may close its own listener while answering; it cannot wait for itself.
        while others := [task for task in self._tasks if task is not asyncio.current_task()]:
            await asyncio.wait(others)

    def admit(self, request: Request) -> Response | None:
        """Ask the app whether it wants the body."""
        try:
            return self._context.copy().run(self._app.admit, request)
        except Exception:
            log.exception("the app at %s raised while admitting", self._address)
            return Response(500)

    def handle(self, request: Request) -> asyncio.Task[Response]:
        """Let the app answer, in a task of its own."""
        return self.start(self._handle(request))

    def start(self, work: Coroutine[Any, Any, Result]) -> asyncio.Task[Result]:
        """Run `work` as part of the app: in its context, and waited for when it closes."""
        task = asyncio.create_task(work, context=self._context.copy())
        self._tasks[task] = None
        task.add_done_callback(self._tasks.pop)
        return task

    def discard(self, handle: asyncio.Task[Response]) -> None:
        """Close the stream of an answer that nobody waits for any more."""
        if not handle.cancelled() and (stream := handle.result().stream) is not None:
            self.start(shut(stream))

    async def _handle(self, request: Request) -> Response:
        try:
            answer = self._app.handle(request)
            return answer if isinstance(answer, Response) else await answer
        except Exception:
            log.exception("the app at %s raised", self._address)
            return Response(500)


class _Host:
    """A name on the network: its link both ways, its listeners, its exchanges."""

    def __init__(self, name: str, seed: int, packet_bytes: int = 0) -> None:
        self.name = name

        def shaper(direction: Direction) -> Shaper:
            # A stream of chance for each host and direction, so that one more host moves no other.
            random = Random(f"{seed}/{name}/{direction}")  # noqa: S311
            return Shaper(Link(), random, direction=direction, packet_bytes=packet_bytes)

        self.up, self.down = shaper("up"), shaper("down")
        self.listeners: dict[int, MemoryListener] = {}
        self.exchanges = _Exchanges()
        self.healed = asyncio.Event()
        self.healed.set()
        self._ports = itertools.count(FIRST_FREE_PORT)

    def free_port(self) -> int:
        return next(port for port in self._ports if port not in self.listeners)


class _Path:
    """One way from a host to another: up its link, down the other's."""

    def __init__(self, source: _Host, target: _Host) -> None:
        self._source = source
        self._target = target

    async def carry(self, size: int) -> None:
        """Return when a message has arrived."""
        if self._source is self._target:
            return
        up, down = self._source.up, self._target.down
        await self._open()
        await up.carry(size)
        await down.carry(size, spread_s=up.transmission_s(size))
        await self._open()

    async def follow(self, size: int) -> None:
        """Return when `size` more bytes of a message have arrived; its head paid the latency."""
        if self._source is self._target or not size:
            return
        up, down = self._source.up, self._target.down
        await self._open()
        await up.transmit(size)
        await down.transmit(size, spread_s=up.transmission_s(size))
        await self._open()

    async def _open(self) -> None:
        ends = (self._source.healed, self._target.healed)
        while not all(end.is_set() for end in ends):
            for end in ends:
                await end.wait()


class _Exchanges:
    """The exchanges one party has under way, in the order they began."""

    def __init__(self) -> None:
        self._members: dict[_Exchange, None] = {}
        self._none = asyncio.Event()
        self._none.set()

    def add(self, exchange: _Exchange) -> None:
        self._members[exchange] = None
        self._none.clear()

    def remove(self, exchange: _Exchange) -> None:
        del self._members[exchange]
        if not self._members:
            self._none.set()

    def cut(self, reason: str) -> None:
        for exchange in list(self._members):
            exchange.cut(reason)

    async def ended(self) -> None:
        await self._none.wait()


class _Exchange:
    """A request and its answer, until the last byte of the answer is read or one side is gone."""

    def __init__(self, source: _Host, target: _Host, address: Address) -> None:
        self._source = source
        self._target = target
        self._address = address
        self._there = _Path(source, target)
        self._back = _Path(target, source)
        self._parties: list[_Exchanges] = []
        self._delivery: asyncio.Task[Response] | None = None
        self._stream: MemoryStream | None = None
        self._lost = ""
        self.enter(source.exchanges)
        if target is not source:
            self.enter(target.exchanges)

    def enter(self, exchanges: _Exchanges) -> None:
        """Be known to one more party, which may then cut it."""
        exchanges.add(self)
        self._parties.append(exchanges)

    async def run(self, request: Request) -> Response:
        """Bring the answer; raises `ConnectionLost` when cut."""
        cancels = _count_cancels()
        self._delivery = asyncio.create_task(self._deliver(request))
        streaming = False
        try:
            response = await self._delivery
            streaming = response.stream is not None
        except asyncio.CancelledError:
            # Cut and cancelled look alike from here, except that only a cancel is counted.
            if not self._lost or _count_cancels() > cancels:
                raise
            raise ConnectionLost(self._lost) from None
        finally:
            if not streaming:
                self._end()
        return response

    def cut(self, reason: str) -> None:
        """Break the link under it."""
        self._lost = reason
        if self._stream is not None:
            self._stream.fail(ConnectionLost(reason))
        if self._delivery is not None:
            self._delivery.cancel()

    def _end(self) -> None:
        for exchanges in self._parties:
            exchanges.remove(self)
        self._parties.clear()
        if self._stream is not None:
            self._stream.close()

    async def _deliver(self, request: Request) -> Response:
        body = _join(request.body)
        headers = {**request.headers, b"content-length": b"%d" % len(body)}
        arrived = Request(request.method, request.target, headers, peer=self._source.name)
        await self._there.carry(HEAD_BYTES)
        listener = self._target.listeners.get(self._address.port)
        if listener is None:
            await self._back.carry(HEAD_BYTES)
            raise ConnectFailed(f"nobody listens at {self._address.origin}")
        self.enter(listener.exchanges)
        answer = listener.admit(arrived)
        if answer is None:
            await self._there.follow(len(body))
            arrived.body = (body,) if body else ()
            answer = await self._await_answer(listener, arrived)
        return await self._bring_back(answer, listener, streams=request.streams)

    async def _await_answer(self, listener: MemoryListener, request: Request) -> Response:
        handle = listener.handle(request)
        try:
            await asyncio.wait([handle])
        except asyncio.CancelledError:
            # Told, not waited for: the sender is gone whatever the app does about it.
            handle.cancel()
            handle.add_done_callback(listener.discard)
            raise
        if handle.cancelled():
            raise ConnectionLost(f"{self._address.origin} gave up answering")
        return handle.result()

    async def _bring_back(
        self, answer: Response, listener: MemoryListener, *, streams: bool
    ) -> Response:
        headers = dict(answer.headers)
        if answer.stream is not None:
            self._stream = MemoryStream(
                answer.stream, carry=self._back.carry, start=listener.start, ended=self._end
            )
            await self._back.carry(HEAD_BYTES)
            if streams:
                return Response(answer.status, headers, stream=self._stream)
            whole = await collect(self._stream, max_bytes=MOST_BYTES)
            return Response(answer.status, headers, (whole,) if whole else ())
        body = _join(answer.body)
        headers[b"content-length"] = b"%d" % len(body)
        await self._back.carry(HEAD_BYTES + len(body))
        return Response(answer.status, headers, (body,) if body else ())


def _join(pieces: Pieces) -> bytearray:
    """One fresh writable buffer, so that neither side sees the other's later writes."""
    return bytearray().join(pieces)


def _count_cancels() -> int:
    task = asyncio.current_task()
    return task.cancelling() if task is not None else 0


def _check_scheme(address: Address) -> None:
    if address.scheme != "memory":
        raise ConfigurationError(
            f"the in-memory transport cannot reach {address}", hint="use memory://host:port"
        )
