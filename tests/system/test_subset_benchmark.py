"""What a learner finds of itself in a small benchmark holds for a whole run, in real time."""

from __future__ import annotations

from dataclasses import replace
from statistics import median

import pytest

from axon.allocation.equal import Fixed
from axon.rounds.events import Event, SurveyEnded
from axon.rounds.orchestrator import Orchestrator
from axon.rounds.settings import Run, Scheme, Survey
from axon.rpc.link import Link
from axon.testbed.catalogue import Device
from axon.testbed.emulation import EmulatedFleet, Emulation, emulated
from axon.values import DeviceRecord
from tests.system.processes import DIGITS, SPEC

pytestmark = [pytest.mark.system, pytest.mark.alone]

STEADY = Device(
    kind="steady", flops_per_s=1e9, batch_overhead_s=0.036, memory_bytes=2**30, link=Link()
)
"""A batch in 36 ms, which is long beside what a busy machine wakes up late."""
DEVICES = dict.fromkeys(("pi-1", "pi-2", "pi-3"), STEADY)
"""They hardly compute, so that several at once do not get in one another's way."""
SHARDS, BENCHMARK, REPEATS = 60, 8, 3
RUN = Run(
    # A batch for each shard, so that no part of a shard is rounded up to a whole batch.
    spec=replace(SPEC, batch_size=25),
    cycles=1,
    deadline_s=10.0,
    shard_samples=25,
    evaluate_every=0,
)
SCHEME = Scheme(
    allocate=Fixed(dict.fromkeys(DEVICES, SHARDS)), survey=Survey(shards=BENCHMARK, disclosed=True)
)


async def off(fleet: EmulatedFleet, number: int) -> list[float]:
    """By which part the time of a whole run was predicted wrongly from each benchmark."""
    rates: dict[str, float] = {}

    def hear(event: Event) -> None:
        if isinstance(event, SurveyEnded):
            for name, finding in event.findings.items():
                assert finding.capability is not None, finding
                rates[name] = finding.capability.shards_per_s

    run = replace(RUN, name=f"run-{number}")
    (record,) = await Orchestrator(run, DIGITS, fleet, SCHEME, listen=hear).run()
    assert len(record.devices) == len(DEVICES)
    return [error(one, rates[one.device]) for one in record.devices]


def error(device: DeviceRecord, shards_per_s: float) -> float:
    assert device.status == "used"
    assert device.timings is not None
    return abs(SHARDS / shards_per_s - device.timings.train_s) / device.timings.train_s


def test_eight_shards_tell_how_long_sixty_take() -> None:
    async def measure(fleet: EmulatedFleet) -> list[float]:
        return [part for number in range(REPEATS) for part in await off(fleet, number)]

    world = emulated(DEVICES, emulation=Emulation(links="none"))
    errors = world.run(measure)
    told = ", ".join(f"{100 * part:.1f}" for part in sorted(errors))
    print(f"\nerrors of {len(errors)} predictions in per cent: {told}")
    assert median(errors) < 0.05, told
