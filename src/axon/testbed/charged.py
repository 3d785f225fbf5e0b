"""Compute under virtual time: the mathematics at once, its cost as a sleep.

How long a batch takes is known beforehand, so a job is cut to what fits before its halt, and since
its result is wanted only at the end of the sleep, learners that train at the same virtual time are
trained together.
"""

from __future__ import annotations

import asyncio
import math
from collections.abc import Callable
from dataclasses import replace

from axon.policies import Trainer
from axon.rpc.link import sleep_until
from axon.values import Job, TaskSpec, Trained

BatchCost = Callable[[TaskSpec, int], float]
"""Seconds that a batch of so many samples takes on a device."""

HAIR_S = 1e-9


class JobPool:
    """Jobs that wait to be trained, until one of them is wanted: then all are, in one call."""

    def __init__(self, trainer: Trainer) -> None:
        self._trainer = trainer
        self._waiting: dict[Ticket, Job] = {}

    def submit(self, job: Job) -> Ticket:
        """Take a job; its result is asked for later."""
        ticket = Ticket(self)
        self._waiting[ticket] = job
        return ticket

    def withdraw(self, ticket: Ticket) -> None:
        """Forget a job that nobody wants any more."""
        self._waiting.pop(ticket, None)

    def train_all(self) -> None:
        """Train everything that waits."""
        results = self._trainer(list(self._waiting.values()))
        # Not before they are trained: an error is then everybody's, and nobody's job is missing.
        waiting, self._waiting = self._waiting, {}
        for ticket, trained in zip(waiting, results, strict=True):
            ticket.trained = trained


class Ticket:
    """A job's place in the pool."""

    __slots__ = ("_pool", "trained")

    def __init__(self, pool: JobPool) -> None:
        self._pool = pool
        self.trained: Trained | None = None

    def result(self) -> Trained:
        """What came of the job; trains it now, and all that wait with it, if nobody has yet."""
        if self.trained is None:
            self._pool.train_all()
        assert self.trained is not None, "a ticket's job was withdrawn"
        return self.trained


class ChargedCompute:
    """A device's compute: what it trains is real, what it takes is the device's."""

    def __init__(self, pool: JobPool, batch_s: BatchCost) -> None:
        self._pool = pool
        self._batch_s = batch_s

    async def train(
        self, job: Job, *, until_s: float, report: Callable[[int, int], None] | None = None
    ) -> Trained:
        """Train the batches that end by `until_s`, and take as long as the device would."""
        loop = asyncio.get_running_loop()
        batches, took_s = self._fitting(job, until_s - loop.time())
        ticket = self._pool.submit(job if batches == job.batches else replace(job, limit=batches))
        if report is not None:
            report(0, job.batches)
        try:
            await sleep_until(loop.time() + took_s)
            return ticket.result()
        finally:
            self._pool.withdraw(ticket)

    def _fitting(self, job: Job, available_s: float) -> tuple[int, float]:
        """How many batches fit in that time, and how long they take."""
        spec, samples = job.spec, len(job.samples)
        full, rest = divmod(samples, spec.batch_size)
        full_s = self._batch_s(spec, spec.batch_size)
        rest_s = self._batch_s(spec, rest) if rest else 0.0
        per_pass, pass_s = full + (rest > 0), full * full_s + rest_s
        if per_pass == 0 or available_s <= 0.0:
            return 0, 0.0
        passes = min(_whole(available_s, pass_s), job.batches // per_pass)
        left = job.batches - passes * per_pass
        extra = min(left, full, _whole(available_s - passes * pass_s, full_s))
        return passes * per_pass + extra, passes * pass_s + extra * full_s


def _whole(available_s: float, each_s: float) -> int:
    """How many whole ones fit; those that take no time all do."""
    if each_s <= 0.0 or math.isinf(available_s):
        return 1 << 62
    # A hair is forgiven: a sum of floats may pass an exact fit by a rounding, and the difference of
    # two moments late in a long run by more than one.
    return int((available_s + HAIR_S) / each_s)
