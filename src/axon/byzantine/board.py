"""What a node lets others read: vectors by kind, step and round, for a small window of steps.

Reading is the only thing one node can ask of another, and it changes nothing. What is not there
yet is waited for, what is long past or far ahead is answered with an `Absent` at once.
"""

from __future__ import annotations

import asyncio
from dataclasses import dataclass
from typing import Literal, Protocol, TypeAlias

from axon.errors import ConfigurationError
from axon.values import Vector, check_whole

Why: TypeAlias = Literal["gone", "early", "busy"]
Key: TypeAlias = tuple[str, int, int]

MODEL = "model"
"""The model at the start of a step."""
UPDATED = "updated"
"""A server's model after its own update of that step, before it meets the others' models."""
AGGREGATED = "aggregated"
"""The gradient a peer has aggregated in that step, by round of contraction."""
GRADIENT = "gradient"
"""A worker's gradient at the model of that step."""

WINDOW = 8
"""Steps that are kept, and steps ahead for which a reader may wait: how far honest nodes may be
apart. A server keeps two models a step."""
WAIT_S = 20.0
"""The longest a read waits; whoever wants to wait longer asks again."""
MOST_ROUNDS = 64
"""Of contraction in one step."""
FAR = (1 << 53) - 1
"""The last step that can be asked for; nobody ever reaches it."""


@dataclass(frozen=True, slots=True)
class Absent:
    """The answer where there is no vector to give.

    gone: the step is no longer kept · early: it is not there yet · busy: too many are asked for
    """

    why: Why
    step: int
    newest: int
    """The last step for which this node has something; -1 for none."""

    def __post_init__(self) -> None:
        # It comes from another machine: whatever follows may count on these.
        if type(self.why) is not str or self.why not in ("gone", "early", "busy"):
            raise ConfigurationError("why must be gone, early or busy")
        for name, least in (("step", 0), ("newest", -1)):
            value = getattr(self, name)
            if type(value) is not int or not least <= value <= FAR:
                raise ConfigurationError(f"{name} must be a whole number from {least} to 2^53 - 1")

    def __str__(self) -> str:
        return f"step {self.step} is {self.why}, its newest is {self.newest}"


class Readable(Protocol):
    """A node as others see it: here, or on another device."""

    async def read(self, kind: str, step: int, round: int = 0) -> object:
        """A vector or an `Absent`; from another device it may be anything."""


class Board:
    """A node's own vectors, posted once each and never changed."""

    def __init__(self, *, window: int = WINDOW, wait_s: float = WAIT_S) -> None:
        check_whole("window", window, least=1)
        self._window = window
        self._wait_s = wait_s
        self._kept: dict[Key, Vector] = {}
        self._awaited: dict[Key, asyncio.Future[Vector | Absent]] = {}
        self.newest = -1

    def post(self, kind: str, step: int, vector: Vector, round: int = 0) -> None:
        """Let others read a vector; what is a window older than the newest step goes."""
        kept = fixed(vector)
        self._kept[kind, step, round] = kept
        self.newest = max(self.newest, step)
        self._forget()
        awaited = self._awaited.pop((kind, step, round), None)
        if awaited is not None and not awaited.done():
            awaited.set_result(kept)

    async def read(self, kind: str, step: int, round: int = 0) -> Vector | Absent:
        """The vector, waited for where it may still come."""
        check_key(kind, step, round)
        kept = self._kept.get((kind, step, round))
        if kept is not None:
            return kept
        if step <= self.newest - self._window:
            return Absent("gone", step, self.newest)
        if step > self.newest + self._window:
            return Absent("early", step, self.newest)
        return await self._wait((kind, step, round))

    async def _wait(self, key: Key) -> Vector | Absent:
        awaited = self._awaited.get(key)
        if awaited is None:
            # One for all who wait for it, so that a thousand readers are no thousand timers here.
            awaited = self._awaited[key] = asyncio.get_running_loop().create_future()
        done, _ = await asyncio.wait([awaited], timeout=self._wait_s)
        return awaited.result() if done else Absent("early", key[1], self.newest)

    def _forget(self) -> None:
        oldest = self.newest - self._window + 1
        for key in [key for key in self._kept if key[1] < oldest]:
            del self._kept[key]
        for key in [key for key in self._awaited if key[1] < oldest]:
            awaited = self._awaited.pop(key)
            if not awaited.done():
                awaited.set_result(Absent("gone", key[1], self.newest))


def fixed(vector: Vector) -> Vector:
    """The vector, if nobody can write to it any more, or a copy for which that is so."""
    if vector.flags.writeable:
        vector = vector.copy()
        vector.flags.writeable = False
    return vector


def check_key(kind: object, step: object, round: object) -> None:
    """Raise unless it names something that could be there; a stranger may ask for anything."""
    if type(kind) is not str or kind not in (MODEL, UPDATED, AGGREGATED, GRADIENT):
        raise ConfigurationError("only model, updated, aggregated and gradient can be read")
    if type(step) is not int or not 0 <= step <= FAR:
        raise ConfigurationError("step must be a whole number from 0 to 2^53 - 1")
    if type(round) is not int or not 0 <= round < MOST_ROUNDS:
        raise ConfigurationError(f"round must be a whole number from 0 to {MOST_ROUNDS - 1}")
