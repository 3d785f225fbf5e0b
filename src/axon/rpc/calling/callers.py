"""The one caller of each event loop and way of access, made when needed, closed with its loop."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from weakref import WeakKeyDictionary

from axon.rpc.calling.caller import Caller
from axon.rpc.calling.options import Access
from axon.rpc.http.transport import HttpTransport

_callers: WeakKeyDictionary[
    asyncio.AbstractEventLoop, dict[Access, tuple[Caller, AsyncIterator[None]]]
] = WeakKeyDictionary()


_recent: tuple[asyncio.AbstractEventLoop, Access, Caller] | None = None


def recent_caller(access: Access) -> Caller | None:
    """The caller most likely wanted, found without hashing anything: one call is like the next."""
    recent = _recent
    if recent is None or recent[1] is not access or recent[0] is not asyncio.get_running_loop():
        return None
    return recent[2]


async def caller_for(access: Access) -> Caller:
    """The running loop's caller for that access."""
    loop = asyncio.get_running_loop()
    mine = _callers.get(loop)
    if mine is None:
        mine = _callers[loop] = {}
    known = mine.get(access)
    if known is None:
        caller = Caller(access, access.transport or _http(access))
        guard = _closing(caller, access)
        await anext(guard)
        known = mine[access] = (caller, guard)
    global _recent  # noqa: PLW0603 - a cache of one; a race only costs a look-up
    _recent = (loop, access, known[0])
    return known[0]


def _http(access: Access) -> HttpTransport:
    if access.tls is None:
        return HttpTransport(limits=access.limits)
    from axon.rpc.security.tls import client_context  # Late: certificates are the exception.

    return HttpTransport(limits=access.limits, client_tls=client_context(access.tls))


async def _closing(caller: Caller, access: Access) -> AsyncIterator[None]:
    """Closes the caller's connections when its loop shuts down, and forgets both.

    asyncio has no hook for the end of a loop, but it does finish suspended async generators then.
    """
    loop = asyncio.get_running_loop()
    try:
        yield
    finally:
        await caller.close()
        _forget(loop, access)


def _forget(loop: asyncio.AbstractEventLoop, access: Access) -> None:
    """A caller knows its loop, so the table alone would keep both for ever."""
    global _recent  # noqa: PLW0603
    mine = _callers.get(loop, {})
    mine.pop(access, None)
    if not mine:
        _callers.pop(loop, None)
    if _recent is not None and _recent[0] is loop:
        _recent = None
