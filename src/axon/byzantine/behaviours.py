"""Nodes that misbehave on the wire rather than lie in their vectors, for tests and experiments.

Each stands before an honest node and answers in its place. None of them may cost anybody more than
its own vote.
"""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Protocol, runtime_checkable

import numpy as np

from axon.byzantine.board import GRADIENT, MODEL, UPDATED, Absent, Readable
from axon.errors import AxonError
from axon.learning.lying import silence
from axon.values import Vector


@dataclass(frozen=True, slots=True)
class Remembered:
    """The honest node beneath a behaviour, with the first vector of each kind it ever gave.

    A behaviour is a value, which many nodes may share; what happened is kept here, at the node.
    """

    node: Readable
    first: dict[str, Vector] = field(default_factory=dict)

    async def read(self, kind: str, step: int, round: int = 0) -> object:
        """What the node answers."""
        own = await self.node.read(kind, step, round)
        if isinstance(own, np.ndarray):
            self.first.setdefault(kind, own)
        return own


@runtime_checkable
class Behaviour(Protocol):
    """A way to misbehave."""

    async def answer(self, honest: Remembered, kind: str, step: int, round: int) -> object:
        """What is answered in the place of what the honest node would."""


@dataclass(frozen=True, slots=True)
class Stalling:
    """Takes every question and answers none."""

    async def answer(self, honest: Remembered, kind: str, step: int, round: int) -> object:  # noqa: ARG002
        """Nothing, for ever."""
        await silence()


@dataclass(frozen=True, slots=True)
class Garbage:
    """Answers with what is no vector, another thing in every step."""

    async def answer(self, honest: Remembered, kind: str, step: int, round: int) -> object:
        """One of many wrong things."""
        own = await honest.read(kind, step, round)
        if not isinstance(own, np.ndarray):
            return own
        wrong = (
            "no vector at all",
            None,
            Absent("gone", 0, 1 << 40),
            own[:-1],
            own.astype(np.float64),
            own.reshape(1, -1),
            np.full_like(own, np.nan),
            [float(each) for each in own[:10]],
            np.where(np.arange(own.size) == 7, np.float32(np.inf), own),
        )
        return wrong[step % len(wrong)]


@dataclass(frozen=True, slots=True)
class Oversized:
    """Answers with a vector many times as long as asked for, to fill the reader's memory."""

    times: int = 100

    async def answer(self, honest: Remembered, kind: str, step: int, round: int) -> object:
        """The honest vector over and over."""
        own = await honest.read(kind, step, round)
        return np.tile(own, self.times) if isinstance(own, np.ndarray) else own


@dataclass(frozen=True, slots=True)
class Replaying:
    """Answers every step with the first vector it ever had of that kind."""

    async def answer(self, honest: Remembered, kind: str, step: int, round: int) -> object:
        """An old vector, which was right once."""
        own = await honest.read(kind, step, round)
        return honest.first[kind] if isinstance(own, np.ndarray) else own


@dataclass(frozen=True, slots=True)
class Flooding:
    """Answers honestly, and asks everybody for everything, as much at once as it can."""

    at_once: int = 300
    """Questions to each node, for steps that are there, are to come, or never will."""
    every_s: float = 0.05

    async def answer(self, honest: Remembered, kind: str, step: int, round: int) -> object:
        """What the honest node answers."""
        return await honest.read(kind, step, round)

    async def flood(self, targets: Mapping[str, Readable]) -> None:
        """Ask without end, and hardly wait for the answers."""
        while True:
            asking = [
                asyncio.ensure_future(_ask(node, (MODEL, UPDATED, GRADIENT)[n % 3], n))
                for node in targets.values()
                for n in range(self.at_once)
            ]
            _, late = await asyncio.wait(asking, timeout=self.every_s)
            await asyncio.sleep(self.every_s)
            for one in late:
                one.cancel()
            await asyncio.wait(asking)


@dataclass(frozen=True, slots=True)
class Misbehaving:
    """An honest node behind a behaviour."""

    honest: Remembered
    behaviour: Behaviour

    async def read(self, kind: str, step: int, round: int = 0) -> object:
        """What the behaviour answers."""
        return await self.behaviour.answer(self.honest, kind, step, round)


async def _ask(node: Readable, kind: str, step: int) -> None:
    try:
        await node.read(kind, step)
    except AxonError:
        # Refused, as it should be: a flood does not listen.
        return
