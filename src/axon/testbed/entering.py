"""Running something inside a world: the world entered, its fleet handed over, the world left."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from contextlib import AbstractAsyncContextManager
from typing import TypeVar

from axon.rpc.loops import new_event_loop

T = TypeVar("T")
F = TypeVar("F")


async def within(world: AbstractAsyncContextManager[F], main: Callable[[F], Awaitable[T]]) -> T:
    """What `main` gives when it is handed the fleet of that world."""
    async with world as fleet:
        return await main(fleet)


def run_for_real(world: AbstractAsyncContextManager[F], main: Callable[[F], Awaitable[T]]) -> T:
    """The same on a loop of its own, in the time that passes for everybody."""
    with asyncio.Runner(loop_factory=new_event_loop) as runner:
        return runner.run(within(world, main))
