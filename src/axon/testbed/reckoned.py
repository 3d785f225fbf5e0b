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
from axon.rpc.link import Direction, Link, draw_flight_s, sleep_until

T = TypeVar("T")


class ReckonedLink:
    """A device's connection to the orchestrator, both ways, first come first served."""

    def __init__(self, link: Link, random: Random) -> None:
        self._link = link
        self._random = random
        self._free_s: dict[Direction, float] = {"up": -math.inf, "down": -math.inf}
        self._healed: asyncio.Event | None = None
        """What messages wait for while the link is cut."""

    def cut(self) -> None:
        """Let nothing through any more; what is under way waits."""
        if self._healed is None:
            self._healed = asyncio.Event()

    def heal(self) -> None:
        """Let everything through again."""
        if self._healed is not None:
            self._healed.set()
            self._healed = None

    async def send(self, direction: Direction, size: int) -> None:
        """Return when so many bytes have arrived."""
        await self._arrive(self._reckon(direction, size, self._now()))

    async def ask(self, size: int, answer_size: int) -> None:
        """Return when a question has gone up and its answer has come down."""
        asked_s = self._reckon("up", size, self._now())
        await self._arrive(self._reckon("down", answer_size, asked_s))

    def _reckon(self, direction: Direction, size: int, ready_s: float) -> float:
        """When a message that is ready then arrives; the link is busy until it has left."""
        leaves_s = max(ready_s, self._free_s[direction])
        leaves_s += size / self._link.bytes_per_s(direction)
        self._free_s[direction] = leaves_s
        return leaves_s + draw_flight_s(self._link, self._random)

    async def _arrive(self, when_s: float) -> None:
        if self._healed is not None:
            await self._wait_for_healing()
        if math.isinf(when_s):
            await asyncio.get_running_loop().create_future()  # Lost: it never arrives.
        await sleep_until(when_s)
        if self._healed is not None:
            await self._wait_for_healing()

    async def _wait_for_healing(self) -> None:
        while self._healed is not None:
            await self._healed.wait()

    @staticmethod
    def _now() -> float:
        return asyncio.get_running_loop().time()


class Host:
    """Where a simulated learner lives: it may crash, and what it was doing is lost with it."""

    def __init__(self, name: str) -> None:
        self.name = name
        self.is_down = False
        self._tasks: dict[asyncio.Task[Any], bool] = {}
        """Those that serve a call, and whether a crash has ended it: the host may be up again."""

    def crash(self) -> None:
        """Go down, and every call to it with it."""
        self.is_down = True
        for task, is_lost in self._tasks.items():
            if not is_lost:
                self._tasks[task] = True
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
        self._tasks[task] = False
        try:
            return await call
        except asyncio.CancelledError:
            # A crash cancels the call's own task; taken back, it is only the call's end.
            if self._tasks[task] and task.uncancel() == 0:
                raise ConnectionLost(f"{self.name} went down") from None
            raise
        finally:
            del self._tasks[task]
