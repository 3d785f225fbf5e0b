"""The simulated world: what a device, its link and its owner cost shows in the record, exactly."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import Any

import pytest

from axon.allocation.equal import Fixed
from axon.data.datasets import load
from axon.errors import ConfigurationError
from axon.learning.evaluation import flops_per_sample
from axon.learning.loop import LoopTrainer
from axon.learning.nets import initial
from axon.learning.tasks import default_spec
from axon.rounds.events import Event, SurveyBegan, SurveyEnded
from axon.rounds.orchestrator import Orchestrator
from axon.rounds.settings import Run, Scheme, Survey
from axon.rounds.survey import Finding
from axon.rpc.link import Link
from axon.rpc.memory.network import HEAD_BYTES
from axon.testbed.activity import MATRIX_BYTES, PRODUCT_FLOPS, Activity, State
from axon.testbed.catalogue import Device
from axon.testbed.simulation import Simulated, SimulatedFleet, simulated
from axon.values import DeviceRecord, RoundRecord

DIGITS = load("digits")
SPEC = default_spec("twonn", DIGITS.shape, DIGITS.classes, batch_size=32)
MODEL_BYTES = initial(SPEC, 0).nbytes
SHARD_SAMPLES = 50
SHARD_BYTES = SHARD_SAMPLES * (64 + DIGITS.train.labels.itemsize)
PI = Device(
    kind="pi",
    flops_per_s=1e9,
    batch_overhead_s=0.004,
    memory_bytes=2**30,
    link=Link(latency_s=0.01, up_bytes_per_s=1e5, down_bytes_per_s=4e5),
)


def run_of(**changes: Any) -> Run:
    made = Run(spec=SPEC, cycles=1, deadline_s=5.0, shard_samples=SHARD_SAMPLES, evaluate_every=0)
    return replace(made, **changes)


def told(world: Simulated, run: Run, **shards: int) -> list[RoundRecord]:
    """The records of a run in which each learner is told how much to do."""
    scheme = Scheme(allocate=Fixed(shards))
    return world.run(lambda fleet: Orchestrator(run, DIGITS, fleet, scheme).run())


def alone(device: Device, *, state: State = "idle", **changes: Any) -> DeviceRecord:
    """What becomes of a device that trains 3 shards, 150 samples in 5 batches."""
    world = simulated({"pi": device}, activity={"pi": Activity({state: 1.0})})
    (record,) = told(world, run_of(**changes), pi=3)
    return record.devices[0]


def messages_s(link: Link, *, extra_bytes: float = 0.0) -> float:
    """The order, two questions with their answers, and the update."""
    down = 3 * HEAD_BYTES + MODEL_BYTES + 3 * SHARD_BYTES + 2 * extra_bytes
    up = 3 * HEAD_BYTES + MODEL_BYTES
    return 6 * link.latency_s + down / link.down_bytes_per_s + up / link.up_bytes_per_s


def training_s(device: Device, *, extra_flops: float = 0.0) -> float:
    """Four batches of 32 samples and one of 22."""
    flops = 150 * flops_per_sample(SPEC) + 5 * extra_flops
    return 5 * device.batch_overhead_s + flops / device.flops_per_s


DEVICES = [
    PI,
    replace(PI, flops_per_s=2e8, batch_overhead_s=0.0),
    replace(PI, link=Link()),
    replace(PI, link=Link(latency_s=0.3)),
    replace(PI, link=Link(up_bytes_per_s=2e4)),
]


@pytest.mark.parametrize("device", DEVICES, ids=["pi", "slow", "near", "far", "thin"])
def test_speed_and_link_show_in_the_answers_time(device: Device) -> None:
    record = alone(device)
    assert (record.status, record.batches, record.samples) == ("used", 5, 150)
    assert not record.halted
    wanted = messages_s(device.link) + training_s(device)
    assert record.answered_s == pytest.approx(wanted, abs=1e-6)
    assert record.timings is not None
    assert record.timings.train_s == pytest.approx(training_s(device), abs=1e-6)
    down = 2 * HEAD_BYTES + MODEL_BYTES + 3 * SHARD_BYTES
    download_s = down / device.link.down_bytes_per_s + 4 * device.link.latency_s
    download_s += 2 * HEAD_BYTES / device.link.up_bytes_per_s
    assert record.timings.download_s == pytest.approx(download_s, abs=1e-6)


def test_an_owner_who_trains_takes_flops_and_one_who_downloads_takes_bytes() -> None:
    idle_s = messages_s(PI.link) + training_s(PI)
    training = alone(PI, state="training", deadline_s=60.0)
    busy_s = messages_s(PI.link) + training_s(PI, extra_flops=PRODUCT_FLOPS)
    assert training.answered_s == pytest.approx(busy_s, abs=1e-6)
    assert busy_s > idle_s + 5

    downloading = alone(PI, state="downloading", deadline_s=120.0)
    loaded_s = messages_s(PI.link, extra_bytes=MATRIX_BYTES) + training_s(PI)
    assert downloading.answered_s == pytest.approx(loaded_s, abs=1e-6)
    assert loaded_s > idle_s + 30
    assert alone(PI, state="idle").answered_s == pytest.approx(idle_s, abs=1e-6)


def test_a_device_too_slow_for_its_share_halts_in_time() -> None:
    record = alone(replace(PI, batch_overhead_s=1.0))
    assert record.halted
    assert 0 < record.batches < 5
    assert record.answered_s is not None
    assert record.answered_s <= 5.0


def test_learners_do_not_slow_one_another() -> None:
    """Each has a link and a processor of its own; the trainer that they share costs nothing."""
    names = ("a", "b", "c")
    (record,) = told(simulated(dict.fromkeys(names, PI)), run_of(), **dict.fromkeys(names, 3))
    assert {device.answered_s for device in record.devices} == {alone(PI).answered_s}


def test_the_same_seed_gives_the_same_bytes_and_any_trainer_the_same_times() -> None:
    shaky = replace(PI, link=Link(latency_s=0.01, jitter_s=0.05, loss=0.2))
    run = run_of(cycles=3)

    def records(seed: int, trainer: Any = None) -> list[RoundRecord]:
        return told(simulated({"pi": shaky}, seed=seed, trainer=trainer), run, pi=3)

    first = records(1)
    assert records(1) == first
    looped = records(1, LoopTrainer())
    assert [each.devices[0].answered_s for each in looped] == [
        each.devices[0].answered_s for each in first
    ]
    other = [each.devices[0].answered_s for each in records(2)]
    assert other != [each.devices[0].answered_s for each in first]


def test_faults_become_records() -> None:
    world = simulated({"crashed": PI, "cut": PI, "gone": PI, "well": PI})

    async def main(fleet: Any) -> list[RoundRecord]:
        fleet.crash("crashed")
        fleet.partition("cut")
        fleet.leave("gone")
        scheme = Scheme(allocate=Fixed(dict.fromkeys(fleet.learners, 1)))
        records = []
        async for record in Orchestrator(run_of(cycles=2), DIGITS, fleet, scheme).cycles():
            records.append(record)
            fleet.start("crashed")
            fleet.heal("cut")
            fleet.join("gone")
        return records

    first, second = world.run(main)
    assert {device.device: device.status for device in first.devices} == {
        "crashed": "failed",
        "cut": "failed",
        "well": "used",
    }
    assert first.devices[0].reason == "cannot be reached: nobody listens at crashed"
    assert first.devices[1].reason == "no answer by the deadline"
    assert [device.status for device in second.devices] == ["used"] * 4


def test_a_snapshot_brings_back_what_learners_know_of_themselves() -> None:
    world = simulated({"a": PI, "b": replace(PI, batch_overhead_s=0.02)})
    world.run(lambda fleet: Orchestrator(run_of(), DIGITS, fleet).run())
    known = {name: one.learner.paces for name, one in world.fleet.learners.items()}
    assert known["a"] != known["b"]
    again = simulated({"a": PI, "b": PI, "new": PI})
    again.fleet.restore(world.fleet.snapshot())
    assert {name: one.learner.paces for name, one in again.fleet.learners.items()} == {
        **known,
        "new": {},
    }


# --- surveys -----------------------------------------------------------------------------------

Script = Callable[[SimulatedFleet], None]


def surveyed(
    world: Simulated, run: Run, script: Script = lambda _: None, **options: Any
) -> tuple[list[RoundRecord], Mapping[str, Finding]]:
    """The records of a run in which everybody gets 3 shards, and what its first survey found."""
    found: list[Mapping[str, Finding]] = []
    scheme = Scheme(allocate=Fixed(dict.fromkeys(world.fleet.learners, 3)), **options)

    def listen(event: Event) -> None:
        if isinstance(event, SurveyBegan):
            script(world.fleet)
        if isinstance(event, SurveyEnded):
            found.append(event.findings)

    records = world.run(lambda fleet: Orchestrator(run, DIGITS, fleet, scheme, listen=listen).run())
    return records, found[0] if found else {}


TELL = Survey(shards=8, disclosed=True)
SHAKY = replace(PI, link=Link(latency_s=0.01, jitter_s=0.05, loss=0.2, down_bytes_per_s=4e5))


def test_what_a_simulated_learner_tells_is_what_its_device_can_do() -> None:
    _, found = surveyed(simulated({"pi": PI}), run_of(), survey=TELL)
    told = found["pi"].capability
    assert told is not None
    each_s = PI.batch_overhead_s / 32 + flops_per_sample(SPEC) / PI.flops_per_s
    # Shards of 50 samples do not make whole batches of 32.
    assert told.shards_per_s == pytest.approx(1 / (SHARD_SAMPLES * each_s), rel=0.05)
    assert told.bytes_per_s == pytest.approx(PI.link.down_bytes_per_s, rel=0.01)


def test_a_survey_is_the_same_in_every_run_and_changes_nothing_of_the_cycles() -> None:
    owners = {"pi": Activity({"idle": 0.5, "training": 0.5})}
    run = run_of(cycles=3, deadline_s=30.0)

    def play(**options: Any) -> tuple[list[RoundRecord], Mapping[str, Finding]]:
        return surveyed(simulated({"pi": SHAKY}, seed=3, activity=owners), run, **options)

    first, found = play(survey=TELL)
    assert play(survey=TELL) == (first, found)
    assert first[0].started_s > 0.1
    without, _ = play()
    assert [each.devices[0].answered_s for each in first] == pytest.approx(
        [each.devices[0].answered_s for each in without], abs=2e-6
    )


def crash_meanwhile(fleet: SimulatedFleet) -> None:
    loop = asyncio.get_running_loop()
    loop.call_later(0.05, fleet.crash, "pi")
    loop.call_later(0.05, fleet.start, "pi")


def partition_meanwhile(fleet: SimulatedFleet) -> None:
    loop = asyncio.get_running_loop()
    loop.call_later(0.05, fleet.partition, "pi")
    loop.call_later(5.3, fleet.heal, "pi")


@pytest.mark.parametrize(
    ("script", "reason"),
    [
        (lambda fleet: fleet.crash("pi"), "cannot be reached: nobody listens at pi"),
        (crash_meanwhile, "the connection was lost: pi went down"),
        (partition_meanwhile, "no answer by the deadline"),
    ],
)
def test_a_fault_during_a_survey_costs_the_survey_and_no_more(script: Script, reason: str) -> None:
    world = simulated({"other": PI, "pi": PI}, private=("other",))
    (record,), found = surveyed(world, run_of(), script, survey=TELL)
    assert (found["pi"].status, found["pi"].reason) == ("failed", reason)
    assert found["other"].status == "declined"
    assert record.started_s <= 5.0 * 1.05 + 1e-6
    if script is not crash_meanwhile:
        return
    # It got a share all the same, from an allocator that asks for no capability.
    assert [device.status for device in record.devices] == ["used", "used"]
    assert record.devices[1].answered_s == alone(PI).answered_s


def test_the_world_needs_virtual_time_and_a_device() -> None:
    async def main() -> None:
        async with simulated({"pi": PI}):
            raise AssertionError("unreachable")

    with pytest.raises(ConfigurationError, match=r"needs virtual time .*world\.run"):
        asyncio.run(main())
    with pytest.raises(ConfigurationError, match="at least one device"):
        simulated({})
