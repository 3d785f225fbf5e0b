"""Many cycles in virtual time: averages by hand, determinism, taking up, long schedules."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Mapping
from contextlib import closing
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from axon.allocation.csa import StalenessAware
from axon.allocation.equal import Equal
from axon.data.partitions import partition_of
from axon.errors import AxonError, CheckpointConflict, QuorumNotReached
from axon.learning.batched import BatchedTrainer
from axon.learning.loop import LoopTrainer
from axon.learning.nets import initial
from axon.policies import Trainer
from axon.report.records import digest, to_line
from axon.rounds.checkpoint import Store, open_store
from axon.rounds.depot import Depot
from axon.rounds.events import CycleEnded, Event
from axon.rounds.fleet import Fleet
from axon.rounds.orchestrator import Orchestrator
from axon.rounds.settings import Run, Scheme, Survey
from axon.rounds.steps import Momentum
from axon.seeds import stream
from axon.testbed import virtual
from axon.testbed.activity import Activity
from axon.testbed.catalogue import Device, device
from axon.testbed.simulation import Simulated
from axon.values import Declined, Order, RoundRecord, Samples, Vector
from tests.rounds.worlds import (
    DATASET,
    DEVICES,
    NANO,
    PI,
    SHARDS,
    SPEC,
    FakeFleet,
    good,
    run_of,
    sum_up,
    world_of,
)


def play(
    run: Run, fleet: FakeFleet, scheme: Scheme | None = None, store: Store | None = None
) -> tuple[list[RoundRecord], Vector]:
    """A run of fake learners in virtual time."""

    async def main() -> tuple[list[RoundRecord], Vector]:
        orchestrator = Orchestrator(run, DATASET, fleet, scheme, store=store)
        return await orchestrator.run(), orchestrator.parameters

    return virtual.run(main())


# --- averages ----------------------------------------------------------------------------------


def test_the_average_is_weighted_by_batches() -> None:
    records, parameters = play(run_of(cycles=2), FakeFleet(a=good(1.0, 3), b=good(-1.0, 1)))
    # Each cycle moves by (3 * 1 - 1 * 1) / 4 = 0.5.
    assert parameters == pytest.approx(initial(SPEC, 7) + 1.0)
    assert [record.batches for record in records] == [4, 4]
    assert records[-1].digest == digest(parameters)


def test_a_halted_learner_weighs_what_it_trained() -> None:
    # Equal shares of 20 shards, so of 40 batches; the pi has time for some 23 of 40 ms each.
    devices = {"nano": NANO, "pi": PI}
    kept: dict[str, Any] = {}

    async def main(fleet: Fleet) -> list[RoundRecord]:
        run = run_of(cycles=1)
        scheme = Scheme(allocate=Equal(shards=2 * SHARDS), aggregate=keep)
        return await Orchestrator(run, DATASET, fleet, scheme).run()

    def keep(vectors: Any, weights: Any) -> Vector:
        kept.update(vectors=vectors, weights=weights)
        return Scheme().aggregate(vectors, weights)

    (record,) = world_of(devices).run(main)
    nano, pi = record.devices
    assert (nano.batches, nano.halted, nano.samples) == (40, False, 160)
    assert (pi.halted, pi.status) == (True, "used")
    assert 20 <= pi.batches <= 24
    assert pi.samples == 4 * pi.batches
    assert kept["weights"] == [nano.batches, pi.batches]
    by_hand = (40 * kept["vectors"][0] + pi.batches * kept["vectors"][1]) / (40 + pi.batches)
    assert record.digest != digest(kept["vectors"][0])
    assert kept["vectors"][0].tolist() != kept["vectors"][1].tolist()
    assert Scheme().aggregate(**kept) == pytest.approx(by_hand, abs=1e-6)
    assert record.duration_s <= 1.0


def test_the_first_model_is_as_safe_from_writing_as_those_after_it() -> None:
    flags: list[bool] = []

    async def look(order: Order, depot: Depot) -> object:
        flags.append(depot.model(order.run, order.cycle).flags.writeable)
        return await good(1.0)(order, depot)

    play(run_of(cycles=2), FakeFleet(a=look))
    assert flags == [False, False]


@pytest.mark.parametrize(
    ("every", "evaluated"), [(1, [1, 2, 3, 4, 5]), (2, [2, 4, 5]), (7, [5]), (0, [])]
)
def test_the_model_is_evaluated_every_so_often_and_at_the_end(
    every: int, evaluated: list[int]
) -> None:
    records, _ = play(run_of(cycles=5, evaluate_every=every), FakeFleet(a=good(0.1)))
    assert [record.cycle for record in records if record.accuracy is not None] == evaluated
    assert [record.cycle for record in records if record.loss is not None] == evaluated


def test_a_learner_is_told_when_its_last_update_came_but_not_when_it_declined() -> None:
    told: list[float | None] = []

    async def behave(order: Order, depot: Depot) -> object:
        told.append(order.previous_s)
        if order.cycle == 2:
            return Declined(run=order.run, cycle=2, device=order.device, reason="busy")
        return await good(1.0)(order, depot)

    play(run_of(cycles=4), FakeFleet(a=behave, b=good(1.0)))
    assert told == [None, 0.0, None, 0.0]


def test_when_an_update_came_is_known_after_a_restart(tmp_path: Path) -> None:
    told: list[float | None] = []

    async def behave(order: Order, depot: Depot) -> object:
        told.append(order.previous_s)
        await asyncio.sleep(0.25)
        return await good(1.0)(order, depot)

    with closing(open_store(tmp_path / "runs.db")) as store:
        store.begin("run", "{}")
        play(run_of(cycles=1), FakeFleet(a=behave), store=store)
        play(run_of(cycles=2), FakeFleet(a=behave), store=store)
    assert told == [None, 0.25]


# --- failing -----------------------------------------------------------------------------------


def test_too_few_answers_end_the_run_and_what_was_saved_stays(tmp_path: Path) -> None:
    async def only_twice(order: Order, depot: Depot) -> object:
        return await good(1.0)(order, depot) if order.cycle < 3 else "garbage"

    with closing(open_store(tmp_path / "runs.db")) as store:
        store.begin("run", "{}")
        run = run_of(cycles=5, quorum=2)
        with pytest.raises(QuorumNotReached, match="wanted 2 answers, got 1") as caught:
            play(run, FakeFleet(a=good(1.0), b=only_twice), store=store)
        assert "b: answered with str, not an update" in str(caught.value)
        assert [record.cycle for record in store.records("run")] == [1, 2]
        saved = store.latest("run")
        assert saved is not None
        assert saved.cycle == 2
        # And it goes on from there once enough of them answer.
        records, _ = play(run, FakeFleet(a=good(1.0), b=good(1.0)), store=store)
        assert [record.cycle for record in records] == [3, 4, 5]


def test_a_fleet_of_nobody_reaches_no_quorum() -> None:
    with pytest.raises(QuorumNotReached, match="wanted 1 answers, got 0"):
        play(run_of(), FakeFleet())


def test_a_finished_run_has_nothing_left_to_do(tmp_path: Path) -> None:
    with closing(open_store(tmp_path / "runs.db")) as store:
        store.begin("run", "{}")
        _, parameters = play(run_of(), FakeFleet(a=good(1.0)), store=store)
        assert play(run_of(), FakeFleet(a=good(9.0)), store=store)[0] == []
        assert play(run_of(), FakeFleet(), store=store)[1].tolist() == parameters.tolist()


# --- determinism -------------------------------------------------------------------------------

BUSY = Activity({"idle": 0.4, "training": 0.4, "downloading": 0.2})
# Quick enough that an owner's product or matrix costs a part of the deadline and not all of it.
OWNED: dict[str, Device] = {
    name: replace(
        one,
        flops_per_s=5e10,
        link=replace(one.link, up_bytes_per_s=2e7, down_bytes_per_s=2e7),
    )
    for name, one in (DEVICES | {"pi-3": PI}).items()
}


def own_data(seed: int) -> dict[str, Samples]:
    """Data of their own for two of the four, dealt unevenly."""
    members = ("nano", "pi-1")
    parts = partition_of("dirichlet:0.5")(DATASET.train.labels, members, stream(seed, "partition"))
    return {name: DATASET.train.take(indices) for name, indices in parts.items()}


def busy_world(seed: int, trainer: Trainer) -> Simulated:
    return world_of(
        OWNED,
        seed=seed,
        trainer=trainer,
        data=own_data(seed),
        activity=dict.fromkeys(OWNED, BUSY),
    )


ONE_BY_ONE = LoopTrainer()
MOMENTUM = Scheme(step=Momentum(momentum=0.5))
SURVEYED = {
    "dab": Scheme(survey=Survey(shards=4)),
    "csa": Scheme(allocate=StalenessAware(upper=8), survey=Survey(shards=4, disclosed=True)),
}


class Killed(Exception):
    """The orchestrator's process, in the tests below."""


def busy_run(
    seed: int = 7,
    *,
    store: Store | None = None,
    kill_after: int = 0,
    trainer: Trainer = ONE_BY_ONE,
    scheme: Scheme = MOMENTUM,
) -> tuple[list[str], bytes]:
    saved = None if store is None else store.latest("run")

    def listen(event: Event) -> None:
        if isinstance(event, CycleEnded) and event.record.cycle == kill_after:
            raise Killed

    async def main(fleet: Fleet) -> tuple[list[str], bytes]:
        run = run_of(cycles=4, seed=seed)
        orchestrator = Orchestrator(run, DATASET, fleet, scheme, store=store, listen=listen)
        records = [to_line(record) for record in await orchestrator.run()]
        return records, orchestrator.parameters.tobytes()

    start_s = 0.0 if saved is None else saved.clock_s
    return busy_world(seed, trainer).run(main, start_s=start_s)


def test_the_same_seed_gives_the_same_records_byte_for_byte() -> None:
    first = busy_run()
    assert busy_run() == first
    other = busy_run(8)
    assert other[0] != first[0]
    assert other[1] != first[1]


@pytest.mark.slow
def test_training_together_is_as_deterministic() -> None:
    assert busy_run(trainer=BatchedTrainer()) == busy_run(trainer=BatchedTrainer())


@pytest.mark.parametrize("killed_after", [1, 2, 3])
def test_a_run_killed_after_any_cycle_goes_on_as_if_it_had_not_been(
    tmp_path: Path, killed_after: int
) -> None:
    records, parameters = busy_run()
    with closing(open_store(tmp_path / "runs.db")) as store:
        store.begin("run", "{}")
        with pytest.raises(Killed):
            busy_run(store=store, kill_after=killed_after)
        rest, resumed = busy_run(store=store)
        assert rest == records[killed_after:]
        assert [to_line(record) for record in store.records("run")] == records
        assert resumed == parameters


@pytest.mark.parametrize("killed_after", [1, 3])
@pytest.mark.parametrize("name", SURVEYED)
def test_what_a_survey_found_outlives_the_orchestrator(
    tmp_path: Path, name: str, killed_after: int
) -> None:
    scheme = SURVEYED[name]
    records, parameters = busy_run(scheme=scheme)
    assert busy_run(scheme=scheme) == (records, parameters)
    with closing(open_store(tmp_path / "runs.db")) as store:
        with pytest.raises(Killed):
            busy_run(store=store, kill_after=killed_after, scheme=scheme)
        rest, resumed = busy_run(store=store, scheme=scheme)
        assert [to_line(record) for record in store.records("run")] == records
    assert (rest, resumed) == (records[killed_after:], parameters)


def test_one_more_device_changes_nothing_for_the_others() -> None:
    def drawn(devices: Mapping[str, Device]) -> tuple[dict[tuple[str, int], list[int]], Any]:
        numbers: dict[tuple[str, int], list[int]] = {}

        async def main(fleet: Any) -> list[RoundRecord]:
            return await Orchestrator(run_of(cycles=3), DATASET, fleet, Scheme()).run()

        records = world_of(devices, trainer=spying(numbers)).run(main)
        timed = {
            (device.device, record.cycle): (device.fetched_s, device.answered_s, device.batches)
            for record in records
            for device in record.devices
        }
        return numbers, timed

    few, few_timed = drawn(DEVICES)
    more, more_timed = drawn({"a-first": NANO, **DEVICES, "z-last": PI})
    assert len(few) == 9
    assert few.items() <= more.items()
    assert few_timed.items() <= more_timed.items()


def spying(numbers: dict[tuple[str, int], Any]) -> Any:
    """A trainer that keeps what it was given, by device and cycle."""

    def train(jobs: Any) -> Any:
        for job in jobs:
            _, purpose, cycle, name = (*job.stream, 0, 0)[:4]
            if purpose == "batches" and cycle:
                numbers[name, cycle] = job.samples.inputs.tobytes()
        return sum_up(jobs)

    return train


# --- long schedules ----------------------------------------------------------------------------


@pytest.mark.slow
@pytest.mark.parametrize(("cycles", "deadline_s"), [(60, 60.0), (3600, 1.0)])
def test_an_hour_of_cycles_takes_seconds(cycles: int, deadline_s: float) -> None:
    idle = replace(device("ideal"), batch_overhead_s=deadline_s / 4)
    world = world_of({"a": idle, "b": idle})

    async def main(fleet: Fleet) -> list[RoundRecord]:
        run = run_of(cycles=cycles, deadline_s=deadline_s, evaluate_every=0)
        scheme = Scheme(allocate=Equal(shards=SHARDS))
        return await Orchestrator(run, DATASET, fleet, scheme).run()

    began_s = time.process_time()
    records = world.run(main)
    took_s = time.process_time() - began_s
    assert len(records) == cycles
    assert records[-1].ended_s > 0.7 * 3600
    assert {end.status for record in records for end in record.devices} == {"used"}
    # Generous: the machine may be busy with other things.
    assert took_s < 4.0


def test_a_schedule_without_work_still_takes_its_time() -> None:
    async def wait(order: Order, depot: Depot) -> object:
        await asyncio.sleep(0.75 * order.deadline_s)
        return await good(0.01)(order, depot)

    records, _ = play(run_of(cycles=60, deadline_s=60.0, evaluate_every=0), FakeFleet(a=wait))
    assert records[-1].ended_s == 60 * 45.0
    assert np.all([record.truancy == -0.25 for record in records])


def test_a_broken_aggregate_stops_the_run_before_it_is_saved(tmp_path: Path) -> None:
    def nothing(vectors: Any, weights: Any) -> Any:
        return np.full_like(vectors[0], np.nan)

    with closing(open_store(tmp_path / "c.sqlite")) as store:
        with pytest.raises(AxonError, match="not finite"):
            play(run_of(), FakeFleet(a=good(1.0)), Scheme(aggregate=nothing), store)
        assert store.records("run") == []


def test_a_checkpoint_of_another_seed_or_net_is_not_taken_up(tmp_path: Path) -> None:
    with closing(open_store(tmp_path / "c.sqlite")) as store:
        play(run_of(cycles=2), FakeFleet(a=good(1.0)), store=store)
        with pytest.raises(CheckpointConflict, match="seed 7, not 8"):
            play(run_of(cycles=4, seed=8), FakeFleet(a=good(1.0)), store=store)
        other = replace(SPEC, classes=SPEC.classes + 1)
        with pytest.raises(CheckpointConflict, match="parameters"):
            play(run_of(cycles=4, spec=other), FakeFleet(a=good(1.0)), store=store)
