"""A small worker for stubs to call, served on the loop of a test or beside it."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from axon.worker import Serving, Worker
from tests.rpc.worlds import run, serving


def base_worker() -> Worker:
    worker = Worker("stubbed")

    @worker.rpc(executor="inline")
    def echo(value: Any) -> Any:
        """Give back what came."""
        return value

    @worker.rpc()
    async def slow(seconds: float) -> str:
        await asyncio.sleep(seconds)
        return "done"

    return worker


@contextmanager
def started(worker: Worker) -> Iterator[Serving]:
    running = worker.start(port=0)
    try:
        yield running
    finally:
        running.shutdown()


def in_world(worker: Worker, main: Any) -> None:
    async def go() -> None:
        async with serving(worker, "http") as world:
            await main(world)

    run(go)
