"""A worker with functions of every kind, and worlds of every transport to call them in."""

from __future__ import annotations

import asyncio
import enum
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from axon.worker import Worker, progress
from tests.rpc.worlds import World, run, serving


@dataclass
class Point:
    x: int
    y: float


class Colour(enum.Enum):
    RED = 1


class Counter:
    """Counts."""

    def __init__(self) -> None:
        self.total = 0
        self.inner = Inner()

    def add(self, amount: int = 1) -> int:
        """Add to the total."""
        self.total += amount
        return self.total

    def reset(self) -> Counter:
        self.total = 0
        return self

    def _secret(self) -> str:
        return "secret"

    def __call__(self, amount: int) -> int:
        return self.total + amount


class Inner:
    def deep(self) -> str:
        return "deep"


def make_worker() -> Worker:
    worker = Worker("test")
    log: list[str] = []
    worker.log = log  # type: ignore[attr-defined]

    @worker.rpc(executor="inline")
    def echo(value: Any) -> Any:
        """Give back what came."""
        return value

    @worker.rpc()
    def echo_thread(value: Any) -> Any:
        return value

    @worker.rpc()
    async def echo_async(value: Any) -> Any:
        await asyncio.sleep(0)
        return value

    @worker.rpc(executor="inline")
    def scale(point: Point, by: float = 2.0, *, flip: bool = False) -> Point:
        return Point(point.x * int(by), -point.y * by if flip else point.y * by)

    @worker.rpc(executor="inline")
    def fail(kind: str) -> None:
        error: Exception = {"value": ValueError("no good"), "key": KeyError("k")}[kind]
        error.add_note("look here")
        raise error

    @worker.rpc()
    async def slow(seconds: float) -> str:
        try:
            await asyncio.sleep(seconds)
        except asyncio.CancelledError:
            log.append("cancelled")
            raise
        log.append("finished")
        return "done"

    @worker.rpc(executor="inline")
    def count(most: int) -> Iterator[int]:
        try:
            yield from range(most)
        finally:
            log.append("closed")

    @worker.rpc()
    async def count_async(most: int) -> AsyncIterator[int]:
        for number in range(most):
            await asyncio.sleep(0)
            yield number
        raise ValueError("after the last")

    @worker.rpc()
    async def steps(most: int) -> str:
        for number in range(most):
            progress({"step": number})
            await asyncio.sleep(0.01)
        return "all"

    @worker.rpc(executor="inline")
    def lock() -> Any:
        import threading

        return threading.Lock()

    worker.service(Counter(), "counter", depth=2, executor="inline")
    return worker


def with_world(
    transport: str, tmp_path: Path, **options: Any
) -> Callable[[Callable[[World], Awaitable[None]]], None]:
    """Run the decorated coroutine in a world of that transport."""

    def decorate(main: Callable[[World], Awaitable[None]]) -> None:
        async def go() -> None:
            async with serving(make_worker(), transport, tmp_path, **options) as world:
                await main(world)

        run(go, loop="virtual" if transport == "memory" else "uvloop")

    return decorate


def log_of(services: Any) -> list[str]:
    function = services.by_target[b"/rpc/slow"].call
    log: list[str] = function.__closure__[0].cell_contents
    return log
