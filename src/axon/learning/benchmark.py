"""Subset benchmarking: how quick this device is at a task, by doing a small part of it.

D. J. Mays, "Data Allocation and Benchmarking in Parallelized Mobile Edge Learning", MSc thesis,
Queen's University, 2023, section 3.2. What is trained is a dummy of the task's architecture with
parameters of its own, and what it learns is thrown away.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Generator, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, TypeAlias

import numpy as np

# Names of the package itself are loaded when first used: behind them stands torch.
from axon import learning
from axon.allocation.dab import shard_bound
from axon.allocation.margin import MARGIN
from axon.data.shards import Shards, draw_uniform
from axon.devices.subset import Line, Method, Point, fit, nested
from axon.errors import ConfigurationError
from axon.learning.downloads import Downloads, now_s
from axon.learning.room import TRIAL_BATCHES, Room, Unable
from axon.policies import Compute
from axon.seeds import derive, stream
from axon.values import (
    Capability,
    Job,
    Order,
    Samples,
    TaskCost,
    TaskSpec,
    Trained,
    check_whole,
)

if TYPE_CHECKING:
    from axon.learning.learner import Abilities, Source

SEED = 0
"""Of the dummy and of the shards that it is trained on here: two devices do the same work."""

TRIAL_PART = 0.05
"""What a trial may take of a deadline."""

Timed: TypeAlias = tuple[Trained, float]


def course(whole: Job, sizes: Sequence[int]) -> Generator[Job, Timed, list[Point]]:
    """The jobs of a benchmark, one after the other; each is sent back with what it took.

    First one batch, which pays for all that happens once and counts only if nothing else does, then
    so many of the samples each time, as long as there is time: a job that was cut short is the
    last, and counts only if no whole one does. What is returned are the samples and the seconds
    of each.
    """
    trained, took_s = yield replace(whole, limit=1)
    first = (trained, took_s)
    points: list[Point] = []
    for size in sizes:
        job = replace(whole, samples=whole.samples.take(slice(size)))
        trained, took_s = yield job
        whole_job = trained.batches == job.batches
        # One that was cut short may be no more than a few samples longer than the one before it,
        # and a line through two such points has any slope.
        if trained.batches and (whole_job or not points):
            points.append((float(trained.samples), took_s))
        if not whole_job:
            break
    if not points and first[0].batches:
        points.append((float(first[0].samples), first[1]))
    return points


@dataclass(frozen=True, slots=True, kw_only=True)
class Benchmark:
    """What a device did with some shards of a task."""

    shards: int
    shard_samples: int
    training: Line
    """Seconds of samples."""
    model_bytes: int
    shard_bytes: int
    points: tuple[Point, ...] = ()
    """What the line was drawn through."""

    @property
    def samples_per_s(self) -> float:
        """For one pass, beside what is paid once."""
        return self.training.rate

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
        left_s = deadline_s - self.training.fixed_s
        if left_s <= 0.0:
            return 0
        capability = Capability(shards_per_s=self.shards_per_s, bytes_per_s=bytes_per_s)
        cost = TaskCost(model_bytes=self.model_bytes, shard_bytes=self.shard_bytes)
        return shard_bound(capability, cost, left_s)


def benchmark(
    spec: TaskSpec,
    samples: Samples,
    *,
    shard_samples: int,
    shards: int = 8,
    method: Method = "affine",
    clock: Callable[[], float] = time.perf_counter,
) -> Benchmark:
    """Train a dummy on some shards, here and now, and draw the line through what they took."""
    check_whole("shards", shards, least=1)
    stock = Shards(samples, shard_samples, seed=SEED)
    if shards > len(stock):
        raise ConfigurationError(
            f"{shards} shards were asked for, there are {len(stock)} of {shard_samples} samples",
            hint="ask for fewer, or cut them smaller",
        )
    drawn = stock.take(draw_uniform(len(stock), shards, stream(SEED, "benchmark")))
    start = learning.initial(spec, SEED)
    job = Job(spec=spec, start=start, samples=drawn, stream=(SEED, "benchmark"))
    points = _run(course(job, [count * shard_samples for count in nested(shards)]), clock)
    elapsed_s = sum(took_s for _, took_s in points)
    if not elapsed_s > 0:
        raise ConfigurationError(
            f"the clock moved by {elapsed_s:g} s over {shards} shards",
            hint="more shards, or a finer clock",
        )
    return Benchmark(
        shards=shards,
        shard_samples=shard_samples,
        points=tuple(points),
        training=fit(points, method),
        model_bytes=start.nbytes,
        shard_bytes=stock.shard_bytes,
    )


def _run(jobs: Generator[Job, Timed, list[Point]], clock: Callable[[], float]) -> list[Point]:
    train, job = learning.LoopTrainer(), next(jobs)
    while True:
        began_s = clock()
        (trained,) = train([job])
        try:
            job = jobs.send((trained, clock() - began_s))
        except StopIteration as end:
            points: list[Point] = end.value
            return points


@dataclass(frozen=True, slots=True)
class Found:
    """What a learner found out about itself; its own business."""

    training: Line
    """Seconds of samples."""
    link: Line
    """Seconds of bytes, for one request."""

    def capability(self, shard_samples: int) -> Capability:
        """The same as it is told to those who may know."""
        return Capability(
            shards_per_s=self.training.rate / shard_samples, bytes_per_s=self.link.rate
        )


async def measure(order: Order, source: Source, compute: Compute, own: Abilities) -> Found:
    """Benchmark a learner on the shards of an order, in the order's time.

    Raises `Unable` where it cannot be done, or not in time.
    """
    room = Room(order, own.memory_bytes)
    room.check()
    wanted = order.share.shards
    if not wanted:
        raise Unable("a benchmark needs a number of shards")
    if own.data is None and wanted > order.shards:
        raise Unable(f"{wanted} shards were asked for, there are {order.shards}")
    # Before anything is fetched: the net may not be known here.
    start = learning.initial(order.spec, derive(order.seed, "benchmark", order.device))
    ends_s = now_s() + (order.deadline_s + order.grace_s) * (1.0 - MARGIN)
    samples, link = await Downloads(order, source, ends_s).fetch(min(wanted, room.shards), own.data)
    held = max(1, len(samples) // order.shard_samples)
    sizes = [count * order.shard_samples for count in nested(held)]
    stream_of = (order.seed, "benchmark", "batches")
    job = Job(spec=order.spec, start=start, samples=samples, stream=stream_of)
    points = await _timed(course(job, sizes), compute, ends_s, first_s=ends_s)
    if not points:
        raise Unable(f"no batch could be trained within {order.deadline_s:g} s")
    return Found(fit(points, own.method), fit(link, own.method))


async def trial(order: Order, compute: Compute, ends_s: float) -> Point:
    """The samples and seconds of a few batches of made-up data, in a small part of a cycle."""
    spec = order.spec
    count = spec.batch_size * TRIAL_BATCHES
    random = stream(order.seed, "trial", order.device)
    samples = Samples(
        random.standard_normal((count, *spec.inputs), dtype=np.float32),
        random.integers(spec.classes, size=count),
    )
    until_s = now_s() + order.deadline_s * TRIAL_PART
    start = learning.initial(spec, derive(order.seed, "trial", order.device))
    job = Job(spec=spec, start=start, samples=samples)
    points = await _timed(course(job, [count]), compute, until_s, first_s=ends_s)
    if not points:
        raise Unable(f"no batch could be trained within {order.deadline_s:g} s")
    return points[0]


async def _timed(
    jobs: Generator[Job, Timed, list[Point]], compute: Compute, until_s: float, *, first_s: float
) -> list[Point]:
    """The points of a course whose first job may go on until `first_s`."""
    job, halt_s = next(jobs), first_s
    while True:
        began_s = now_s()
        trained = await compute.train(job, until_s=halt_s)
        try:
            job, halt_s = jobs.send((trained, now_s() - began_s)), until_s
        except StopIteration as end:
            points: list[Point] = end.value
            return points
