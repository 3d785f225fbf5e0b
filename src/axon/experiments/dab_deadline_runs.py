"""The runs behind `dab-deadline`: four equal Nanos, timed without training and trained for real."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from itertools import product

import numpy as np

from axon.allocation.equal import Equal
from axon.data.datasets import Dataset
from axon.experiments.mnist import shard_samples
from axon.experiments.runs import Records, Repeats, repeated, seeds, simulate, untrained
from axon.experiments.settings import Settings
from axon.experiments.thesis import LOSSES, csa, dab
from axon.policies import Trainer
from axon.rounds.settings import Run, Scheme
from axon.seeds import stream
from axon.testbed.activity import Activity, heated
from axon.testbed.catalogue import fleet
from axon.values import Samples, TaskSpec

FLEET = "nanos"
CYCLES = 5
DEADLINES_S = (21.0, 24.0, 27.0, 30.0)
"""Of one cycle, as published: 105 to 150 s for all five."""
PUBLISHED_CSA_S = 172.0 / CYCLES
"""What a cycle of CSA took."""
FEW = 5000
"""With fewer samples, batches are of 8: a share would be a handful of them otherwise."""
PATIENCE = 30
"""So many deadlines of grace: nobody is ever cut off."""
DIGITS = 4
"""Of times and per cents; what is beyond is the rounding of the clock."""


@dataclass(frozen=True, slots=True)
class Way:
    """One of the schemes that are compared, and whether learners stop at the deadline.

    Whoever does not has a grace in which to end, which shows the allocation alone.
    """

    scheme: Scheme
    halts: bool


FREE = ("DAB, with grace", "CSA, with grace")
HALTED = ("DAB, halted", "CSA, halted")
"""Like is compared with like: both go on after the deadline, or neither."""
WAYS: Mapping[str, Way] = {
    name: Way(scheme, halts=names is HALTED)
    for names in (FREE, HALTED)
    for name, scheme in zip(names, (dab(1), csa()), strict=True)
}


@dataclass(frozen=True, slots=True)
class Nanos:
    """Four Nanos and a data set."""

    dataset: Dataset

    def run(self, way: Way, deadline_s: float, seed: int, *, net: str = "two-conv") -> Run:
        """A run that ends with a look at the test set."""
        dataset = self.dataset
        size = 32 if len(dataset.train) >= FEW else 8
        return Run(
            spec=TaskSpec(net=net, inputs=dataset.shape, classes=dataset.classes, batch_size=size),
            cycles=CYCLES,
            deadline_s=deadline_s,
            grace_s=0.0 if way.halts else PATIENCE * deadline_s,
            shard_samples=shard_samples(len(dataset.train)),
            seed=seed,
            evaluate_every=CYCLES,
        )

    def share_s(self) -> float:
        """How long a cycle takes in which everything is dealt out in equal shares."""
        once = Way(Scheme(allocate=Equal()), halts=False)
        return self.timed(once, DEADLINES_S[-1], seed=0)[-1].duration_s

    def timed(
        self,
        way: Way,
        deadline_s: float,
        seed: int,
        activity: Mapping[str, Activity] | None = None,
    ) -> Records:
        """A run that trains nothing, and is not looked at."""
        run = replace(self.run(way, deadline_s, seed), evaluate_every=0)
        return simulate(run, self.dataset, FLEET, way.scheme, trainer=untrained, activity=activity)


def blank() -> Dataset:
    """Data of MNIST's size and shape with nothing in it, for runs that train nothing."""
    samples = Samples(np.zeros((60_000, 1, 28, 28), np.uint8), np.zeros(60_000, np.uint8))
    return Dataset("blank", samples, samples.take(slice(1)), classes=10)


def relative(nanos: Nanos, published: Iterable[float]) -> dict[float, float]:
    """Deadlines that are to CSA's time on these devices as the published ones are to 34.4 s."""
    scale = nanos.share_s() / PUBLISHED_CSA_S
    return {each_s: each_s * scale for each_s in published}


def habits(seed: int) -> dict[str, Activity]:
    """What owners do with their Nanos meanwhile, as in chapter 4 of the thesis."""
    return {name: heated(stream(seed, "habits", name)) for name in fleet(FLEET)}


def timed(
    nanos: Nanos, deadlines: Mapping[float, float], repeats: int, settings: Settings, *, used: bool
) -> dict[tuple[float, str], Repeats]:
    """Every way at every deadline, by the published deadline; `used` by their owners, or idle."""
    found = {}
    for published_s, deadline_s in deadlines.items():
        for name, way in WAYS.items():

            def once(seed: int, way: Way = way, deadline_s: float = deadline_s) -> Records:
                return nanos.timed(way, deadline_s, seed, habits(seed) if used else None)

            label = f"time of {name} at {deadline_s:.3g} s{', in use' if used else ''}"
            found[published_s, name] = repeated(once, repeats, settings, label)
    return found


Results = dict[tuple[str, float, str], Repeats]
"""What was trained, by the loss, the published deadline and the scheme."""


def trained(
    nanos: Nanos,
    deadlines: Mapping[float, float],
    repeats: int,
    settings: Settings,
    trainer: Trainer | None,
) -> Results:
    """What comes of training with either loss."""
    runs: dict[tuple[str, float, str], list[Records]] = {}
    for place, (reading, suffix) in enumerate(LOSSES.items()):
        # The second reading is there to compare with, and half as many repeats show as much.
        times = (repeats + 1) // 2 if place else repeats
        for at, seed in enumerate(seeds(settings, times)):
            course = _Course(nanos, f"two-conv{suffix}", seed, trainer)
            for published_s, name in product(deadlines, WAYS):
                deadline_s = deadlines[published_s]
                label = f"training {name} at {deadline_s:.3g} s, {reading}"
                settings.progress(f"{label}, {at + 1} of {times}")
                records = course.trained(WAYS[name], deadline_s)
                runs.setdefault((reading, published_s, name), []).append(records)
    return {key: Repeats(tuple(each)) for key, each in runs.items()}


@dataclass(frozen=True, slots=True)
class _Course:
    """Training from one seed.

    What a learner trains on follows from seed, cycle, name and share. So runs that would be the
    same, as CSA's are at every deadline that it misses unhalted, are trained once.
    """

    nanos: Nanos
    net: str
    seed: int
    trainer: Trainer | None
    known: dict[object, Records] = field(default_factory=dict)

    def trained(self, way: Way, deadline_s: float) -> Records:
        nanos = self.nanos
        work = _work(nanos.timed(way, deadline_s, self.seed))
        if work not in self.known:
            run = nanos.run(way, deadline_s, self.seed, net=self.net)
            self.known[work] = simulate(run, nanos.dataset, FLEET, way.scheme, trainer=self.trainer)
        return self.known[work]


def _work(records: Records) -> object:
    """Who trained how much in which cycle."""
    return tuple(
        (device.device, device.status, device.shards, device.batches)
        for record in records
        for device in record.devices
    )


def total_s(records: Records) -> float:
    """The time of all cycles; the benchmark before them is not counted."""
    return round(sum(record.duration_s for record in records), DIGITS)


def truancy(records: Records) -> float:
    """By how many per cent of all deadlines together they were overrun; negative if not at all."""
    late = total_s(records) / sum(record.deadline_s for record in records) - 1.0
    return round(100.0 * late, DIGITS)


def worst(records: Records) -> float:
    """The same of the worst cycle."""
    return round(max(100.0 * record.truancy for record in records), DIGITS)


def shards(records: Records) -> float:
    """How many were trained in a cycle, on average."""
    trained = (device.shards for record in records for device in record.devices)
    return sum(trained) / len(records)


def done(records: Records, shard_samples: int) -> float:
    """How many per cent of its samples a share is trained on before it is halted, on average.

    A share is one pass over the shards that were dealt out, or that the learner asked for.
    """
    parts = [
        device.samples / ((device.planned_shards or device.shards) * shard_samples)
        for record in records
        for device in record.devices
        if device.planned_shards or device.shards
    ]
    return round(100.0 * sum(parts) / len(parts), DIGITS) if parts else 0.0
