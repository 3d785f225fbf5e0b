"""A server: keeps a model, asks workers for gradients and other servers for their models.

    for step in range(steps):
        gradients = await server.get_gradients(step, q)
        await server.update_model(await server.aggregate(rule, gradients))

Everything is pulled: a server posts its own vectors on its board, where others read them.
"""

from __future__ import annotations

import asyncio
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from axon.byzantine.board import AGGREGATED, GRADIENT, MODEL, UPDATED, Board, Key, Readable, fixed
from axon.byzantine.computing import Computing
from axon.byzantine.gradients import Descent
from axon.byzantine.quorum import Quorum, Terms, fastest, newest_step, refusals_of
from axon.byzantine.records import OpenStep, StepRecord
from axon.errors import ConfigurationError, QuorumNotReached
from axon.learning.evaluation import evaluate
from axon.learning.nets import initial
from axon.policies import Aggregator
from axon.values import Samples, TaskSpec, Vector


@dataclass(frozen=True, slots=True, kw_only=True)
class Links:
    """Whom a server reads from, by name."""

    workers: Mapping[str, Readable]
    servers: Mapping[str, Readable]
    """The other servers."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Task:
    """What a server trains and is tested on."""

    spec: TaskSpec
    test: Samples
    seed: int = 0


class Server:
    """One server. Its own vector counts as one of the q of `get_models` and its like.

    Answers come in the order of the nodes' names: nothing depends on who was first, beyond who is
    among them.
    """

    def __init__(
        self,
        name: str,
        task: Task,
        links: Links,
        computing: Computing,
        *,
        board: Board | None = None,
        patience_s: float = 60.0,
    ) -> None:
        self.name = name
        self.board = board or Board()
        self.model = fixed(initial(task.spec, task.seed))
        self._task = task
        self._links = links
        self._computing = computing
        self._terms = Terms(size=len(self.model), patience_s=patience_s)
        self._descent = Descent(task.spec)
        self.next_step = 0
        """The one to do next."""
        self._round = -1
        self._aggregated: Vector | None = None
        self._loop = asyncio.get_running_loop()
        self._born_s = self._loop.time()
        self._records: list[StepRecord] = []
        self._open = OpenStep(server=name, step=-1, started_s=0.0)

    @property
    def step(self) -> int:
        """The step it is at; -1 before the first."""
        return self._open.step

    @property
    def records(self) -> tuple[StepRecord, ...]:
        """What happened in the steps that have ended."""
        return tuple(self._records)

    async def get_gradients(self, step: int, q: int) -> list[Vector]:
        """Begin a step with the model as it is now, and wait for the fastest q gradients at it."""
        self.finish()
        self._open = OpenStep(server=self.name, step=step, started_s=self._now_s)
        self._round, self._aggregated, self.next_step = -1, None, step + 1
        self.board.post(MODEL, step, self.model)
        began_s = self._now_s
        quorum = await self._fastest(self._links.workers, (GRADIENT, step, 0), q)
        self._open.heard_gradients(quorum, self._now_s - began_s)
        return list(quorum.vectors.values())

    async def get_models(self, q: int) -> list[Vector]:
        """The fastest q models as servers have updated them in this step, one's own among them."""
        began_s = self._now_s
        key = (UPDATED, self.step, 0)
        quorum = await self._fastest(self._links.servers, key, q, self.model)
        self._open.heard_servers(quorum, self._now_s - began_s, models=True)
        return list(quorum.vectors.values())

    @property
    def latest_aggregated_gradient(self) -> Vector | None:
        """What it has aggregated last in this step; None before. Set it, and others may read it.

        Each time that it is set in a step begins the next round of contraction.
        """
        return self._aggregated

    @latest_aggregated_gradient.setter
    def latest_aggregated_gradient(self, gradient: Vector) -> None:
        if self.step < 0:
            raise ConfigurationError(
                "an aggregated gradient is one of a step, and none has begun",
                hint="get_gradients(step, q) begins one",
            )
        self._round += 1
        self._aggregated = fixed(gradient)
        self.board.post(AGGREGATED, self.step, self._aggregated, self._round)

    async def get_aggregated_gradients(self, q: int) -> list[Vector]:
        """The fastest q aggregated gradients of the latest round, one's own among them."""
        if self._aggregated is None:
            raise ConfigurationError(
                f"{self.name} has aggregated no gradient in step {self.step} yet",
                hint="set latest_aggregated_gradient first: one's own counts among the q",
            )
        began_s = self._now_s
        key = (AGGREGATED, self.step, self._round)
        quorum = await self._fastest(self._links.servers, key, q, self._aggregated)
        self._open.heard_servers(quorum, self._now_s - began_s, models=False)
        return list(quorum.vectors.values())

    async def aggregate(self, rule: Aggregator, vectors: Sequence[Vector]) -> Vector:
        """What a rule makes of vectors that all count the same."""
        began_s = self._now_s
        made = await self._computing("aggregation", lambda: rule(vectors, [1.0] * len(vectors)))
        self._open.aggregation_s += self._now_s - began_s
        return made

    async def update_model(self, gradient: Vector) -> None:
        """Step along a gradient; others may read what came of it."""
        began_s = self._now_s
        after = await self._computing("update", lambda: self._descent(self.model, gradient))
        after.flags.writeable = False
        self.model = after
        self._open.update_s += self._now_s - began_s
        self.board.post(UPDATED, self.step, self.model)

    def write_model(self, model: Vector) -> None:
        """Go on from another model."""
        self.model = fixed(model)

    async def rejoin(self, rule: Aggregator, q: int) -> None:
        """Go on from where the other servers are, when they have left one behind.

        From the rule's aggregate of q models of a step that an honest server has reached, one's
        own old model among them. Raises `QuorumNotReached` where the others are no further.
        """
        step = await newest_step(self._links.servers, q - 1, self._terms)
        if step < self.next_step:
            raise QuorumNotReached(wanted=q, got=1, hint=f"others are at step {step} themselves")
        found = await self._fastest(self._links.servers, (MODEL, step, 0), q, self.model)
        self.write_model(await self.aggregate(rule, list(found.vectors.values())))
        self.next_step = step

    async def compute_accuracy(self) -> float:
        """The part of the test samples that the model now gets right."""
        began_s, model = self._now_s, self.model
        spec, test = self._task.spec, self._task.test
        accuracy, _ = await self._computing("accuracy", lambda: evaluate(spec, model, test))
        self._open.accuracy_s += self._now_s - began_s
        self._open.accuracy = accuracy
        return accuracy

    @property
    def is_tested(self) -> bool:
        """Whether the accuracy is known after the step it is at, if it is at any."""
        return self.step < 0 or self._open.accuracy is not None

    def finish(self) -> None:
        """Record the step that is open; the next one does so too."""
        if self._open.step >= 0:
            self._records.append(self._open.ended(self._now_s))
            self._open = OpenStep(server=self.name, step=-1, started_s=self._now_s)

    async def _fastest(
        self, nodes: Mapping[str, Readable], key: Key, q: int, own: Vector | None = None
    ) -> Quorum:
        known = None if own is None else {self.name: own}
        try:
            return await fastest(nodes, key, q, self._terms, own=known)
        except QuorumNotReached as error:
            self._open.refusals += refusals_of(error)
            raise

    @property
    def _now_s(self) -> float:
        return self._loop.time() - self._born_s
