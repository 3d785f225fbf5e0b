"""Where a worker gets the model of a step from: how far it trusts its servers.

`FromOne` trusts one server. `FromQuorum` trusts no single one: it takes the fastest q models and
aggregates them, so that f lying servers cannot feed it a model of their own. `FromPrimary` trusts
all of them to be honest and none to be alive. `Own` is the model of the worker's own node.
"""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Protocol

from axon.byzantine.board import MODEL, Absent, Board, Readable
from axon.byzantine.computing import Charged, Computing
from axon.byzantine.quorum import Terms, fastest, has_answered, is_alive
from axon.errors import QuorumNotReached
from axon.policies import Aggregator
from axon.values import Vector


class Source(Protocol):
    """Gives a worker the model of a step."""

    async def model(self, step: int) -> Vector:
        """The model; raises `QuorumNotReached` where there is none to be had."""


@dataclass(frozen=True, slots=True)
class FromOne:
    """The model of a server that is trusted."""

    name: str
    server: Readable
    terms: Terms

    async def model(self, step: int) -> Vector:
        """Its model."""
        found = await fastest({self.name: self.server}, (MODEL, step, 0), 1, self.terms)
        return found.vectors[self.name]


@dataclass(frozen=True, slots=True)
class FromQuorum:
    """What a rule makes of the fastest q models, as ByzSGD's workers do."""

    servers: Mapping[str, Readable]
    q: int
    rule: Aggregator
    terms: Terms
    computing: Computing = field(default_factory=Charged)

    async def model(self, step: int) -> Vector:
        """The aggregate."""
        found = await fastest(self.servers, (MODEL, step, 0), self.q, self.terms)
        models = list(found.vectors.values())
        return await self.computing("aggregation", lambda: self.rule(models, [1.0] * self.q))


@dataclass(slots=True)
class FromPrimary:
    """The model of the first server that has not failed; one that did is not asked again.

    `terms.patience_s` is how long a primary is waited for. One that says nothing at all in the
    second half of it has failed. One that lives and has no such model has not: whoever asks for a
    step that nobody has reached must not bring it down, and only this step's model is sought from
    the servers after it.
    """

    servers: Mapping[str, Readable]
    """In the order in which they take over."""
    terms: Terms
    _failed: set[str] = field(default_factory=set)

    @property
    def primary(self) -> str:
        """Who is asked now; the last one stays."""
        alive = [name for name in self.servers if name not in self._failed]
        return alive[0] if alive else list(self.servers)[-1]

    async def model(self, step: int) -> Vector:
        """The primary's model, or that of the one after it."""
        last = list(self.servers)[-1]
        for name in [name for name in self.servers if name not in self._failed] or [last]:
            try:
                return await self._of(name, step)
            except QuorumNotReached as error:
                wrong = error
        raise wrong

    async def _of(self, name: str, step: int) -> Vector:
        """The model of one server, which is noted if it is dead."""
        server = self.servers[name]
        sign = asyncio.ensure_future(self._sign_of_life(server))
        try:
            found = await fastest({name: server}, (MODEL, step, 0), 1, self.terms)
        except QuorumNotReached as error:
            lives = has_answered(error) or (sign.done() and sign.result())
            if not lives:
                self._failed.add(name)
            raise
        finally:
            sign.cancel()
        return found.vectors[name]

    async def _sign_of_life(self, server: Readable) -> bool:
        # Asked for late: mostly the model itself is the sign.
        await asyncio.sleep(self.terms.patience_s / 2)
        return await is_alive(server)


@dataclass(frozen=True, slots=True)
class Own:
    """The model of the server in the same node."""

    board: Board

    async def model(self, step: int) -> Vector:
        """Its model."""
        found = await self.board.read(MODEL, step)
        if isinstance(found, Absent):
            raise QuorumNotReached(wanted=1, got=0, hint=str(found))
        return found
