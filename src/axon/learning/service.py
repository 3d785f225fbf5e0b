"""A learner offered to orchestrators over the network.

worker = Worker("pi-1")
worker.service(LearnerService(learner, access), "learner")
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable, Coroutine, Sequence
from dataclasses import replace
from typing import Any, Protocol, TypeVar, cast

import numpy as np

from axon import client
from axon.devices.states import StateEstimate
from axon.learning.compute import REPORT_EVERY_S
from axon.learning.learner import Answer, Report, Source
from axon.rpc.address import Address
from axon.rpc.calling.options import CallOptions
from axon.rpc.calling.stubs import GenericStub, RemoteFunction
from axon.values import Capability, Declined, Order, Samples, TaskCost, Update, Vector
from axon.version import __version__

T = TypeVar("T")

SERVICE = "learner"
"""The name under which a worker offers its learner."""

OVERTAKEN_S = 2.0
"""How long a question after an order's progress waits for the order."""


MOST_RUNS = 64
"""Of how many runs it is remembered who leads them."""

MOST_TAKEOVERS = 1_000_000
"""By how much an epoch may be above the last one heard of. A takeover takes a second or more, so
that no run gets so far within weeks of nothing but dying leaders."""

FORGOTTEN_S = 600.0
"""After so long without an order of the epoch that leads, whoever comes is believed. A leader that
was replaced may then be served once more; the store saves nothing of it all the same."""

SPARE_BYTES = 64 << 10
"""What an answer may have beside its arrays; what is told in words fits in as much."""


def taking(access: client.Access, most_bytes: int) -> client.Access:
    """The same way of access, for answers of so many bytes and little structure at most.

    Those made with the same number are equal, and so share their connections.
    """
    limits = replace(
        access.limits,
        max_body_bytes=min(most_bytes, access.limits.max_body_bytes),
        max_head_bytes=min(SPARE_BYTES, access.limits.max_head_bytes),
    )
    return replace(access, limits=limits)


class RemoteSource:
    """An orchestrator's depot, as a learner on another device reaches it.

    It may answer with what the order announced and not with more, which might not fit in memory.
    """

    def __init__(self, order: Order, access: client.Access) -> None:
        self._where = Address.parse(order.source, tls=access.tls is not None).origin
        self._access = access
        self._cost = order.cost
        self._shard_samples = order.shard_samples

    async def model(self, run: str, cycle: int) -> Vector:
        wanted = self._cost.model_bytes
        vector = await self._function("model", wanted)(run, cycle)
        if not _is_flat(vector) or vector.nbytes != wanted:
            raise ValueError(f"the model must be {wanted} bytes of float32, got {_told(vector)}")
        return cast(Vector, vector)

    async def shards(self, run: str, cycle: int, ticket: str, count: int) -> Samples:
        most_bytes, most = count * self._cost.shard_bytes, count * self._shard_samples
        samples = await self._function("shards", most_bytes)(run, cycle, ticket, count)
        if not _are_samples(samples):
            raise ValueError(f"{count} shards must be arrays of samples, got {_told(samples)}")
        if len(samples) > most or samples.nbytes > most_bytes + SPARE_BYTES:
            raise ValueError(
                f"{count} shards have at most {most} samples in {most_bytes} bytes, "
                f"got {len(samples)} in {samples.nbytes}"
            )
        return cast(Samples, samples)

    def _function(self, name: str, most_bytes: int) -> RemoteFunction:
        """A function of the depot, whose answer is cut off above so many bytes."""
        access = taking(self._access, _rounded(most_bytes + SPARE_BYTES))
        return RemoteFunction(access, self._where, f"depot/{name}", GenericStub, CallOptions())


def _rounded(size: int) -> int:
    """Up by an eighth at most, so that orders of many sizes still share a few ways of access."""
    step = max(SPARE_BYTES, 1 << max(0, size.bit_length() - 4))
    return -(-size // step) * step


def _is_flat(value: object) -> bool:
    return isinstance(value, np.ndarray) and value.dtype == np.float32 and value.ndim == 1


def _are_samples(value: object) -> bool:
    return isinstance(value, Samples) and all(
        isinstance(array, np.ndarray) for array in (value.inputs, value.labels)
    )


def _told(value: object) -> str:
    if isinstance(value, np.ndarray):
        return f"{value.nbytes} bytes of {value.dtype} in shape {value.shape}"
    return f"a value of type {type(value).__name__}"


class Learning(Protocol):
    """What can be offered: a learner, or something around one."""

    @property
    def name(self) -> str: ...

    async def train(self, order: Order, source: Source, report: Report | None = None) -> Answer: ...

    async def benchmark(
        self, order: Order, source: Source, disclose: bool
    ) -> Capability | Declined | None: ...

    def states(self, kinds: Sequence[str]) -> tuple[StateEstimate, ...] | Declined: ...


class LearnerService:
    """One learner, one order at a time.

    A newer order of the same run takes the place of an older one, whose orchestrator has given up
    on it or has died and come back; another run has to wait until this one is silent, even if its
    name is the same. Of orchestrators that lead a run one after the other, only the newest is
    served: one that was replaced and does not know it yet hears so from here. Epochs are claims
    of whoever calls, so one that no run can have reached is declined, and none counts for good.
    """

    def __init__(self, learner: Learning, access: client.Access) -> None:
        self._learner = learner
        self._access = access
        self._sources: dict[tuple[str, TaskCost, int], RemoteSource] = {}
        self._busy: asyncio.Task[Any] | None = None
        self._run = ("", "")
        self._epochs: dict[tuple[str, str], tuple[int, float]] = {}
        """The highest epoch by run and owner, and when it was heard of; the last one at the end."""
        self._watched = ""
        self._progress: tuple[int, int] | None = None

    def describe(self) -> dict[str, Any]:
        """What an orchestrator may know of this learner before it gives it an order."""
        return {"name": self._learner.name, "version": __version__, "busy": self._busy is not None}

    async def train(self, order: Order) -> Update | Declined:
        """Do an order; what cannot be done is declined with the reason."""
        return await self._alone(
            order, lambda source: self._learner.train(order, source, self._note)
        )

    async def benchmark(self, order: Order, disclose: bool) -> Capability | Declined | None:
        """Let the learner benchmark itself; it tells what it found if it is asked and agrees."""
        return await self._alone(
            order, lambda source: self._learner.benchmark(order, source, disclose)
        )

    def states(self, kinds: Sequence[str]) -> tuple[StateEstimate, ...] | Declined:
        """What the learner tells of its states, also while it trains: it takes no time to speak of.

        See `Learner.states`.
        """
        return self._learner.states(kinds)

    async def _alone(
        self, order: Order, work: Callable[[Source], Coroutine[Any, Any, T]]
    ) -> T | Declined:
        """Do the work of an order, with no other at the same time."""
        if order.device != self._learner.name:
            raise ValueError(f"this is {self._learner.name}, not {order.device}")
        hindrance = await self._hindrance(order)
        if hindrance:
            return _declined(order, hindrance)
        source = self._source(order)
        self._run, self._watched = (order.run, order.owner), order.ticket
        self._progress = None
        task = asyncio.ensure_future(work(source))
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
                # An order that took long is no silence.
                self._newest_epoch(order)

    async def _hindrance(self, order: Order) -> str:
        """Why an order is not done; nothing, once no other is in its way."""
        known = self._known_epoch(order)
        if order.epoch > known + MOST_TAKEOVERS:
            return f"epoch {order.epoch} is too far above epoch {known} to be believed"
        newest = self._newest_epoch(order)
        # Asked again after each wait: another order may have come first meanwhile.
        while order.epoch == newest and self._busy is not None and not self._busy.done():
            if (order.run, order.owner) != self._run:
                return f"busy with run {self._run[0]}"
            await _end(self._busy)
            newest = self._newest_epoch(order)
        if order.epoch < newest:
            return f"epoch {newest} leads run {order.run}, this order is of epoch {order.epoch}"
        return ""

    async def watch(self, ticket: str) -> AsyncIterator[tuple[int, int]]:
        """The batches done and to do of the order with that ticket, until it is done.

        Nothing where the learner keeps to itself how quick it is: counts over time would tell.
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

    def _known_epoch(self, order: Order) -> int:
        """The highest epoch that has led the order's run, 0 where it has been silent for long."""
        run = (order.run, order.owner)
        epoch, heard_s = self._epochs.get(run, (0, 0.0))
        is_at_work = run == self._run and self._busy is not None
        silent_s = asyncio.get_running_loop().time() - heard_s
        return epoch if is_at_work or silent_s < FORGOTTEN_S else 0

    def _newest_epoch(self, order: Order) -> int:
        """The highest epoch that leads the order's run, of which this order is a sign too."""
        run, known = (order.run, order.owner), self._known_epoch(order)
        if order.epoch >= known:
            self._epochs.pop(run, None)
            if order.epoch:
                self._epochs[run] = (order.epoch, asyncio.get_running_loop().time())
        if len(self._epochs) > MOST_RUNS:
            del self._epochs[next(iter(self._epochs))]
        return max(order.epoch, known)

    def _note(self, done: int, total: int) -> None:
        self._progress = (done, total)

    def _source(self, order: Order) -> RemoteSource:
        key = (order.source, order.cost, order.shard_samples)
        if key not in self._sources:
            # One orchestrator at a time; a restarted one may have another port.
            self._sources = {key: RemoteSource(order, self._access)}
        return self._sources[key]


async def _end(task: asyncio.Task[Any]) -> None:
    task.cancel()
    await asyncio.wait([task])


def _is_cancelled() -> bool:
    task = asyncio.current_task()
    return task is not None and task.cancelling() > 0


def _declined(order: Order, reason: str) -> Declined:
    return Declined(run=order.run, cycle=order.cycle, device=order.device, reason=reason)
