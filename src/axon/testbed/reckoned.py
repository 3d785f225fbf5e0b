"""A link that is reckoned instead of travelled, and the faults that may befall its owner.

A message's arrival is worked out when it is sent, from the bandwidth, the latency and what the link
still has to carry, and slept until: one timer a message, so that a thousand devices cost little.
"""

from __future__ import annotations

import asyncio
import math
from collections.abc import Coroutine
from random import Random
from typing import Any, TypeVar

from axon.errors import ConnectFailed, ConnectionLost
from axon.rpc.link import Direction, Link, Shaper

T = TypeVar("T")


class ReckonedLink:
    """A device's connection to the orchestrator, both ways, first come first served."""

    def __init__(self, link: Link, random: Random) -> None:
        self._ways = {way: Shaper(link, random, direction=way) for way in ("up", "down")}
        self._free_s: dict[Direction, float] = {"up": -math.inf, "down": -math.inf}
        self._random = random
        self._open = asyncio.Event()
        self._open.set()

    def cut(self) -> None:
        """Let nothing through any more; what is under way waits."""
        self._open.clear()

    def heal(self) -> None:
        """Let everything through again."""
        self._open.set()

    async def send(self, direction: Direction, size: int) -> None:
        """Return when so many bytes have arrived."""
        await self._arrive(self._reckon(direction, size, self._now()))

    async def ask(self, size: int, answer_size: int) -> None:
        """Return when a question has gone up and its answer has come down."""
        asked_s = self._reckon("up", size, self._now())
        await self._arrive(self._reckon("down", answer_size, asked_s))

    def _reckon(self, direction: Direction, size: int, ready_s: float) -> float:
        """When a message that is ready then arrives; the link is busy until it has left."""
        way = self._ways[direction]
        left_s = max(ready_s, self._free_s[direction]) + way.transmission_s(size)
        self._free_s[direction] = left_s
        return left_s + way.flight_s()

    async def _arrive(self, when_s: float) -> None:
        if not self._open.is_set():
            await self._open.wait()
        if math.isinf(when_s):
            await asyncio.get_running_loop().create_future()  # Lost: it never arrives.
        delay_s = when_s - self._now()
        if delay_s > 0.0:
            await asyncio.sleep(delay_s)
        if not self._open.is_set():
            await self._open.wait()

    @staticmethod
    def _now() -> float:
        return asyncio.get_running_loop().time()


class Host:
    """Where a simulated learner lives: it may crash, and what it was doing is lost with it."""

    def __init__(self, name: str) -> None:
        self.name = name
        self.is_down = False
        self._tasks: dict[asyncio.Task[Any], None] = {}

    def crash(self) -> None:
        """Go down, and every call to it with it."""
        self.is_down = True
        for task in tuple(self._tasks):
            task.cancel()

    def start(self) -> None:
        """Come back, with nothing under way."""
        self.is_down = False

    async def serve(self, call: Coroutine[Any, Any, T]) -> T:
        """Run a call to this host; raises what a broken connection would."""
        if self.is_down:
            call.close()
            raise ConnectFailed(f"nobody listens at {self.name}")
        task = asyncio.current_task()
        assert task is not None, "a call is awaited by a task"
        self._tasks[task] = None
        try:
            return await call
        except asyncio.CancelledError:
            # A crash cancels the call's own task; taken back, it is only the call's end.
            if self.is_down and task.uncancel() == 0:
                raise ConnectionLost(f"{self.name} went down") from None
            raise
        finally:
            del self._tasks[task]
