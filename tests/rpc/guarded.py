"""A worker behind keys and certificates that notes what it ran."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from typing import Any

import numpy as np

from axon import client
from axon.rpc.address import Address
from axon.rpc.security.keys import Key
from axon.worker import Serving, Worker, progress
from tests.rpc.worlds import run

KEY = Key.new("laptop")


def make_worker(ran: list[Any]) -> Worker:
    worker = Worker("guarded")

    @worker.rpc(executor="inline")
    def note(value: Any) -> Any:
        ran.append(value)
        return value

    @worker.rpc()
    async def later(value: Any) -> Any:
        await asyncio.sleep(0.05)
        ran.append(value)
        return value

    @worker.rpc()
    async def steps(most: int) -> str:
        for number in range(most):
            progress(number)
            await asyncio.sleep(0.005)
        return "all"

    @worker.rpc()
    async def count(most: int) -> AsyncIterator[Any]:
        for number in range(most):
            yield np.full(number * 100, number)

    worker.service(["x"], "items", executor="inline")
    return worker


class Scene:
    """A guarded worker, what it ran, and where it is."""

    def __init__(self, serving: Serving, ran: list[Any]) -> None:
        self.serving = serving
        self.address = serving.address
        self.ran = ran

    async def stub(self, address: Address | None = None, **options: Any) -> Any:
        return await client.connect(address or self.address, **options)


def scene(main: Any, **options: Any) -> None:
    async def go() -> None:
        ran: list[Any] = []
        async with make_worker(ran).serving(port=0, **options) as served:
            await main(Scene(served, ran))

    run(go)
