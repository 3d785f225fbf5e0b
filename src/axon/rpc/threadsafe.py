"""Coming back to an event loop from wherever we are."""

from __future__ import annotations

import asyncio
from collections.abc import Callable


def on_loop(loop: asyncio.AbstractEventLoop, function: Callable[..., None], *args: object) -> None:
    """Call on the loop: now if this is its thread, as soon as it can otherwise."""
    try:
        here = asyncio.get_running_loop() is loop
    except RuntimeError:
        here = False
    if here:
        function(*args)
    else:
        loop.call_soon_threadsafe(function, *args)
