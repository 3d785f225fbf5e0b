"""What a learner fetches to benchmark its link: nested requests, each with the time it took."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Sequence
from typing import TYPE_CHECKING, NoReturn, TypeVar

from axon.devices.subset import Point, fit, nested
from axon.learning.room import Unable
from axon.values import Order, Samples, Vector

if TYPE_CHECKING:
    from axon.learning.learner import Source

T = TypeVar("T")


class Downloads:
    """The requests of a benchmark, each with the time it took."""

    def __init__(self, order: Order, source: Source, ends_s: float) -> None:
        self._order = order
        self._source = source
        self._ends_s = ends_s
        # The other half is for training.
        self._half_s = (now_s() + ends_s) / 2

    async def fetch(self, wanted: int, data: Samples | None) -> tuple[Samples, list[Point]]:
        """What to train on, and the bytes and seconds of each request.

        The model comes first and opens the connection. Only it pays for that, so it is no point of
        a line: it would be taken for the latency of every request.
        """
        model, took_s = await self._within(self._model(), self._ends_s) or self._fail()
        if data is not None:
            size = wanted * self._order.shard_samples
            again = await self._within(self._model(), self._half_s)
            return data.take(slice(size)), [(model.nbytes, again[1] if again else took_s)]
        points: list[Point] = []
        samples: Samples | None = None
        for count in nested(wanted):
            limit_s = self._half_s if points else self._ends_s
            if not self._worth_while(count, points, limit_s):
                break
            fetched = await self._within(self._shards(count), limit_s)
            if fetched is None:
                break
            samples, took_s = fetched
            points.append((samples.nbytes, took_s))
        if samples is None:
            self._fail()
        return samples, points

    def _worth_while(self, count: int, points: Sequence[Point], limit_s: float) -> bool:
        """Whether a request can be expected to end in time, judged by those before it."""
        if not points:
            return True
        expected_s = fit(points).predict(count * self._order.cost.shard_bytes).value
        return now_s() + expected_s <= limit_s

    def _model(self) -> Awaitable[Vector]:
        return self._source.model(self._order.run, self._order.cycle)

    def _shards(self, count: int) -> Awaitable[Samples]:
        order = self._order
        return self._source.shards(order.run, order.cycle, order.ticket or order.device, count)

    async def _within(self, fetch: Awaitable[T], limit_s: float) -> tuple[T, float] | None:
        """What was fetched, and in how many seconds; nothing when it did not come in time."""
        began_s = now_s()
        try:
            async with asyncio.timeout_at(limit_s) as scope:
                return await fetch, now_s() - began_s
        except TimeoutError:
            if not scope.expired():
                raise
            return None

    def _fail(self) -> NoReturn:
        raise Unable(f"nothing could be fetched within {self._order.deadline_s:g} s")


def now_s() -> float:
    """The loop's clock."""
    return asyncio.get_running_loop().time()
