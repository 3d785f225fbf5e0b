"""Nodes that lie: a worker or a server that wears an attack.

A lying node is an honest one with another face. It computes as the honest do, and what it answers
is what its attack makes of that, at once. An omniscient attack goes by the honest nodes' vectors,
which a lying node reads first: over HTTP as any node can, in memory without any way between.
"""

from __future__ import annotations

import asyncio
import itertools
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from axon.attacks.seam import Attack, Scene
from axon.byzantine.board import GRADIENT, WINDOW, Absent, Key, Readable
from axon.byzantine.quorum import Terms, fastest
from axon.learning.lying import silence
from axon.seeds import stream
from axon.values import Vector


@dataclass(frozen=True, slots=True, kw_only=True)
class Malice:
    """An attack, and what whoever wears it knows of the others."""

    name: str
    attack: Attack
    honest: Mapping[str, Readable]
    """Those of its own kind that do not lie."""
    known: int
    """How many of their vectors an omniscient attack goes by: as many as will be aggregated beside
    the lies. Whoever waited for more would come too late to count."""
    attackers: int
    terms: Terms
    seed: int = 0
    broken: Callable[[Exception], None] | None = None
    """Told of an error within the attack, which must not pass for an attack that was borne."""

    async def observed(self, key: Key) -> list[Vector]:
        """What the honest send, where the attack goes by it; nothing, at once, where not."""
        if not self.attack.omniscient:
            return []
        found = await fastest(self.honest, key, self.known, self.terms)
        return list(found.vectors.values())

    def lie(
        self,
        own: Vector,
        step: int,
        honest: Sequence[Vector],
        past: Sequence[Vector],
        random: np.random.Generator,
    ) -> Vector | None:
        """What is answered in the place of `own`."""
        try:
            return self.attack(own, Scene(step, honest, self.attackers, past, random))
        except Exception as error:
            if self.broken is not None:
                self.broken(error)
            raise


class ByzantineWorker:
    """A worker that lies about its gradients, to everybody the same in one step."""

    def __init__(self, worker: Readable, malice: Malice) -> None:
        self._worker = worker
        self._malice = malice
        self._past: dict[int, Vector] = {}
        self._lies: dict[int, asyncio.Future[Vector | None]] = {}

    async def read(self, kind: str, step: int, round: int = 0) -> Vector | Absent:
        """The lie of that step; nothing is ever said where there is none."""
        own = await self._worker.read(kind, step, round)
        if not isinstance(own, np.ndarray):
            assert isinstance(own, Absent), "the node beneath is honest"
            return own
        lie = self._lies.get(step) or self._begin(own, (kind, step, round))
        # A turn of the loop may decide whose vote counts: one that is ready waits for nothing.
        if not lie.done():
            await asyncio.wait([lie])
        return await _spoken(lie.result())

    def _begin(self, own: Vector, key: Key) -> asyncio.Future[Vector | None]:
        step, malice = key[1], self._malice
        past = [self._past[before] for before in sorted(self._past) if before < step]
        self._past[step] = own
        for old in sorted(self._past)[: -malice.attack.remembers - 1]:
            del self._past[old]
        loop = asyncio.get_running_loop()
        if malice.attack.omniscient:
            self._lies[step] = loop.create_task(self._informed(own, key, past))
        else:
            told = malice.lie(own, step, (), past, self._random(step))
            self._lies[step] = loop.create_future()
            self._lies[step].set_result(told)
        for old in sorted(self._lies)[:-WINDOW]:
            del self._lies[old]
        return self._lies[step]

    async def _informed(self, own: Vector, key: Key, past: list[Vector]) -> Vector | None:
        honest = await self._malice.observed(key)
        return self._malice.lie(own, key[1], honest, past, self._random(key[1]))

    def _random(self, step: int) -> np.random.Generator:
        return stream(self._malice.seed, "attack", self._malice.name, step)


class ByzantineServer:
    """A server that lies about its models, to each reader anew.

    A reader may get another vector than the one before it. Beneath, it follows the protocol, so
    that it has models to lie about.
    """

    def __init__(self, server: Readable, malice: Malice) -> None:
        self._server = server
        self._malice = malice
        self._past: dict[tuple[str, int], dict[int, Vector]] = {}
        self._readers = itertools.count()

    async def read(self, kind: str, step: int, round: int = 0) -> Vector | Absent:
        """A lie, made for this reader."""
        own = await self._server.read(kind, step, round)
        if not isinstance(own, np.ndarray):
            assert isinstance(own, Absent), "the node beneath is honest"
            return own
        malice = self._malice
        kept = self._past.setdefault((kind, round), {})
        kept[step] = own
        for old in sorted(kept)[: -malice.attack.remembers - 1]:
            del kept[old]
        past = [kept[before] for before in sorted(kept) if before < step]
        random = stream(malice.seed, "attack", malice.name, kind, step, next(self._readers))
        honest = await malice.observed((kind, step, round))
        return await _spoken(malice.lie(own, step, honest, past, random))


@dataclass(frozen=True, slots=True)
class Both:
    """Server and worker of one node, as peers have them."""

    server: Readable
    worker: Readable

    async def read(self, kind: str, step: int, round: int = 0) -> object:
        """A gradient from the worker, anything else from the server."""
        return await (self.worker if kind == GRADIENT else self.server).read(kind, step, round)


async def _spoken(told: Vector | None) -> Vector:
    """What is told, or never anything."""
    return told if told is not None else await silence()
