"""HTTP as a transport: connections pooled by worker, and listeners."""

from __future__ import annotations

import asyncio
import ipaddress
import socket
import ssl
from functools import partial
from typing import Any

from axon.errors import ConfigurationError, ConnectFailed
from axon.rpc.address import Address
from axon.rpc.http.client import BodyStream, ClientConnection
from axon.rpc.http.listener import HttpListener
from axon.rpc.http.pool import Pool
from axon.rpc.limits import CLIENT_IDLE_S, Limits
from axon.rpc.messages import App, Request, Response

_REOPEN_S = 5.0
_PARTING_S = 1.0
"""How long a peer may take over its part of closing a connection."""


class HttpTransport:
    """HTTP for one event loop: pooled connections out, listeners in."""

    def __init__(
        self,
        *,
        limits: Limits | None = None,
        client_tls: ssl.SSLContext | None = None,
        worker_tls: ssl.SSLContext | None = None,
    ) -> None:
        self._limits = limits or Limits()
        self._client_tls = client_tls
        self._worker_tls = worker_tls
        self._pools: dict[str, Pool] = {}
        self._open: set[ClientConnection] = set()
        self._sweeper: asyncio.TimerHandle | None = None
        self._reopening: set[asyncio.Task[ClientConnection | None]] = set()
        self._closed = False

    @property
    def scheme(self) -> str:
        """Https where it was given a worker's certificates."""
        return "http" if self._worker_tls is None else "https"

    async def exchange(self, address: Address, request: Request) -> Response:
        pool = self._pools.get(address.key) or self._new_pool(address)
        connection = pool.take() or await self._claim(pool, address)
        try:
            response = await connection.exchange(pool.host, request)
        except asyncio.CancelledError:
            self._replace(pool, address)
            raise
        except BaseException:
            pool.release(connection)
            raise
        if isinstance(response.stream, BodyStream):
            response.stream.when_ended(lambda: pool.release(connection))
        else:
            pool.release(connection)
        return response

    def _new_pool(self, address: Address) -> Pool:
        key = address.key
        pool = self._pools[key] = Pool(address.netloc.encode(), lambda: self._pools.pop(key))
        if self._closed:
            pool.close()
        elif self._sweeper is None:
            loop = asyncio.get_running_loop()
            self._sweeper = loop.call_later(CLIENT_IDLE_S, self._sweep)
        return pool

    async def _claim(self, pool: Pool, address: Address) -> ClientConnection:
        connection = await pool.claim()
        if connection is not None:
            return connection
        try:
            return await self._connect(address)
        except BaseException:
            pool.vacate()
            raise

    def _replace(self, pool: Pool, address: Address) -> None:
        """Open another connection in the place of one that a cancelled call took with it.

        A round that wants the fastest few cancels the rest; its next one need not wait for them.
        """
        if self._closed:
            pool.vacate()
        elif not pool.pass_on(None):
            task = asyncio.get_running_loop().create_task(self._reopen(address))
            self._reopening.add(task)
            task.add_done_callback(partial(self._reopened, pool))

    async def _reopen(self, address: Address) -> ClientConnection | None:
        try:
            async with asyncio.timeout(_REOPEN_S):
                return await self._connect(address)
        except (ConnectFailed, TimeoutError):
            return None  # Whoever calls next will find out and say so.

    def _reopened(self, pool: Pool, task: asyncio.Task[ClientConnection | None]) -> None:
        self._reopening.discard(task)
        connection = None
        try:
            # A task cancelled before its first step could not give its place up by itself.
            connection = None if task.cancelled() else task.result()
        finally:
            if connection is None:
                pool.vacate()
            else:
                pool.release(connection)

    def _sweep(self) -> None:
        """Let go of connections nobody has used for long, and with them of workers.

        Whoever may name a reply port could otherwise have a worker hold a socket to every one.
        """
        loop = asyncio.get_running_loop()
        self._sweeper = None
        for pool in list(self._pools.values()):
            pool.sweep(loop.time())
        if self._pools:
            self._sweeper = loop.call_later(CLIENT_IDLE_S, self._sweep)

    async def _connect(self, address: Address) -> ClientConnection:
        loop = asyncio.get_running_loop()
        context = self._context(address)
        try:
            if address.scheme == "unix":
                _, protocol = await loop.create_unix_connection(self._protocol, address.host)
            else:
                _, protocol = await loop.create_connection(
                    self._protocol, address.host, address.port, ssl=context
                )
        except ssl.SSLError as error:
            raise ConnectFailed(
                f"no TLS with {address}: {error.reason or error}",
                hint="do both sides use certificates of the same `axon keys new`?",
            ) from error
        except OSError as error:
            raise ConnectFailed(f"cannot reach {address}: {error.strerror or error}") from error
        except UnicodeError as error:
            raise ConnectFailed(f"{address.host!r} cannot be a host's name: {error}") from error
        self._open.add(protocol)
        protocol.ended.add_done_callback(lambda _: self._open.discard(protocol))
        return protocol

    def _protocol(self) -> ClientConnection:
        return ClientConnection(self._limits)

    def _context(self, address: Address) -> ssl.SSLContext | None:
        if address.scheme != "https":
            return None
        if self._client_tls is None:
            raise ConfigurationError(
                f"{address} speaks TLS and this client has no certificates",
                hint="pass tls= the folder that `axon keys new` made",
            )
        return self._client_tls

    async def host_towards(self, address: Address) -> str:
        """Our address on the way to that worker; asking the routing table sends nothing."""
        for family, target in await _targets(address):
            with socket.socket(family, socket.SOCK_DGRAM) as probe:
                try:
                    probe.connect(target)
                except OSError:
                    continue
                host: str = probe.getsockname()[0]
                return host
        return "127.0.0.1"

    async def listen(self, app: App, address: Address) -> HttpListener:
        listener = HttpListener(app, address, self._limits)
        await listener.start(self._worker_tls)
        return listener

    async def close(self) -> None:
        self._closed = True
        if self._reopening:
            for task in self._reopening:
                task.cancel()
            await asyncio.wait(set(self._reopening))
        if self._sweeper is not None:
            self._sweeper.cancel()
            self._sweeper = None
        for pool in list(self._pools.values()):
            pool.close()
        await self._part()

    async def _part(self) -> None:
        """Wait until the sockets are closed; a loop about to end would leave them half open."""
        ending = {connection.ended: connection for connection in self._open if connection.closing}
        if ending:
            _, late = await asyncio.wait(ending, timeout=_PARTING_S)
            for ended in late:
                ending[ended].abort()
            if late:
                await asyncio.wait(late, timeout=_PARTING_S)
        # Those that never got as far as a connection close on the loop's next turn.
        await asyncio.sleep(0)


async def _targets(address: Address) -> list[tuple[int, tuple[Any, ...]]]:
    """Where datagrams to that host would go, as families and socket addresses."""
    port = address.port or 1
    try:
        version = ipaddress.ip_address(address.host).version
    except ValueError:
        return await _look_up(address.host, port)
    return [(socket.AF_INET6 if version == 6 else socket.AF_INET, (address.host, port))]


async def _look_up(name: str, port: int) -> list[tuple[int, tuple[Any, ...]]]:
    loop = asyncio.get_running_loop()
    try:
        found = await loop.getaddrinfo(name, port, type=socket.SOCK_DGRAM)
    except (OSError, UnicodeError):
        return []
    # Workers listen on IPv4 unless told otherwise, whatever else their name stands for.
    found.sort(key=lambda entry: entry[0] != socket.AF_INET)
    return [(family, target) for family, _, _, _, target in found]
