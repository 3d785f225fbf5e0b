"""Workers that die and live again on a network in memory, and ways to ask for what they ran."""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from typing import Any

from axon import client
from axon.rpc.calling.callers import caller_for
from axon.rpc.memory.network import Network
from axon.rpc.messages import Request, Response
from axon.rpc.security.keys import Key
from axon.worker import Worker, progress
from tests.rpc.worlds import World, run

KEY = Key.new("ours")


class Place:
    """A network on which workers that share one memory of what they ran live and die."""

    def __init__(self, **options: Any) -> None:
        self.network = Network(seed=1)
        self.options = options
        self.runs: Counter[Any] = Counter()
        self.finished: list[str] = []

    def worker(self) -> Worker:
        worker = Worker("w")

        @worker.rpc()
        async def work(number: Any, seconds: float = 1.0, size: int = 0) -> Any:
            self.runs[number] += 1
            for step in range(4):
                progress(step)
                await asyncio.sleep(seconds / 4)
            self.finished.append(str(number))
            return bytes(size) if size else number

        @worker.rpc()
        async def cancel_itself() -> None:
            raise asyncio.CancelledError

        @worker.rpc(executor="inline")
        def fail() -> None:
            raise ValueError("no good")

        return worker

    @asynccontextmanager
    async def serving(self) -> AsyncIterator[World]:
        """One life of the worker, and how a client reaches it."""
        transport = self.transport = self.network.transport("worker")
        async with self.worker().serving(
            "worker", 8000, transport=transport, **self.options
        ) as served:
            self.world = World(served.address, self.access("client"), served)
            yield self.world

    def access(self, host: str, key: Key | None = None) -> dict[str, Any]:
        found: dict[str, Any] = {"transport": self.network.transport(host)}
        if key is not None or "key" in self.options:
            found["key"] = key or KEY
        return found

    async def kill(self) -> None:
        """End the worker's life: nobody listens, nothing is sent, and what runs stops dead."""
        self.network.crash("worker")
        for entry in self.world.serving.dispatcher.desk._entries.values():
            if entry.task is not None:
                entry.task.cancel()
        await self.transport.close()

    @asynccontextmanager
    async def restarted(self, *, down_s: float = 0.0) -> AsyncIterator[World]:
        """The worker's next life, at the same address."""
        await self.kill()
        await asyncio.sleep(down_s)
        async with self.serving() as world:
            yield world


def in_virtual_time(main: Callable[[], Awaitable[None]]) -> None:
    """Run the decorated coroutine at once."""
    run(main, loop="virtual")


async def ask(world: World, method: bytes, target: bytes, **headers: str) -> Response:
    """A request as a client of another make would send it."""
    named = {f"axon-{name}".encode(): value.encode() for name, value in headers.items()}
    body = (b'{"number": 7, "seconds": 1.0}',) if method == b"POST" else ()
    transport = world.access["transport"]
    response = await transport.exchange(world.address, Request(method, target, named, body))
    assert isinstance(response, Response)
    return response


def text(response: Response) -> str:
    return bytes(response.body[0]).decode("utf-8", "replace") if response.body else ""


async def client_attach(world: World, id: str, **options: Any) -> Any:
    """`client.attach` for a running loop."""
    caller = await caller_for(client.access(**world.access))
    return await caller.attach(world.address, id, client.CallOptions(**options))
