"""Dynamic learners on the thesis's devices, whose owners use them too, in the simulated world."""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache

import numpy as np
import pytest

from axon.allocation.equal import Open
from axon.data.datasets import Dataset
from axon.learning.tasks import default_spec
from axon.rounds.orchestrator import Orchestrator
from axon.rounds.settings import Run, Scheme, Survey
from axon.seeds import stream
from axon.testbed.activity import heated
from axon.testbed.catalogue import fleet
from axon.testbed.simulation import simulated
from axon.values import DeviceRecord, Job, Samples, TaskSpec, Trained

CYCLES = 60
SLOWEST = "pi-1"


@dataclass(frozen=True)
class Task:
    """What is trained by a deadline; there is more of it than anybody can do."""

    deadline_s: float
    side: int
    shard_samples: int
    shards: int

    @property
    def spec(self) -> TaskSpec:
        return default_spec("twonn", (self.side**2,), 10)


TASKS = {15.0: Task(15.0, 28, 500, 180), 1.5: Task(1.5, 8, 12, 600)}
"""MNIST's images by the thesis's longer deadline, and digits by one that is a tenth of it."""


@cache
def dataset_of(task: Task) -> Dataset:
    size = task.shards * task.shard_samples
    blank = Samples(np.zeros((size, task.side**2), np.uint8), np.zeros(size, np.uint8), 1 / 255)
    return Dataset("blank", blank, blank.take(slice(task.shard_samples)), 10)


def untrained(jobs: Sequence[Job]) -> list[Trained]:
    """What training takes is charged, whatever comes of it."""
    return [
        Trained(
            parameters=job.start,
            batches=job.batches,
            samples=min(job.batches * job.spec.batch_size, len(job.samples) * job.passes),
            loss=0.5,
        )
        for job in jobs
    ]


@dataclass
class Outcome:
    """What became of all cycles of some devices."""

    held: float
    used: float
    """Of the deadline, until the answer was there; nothing where it was not there in time."""
    done: float
    """Of the passes, on average over what was answered."""
    halted: float


def outcome_of(records: Sequence[DeviceRecord], task: Task, passes: int) -> Outcome:
    in_time = [
        each.answered_s / task.deadline_s
        for each in records
        if each.status == "used" and each.answered_s and each.answered_s <= task.deadline_s
    ]
    done = [
        each.batches / task.spec.batches(each.shards * task.shard_samples, passes)
        for each in records
        if each.status == "used"
    ]
    return Outcome(
        held=len(in_time) / len(records),
        used=sum(in_time) / len(records),
        done=sum(done) / len(done),
        halted=sum(each.halted for each in records) / len(records),
    )


def play(task: Task, passes: int, seed: int) -> dict[str, list[DeviceRecord]]:
    """Every device's records of a run in which each owner has habits of its own."""
    habits = {name: heated(stream(seed, "habits", name), 0.5) for name in fleet("thesis")}
    world = simulated("thesis", seed=seed, activity=habits, trainer=untrained, dynamic=True)
    run = Run(
        spec=task.spec,
        cycles=CYCLES,
        deadline_s=task.deadline_s,
        shard_samples=task.shard_samples,
        seed=seed,
        evaluate_every=0,
    )
    scheme = Scheme(allocate=Open(passes=passes), survey=Survey())
    records = world.run(lambda fleet: Orchestrator(run, dataset_of(task), fleet, scheme).run())
    return {
        name: [each for cycle in records for each in cycle.devices if each.device == name]
        for name in habits
    }


QUICK = [(15.0, 5, 3), (1.5, 1, 3), (1.5, 5, 3)]
SCENES = [
    scene if scene in QUICK else pytest.param(*scene, marks=pytest.mark.slow)
    for scene in itertools.product((15.0, 1.5), (1, 5), range(1, 7))
]


@pytest.mark.parametrize(("deadline_s", "passes", "seed"), SCENES)
def test_they_answer_in_time_and_use_it(deadline_s: float, passes: int, seed: int) -> None:
    task = TASKS[deadline_s]
    by_device = play(task, passes, seed)
    everybody = [record for records in by_device.values() for record in records]
    whole = outcome_of(everybody, task, passes)
    assert whole.held >= 0.95, whole
    # The price, as `Abilities.dynamic` says it.
    assert 0.4 <= whole.done <= 0.95, whole
    if deadline_s == 1.5:
        # A batch beside its owner's takes a third of this deadline on the slowest: after two of
        # them there is no time for another, nor would there be if it knew everything.
        slowest = outcome_of(by_device.pop(SLOWEST), task, passes)
        assert slowest.used >= 0.6, slowest
        everybody = [record for records in by_device.values() for record in records]
        whole = outcome_of(everybody, task, passes)
    assert whole.used >= 0.85, whole
