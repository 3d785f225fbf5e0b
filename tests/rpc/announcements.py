"""Announcements of workers, and what the tests of discovery ask of them."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence

from axon.rpc.address import Address
from axon.rpc.discovery.mdns import Announcement


def announcement(
    name: str = "pi", address: str = "127.0.0.1:8000", functions: Sequence[str] = ("rpc/echo",)
) -> Announcement:
    return Announcement(
        name=name,
        address=Address.parse(address),
        functions=tuple(functions),
        version="0.1.0",
        scheme="http",
    )


def names(found: Sequence[Announcement]) -> list[str]:
    return [worker.name for worker in found]


async def until(condition: Callable[[], bool], *, deadline_s: float = 8.0) -> None:
    async with asyncio.timeout(deadline_s):
        while not condition():  # noqa: ASYNC110 - another process changes it, not this loop
            await asyncio.sleep(0.02)
