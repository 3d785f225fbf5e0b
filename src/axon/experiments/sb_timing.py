"""Benchmarks and whole runs of the same devices, timed: what `sb-runtime` is made of.

Both go the way that they go in a round: a survey asks learners to benchmark themselves, and a cycle
with told shares makes them train, by orders that cross the world's links.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass
from statistics import fmean

from axon.allocation.equal import Fixed
from axon.data.shards import Shards, draw_uniform
from axon.devices.flops import predict_s
from axon.devices.subset import Line, Method, fit, nested
from axon.errors import AxonError
from axon.experiments.settings import Progress
from axon.learning.batched import BatchedTrainer
from axon.learning.learner import Abilities
from axon.learning.nets import initial
from axon.learning.tasks import default_spec
from axon.rounds.cycle import Cycle, State
from axon.rounds.depot import Depot
from axon.rounds.fleet import Fleet, Peer
from axon.rounds.settings import Run, Scheme, Survey
from axon.rounds.survey import Surveyor
from axon.seeds import stream
from axon.testbed.catalogue import Device
from axon.testbed.charged import JobPool
from axon.testbed.emulation import EmulatedFleet, Emulation, emulated
from axon.testbed.simulation import Simulated, SimulatedFleet, SimulatedLearner
from axon.values import Samples

METHODS: tuple[Method, ...] = ("affine", "ratio")
PIXELS, CLASSES = 784, 10
SHARD_SAMPLES = 500
SPEC = default_spec("twonn", (PIXELS,), CLASSES)
ENOUGH_S = 600.0
"""A deadline that cuts nobody short."""

Lines = Mapping[tuple[int, Method], Line]
"""What was found by a benchmark of so many shards."""
Benchmarked = Callable[[int], Awaitable[dict[str, dict[Method, Line]]]]
"""Benchmarks every device on so many shards."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Timed:
    """One device, once: what it was predicted to take, and what it took."""

    lines: Lines
    shards: int
    """Of the whole run."""
    actual_s: float
    flops: float

    def error(self, size: int, method: Method) -> float:
        """By how many per cent a benchmark of so many shards was off."""
        return self._off(self.lines[size, method].predict(self.shards * SHARD_SAMPLES).value)

    def flops_error(self, references: Sequence[Timed]) -> float:
        """By how many per cent FLOPS are off, on average over the devices it is reckoned from."""
        return fmean(
            # The reference trained as many shards as this one, had it been asked to.
            self._off(predict_s(each.actual_s * self.shards / each.shards, each.flops, self.flops))
            for each in references
        )

    def _off(self, predicted_s: float) -> float:
        return 100.0 * abs(predicted_s - self.actual_s) / self.actual_s


Fleetful = Mapping[str, Timed]
"""Every device of a fleet, in one repeat."""


class Bench:
    """A fleet at which benchmarks and whole runs are timed."""

    def __init__(self, shares: Mapping[str, int], seed: int) -> None:
        self._scheme = Scheme(allocate=Fixed(shares))
        self._run = Run(
            spec=SPEC, cycles=1, deadline_s=ENOUGH_S, shard_samples=SHARD_SAMPLES, seed=seed
        )
        self._model = initial(SPEC, seed)
        stock = Shards(images(max(shares.values()), seed), SHARD_SAMPLES, seed=seed)
        self.depot = Depot(self._run.name, stock, draw_uniform, seed)

    async def survey(self, peers: Mapping[str, Peer], size: int) -> None:
        """Let them all benchmark themselves at once; raises where one does not."""
        surveyor = Surveyor(self._run, Survey(shards=size, disclosed=True), self.depot)
        for name, found in (await surveyor.ask(peers, self._model, {}, 1)).items():
            if found.capability is None:
                raise AxonError(f"{name} did not benchmark itself: {found.reason}")

    async def actual_s(self, peers: Mapping[str, Peer]) -> dict[str, float]:
        """How long each trains on its whole share, by its own clock."""
        state = State(0, self._model, {}, {})
        harvest = await Cycle(self._run, self._scheme, self.depot, state).run(peers)
        took_s = {}
        for each in harvest.devices:
            if each.timings is None or each.halted:
                raise AxonError(f"{each.device} did not train its share: {each.reason}")
            took_s[each.device] = each.timings.train_s
        return took_s


def images(shards: int, seed: int) -> Samples:
    """Made-up images of MNIST's shape; how long training takes does not depend on what they show.

    Pixels are bytes, as MNIST's are.
    """
    count, random = shards * SHARD_SAMPLES, stream(seed, "images")
    pixels = random.integers(256, size=(count, PIXELS), dtype="uint8")
    return Samples(pixels, random.integers(CLASSES, size=count, dtype="uint8"), 1 / 255)


def time_simulated(
    devices: Mapping[str, Device], shares: Mapping[str, int], sizes: Sequence[int], seed: int
) -> Fleetful:
    """The devices in virtual time, where nothing varies: once is as good as often."""
    lines: dict[str, dict[tuple[int, Method], Line]] = {name: {} for name in devices}
    actual_s: dict[str, float] = {}
    for method in METHODS:
        fleet = _simulated_fleet(devices, method, seed)
        bench = Bench(shares, seed)

        async def main(
            fleet: SimulatedFleet, bench: Bench = bench, method: Method = method
        ) -> dict[str, float]:
            async with fleet.hosting(bench.depot):
                peers = await fleet.muster(1)
                for size in sizes:
                    await bench.survey(peers, size)
                    for name, peer in peers.items():
                        known = peer.learner.pace_of(SPEC).training
                        lines[name][size, method] = Line(known.fixed_s, 1.0 / known.rates[-1], None)
                return await bench.actual_s(peers)

        actual_s = Simulated(fleet).run(main)
    return {
        name: Timed(
            lines=lines[name],
            shards=shares[name],
            actual_s=actual_s[name],
            flops=device.flops_per_s,
        )
        for name, device in devices.items()
    }


def _simulated_fleet(devices: Mapping[str, Device], method: Method, seed: int) -> SimulatedFleet:
    pool = JobPool(BatchedTrainer())
    return SimulatedFleet(
        {
            name: SimulatedLearner(
                name,
                device,
                pool,
                Abilities(method=method, memory_bytes=device.memory_bytes),
                None,
            )
            for name, device in sorted(devices.items())
        },
        seed,
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class Effort:
    """How much is timed for real."""

    sizes: Sequence[int]
    repeats: int
    products: int
    """Of matrices, to measure FLOPS."""


def time_emulated(
    devices: Mapping[str, Device],
    shares: Mapping[str, int],
    effort: Effort,
    seed: int,
    progress: Progress,
) -> list[Fleetful]:
    """The devices as processes of this machine, repeat by repeat.

    The first device of the mapping that is called "this machine" is timed alone, as it takes all of
    the processor; the others at once, as they rest most of the time.
    """
    world = emulated(devices, seed=seed, emulation=Emulation(links="none"))
    bench = Bench(shares, seed)

    async def main(fleet: EmulatedFleet) -> list[Fleetful]:
        found = []
        async with fleet.hosting(bench.depot):
            for repeat in range(effort.repeats):
                progress(f"emulated, repeat {repeat + 1} of {effort.repeats}")
                found.append(await _repeat(fleet, bench, shares, effort))
        return found

    return world.run(main)
