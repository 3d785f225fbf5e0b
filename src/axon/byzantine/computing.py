"""Where a node computes: in a thread of its own, or on the loop and charged with a sleep.

A real node must go on answering while it computes. Under virtual time a thread would be invisible
to the clock, so there the work is done at once and the clock is told how long it took.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from typing import Literal, Protocol, TypeAlias, TypeVar

T = TypeVar("T")
Work: TypeAlias = Literal["gradient", "aggregation", "update", "accuracy"]


class Computing(Protocol):
    """Does a piece of work without keeping the loop from anything else."""

    async def __call__(self, what: Work, work: Callable[[], T]) -> T:
        """What the work gives."""


@dataclass(frozen=True, slots=True)
class Charged:
    """On the loop itself; `seconds` says what each kind of work is charged with."""

    seconds: Callable[[Work], float] = lambda _: 0.0

    async def __call__(self, what: Work, work: Callable[[], T]) -> T:
        """What the work gives, once its time has passed."""
        result = work()
        seconds = self.seconds(what)
        if seconds > 0.0:
            await asyncio.sleep(seconds)
        return result


class Threaded:
    """In a thread of the node's own, one piece of work after the other."""

    def __init__(self) -> None:
        self._thread = ThreadPoolExecutor(max_workers=1, thread_name_prefix="axon-node")

    async def __call__(self, what: Work, work: Callable[[], T]) -> T:  # noqa: ARG002  (the seam)
        """What the work gives."""
        return await asyncio.get_running_loop().run_in_executor(self._thread, work)

    def close(self) -> None:
        """Let the thread end with the work it has begun."""
        self._thread.shutdown(wait=False, cancel_futures=True)
