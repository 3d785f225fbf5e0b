"""An app on a port: who is connected, who must make room, who has been too slow."""

from __future__ import annotations

import asyncio
import errno
import logging
import os
import socket
import ssl
import stat
from collections import Counter
from contextlib import suppress

from axon.rpc.address import Address
from axon.rpc.http.server import ServerConnection
from axon.rpc.limits import Limits
from axon.rpc.messages import App

log = logging.getLogger("axon.http")

_SWEEP_S = 1.0
_BACKLOG = 2048


def _clear_stale(path: str) -> None:
    """Remove the socket file of a worker that was killed, and nothing else."""
    try:
        mode = os.stat(path).st_mode
    except FileNotFoundError:
        return
    if not stat.S_ISSOCK(mode):
        raise OSError(errno.EEXIST, "something else has that path")
    with socket.socket(socket.AF_UNIX) as probe:
        try:
            probe.connect(path)
        except ConnectionRefusedError:
            os.unlink(path)
        else:
            raise OSError(errno.EADDRINUSE, os.strerror(errno.EADDRINUSE))


def _bind_private(path: str) -> socket.socket:
    """A listening socket whose file only we may open, from the first moment on.

    The mask is the whole process's, so nothing may be awaited under it; and a file nobody listens
    behind would be taken for one left behind.
    """
    bound = socket.socket(socket.AF_UNIX)
    before = os.umask(0o177)
    try:
        bound.bind(path)
        bound.listen(_BACKLOG)
    except BaseException:
        bound.close()
        raise
    finally:
        os.umask(before)
    return bound


class HttpListener:
    """An app served on one address, and the account of who is connected to it."""

    def __init__(self, app: App, address: Address, limits: Limits) -> None:
        self.app = app
        self.address = address
        self.limits = limits
        self.closing = False
        self.connections: set[ServerConnection] = set()
        self._peers: Counter[str] = Counter()
        # In order of last use; those that never asked anything are the first to go.
        self._strangers: dict[ServerConnection, None] = {}
        self._idle: dict[ServerConnection, None] = {}
        self._receiving = 0
        self._server: asyncio.Server | None = None
        self._sweeper: asyncio.TimerHandle | None = None
        self._empty = asyncio.Event()

    async def start(self, context: ssl.SSLContext | None) -> None:
        loop = asyncio.get_running_loop()
        address = self.address
        if address.scheme == "unix":
            _clear_stale(address.host)
            self._server = await loop.create_unix_server(
                lambda: ServerConnection(self),
                sock=_bind_private(address.host),
                ssl=context,
                backlog=_BACKLOG,
            )
        else:
            self._server = await loop.create_server(
                lambda: ServerConnection(self),
                address.host,
                address.port,
                ssl=context,
                backlog=_BACKLOG,
            )
            port = self._server.sockets[0].getsockname()[1]
            self.address = Address(address.host, port, address.scheme)
        self._sweeper = loop.call_later(_SWEEP_S, self._sweep)

    # Accounts, kept by the connections

    def opened(self, connection: ServerConnection) -> None:
        if self.closing:
            # Accepted before, ready only now, as after a slow handshake.
            connection.abort()
            return
        self.connections.add(connection)
        self._peers[connection.peer] += 1
        self._strangers[connection] = None
        limits = self.limits
        if self._peers[connection.peer] > limits.max_connections_per_peer:
            self._evict(connection, same_peer=True)
        elif len(self.connections) > limits.max_connections:
            self._evict(connection, same_peer=False)

    def _evict(self, newcomer: ServerConnection, *, same_peer: bool) -> None:
        """Make room: the longest idle goes, first of all one that never asked anything."""
        for group in (self._strangers, self._idle):
            for candidate in group:
                if candidate is newcomer or (same_peer and candidate.peer != newcomer.peer):
                    continue
                if not candidate.busy and not candidate.reading:
                    del group[candidate]
                    candidate.abort()
                    return
        newcomer.turn_away("too many connections")

    def rested(self, connection: ServerConnection) -> None:
        """It was answered: from now on it is known, and the last that has to make room."""
        self._strangers.pop(connection, None)
        self._idle.pop(connection, None)
        self._idle[connection] = None

    def dismissed(self, connection: ServerConnection) -> None:
        """It was told no and only lingers; whoever comes next may have its place."""
        self._strangers[connection] = None

    def closed(self, connection: ServerConnection) -> None:
        if connection in self.connections:
            self.connections.discard(connection)
            self._peers[connection.peer] -= 1
            if not self._peers[connection.peer]:
                del self._peers[connection.peer]
            self._strangers.pop(connection, None)
            self._idle.pop(connection, None)
        if not self.connections:
            self._empty.set()

    def reserve(self, size: int) -> bool:
        if self._receiving + size > self.limits.max_bodies_bytes:
            return False
        self._receiving += size
        return True

    def release(self, size: int) -> None:
        self._receiving -= size

    def _sweep(self) -> None:
        loop = asyncio.get_running_loop()
        self._sweeper = loop.call_later(_SWEEP_S, self._sweep)
        now = loop.time()
        for connection in list(self.connections):
            reason = connection.overdue(now)
            if reason:
                log.info("cut off %s: %s", connection.peer, reason)
                connection.cut(reason)

    async def close(self, *, grace_s: float = 0.0) -> None:
        """Stop accepting, let answers under way finish for `grace_s`, then cut."""
        self.closing = True
        if self._sweeper is not None:
            self._sweeper.cancel()
        if self._server is not None:
            self._server.close()
            if self.address.scheme == "unix":
                with suppress(FileNotFoundError):
                    os.unlink(self.address.host)
        for connection in list(self.connections):
            connection.shut()
        if self.connections and grace_s > 0:
            self._empty.clear()
            with suppress(TimeoutError):
                await asyncio.wait_for(self._empty.wait(), grace_s)
        for connection in list(self.connections):
            connection.abort()
        await asyncio.sleep(0)
