"""What the tests of the executors share."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine
from typing import Any

from axon.rpc.executors import ThreadPool


def with_pool(
    body: Callable[[ThreadPool], Coroutine[Any, Any, Any]], *, max_threads: int = 64
) -> Any:
    """Run the coroutine function with a pool of its own, on a loop of its own."""

    async def main() -> Any:
        pool = ThreadPool(max_threads=max_threads)
        try:
            return await body(pool)
        finally:
            pool.close()

    return asyncio.run(main())


async def until(
    condition: Callable[[], object], *, seconds: float = 5.0, step_s: float = 0.002
) -> None:
    """Wait for something another thread or process does; `TimeoutError` when it does not."""
    async with asyncio.timeout(seconds):
        while not condition():  # noqa: ASYNC110 - what is watched knows no events
            await asyncio.sleep(step_s)
