"""A learner offered to orchestrators over the network.

worker = Worker("pi-1")
worker.service(LearnerService(learner, access), "learner")
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from typing import Any, Protocol

from axon import client
from axon.learning.compute import REPORT_EVERY_S
from axon.learning.learner import Answer, Report, Source
from axon.rpc.address import Address
from axon.values import Declined, Order, Samples, Update, Vector
from axon.version import __version__

SERVICE = "learner"
"""The name under which a worker offers its learner."""

OVERTAKEN_S = 2.0
"""How long a question after an order's progress waits for the order."""


class RemoteSource:
    """An orchestrator's depot, as a learner on another device reaches it."""

    def __init__(self, address: str, access: client.Access) -> None:
        self._address = address
        self._access = access
        self._stub: Any = None

    async def model(self, run: str, cycle: int) -> Vector:
        vector: Vector = await (await self._depot()).model(run, cycle)
        return vector

    async def shards(self, run: str, cycle: int, ticket: str, count: int) -> Samples:
        samples: Samples = await (await self._depot()).shards(run, cycle, ticket, count)
        return samples

    async def _depot(self) -> Any:
        # Asked once what it offers, then kept: a round has no time for questions.
        if self._stub is None:
            stub = await client.connect(self._address, way=self._access)
            self._stub = stub.depot
        return self._stub


class Learning(Protocol):
    """What can be offered: a learner, or something around one."""

    @property
    def name(self) -> str: ...

    async def train(self, order: Order, source: Source, report: Report | None = None) -> Answer: ...


class LearnerService:
    """One learner, one order at a time.

    A newer order of the same run takes the place of an older one, whose orchestrator has given up
    on it or has died and come back; another run has to wait until this one is silent.
    """

    def __init__(self, learner: Learning, access: client.Access) -> None:
        self._learner = learner
        self._access = access
        self._sources: dict[str, RemoteSource] = {}
        self._busy: asyncio.Task[Answer] | None = None
        self._run = ""
        self._watched = ""
        self._progress: tuple[int, int] | None = None

    def describe(self) -> dict[str, Any]:
        """What an orchestrator may know of this learner before it gives it an order."""
        return {"name": self._learner.name, "version": __version__, "busy": self._busy is not None}

    async def train(self, order: Order) -> Update | Declined:
        """Do an order; what cannot be done is declined with the reason."""
        if order.device != self._learner.name:
            raise ValueError(f"this is {self._learner.name}, not {order.device}")
        # Asked again after each wait: another order may have come first meanwhile.
        while self._busy is not None and not self._busy.done():
            if order.run != self._run:
                return _declined(order, f"busy with run {self._run}")
            await _end(self._busy)
        source = self._source(order.source)
        self._run, self._watched, self._progress = order.run, order.ticket, None
        task = asyncio.ensure_future(self._learner.train(order, source, self._note))
        self._busy = task
        try:
            # A task of its own, so that a newer order can end it without ending this call.
            return await task
        except asyncio.CancelledError:
            if not _is_cancelled():
                return _declined(order, "a newer order took its place")
            await _end(task)
            raise
        finally:
            if self._busy is task:
                self._busy = None

    async def watch(self, ticket: str) -> AsyncIterator[tuple[int, int]]:
        """The batches done and to do of the order with that ticket, until it is done.

        A call of its own, because an answer that comes behind reports comes slower, and an update
        may be large. It may overtake the order that it asks after, and waits for it then.
        """
        told = None
        for _ in range(round(OVERTAKEN_S / REPORT_EVERY_S)):
            if self._watched == ticket:
                break
            await asyncio.sleep(REPORT_EVERY_S)
        while self._watched == ticket and self._busy is not None:
            if self._progress is not None and self._progress != told:
                told = self._progress
                yield told
            await asyncio.sleep(REPORT_EVERY_S)

    def _note(self, done: int, total: int) -> None:
        self._progress = (done, total)

    def _source(self, address: str) -> RemoteSource:
        if address not in self._sources:
            Address.parse(address)
            # One orchestrator at a time; a restarted one may have another port.
            self._sources = {address: RemoteSource(address, self._access)}
        return self._sources[address]


async def _end(task: asyncio.Task[Any]) -> None:
    task.cancel()
    await asyncio.wait([task])


def _is_cancelled() -> bool:
    task = asyncio.current_task()
    return task is not None and task.cancelling() > 0


def _declined(order: Order, reason: str) -> Declined:
    return Declined(run=order.run, cycle=order.cycle, device=order.device, reason=reason)
