"""Event loops: the one that runs here, the one we prefer, and those that must not be blocked."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from weakref import WeakKeyDictionary

from axon.errors import ConfigurationError

_serving: WeakKeyDictionary[asyncio.AbstractEventLoop, int] = WeakKeyDictionary()
"""How many workers each loop serves."""


running_loop = asyncio._get_running_loop
"""The loop that runs on this thread, or none; `asyncio.get_running_loop` raises instead."""


def on_loop(loop: asyncio.AbstractEventLoop, function: Callable[..., None], *args: object) -> None:
    """Call on the loop: now if this is its thread, as soon as it can otherwise."""
    if running_loop() is loop:
        function(*args)
    else:
        loop.call_soon_threadsafe(function, *args)


def new_event_loop() -> asyncio.AbstractEventLoop:
    """A fresh loop, about twice as fast a one where uvloop is there."""
    try:
        import uvloop
    except ImportError:
        return asyncio.new_event_loop()
    loop: asyncio.AbstractEventLoop = uvloop.new_event_loop()
    return loop


@contextmanager
def serving_here() -> Iterator[None]:
    """A worker is served on the running loop, and stops answering while that is blocked."""
    loop = asyncio.get_running_loop()
    _serving[loop] = _serving.get(loop, 0) + 1
    try:
        yield
    finally:
        _serving[loop] -= 1


def check_may_block() -> None:
    """Refuse to block the loop of a worker: it would freeze, and perhaps wait for itself."""
    loop = running_loop()
    if loop is not None and _serving.get(loop, 0) > 0:
        raise ConfigurationError(
            "a blocking call on the event loop of a worker would stop the worker",
            hint="use `await axon.client.connect(...)` and `await` here, or a plain function",
        )
