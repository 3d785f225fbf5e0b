"""A learner whose owner uses the device too: the stressors of the activity states, for real."""

from __future__ import annotations

import asyncio
import time
from collections import deque
from collections.abc import Awaitable, Callable, Sequence
from typing import Any, TypeVar

from numpy.typing import NDArray

from axon.devices.flops import PRODUCT_FLOPS, measure_flops
from axon.devices.states import StateEstimate
from axon.devices.subset import Point
from axon.learning.compute import Brake, ThreadCompute
from axon.learning.evaluation import flops_per_sample
from axon.learning.learner import Abilities, Answer, Learner, Report, Source
from axon.learning.loop import LoopTrainer
from axon.policies import Compute
from axon.seeds import stream
from axon.testbed.activity import Activity, State, download_stressor, draw, training_stressor
from axon.testbed.catalogue import Device
from axon.testbed.throttle import DutyCycle
from axon.values import Capability, Declined, Job, Order, Samples, Trained, Vector

T = TypeVar("T")
Fetch = Callable[[], Awaitable[NDArray[Any]]]

REMEMBERED_JOBS = 16
"""A benchmark makes four at most."""


class EmulatedLearner:
    """A learner on a machine that is made to look like another device.

    Batches last what they would there, and the owner's activity, drawn anew for every order, takes
    its part of the processor and of the link.
    """

    def __init__(
        self,
        name: str,
        device: Device,
        abilities: Abilities,
        *,
        paced: bool = True,
        activity: Activity | None = None,
        fetch: Fetch | None = None,
    ) -> None:
        self.name = name
        self._device = device
        self._paced = paced
        self._activity = activity
        self._fetch = fetch
        self._state: State = "idle"
        self.stopwatch = Stopwatch(ThreadCompute(LoopTrainer(), brake=self._brake))
        self._learner = Learner(name, self.stopwatch, abilities)

    async def train(self, order: Order, source: Source, report: Report | None = None) -> Answer:
        """Do an order in whatever state the owner has put the device."""
        return await self._learner.train(order, self._beside_owner(order, source), report)

    async def benchmark(
        self, order: Order, source: Source, disclose: bool
    ) -> Capability | Declined | None:
        """Benchmark the device as its owner lets it be; see `Learner.benchmark`."""
        return await self._learner.benchmark(order, self._beside_owner(order, source), disclose)

    def states(self, kinds: Sequence[str]) -> tuple[StateEstimate, ...] | Declined:
        """See `Learner.states`."""
        return self._learner.states(kinds)

    def flops(self, repeats: int) -> float:
        """The FLOPS baseline, with every product as long as an idle device would take over it."""
        if not self._paced:
            return measure_flops(repeats)
        duty, each_s, began_s = (
            DutyCycle(self._device),
            PRODUCT_FLOPS / self._device.flops_per_s,
            0.0,
        )

        def after_product() -> None:
            nonlocal began_s
            if began_s:
                duty.pace(each_s, began_s=began_s)
            began_s = time.monotonic()

        return measure_flops(repeats, brake=after_product)

    def _beside_owner(self, order: Order, source: Source) -> Source:
        """Draw what the owner does meanwhile, and give the source that is left."""
        if self._activity is not None:
            random = stream(order.seed, "activity", order.cycle, self.name)
            self._state = draw(self._activity, random)
        if self._state == "downloading" and self._fetch is not None:
            return StressedSource(source, self._fetch)
        return source

    def _brake(self, job: Job) -> Brake:
        duty = DutyCycle(self._device, state=self._state)
        stress = training_stressor(self._state, stream(0, "stress", self.name))
        each = flops_per_sample(job.spec)
        per_pass = job.spec.batches(len(job.samples))
        last = len(job.samples) - (per_pass - 1) * job.spec.batch_size
        began_s = time.monotonic()

        def after_batch(done: int) -> None:
            nonlocal began_s
            stress()
            if self._paced:
                size = last if done % per_pass == 0 else job.spec.batch_size
                duty.pace(duty.target_s(each, size), began_s=began_s)
            else:
                # A quota slows what is computed; what a batch costs besides is rested.
                time.sleep(self._device.batch_overhead_s)
            began_s = time.monotonic()

        return after_batch


class Stopwatch:
    """A compute that remembers what each of its last jobs took, for experiments."""

    def __init__(self, compute: Compute) -> None:
        self._compute = compute
        self.points: deque[Point] = deque(maxlen=REMEMBERED_JOBS)
        """Samples and seconds, the newest last."""

    async def train(self, job: Job, *, until_s: float, report: Report | None = None) -> Trained:
        now_s = asyncio.get_running_loop().time
        began_s = now_s()
        trained = await self._compute.train(job, until_s=until_s, report=report)
        self.points.append((float(trained.samples), now_s() - began_s))
        return trained


class StressedSource:
    """A source whose link is shared with the owner's download."""

    def __init__(self, source: Source, fetch: Fetch) -> None:
        self._source = source
        self._fetch = fetch

    async def model(self, run: str, cycle: int) -> Vector:
        return await self._beside(self._source.model(run, cycle))

    async def shards(self, run: str, cycle: int, ticket: str, count: int) -> Samples:
        return await self._beside(self._source.shards(run, cycle, ticket, count))

    async def _beside(self, download: Awaitable[T]) -> T:
        wanted, _ = await asyncio.gather(download, download_stressor("downloading", self._fetch))
        return wanted
