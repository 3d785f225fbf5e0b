"""Orders for a learner in virtual time, a link and a processor to do them on."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np

from axon.learning.learner import Learner
from axon.testbed.virtual import run
from axon.values import (
    Capability,
    Declined,
    Job,
    Order,
    Samples,
    Share,
    TaskCost,
    TaskSpec,
    Trained,
    Update,
    Vector,
)

SPEC = TaskSpec(net="twonn", inputs=(4,), classes=3, batch_size=10)
MODEL = np.ones(1000, np.float32)
"""4000 bytes; the computes here do not look at it."""
SHARD_SAMPLES = 20
SHARD_BYTES = SHARD_SAMPLES * (4 * 4 + 8)
SHARDS = 50


def samples_of(count: int) -> Samples:
    return Samples(np.arange(count * 4, dtype=np.float32).reshape(count, 4), np.arange(count) % 3)


@dataclass
class SteadyCompute:
    """Takes the same time over every batch, and really trains nothing."""

    batch_s: float
    jobs: list[Job] = field(default_factory=list)
    start_s: float = 0.0
    """What every job costs before its first batch."""

    async def train(
        self, job: Job, *, until_s: float, report: Callable[[int, int], None] | None = None
    ) -> Trained:
        self.jobs.append(job)
        await asyncio.sleep(self.start_s)
        left_s = until_s - asyncio.get_running_loop().time()
        # A hair is forgiven, as a sum of floats may pass an exact fit by a rounding.
        done = max(0, min(job.batches, int((left_s + 1e-9) / self.batch_s)))
        await asyncio.sleep(done * self.batch_s)
        seen = min(done * job.spec.batch_size, len(job.samples) * job.passes)
        return Trained(parameters=job.start + 0.5, batches=done, samples=seen, loss=0.25)


@dataclass
class SlowSource:
    """A link that carries so many bytes a second down."""

    bytes_per_s: float
    asked: list[int] = field(default_factory=list)
    latency_s: float = 0.0
    """Of every request."""
    opening_s: float = 0.0
    """Of the first one."""

    async def model(self, run: str, cycle: int) -> Vector:
        opening_s, self.opening_s = self.opening_s, 0.0
        await asyncio.sleep(opening_s + self.latency_s + MODEL.nbytes / self.bytes_per_s)
        return MODEL

    async def shards(self, run: str, cycle: int, device: str, count: int) -> Samples:
        self.asked.append(count)
        drawn = samples_of(count * SHARD_SAMPLES)
        await asyncio.sleep(self.latency_s + drawn.nbytes / self.bytes_per_s)
        return drawn


def order_of(shards: int | None, **changes: Any) -> Order:
    made = Order(
        run="run",
        cycle=1,
        device="pi",
        spec=SPEC,
        share=Share(shards=shards, passes=changes.pop("passes", 1)),
        cost=TaskCost(model_bytes=MODEL.nbytes, shard_bytes=SHARD_BYTES),
        shard_samples=SHARD_SAMPLES,
        shards=SHARDS,
        deadline_s=2.0,
        seed=7,
    )
    return replace(made, **changes)


def do(
    order: Order, learner: Learner, source: SlowSource | None = None
) -> tuple[Update | Declined, float]:
    """The answer, and when it was handed back."""

    async def main() -> tuple[Update | Declined, float]:
        answer = await learner.train(order, source or SlowSource(1e6))
        return answer, asyncio.get_running_loop().time()

    return run(main())


def ask(
    order: Order, learner: Learner, source: SlowSource | None = None, *, disclose: bool = False
) -> tuple[Capability | Declined | None, float]:
    """What a learner answers that is asked to benchmark itself, and when."""

    async def main() -> tuple[Capability | Declined | None, float]:
        answer = await learner.benchmark(order, source or SlowSource(1e6), disclose)
        return answer, asyncio.get_running_loop().time()

    return run(main())


def update_of(answer: Update | Declined) -> Update:
    assert isinstance(answer, Update), answer
    return answer


def reason_of(answer: object) -> str:
    assert isinstance(answer, Declined), answer
    return answer.reason


@dataclass
class Noting:
    """Takes a fixed number of shards, and notes by what it could have decided."""

    wanted: int = 3
    heard: list[tuple[Capability, float]] = field(default_factory=list)

    def __call__(self, capability: Capability, cost: TaskCost, deadline_s: float) -> int:
        self.heard.append((capability, deadline_s))
        return self.wanted
