"""The connections to one worker: which are free, how many there may be, whose turn is next."""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Callable

from axon.rpc.http.client import ClientConnection
from axon.rpc.limits import CLIENT_IDLE_S

MOST_CONNECTIONS = 256
"""To one worker; further calls wait for one of these to come free."""


class Pool:
    """Places for connections to one worker; their number changes nowhere else.

    A place is taken before its connection is opened, and goes from hand to hand: whoever waits gets
    it with the connection that came free or, where that was of no more use, with the right to open
    another. So nobody uses a pool without having a place in it, and one that is `emptied` can be
    forgotten.
    """

    __slots__ = ("_closed", "_emptied", "_waiting", "count", "free", "host")

    def __init__(self, host: bytes, emptied: Callable[[], object]) -> None:
        self.host = host
        self.free: list[ClientConnection] = []
        self.count = 0
        self._waiting: deque[asyncio.Future[ClientConnection | None]] = deque()
        self._emptied = emptied
        self._closed = False

    def take(self) -> ClientConnection | None:
        """One that is free; where there is none, `claim` a place before anything else happens."""
        free = self.free
        while free:
            connection = free.pop()
            if not connection.closing:
                if connection._loop.time() - connection.idle_since < CLIENT_IDLE_S:
                    return connection
                connection.close()
            self.count -= 1
        return None

    async def claim(self) -> ClientConnection | None:
        """Wait for a place: with a connection, or with none and the right to open one."""
        if self.count < MOST_CONNECTIONS:
            self.count += 1
            return None
        waiter: asyncio.Future[ClientConnection | None]
        waiter = asyncio.get_running_loop().create_future()
        self._waiting.append(waiter)
        try:
            connection = await waiter
        except asyncio.CancelledError:
            if waiter.done() and not waiter.cancelled():
                # Given a place and cancelled at once: it belongs to the next in line.
                self._give_up(waiter.result())
            raise
        return None if connection is None or connection.closing else connection

    def release(self, connection: ClientConnection) -> None:
        """Take back a connection whose exchange is over, and close it if it is of no more use."""
        if not connection.reusable or connection.lost or self._closed:
            connection.close()
            self.vacate()
            return
        connection.idle_since = connection._loop.time()
        if not self._waiting or not self.pass_on(connection):
            self.free.append(connection)

    def vacate(self) -> None:
        """Give up a place whose connection is gone, or never came."""
        if not self.pass_on(None):
            self.count -= 1
            if not self.count:
                self._emptied()

    def pass_on(self, connection: ClientConnection | None) -> bool:
        """Give a place to whoever waits longest, if anybody does."""
        while self._waiting:
            waiter = self._waiting.popleft()
            if not waiter.done():
                waiter.set_result(connection)
                return True
        return False

    def sweep(self, now: float) -> None:
        """Let go of connections nobody has used for long."""
        for connection in list(self.free):
            if connection.closing or now - connection.idle_since >= CLIENT_IDLE_S:
                self.free.remove(connection)
                connection.close()
                self.vacate()

    def close(self) -> None:
        """Keep none from now on; those in use are closed as they come back."""
        self._closed = True
        while self.free:
            self.release(self.free.pop())

    def _give_up(self, connection: ClientConnection | None) -> None:
        if connection is None:
            self.vacate()
        else:
            self.release(connection)
