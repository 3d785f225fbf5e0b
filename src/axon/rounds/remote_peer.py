"""One learner on another device, as an orchestrator reaches it over the network."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import replace

from axon import client
from axon.errors import AxonError
from axon.learning.compute import REPORT_EVERY_S
from axon.learning.service import SERVICE, SPARE_BYTES, taking
from axon.rounds.collect import LINGER
from axon.rounds.fleet import Report
from axon.rounds.telling import ASK_S
from axon.rpc.address import Address
from axon.rpc.calling.options import CallOptions
from axon.rpc.calling.stubs import GenericStub, RemoteFunction
from axon.values import Declined, Order, Update

UPDATE_SPARE_BYTES = 1 << 20
"""What an update may have beyond twice the model, which no codec makes larger."""


class RemotePeer:
    """A learner on another device, which may be recorded under another name than its own.

    Whatever it answers is cut off where it could no longer be an update, or words.
    """

    def __init__(self, said_name: str, address: Address, access: client.Access, depot: str) -> None:
        self.said_name = said_name
        self.address = address
        self._depot = depot
        self._access = access
        self._watch = function_of(taking(access, SPARE_BYTES), address, "watch")

    async def train(self, order: Order, report: Report | None) -> object:
        # As long as late answers are counted, and not longer: the device is told to stop then too.
        limit_s = order.deadline_s * (1.0 + LINGER) + order.grace_s
        most_bytes = 2 * order.cost.model_bytes + UPDATE_SPARE_BYTES
        train = function_of(taking(self._access, most_bytes), self.address, "train")
        call = train.options(deadline_s=limit_s)(self._sent(order))
        if report is None:
            return self._recorded(await call, order)
        follower = asyncio.ensure_future(self._follow(order.ticket, limit_s, report))
        try:
            return self._recorded(await call, order)
        finally:
            follower.cancel()

    async def benchmark(self, order: Order, disclose: bool) -> object:
        words = taking(self._access, SPARE_BYTES)
        benchmark = function_of(words, self.address, "benchmark")
        limit_s = order.deadline_s * (1.0 + LINGER)
        return await benchmark.options(deadline_s=limit_s)(self._sent(order), disclose)

    async def states(self, kinds: Sequence[str]) -> object:
        states = function_of(taking(self._access, SPARE_BYTES), self.address, "states")
        return await states.options(deadline_s=ASK_S * (1.0 + LINGER))(list(kinds))

    def _sent(self, order: Order) -> Order:
        """The order under the name that the device goes by, and with the way to the depot."""
        return replace(order, device=self.said_name, source=self._depot)

    def _recorded(self, answer: object, order: Order) -> object:
        """The answer under the name that the order was recorded with, if it is the device's own."""
        if not isinstance(answer, (Update, Declined)) or type(answer.device) is not str:
            return answer
        return replace(answer, device=order.device) if answer.device == self.said_name else answer

    async def _follow(self, ticket: str, limit_s: float, report: Report) -> None:
        """Pass progress on; that there is none is nobody's loss, and the order tells why."""
        with suppress(AxonError):
            async for value in self._watch.options(deadline_s=limit_s)(ticket):
                _pass_on(value, report)
                # Whoever reports faster than that waits: it would only take time from the others.
                await asyncio.sleep(REPORT_EVERY_S / 2)


def function_of(access: client.Access, where: Address, name: str) -> RemoteFunction:
    """A function of the learner there; looked up when it is called, so that nobody need be there.

    By its path and not as an attribute of a stub, which has whatever the other side says it has.
    """
    return RemoteFunction(access, where, f"{SERVICE}/{name}", GenericStub, CallOptions())


def _pass_on(value: object, report: Report) -> None:
    """Progress as a learner tells it; what is not two counts is not passed on."""
    if isinstance(value, (list, tuple)) and len(value) == 2:
        done, total = value
        if type(done) is int and type(total) is int and 0 <= done <= total:
            report(done, total)
