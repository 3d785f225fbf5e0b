"""Learners that learn from their misses keep a deadline while their owners come and go."""

from __future__ import annotations

from collections.abc import Sequence
from statistics import fmean

import pytest

from axon.allocation.equal import Open
from axon.data.synthetic import synthetic
from axon.learning.tasks import default_spec
from axon.rounds.orchestrator import Orchestrator
from axon.rounds.settings import Run, Scheme, Survey
from axon.rpc.link import Link
from axon.testbed.activity import Activity
from axon.testbed.catalogue import Device
from axon.testbed.emulation import Emulation, emulated
from axon.values import DeviceRecord, RoundRecord

pytestmark = [pytest.mark.system, pytest.mark.alone]

DATASET = synthetic(samples=20_000, features=200, classes=4, seed=0)
QUICK = Device(
    kind="quick",
    flops_per_s=50e9,
    batch_overhead_s=0.006,
    memory_bytes=2**30,
    link=Link(latency_s=0.001, up_bytes_per_s=200e6, down_bytes_per_s=200e6),
)
"""6 ms for a batch; an owner's download takes 32 ms of the link, twice in a cycle."""
DEVICES = dict.fromkeys("abc", QUICK)
RESTLESS = Activity({"idle": 0.5, "downloading": 0.5})
DAB = Scheme(allocate=Open(), survey=Survey(shards=64))
CYCLES = 14
RUN = Run(
    spec=default_spec("twonn", DATASET.shape, DATASET.classes),
    cycles=CYCLES,
    deadline_s=0.9,
    shard_samples=32,
    evaluate_every=0,
)


def trained() -> list[RoundRecord]:
    emulation = Emulation(activity=dict.fromkeys(DEVICES, RESTLESS), dynamic=True)
    world = emulated(DEVICES, emulation=emulation)
    return world.run(lambda fleet: Orchestrator(RUN, DATASET, fleet, DAB).run())


def in_time(records: Sequence[RoundRecord]) -> list[DeviceRecord]:
    return [one for record in records for one in record.with_status("used")]


def held(records: Sequence[RoundRecord]) -> float:
    """The part of all orders whose update came in time."""
    return len(in_time(records)) / (CYCLES * len(DEVICES))


def used(records: Sequence[RoundRecord]) -> float:
    """The part of the deadline that those took, on average."""
    return fmean((one.answered_s or 0.0) / RUN.deadline_s for one in in_time(records))


@pytest.mark.timeout(120)
def test_it_holds_the_deadline_and_uses_it() -> None:
    records = trained()
    print(f"\n{held(records):.1%} came in time and took {used(records):.1%} of it")
    assert held(records) >= 0.95
    assert used(records) >= 0.85
