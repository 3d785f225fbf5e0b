"""HTTP as a transport: connections pooled by worker, and listeners."""

from __future__ import annotations

import asyncio
import socket
import ssl
from collections import deque

from axon.errors import ConfigurationError, ConnectFailed
from axon.rpc.address import Address
from axon.rpc.http.client import BodyStream, ClientConnection
from axon.rpc.http.listener import HttpListener
from axon.rpc.limits import CLIENT_IDLE_S, Limits
from axon.rpc.messages import App, Request, Response

_MOST_CONNECTIONS = 256
"""To one worker; further calls wait for one of these to come free."""
_REOPEN_S = 5.0


class _Pool:
    """Connections to one worker: the free ones, how many exist, and who waits for one."""

    __slots__ = ("count", "free", "host", "waiting")

    def __init__(self, host: bytes) -> None:
        self.host = host
        self.free: list[ClientConnection] = []
        self.count = 0
        self.waiting: deque[asyncio.Future[None]] = deque()

    def wake(self) -> None:
        while self.waiting:
            waiter = self.waiting.popleft()
            if not waiter.done():
                waiter.set_result(None)
                return


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
        self._pools: dict[str, _Pool] = {}
        self._sweeper: asyncio.TimerHandle | None = None
        self._reopening: set[asyncio.Task[None]] = set()
        self._closed = False

    async def exchange(self, address: Address, request: Request) -> Response:
        pool = self._pools.get(address.key)
        if pool is None:
            pool = self._pools[address.key] = _Pool(address.netloc.encode())
        connection = self._reuse(pool) or await self._acquire(pool, address)
        try:
            response = await connection.exchange(pool.host, request)
        except asyncio.CancelledError:
            self._give_back(pool, connection)
            self._replace(pool, address)
            raise
        except BaseException:
            self._give_back(pool, connection)
            raise
        if isinstance(response.stream, BodyStream):
            response.stream.when_ended(lambda: self._give_back(pool, connection))
        else:
            self._give_back(pool, connection)
        return response

    def _reuse(self, pool: _Pool) -> ClientConnection | None:
        free = pool.free
        while free:
            connection = free.pop()
            if not connection.lost and not connection.closing:
                if connection._loop.time() - connection.idle_since < CLIENT_IDLE_S:
                    return connection
                connection.close()
            pool.count -= 1
        return None

    async def _acquire(self, pool: _Pool, address: Address) -> ClientConnection:
        while pool.count >= _MOST_CONNECTIONS:
            waiter = asyncio.get_running_loop().create_future()
            pool.waiting.append(waiter)
            try:
                await waiter
            except asyncio.CancelledError:
                # Woken and cancelled at once: the turn belongs to the next in line.
                if waiter.done() and not waiter.cancelled():
                    pool.wake()
                raise
            connection = self._reuse(pool)
            if connection is not None:
                return connection
        pool.count += 1
        try:
            return await self._connect(address)
        except BaseException:
            pool.count -= 1
            pool.wake()
            if not pool.count and not pool.waiting:
                self._pools.pop(address.key, None)
            raise

    def _give_back(self, pool: _Pool, connection: ClientConnection) -> None:
        if connection.reusable and not connection.lost:
            connection.idle_since = connection._loop.time()
            pool.free.append(connection)
            if self._sweeper is None:
                self._sweeper = connection._loop.call_later(CLIENT_IDLE_S, self._sweep)
        else:
            connection.close()
            pool.count -= 1
        if pool.waiting:
            pool.wake()

    def _replace(self, pool: _Pool, address: Address) -> None:
        """Open another connection in place of one that a cancelled call took with it.

        A round that wants the fastest few cancels the rest; its next one need not wait for them.
        """
        if pool.count >= _MOST_CONNECTIONS or self._closed:
            return
        pool.count += 1
        task = asyncio.get_running_loop().create_task(self._reopen(pool, address))
        self._reopening.add(task)
        task.add_done_callback(self._reopening.discard)

    async def _reopen(self, pool: _Pool, address: Address) -> None:
        try:
            async with asyncio.timeout(_REOPEN_S):
                connection = await self._connect(address)
        except (ConnectFailed, TimeoutError):
            pool.count -= 1  # Whoever calls next will find out and say so.
            pool.wake()
        except BaseException:
            pool.count -= 1
            raise
        else:
            self._give_back(pool, connection)

    def _sweep(self) -> None:
        """Let go of connections nobody has used for long, and forget workers we have none to.

        Whoever may name a reply port could otherwise have a worker hold a socket to every one.
        """
        loop = asyncio.get_running_loop()
        self._sweeper = None
        for key, pool in list(self._pools.items()):
            for connection in list(pool.free):
                if connection.closing or loop.time() - connection.idle_since >= CLIENT_IDLE_S:
                    pool.free.remove(connection)
                    connection.close()
                    pool.count -= 1
            if not pool.count and not pool.waiting:
                del self._pools[key]
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

    def host_towards(self, address: Address) -> str:
        """Our address on the way to that worker; asking the routing table sends nothing."""
        family = socket.AF_INET6 if ":" in address.host else socket.AF_INET
        with socket.socket(family, socket.SOCK_DGRAM) as probe:
            try:
                probe.connect((address.host, address.port or 1))
            except OSError:
                return "127.0.0.1"
            host: str = probe.getsockname()[0]
            return host

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
        for pool in self._pools.values():
            while pool.free:
                pool.free.pop().close()
                pool.count -= 1
        # Transports close on the loop's next turns; a loop about to end needs them taken.
        await asyncio.sleep(0)
