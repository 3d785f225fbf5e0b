"""A worker and a client on either transport: what the conformance tests run over."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from typing import Any

import pytest

from axon import client
from axon.rpc.address import Address
from axon.rpc.loops import new_event_loop
from axon.rpc.memory.network import Network
from axon.testbed import virtual
from axon.worker import Serving, Worker

TRANSPORTS = ["http", "memory", "unix"]
every_transport = pytest.mark.parametrize("transport", TRANSPORTS)
every_loop = pytest.mark.parametrize("loop", ["uvloop", "asyncio"])


class World:
    """One worker being served, and how to reach it."""

    def __init__(self, address: Address, access: dict[str, Any], serving: Serving) -> None:
        self.address = address
        self.access = access
        self.serving = serving
        self.network: Network | None = None

    async def stub(self, path: str = "", **options: Any) -> Any:
        return await client.connect(self.address.at(path), **self.access, **options)


@asynccontextmanager
async def serving(
    worker: Worker, transport: str, tmp_path: Any = None, **options: Any
) -> AsyncIterator[World]:
    key = options.get("key")
    access: dict[str, Any] = {} if key is None else {"key": key}
    if options.get("pickling"):
        access["pickling"] = True
    if transport == "memory":
        network = Network(seed=1)
        access["transport"] = network.transport("client")
        async with worker.serving(
            "worker", 8000, transport=network.transport("worker"), **options
        ) as served:
            world = World(served.address, access, served)
            world.network = network
            yield world
    elif transport == "unix":
        async with worker.serving(unix=str(tmp_path / "s"), **options) as served:
            yield World(served.address, access, served)
    else:
        async with worker.serving(port=0, **options) as served:
            yield World(served.address, access, served)


def run(main: Callable[[], Awaitable[Any]], *, loop: str = "uvloop") -> Any:
    """Run a coroutine function on a fresh loop of the wanted kind."""

    async def bounded() -> Any:
        async with asyncio.timeout(30):
            return await main()

    if loop == "virtual":
        return virtual.run(main())  # type: ignore[arg-type]
    with asyncio.Runner(loop_factory=new_event_loop if loop == "uvloop" else None) as runner:
        return runner.run(bounded())
