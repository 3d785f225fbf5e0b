"""Subset benchmarking: how quick this device is at a task, by doing a small part of it.

D. J. Mays, "Data Allocation and Benchmarking in Parallelized Mobile Edge Learning", MSc thesis,
Queen's University, 2023, section 3.4.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass, replace

from axon.allocation.dab import shard_bound
from axon.data.shards import Shards, draw_uniform
from axon.errors import ConfigurationError
from axon.learning.loop import LoopTrainer
from axon.learning.nets import initial
from axon.seeds import stream
from axon.values import Capability, Job, Samples, TaskCost, TaskSpec, check_whole

SEED = 0
"""Of the dummy and of the shards it is trained on: two devices do the same work."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Benchmark:
    """What a device did with some shards of a task."""

    shards: int
    shard_samples: int
    samples_per_s: float
    model_bytes: int
    shard_bytes: int

    @property
    def shards_per_s(self) -> float:
        """For one pass."""
        return self.samples_per_s / self.shard_samples

    @property
    def shard_s(self) -> float:
        """How long one takes."""
        return self.shard_samples / self.samples_per_s

    def shards_within(self, deadline_s: float, bytes_per_s: float) -> int:
        """How many shards it can fetch, train and answer for by a deadline, over such a link."""
        capability = Capability(shards_per_s=self.shards_per_s, bytes_per_s=bytes_per_s)
        cost = TaskCost(model_bytes=self.model_bytes, shard_bytes=self.shard_bytes)
        return shard_bound(capability, cost, deadline_s)


def benchmark(
    spec: TaskSpec,
    samples: Samples,
    *,
    shard_samples: int,
    shards: int = 8,
    clock: Callable[[], float] = time.perf_counter,
) -> Benchmark:
    """Train a dummy, of the task's architecture with parameters of its own, on some shards.

    The first batch is trained before the clock is read: it pays for all that happens once.
    """
    check_whole("shards", shards, least=1)
    stock = Shards(samples, shard_samples, seed=SEED)
    if shards > len(stock):
        raise ConfigurationError(
            f"{shards} shards were asked for, there are {len(stock)} of {shard_samples} samples",
            hint="ask for fewer, or cut them smaller",
        )
    numbers = draw_uniform(len(stock), shards, stream(SEED, "benchmark"))
    start = initial(spec, SEED)
    job = Job(spec=spec, start=start, samples=stock.take(numbers), stream=(SEED, "benchmark"))
    train = LoopTrainer()
    train([replace(job, limit=1)])
    began_s = clock()
    (trained,) = train([job])
    elapsed_s = clock() - began_s
    if not elapsed_s > 0:
        raise ConfigurationError(
            f"the clock moved by {elapsed_s} s over {shards} shards",
            hint="more shards, or a finer clock",
        )
    return Benchmark(
        shards=shards,
        shard_samples=shard_samples,
        samples_per_s=trained.samples / elapsed_s,
        model_bytes=start.nbytes,
        shard_bytes=stock.shard_bytes,
    )
