"""Runs in the simulated world, once or many times: what the experiments that train have in common.

A repeat is a run from another seed, and schemes that are compared share the seeds: they begin from
the same model and the same shards, so that what differs is the scheme.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from contextlib import aclosing
from dataclasses import dataclass
from math import nan

from axon.data.datasets import Dataset
from axon.experiments.settings import Settings
from axon.intervals import Interval, mean_interval
from axon.learning.loop import LoopTrainer, best_accelerator
from axon.policies import Trainer
from axon.rounds.fleet import Fleet
from axon.rounds.orchestrator import Orchestrator
from axon.rounds.settings import Run, Scheme
from axon.seeds import derive, stream
from axon.testbed.activity import Activity
from axon.testbed.catalogue import Device
from axon.testbed.simulation import simulated
from axon.values import Job, RoundRecord, Samples, Trained

Records = tuple[RoundRecord, ...]
Measure = Callable[[RoundRecord], float | None]
"""What is read from a cycle; None where it was not measured."""


def simulate(
    run: Run,
    dataset: Dataset,
    devices: str | Mapping[str, Device],
    scheme: Scheme,
    *,
    trainer: Trainer | None = None,
    activity: Mapping[str, Activity] | None = None,
    until: Callable[[RoundRecord], bool] | None = None,
) -> Records:
    """One run, to its end or until a cycle is enough; its seed is the world's as well."""

    async def main(fleet: Fleet) -> list[RoundRecord]:
        records: list[RoundRecord] = []
        async with aclosing(Orchestrator(run, dataset, fleet, scheme).cycles()) as cycles:
            async for record in cycles:
                records.append(record)
                if until is not None and until(record):
                    break
        return records

    world = simulated(devices, seed=run.seed, trainer=trainer, activity=activity)
    return tuple(world.run(main))


@dataclass(frozen=True, slots=True)
class Repeats:
    """The same run from several seeds."""

    runs: tuple[Records, ...]

    def curve(self, measure: Measure) -> tuple[Interval, ...]:
        """Cycle by cycle, the mean over the repeats; of the cycles that every repeat measured."""
        found = [
            [measure(record) for record in records] for records in zip(*self.runs, strict=True)
        ]
        return tuple(mean_interval(_known(values)) for values in found if None not in values)

    def last(self, measure: Measure) -> Interval:
        """After the last cycle."""
        return self.curve(measure)[-1]


def repeated(
    once: Callable[[int], Sequence[RoundRecord]], repeats: int, settings: Settings, label: str
) -> Repeats:
    """Call it with the seeds of so many repeats, and tell who listens which one is under way."""
    runs = []
    for at, seed in enumerate(seeds(settings, repeats)):
        settings.progress(f"{label}, {at + 1} of {repeats}")
        runs.append(tuple(once(seed)))
    return Repeats(tuple(runs))


def seeds(settings: Settings, repeats: int) -> list[int]:
    """The seeds of the repeats: more of them leave the first as they are."""
    return [derive(settings.seed, "repeat", at) for at in range(repeats)]


def accuracy(record: RoundRecord) -> float | None:
    """In per cent."""
    return None if record.accuracy is None else 100.0 * record.accuracy


def loss(record: RoundRecord) -> float | None:
    """On the test set."""
    return record.loss


def part_of(dataset: Dataset, train: int, test: int | None = None) -> Dataset:
    """A data set cut down at random to so many samples, or to as many as it has."""
    return Dataset(
        dataset.name,
        _some(dataset.train, train, "train"),
        dataset.test if test is None else _some(dataset.test, test, "test"),
        dataset.classes,
    )


def accelerated() -> tuple[Trainer | None, str]:
    """What trains fastest on this machine, and where; None for what the world has anyway."""
    accelerator = best_accelerator()
    return (None if accelerator == "cpu" else LoopTrainer(accelerator)), accelerator


def untrained(jobs: Sequence[Job]) -> list[Trained]:
    """A `Trainer` that trains nothing and says that it did, for runs of which only time counts.

    What training takes is charged in the simulated world whatever the trainer does.
    """
    return [
        Trained(parameters=job.start, batches=job.batches, samples=_samples(job), loss=nan)
        for job in jobs
    ]


def _samples(job: Job) -> int:
    """How many its batches hold; only the last of a pass may be a small one."""
    size, count = job.spec.batch_size, len(job.samples)
    passes, more = divmod(job.batches, max(1, job.spec.batches(count)))
    return passes * count + min(more * size, count)


def _some(samples: Samples, count: int, name: str) -> Samples:
    if count >= len(samples):
        return samples
    return samples.take(stream(0, "part", name).permutation(len(samples))[:count])


def _known(values: Sequence[float | None]) -> list[float]:
    return [value for value in values if value is not None]
