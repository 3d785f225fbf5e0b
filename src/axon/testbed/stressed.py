"""A learner whose owner uses the device too: the stressors of the activity states, for real."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Awaitable, Callable
from typing import Any, TypeVar

from numpy.typing import NDArray

from axon.learning.compute import Brake, ThreadCompute
from axon.learning.evaluation import flops_per_sample
from axon.learning.learner import Abilities, Answer, Learner, Report, Source
from axon.learning.loop import LoopTrainer
from axon.seeds import stream
from axon.testbed.activity import Activity, State, download_stressor, draw, training_stressor
from axon.testbed.catalogue import Device
from axon.testbed.throttle import DutyCycle
from axon.values import Job, Order, Samples, Vector

T = TypeVar("T")
Fetch = Callable[[], Awaitable[NDArray[Any]]]


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
        self._learner = Learner(name, ThreadCompute(LoopTrainer(), brake=self._brake), abilities)

    async def train(self, order: Order, source: Source, report: Report | None = None) -> Answer:
        """Do an order in whatever state the owner has put the device."""
        if self._activity is not None:
            random = stream(order.seed, "activity", order.cycle, self.name)
            self._state = draw(self._activity, random)
        if self._state == "downloading" and self._fetch is not None:
            source = StressedSource(source, self._fetch)
        return await self._learner.train(order, source, report)

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
