"""A learner to be served, orders for it, and scenes to act out with its service."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
import pytest

from axon import client
from axon.devices.states import StateEstimate
from axon.learning.learner import Answer, Report, Source
from axon.learning.service import LearnerService
from axon.rpc.executors import Running, current
from axon.testbed import virtual
from axon.values import Capability, Declined, Order, Share, TaskCost, TaskSpec, Update

SPEC = TaskSpec(net="twonn", inputs=(4,), classes=3)
both_transports = pytest.mark.parametrize(
    ("transport", "loop"), [("memory", "virtual"), ("http", "uvloop")]
)


def order_of(cycle: int = 1, **changes: Any) -> Order:
    made = Order(
        run="run",
        cycle=cycle,
        device="pi",
        spec=SPEC,
        share=Share(shards=1),
        cost=TaskCost(model_bytes=4, shard_bytes=4),
        shard_samples=1,
        shards=1,
        deadline_s=10.0,
        seed=0,
        source="127.0.0.1:9",
    )
    return replace(made, **changes)


@dataclass
class FakeLearner:
    """Trains until it is let go, reports as it begins, and notes what became of every order."""

    name: str = "pi"
    log: list[str] = field(default_factory=list)
    sources: list[Source] = field(default_factory=list)
    release: asyncio.Event = field(default_factory=asyncio.Event)
    at_work: int = 0
    slow_to_stop_s: float = 0.0

    async def train(self, order: Order, source: Source, report: Report | None = None) -> Answer:
        self.at_work += 1
        assert self.at_work == 1, "two orders at once"
        label = f"{order.run}/{order.cycle}"
        self.log.append(f"{label} began")
        self.sources.append(source)
        assert report is not None
        report(1, 4)
        try:
            await self.release.wait()
        except asyncio.CancelledError:
            await asyncio.sleep(self.slow_to_stop_s)
            self.log.append(f"{label} stopped")
            raise
        finally:
            self.at_work -= 1
        self.log.append(f"{label} done")
        return update_of(order)

    async def benchmark(
        self, order: Order, source: Source, disclose: bool
    ) -> Capability | Declined | None:
        await self.train(order, source, lambda *_: None)
        return Capability(shards_per_s=2.0, bytes_per_s=3.0) if disclose else None

    def states(self, kinds: Sequence[str]) -> tuple[StateEstimate, ...] | Declined:
        rates = dict.fromkeys(kinds, 2.0)
        return (StateEstimate(probability=1.0, bytes_per_s=3.0, shards_per_s=rates),)


def update_of(order: Order) -> Update:
    return Update(
        run=order.run,
        cycle=order.cycle,
        device=order.device,
        payload={"parameters": np.arange(3, dtype=np.float32)},
        shards=1,
        batches=2,
        samples=3,
        loss=0.5,
    )


def reason_of(answer: object) -> str:
    assert isinstance(answer, Declined), answer
    return answer.reason


Scene = Callable[[LearnerService, FakeLearner], Coroutine[Any, Any, None]]


def play(scene: Scene, **changes: Any) -> FakeLearner:
    """Act out a scene with the service itself, in virtual time, as if every task were a call."""

    async def main() -> FakeLearner:
        learner = FakeLearner(**changes)
        current.set(Running())
        await scene(LearnerService(learner, client.access()), learner)
        return learner

    return virtual.run(main())


async def begun(learner: FakeLearner, entry: str) -> None:
    async with asyncio.timeout(10):
        while entry not in learner.log:  # noqa: ASYNC110  (a fake has no event for each order)
            await asyncio.sleep(0.001)


def call(service: LearnerService, order: Order) -> asyncio.Task[Update | Declined]:
    return asyncio.create_task(service.train(order))
