"""How a call is made: its deadline, its pattern, who is told of its progress."""

from __future__ import annotations

import asyncio
import math
import re
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass, field, replace
from typing import Any, Final

from axon.errors import ConfigurationError
from axon.rpc.limits import Limits
from axon.rpc.loops import running_loop
from axon.rpc.messages import Transport
from axon.rpc.security.keys import Keyring
from axon.rpc.wire.types import LOADED, Types

DEFAULT_DEADLINE_S: Final = 30.0
_ENDLESS_S: Final = 1e8
"""A deadline years away is none: timers and the wire have their limits."""
_SAME_MOMENT_S: Final = 0.05
"""How far apart the two ends of one deadline may come, by the clocks and the link of both sides."""


class Unset:
    """Says that nobody chose a deadline, so that a scope or the default may."""

    def __repr__(self) -> str:
        return f"{DEFAULT_DEADLINE_S:g}"


UNSET: Final = Unset()


_CALL_ID = re.compile(r"[A-Za-z0-9._:-]{1,128}")


def check_call_id(id: str) -> None:
    """An id stands in paths and headers, and so in few characters."""
    if not _CALL_ID.fullmatch(id):
        raise ConfigurationError(
            f"{id!r} cannot be a call's id", hint="use 1 to 128 letters, digits and . _ : -"
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class CallOptions:
    """Choices for one call; a stub holds those for all of its calls."""

    deadline_s: float | Unset | None = UNSET
    """Seconds until the call must have ended; `None`, written out, for no end."""
    duplex: bool = False
    """Free the connection while the worker works, and survive a dropped link."""
    call_id: str | None = None
    """For a duplex call: the same id runs once in one life of the worker, however often it is made.
    A client that may find another worker there, and must not repeat, uses `attach`."""
    push: bool = True
    """Let a duplex result be sent to us; otherwise we ask for it."""
    progress: Callable[[Any], None] | None = None
    """Called with each value the function reports while it runs."""
    compress: bool = False
    """Compress the bodies of both directions with zstd."""

    def __post_init__(self) -> None:
        chosen = self.deadline_s
        if not isinstance(chosen, (int, float, Unset, type(None))):
            raise ConfigurationError(f"deadline_s is a number of seconds, got {chosen!r}")
        if not isinstance(chosen, Unset) and chosen is not None and not chosen >= 0:
            raise ConfigurationError(f"deadline_s must be at least 0, got {chosen}")
        if self.call_id is not None:
            check_call_id(self.call_id)
        if self.call_id is not None and not self.duplex:
            raise ConfigurationError("call_id is for duplex calls", hint="add duplex=True")

    def but(self, **changes: Any) -> CallOptions:
        """The same, with some choices changed."""
        try:
            return replace(self, **changes)
        except TypeError as error:
            known = ", ".join(self.__dataclass_fields__)
            raise ConfigurationError(f"{error}", hint=f"options are {known}") from error


@dataclass(frozen=True, slots=True, kw_only=True)
class Access:
    """How a client reaches workers: its key, its certificates, its patience."""

    # Compared, not hashed: a keyring holds a table of its keys, and one client has few of them.
    key: Keyring | None = field(default=None, hash=False)
    tls: str | None = None
    """The folder that `axon keys new` made."""
    pickling: bool = False
    """Take and send pickles; only together with a key."""
    reconnect_s: float = 5.0
    """How long to try again when a worker that answered before cannot be reached."""
    limits: Limits = field(default_factory=Limits)
    transport: Transport | None = None
    """In place of HTTP: the in-memory one, in tests and simulations."""
    types: Types = LOADED
    """The data classes that an answer may bring; fewer where workers are not trusted."""

    def __post_init__(self) -> None:
        if self.pickling and self.key is None:
            raise ConfigurationError(
                "pickling without a key would run anyone's code", hint="pass key= as well"
            )


_scope: ContextVar[tuple[Callable[[], float], float] | None] = ContextVar(
    "axon_scope", default=None
)


def _clock() -> Callable[[], float]:
    loop = running_loop()
    return time.monotonic if loop is None else loop.time


@contextmanager
def deadline(seconds: float) -> Iterator[None]:
    """All calls made inside must end within so many seconds; of nested scopes the nearest wins."""
    clock = _clock()
    end = clock() + seconds
    outer = _scope.get()
    if outer is not None:
        end = min(end, clock() + outer[1] - outer[0]())
    token = _scope.set((clock, end))
    try:
        yield
    finally:
        _scope.reset(token)


def time_left(options: CallOptions) -> float | None:
    """The seconds a call made now has, from its options and the scopes around it."""
    ends = math.inf
    scope = _scope.get()
    if scope is not None:
        ends = max(0.0, scope[1] - scope[0]())
    if "anyio" in sys.modules:
        # Only a program that uses anyio can be inside one of its scopes.
        ends = min(ends, _anyio_left())
    chosen = options.deadline_s
    if isinstance(chosen, Unset):
        chosen = DEFAULT_DEADLINE_S if ends == math.inf else ends
    if chosen is not None:
        ends = min(chosen, ends)
    return None if ends >= _ENDLESS_S else ends


async def give_way() -> None:
    """Let a scope of anyio's that ends at this moment speak first.

    The call's deadline was that scope's, and it may mean to move on where we would raise.
    """
    if "anyio" in sys.modules:
        left = _anyio_left()
        if left < _SAME_MOMENT_S:
            await asyncio.sleep(left + _SAME_MOMENT_S)


def _anyio_left() -> float:
    import anyio

    loop = running_loop()
    if loop is None:
        return math.inf
    return max(0.0, anyio.current_effective_deadline() - loop.time())
