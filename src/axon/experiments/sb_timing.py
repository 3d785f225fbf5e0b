"""Benchmarks and whole runs of the same devices, timed: what `sb-runtime` is made of.

Both go the way that they go in a round: a survey asks learners to benchmark themselves, and a cycle
with told shares makes them train, by orders that cross the world's links.
"""

from __future__ import annotations

import asyncio
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from statistics import fmean

import numpy as np

from axon.allocation.equal import Fixed
from axon.data.shards import Shards, draw_uniform
from axon.devices.flops import predict_s
from axon.devices.subset import Line, Method, fit, nested
from axon.errors import AxonError
from axon.experiments.mnist import CLASSES, PIXELS, SHARD_SAMPLES
from axon.experiments.runs import untrained
from axon.experiments.settings import Settings
from axon.learning.learner import Abilities
from axon.learning.nets import initial
from axon.learning.tasks import default_spec
from axon.rounds.cycle import Cycle, State
from axon.rounds.depot import Depot
from axon.rounds.fleet import Peer
from axon.rounds.settings import Run, Scheme, Survey
from axon.rounds.survey import Surveyor
from axon.seeds import stream
from axon.testbed.catalogue import Device
from axon.testbed.charged import JobPool
from axon.testbed.emulation import EmulatedFleet, Emulation, emulated
from axon.testbed.simulation import Simulated, SimulatedFleet, SimulatedLearner
from axon.values import Samples

METHODS: tuple[Method, ...] = ("affine", "ratio")
SPEC = default_spec("twonn", (PIXELS,), CLASSES)
ENOUGH_S = 600.0
"""A deadline that cuts nobody short."""

Lines = Mapping[tuple[int, Method], Line]
"""What was found by a benchmark of so many shards."""


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
    random = stream(seed, "images")
    one = random.integers(256, size=(SHARD_SAMPLES, PIXELS), dtype=np.uint8)
    labels = random.integers(CLASSES, size=SHARD_SAMPLES, dtype=np.uint8)
    # The same shard many times over: there is nothing to be learnt from them anyway.
    return Samples(np.tile(one, (shards, 1)), np.tile(labels, shards), 1 / 255)


def time_simulated(
    devices: Mapping[str, Device], shares: Mapping[str, int], sizes: Sequence[int], seed: int
) -> Fleetful:
    """The devices in virtual time, where nothing varies: once is as good as often.

    Nothing is trained either, since a batch is charged the same whatever comes of it.
    """
    lines: dict[str, dict[tuple[int, Method], Line]] = {name: {} for name in devices}
    actual_s: dict[str, float] = {}
    bench = Bench(shares, seed)
    for method in METHODS:
        world = Simulated(_simulated_fleet(devices, method, seed))
        found, actual_s = world.run(partial(_in_virtual_time, bench=bench, sizes=sizes))
        for (name, size), line in found.items():
            lines[name][size, method] = line
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
    pool, learners = JobPool(untrained), {}
    for name, device in sorted(devices.items()):
        abilities = Abilities(method=method, memory_bytes=device.memory_bytes)
        learners[name] = SimulatedLearner(name, device, pool, abilities, None)
    return SimulatedFleet(learners, seed)


async def _in_virtual_time(
    fleet: SimulatedFleet, bench: Bench, sizes: Sequence[int]
) -> tuple[dict[tuple[str, int], Line], dict[str, float]]:
    lines = {}
    async with fleet.hosting(bench.depot):
        peers = await fleet.muster(1)
        for size in sizes:
            await bench.survey(peers, size)
            for name, peer in peers.items():
                known = peer.learner.pace_of(SPEC).training
                lines[name, size] = Line(known.fixed_s, 1.0 / known.rates[-1], None)
        return lines, await bench.actual_s(peers)


@dataclass(frozen=True, slots=True, kw_only=True)
class Effort:
    """How much is timed for real."""

    sizes: Sequence[int]
    """Shards of the benchmarks."""
    repeats: int
    products: int
    """Of matrices, to measure FLOPS."""


def time_emulated(
    groups: Sequence[Mapping[str, Device]],
    shares: Mapping[str, int],
    effort: Effort,
    settings: Settings,
) -> list[Fleetful]:
    """The devices as processes of this machine, repeat by repeat.

    Those of a group are timed at once, as they rest most of the time; the groups one by one.
    """
    bench = Bench(shares, settings.seed)
    devices = {name: device for group in groups for name, device in group.items()}

    async def main(fleet: EmulatedFleet) -> list[Fleetful]:
        repeats: list[Fleetful] = []
        async with fleet.hosting(bench.depot):
            for repeat in range(effort.repeats):
                settings.progress(f"emulated, repeat {repeat + 1} of {effort.repeats}")
                timed: dict[str, Timed] = {}
                for group in groups:
                    timed |= await _for_real(
                        fleet, bench, {name: shares[name] for name in group}, effort
                    )
                repeats.append(timed)
        return repeats

    # Training does not wait for a link, so none is put in its way.
    world = emulated(
        devices, seed=settings.seed, emulation=Emulation(links="none", laboratory=True)
    )
    return world.run(main)


async def _for_real(
    fleet: EmulatedFleet, bench: Bench, shares: Mapping[str, int], effort: Effort
) -> dict[str, Timed]:
    """One group, once."""
    everybody = await fleet.muster(1)
    peers = {name: everybody[name] for name in shares}
    laboratories = [await fleet.laboratory(name) for name in shares]
    flops = await asyncio.gather(*(each.flops(effort.products) for each in laboratories))
    lines: dict[str, dict[tuple[int, Method], Line]] = {name: {} for name in shares}
    for size in effort.sizes:
        await bench.survey(peers, size)
        for name, laboratory in zip(shares, laboratories, strict=True):
            points = (await laboratory.points())[-len(nested(size)) :]
            lines[name] |= {(size, method): fit(points, method) for method in METHODS}
    actual_s = await bench.actual_s(peers)
    return {
        name: Timed(lines=lines[name], shards=count, actual_s=actual_s[name], flops=measured)
        for (name, count), measured in zip(shares.items(), flops, strict=True)
    }
