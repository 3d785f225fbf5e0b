"""What worlds share: how one is entered and left, and how it shows itself."""

from __future__ import annotations

import asyncio
from abc import ABC, abstractmethod
from collections.abc import Awaitable, Callable, Collection, Coroutine, Mapping
from concurrent.futures import ThreadPoolExecutor
from contextlib import AbstractAsyncContextManager
from itertools import islice
from typing import Any, TypeVar

from axon.errors import ConfigurationError
from axon.rpc.loops import check_may_block, new_event_loop, running_loop
from axon.shown import parts_table
from axon.testbed.catalogue import Device

T = TypeVar("T")
F = TypeVar("F")
MOST_NAMES = 8


class World(ABC):
    """A world as it shows itself: its kind and its devices."""

    @property
    @abstractmethod
    def devices(self) -> Mapping[str, Device]:
        """What each device is like, by name."""

    def __repr__(self) -> str:
        return f"<{type(self).__name__} world of {told(self.devices)}>"

    def _repr_html_(self) -> str:
        return parts_table(self.devices)


def told(names: Collection[str]) -> str:
    """The first few of them, and how many there are beside."""
    left = len(names) - MOST_NAMES
    return ", ".join(islice(names, MOST_NAMES)) + (f" and {left} more" if left > 0 else "")


async def within(world: AbstractAsyncContextManager[F], main: Callable[[F], Awaitable[T]]) -> T:
    """What `main` gives when it is handed the fleet of that world."""
    async with world as fleet:
        return await main(fleet)


def run_for_real(world: AbstractAsyncContextManager[F], main: Callable[[F], Awaitable[T]]) -> T:
    """The same on a loop of its own, in the time that passes for everybody."""
    return run_apart(_run, within(world, main))


def _run(main: Coroutine[Any, Any, T]) -> T:
    with asyncio.Runner(loop_factory=new_event_loop) as runner:
        return runner.run(main)


def run_apart(run: Callable[[Coroutine[Any, Any, T]], T], main: Coroutine[Any, Any, T]) -> T:
    """Run it here, or in a thread where a loop is running already, as in a notebook.

    An interrupt of the one who waits ends what runs in the thread, too.
    """
    if running_loop() is None:
        return run(main)
    begun: list[Callable[[], object]] = []

    async def noted() -> T:
        loop, task = asyncio.get_running_loop(), asyncio.current_task()
        assert task is not None
        begun.append(lambda: loop.call_soon_threadsafe(task.cancel))
        return await main

    try:
        check_may_block()
    except ConfigurationError:
        main.close()  # Nobody will await it.
        raise
    with ThreadPoolExecutor(1, "axon world") as threads:
        ended = threads.submit(lambda: run(noted()))
        try:
            return ended.result()
        except BaseException:
            if not ended.done():
                for cancel in begun:
                    cancel()
            raise
