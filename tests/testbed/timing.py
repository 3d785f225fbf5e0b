"""How long something takes by the clock of its loop, which may be virtual."""

from __future__ import annotations

from collections.abc import Awaitable
from typing import Any

from tests.rpc.scenes import now


async def timed(answer: Awaitable[Any]) -> float:
    began = now()
    await answer
    return now() - began
