"""A learner offered to orchestrators over the network.

worker = Worker("pi-1")
worker.service(LearnerService(learner, access), "learner")
"""

from __future__ import annotations

import asyncio
from typing import Any, Protocol

from axon import client
from axon.learning.learner import Answer, Report, Source
from axon.rpc.address import Address
from axon.rpc.executors import current
from axon.values import Declined, Order, Samples, Update, Vector
from axon.version import __version__

SERVICE = "learner"
"""The name under which a worker offers its learner."""


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
        self._run = order.run
        task = asyncio.ensure_future(self._learner.train(order, source, _reporting()))
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

    def _source(self, address: str) -> RemoteSource:
        if address not in self._sources:
            Address.parse(address)
            # One orchestrator at a time; a restarted one may have another port.
            self._sources = {address: RemoteSource(address, self._access)}
        return self._sources[address]


def _reporting() -> Report:
    """Tells the caller how far training is; the thread that trains does not know of the call."""
    running = current.get()
    assert running is not None, "an order is served by a call"
    return lambda done, total: running.report((done, total))


async def _end(task: asyncio.Task[Any]) -> None:
    task.cancel()
    await asyncio.wait([task])


def _is_cancelled() -> bool:
    task = asyncio.current_task()
    return task is not None and task.cancelling() > 0


def _declined(order: Order, reason: str) -> Declined:
    return Declined(run=order.run, cycle=order.cycle, device=order.device, reason=reason)
