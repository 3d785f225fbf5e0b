"""A worker: owns data, and computes one gradient a step for whoever asks.

It is passive. The first read of a step's gradient makes it fetch the model of that step and
compute; all others get the same vector. Asking often or for what is not there costs it little.
"""

from __future__ import annotations

import asyncio

from axon.byzantine.board import GRADIENT, WINDOW, Absent, check_key
from axon.byzantine.computing import Computing
from axon.byzantine.gradients import batch, gradient
from axon.byzantine.quorum import is_past
from axon.byzantine.sources import Source
from axon.errors import ConfigurationError, QuorumNotReached
from axon.seeds import derive
from axon.values import Samples, TaskSpec, Vector, check_whole


class Worker:
    """One worker, which reads models from its source and serves gradients."""

    def __init__(
        self,
        name: str,
        spec: TaskSpec,
        samples: Samples,
        source: Source,
        computing: Computing,
        *,
        seed: int = 0,
        window: int = WINDOW,
    ) -> None:
        if not len(samples):
            raise ConfigurationError(f"the worker {name} has no samples to compute gradients on")
        check_whole("window", window, least=1)
        self.name = name
        self.computing_s: dict[int, float] = {}
        """How long the gradient of each step took to compute, by the loop's clock."""
        self._spec = spec
        self._samples = samples
        self._source = source
        self._computing = computing
        self._seed = seed
        self._window = window
        self._kept: dict[int, Vector] = {}
        self._open: dict[int, asyncio.Task[Vector]] = {}
        self._past = -1
        """The last step whose model honest servers no longer had."""

    @property
    def newest(self) -> int:
        """The last step for which it has a gradient."""
        return max(self._kept, default=-1)

    async def read(self, kind: str, step: int, round: int = 0) -> Vector | Absent:
        """The gradient of a step; of anything else a worker has nothing."""
        check_key(kind, step, round)
        if kind != GRADIENT or round:
            return Absent("gone", step, self.newest)
        if step in self._kept:
            return self._kept[step]
        # Not computed anew either: questions for steps long past must not crowd out the present.
        if step <= max(self.newest - self._window, self._past):
            return Absent("gone", step, self.newest)
        task = self._open.get(step) or self._begin(step)
        if task is None:
            return Absent("busy", step, self.newest)
        # Waited for and not awaited: who stops waiting must not stop it for the others.
        await asyncio.wait([task])
        return self._outcome(task, step)

    def _begin(self, step: int) -> asyncio.Task[Vector] | None:
        """Start on a step; of too many at once the last ones have to wait.

        Whoever asks for steps that nobody has reached cannot keep out those that honest servers
        are at, because they come first.
        """
        if len(self._open) >= self._window:
            last = max(self._open)
            if step > last:
                return None
            # Out at once: it ends when the loop gets to it, and more may be asked for before that.
            self._open.pop(last).cancel()
        task = self._open[step] = asyncio.get_running_loop().create_task(self._compute(step))
        task.add_done_callback(lambda done: self._end(step, done))
        return task

    def _end(self, step: int, task: asyncio.Task[Vector]) -> None:
        if self._open.get(step) is task:
            del self._open[step]
        if task.cancelled():
            return
        error = task.exception()
        if error is not None:
            if isinstance(error, QuorumNotReached) and is_past(error):
                self._past = max(self._past, step)
            return
        self._kept[step] = task.result()
        for old in [old for old in self._kept if old <= self.newest - self._window]:
            del self._kept[old]

    def _outcome(self, task: asyncio.Task[Vector], step: int) -> Vector | Absent:
        """The gradient, or why there is none: others came first, or the model was not to be had."""
        if task.cancelled():
            return Absent("busy", step, self.newest)
        error = task.exception()
        if error is None:
            return task.result()
        if not isinstance(error, QuorumNotReached):
            raise error
        return Absent("gone" if is_past(error) else "early", step, self.newest)

    async def _compute(self, step: int) -> Vector:
        model = await self._source.model(step)
        rows = batch(self._seed, self.name, step, len(self._samples), self._spec.batch_size)
        chance = derive(self._seed, "gradient", step, self.name)
        began_s = asyncio.get_running_loop().time()
        found = await self._computing(
            "gradient", lambda: gradient(self._spec, model, self._samples, rows, chance)
        )
        self.computing_s[step] = asyncio.get_running_loop().time() - began_s
        found.flags.writeable = False
        return found

    async def close(self) -> None:
        """Stop what is under way."""
        for task in self._open.values():
            task.cancel()
        if self._open:
            await asyncio.wait(list(self._open.values()))
