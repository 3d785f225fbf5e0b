"""What one faulty learner costs: its own contribution to that cycle, and nothing else."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
import pytest

from axon.aggregation.means import weighted_mean
from axon.allocation.equal import Equal, Open
from axon.errors import AxonError, QuorumNotReached
from axon.learning.batched import BatchedTrainer
from axon.policies import Allocator, Trainer
from axon.rounds.events import CycleBegan, Event
from axon.rounds.orchestrator import Orchestrator
from axon.rounds.settings import Scheme
from axon.testbed.simulation import SimulatedFleet
from axon.values import DeviceRecord, RoundRecord, Update
from tests.rounds.worlds import (
    DATASET,
    DEVICES,
    SHARDS,
    Forge,
    TamperedFleet,
    run_of,
    sum_up,
    world_of,
)

FAULTY = "pi-1"
FAULT_CYCLE = 2
CYCLES = 4

Script = Callable[[SimulatedFleet, int], None]
"""Called when a cycle begins, with its number; what is to happen later it sets a timer for."""


def nothing(fleet: SimulatedFleet, cycle: int) -> None:
    """All goes well."""


@dataclass
class Outcome:
    """What a run left behind."""

    records: list[RoundRecord] = field(default_factory=list)
    models: list[bytes] = field(default_factory=list)
    answers: dict[tuple[int, str], Any] = field(default_factory=dict)

    def record(self, cycle: int, device: str) -> DeviceRecord:
        return next(each for each in self.records[cycle - 1].devices if each.device == device)

    def contribution(self, cycle: int, device: str) -> bytes:
        answer = self.answers[cycle, device]
        assert isinstance(answer, Update)
        return answer.payload["parameters"].tobytes()

    def average(self, cycle: int, *devices: str) -> bytes:
        """What the cycle had to come to, had there been only these."""
        updates = [self.answers[cycle, device] for device in devices]
        vectors = [update.payload["parameters"] for update in updates]
        return weighted_mean(vectors, [update.batches for update in updates]).tobytes()


def play(
    script: Script = nothing,
    forgery: Forge | None = None,
    *,
    allocate: Allocator | None = None,
    trainer: Trainer = sum_up,
    quorum: int | None = None,
) -> Outcome:
    """A run in which the script is played, and the answers of one learner forged in one cycle."""
    outcome = Outcome()

    def forge(answer: Any) -> object:
        faulty = forgery is not None and answer.cycle == FAULT_CYCLE
        return forgery(answer) if forgery is not None and faulty else answer

    async def main(inner: SimulatedFleet) -> None:
        fleet = TamperedFleet(inner, {FAULTY: forge})

        def listen(event: Event) -> None:
            if isinstance(event, CycleBegan):
                script(inner, event.plan.cycle)

        orchestrator = Orchestrator(
            run_of(cycles=CYCLES, evaluate_every=0, quorum=quorum),
            DATASET,
            fleet,
            Scheme(allocate=allocate or Equal(shards=18)),
            listen=listen,
        )
        outcome.answers = fleet.answers
        async for record in orchestrator.cycles():
            outcome.records.append(record)
            outcome.models.append(orchestrator.parameters.tobytes())

    world_of(trainer=trainer).run(main)
    return outcome


@pytest.fixture(scope="module")
def undisturbed() -> Outcome:
    return play()


def check_cost(got: Outcome, undisturbed: Outcome, status: str, reason: str) -> None:
    """Raise unless the fault cost one contribution of one cycle."""
    assert got.records[0] == undisturbed.records[0]
    faulty = got.record(FAULT_CYCLE, FAULTY)
    assert (faulty.status, faulty.reason) == (status, reason)
    others = [name for name in DEVICES if name != FAULTY]
    for name in others:
        assert got.record(FAULT_CYCLE, name) == undisturbed.record(FAULT_CYCLE, name)
        assert got.contribution(FAULT_CYCLE, name) == undisturbed.contribution(FAULT_CYCLE, name)
    assert got.models[FAULT_CYCLE - 1] == got.average(FAULT_CYCLE, *others)
    assert got.models[FAULT_CYCLE - 1] != undisturbed.models[FAULT_CYCLE - 1]
    for record in got.records:
        assert record.duration_s <= 1.1 * record.deadline_s
    assert len(got.records) == CYCLES
    assert all(end.status == "used" for record in got.records[2:] for end in record.devices)
    assert {end.device for end in got.records[2].devices} == set(DEVICES)


# --- faults of devices and links ---------------------------------------------------------------


def crash_before(fleet: SimulatedFleet, cycle: int) -> None:
    if cycle == FAULT_CYCLE:
        fleet.crash(FAULTY)
        asyncio.get_running_loop().call_later(0.2, fleet.start, FAULTY)


def crash_in_the_middle(fleet: SimulatedFleet, cycle: int) -> None:
    if cycle == FAULT_CYCLE:
        loop = asyncio.get_running_loop()
        loop.call_later(0.1, fleet.crash, FAULTY)
        loop.call_later(0.3, fleet.start, FAULTY)


def crash_and_start_at_once(fleet: SimulatedFleet, cycle: int) -> None:
    def crash() -> None:
        fleet.crash(FAULTY)
        fleet.start(FAULTY)

    if cycle == FAULT_CYCLE:
        asyncio.get_running_loop().call_later(0.1, crash)


def partition(fleet: SimulatedFleet, cycle: int) -> None:
    if cycle == FAULT_CYCLE:
        fleet.partition(FAULTY)
    if cycle == FAULT_CYCLE + 1:
        fleet.heal(FAULTY)


def partition_in_the_middle(fleet: SimulatedFleet, cycle: int) -> None:
    if cycle == FAULT_CYCLE:
        asyncio.get_running_loop().call_later(0.1, fleet.partition, FAULTY)
        asyncio.get_running_loop().call_later(1.2, fleet.heal, FAULTY)


WENT_DOWN = f"the connection was lost: {FAULTY} went down"


@pytest.mark.parametrize(
    ("script", "reason"),
    [
        (crash_before, f"cannot be reached: nobody listens at {FAULTY}"),
        (crash_in_the_middle, WENT_DOWN),
        (crash_and_start_at_once, WENT_DOWN),
        (partition, "no answer by the deadline"),
        (partition_in_the_middle, "no answer by the deadline"),
    ],
)
def test_a_device_that_goes(undisturbed: Outcome, script: Script, reason: str) -> None:
    check_cost(play(script), undisturbed, "failed", reason)


@pytest.mark.slow
@pytest.mark.parametrize("script", [crash_in_the_middle, partition])
def test_a_device_that_goes_changes_no_bit_of_what_the_others_trained(script: Script) -> None:
    undisturbed = play(trainer=BatchedTrainer())
    got = play(script, trainer=BatchedTrainer())
    check_cost(got, undisturbed, "failed", got.record(FAULT_CYCLE, FAULTY).reason)


def test_a_short_partition_delays_and_costs_nothing_else() -> None:
    def script(fleet: SimulatedFleet, cycle: int) -> None:
        if cycle == FAULT_CYCLE:
            fleet.partition(FAULTY)
            asyncio.get_running_loop().call_later(0.3, fleet.heal, FAULTY)

    got = play(script)
    healed = got.record(FAULT_CYCLE, FAULTY)
    assert healed.status == "used"
    assert healed.answered_s is not None
    assert healed.answered_s > 0.3
    assert len(got.records) == CYCLES


def test_a_partition_that_heals_after_the_deadline_makes_an_answer_late() -> None:
    def script(fleet: SimulatedFleet, cycle: int) -> None:
        if cycle == FAULT_CYCLE:
            asyncio.get_running_loop().call_later(0.2, fleet.partition, FAULTY)
            asyncio.get_running_loop().call_later(1.02, fleet.heal, FAULTY)

    got = play(script)
    late = got.record(FAULT_CYCLE, FAULTY)
    assert (late.status, late.reason) == ("late", "came after the deadline")
    assert late.batches > 0
    assert got.models[1] == got.average(FAULT_CYCLE, "nano", "pi-2")
    assert got.record(3, FAULTY).status == "used"


def test_a_device_that_leaves_and_joins_again() -> None:
    def script(fleet: SimulatedFleet, cycle: int) -> None:
        # In the cycle before, because it takes effect with the next.
        if cycle == FAULT_CYCLE - 1:
            fleet.leave(FAULTY)
        if cycle == FAULT_CYCLE:
            fleet.join(FAULTY)

    allocate = Equal(shards=3)
    got, whole = play(script, allocate=allocate), play(allocate=allocate)
    assert [end.device for end in got.records[1].devices] == ["nano", "pi-2"]
    assert [end.device for end in got.records[2].devices] == ["nano", "pi-1", "pi-2"]
    assert got.records[0] == whole.records[0]
    assert got.models[1] == got.average(FAULT_CYCLE, "nano", "pi-2")
    assert all(end.status == "used" for record in got.records for end in record.devices)


def test_a_device_that_stays_down_is_recorded_every_cycle() -> None:
    def script(fleet: SimulatedFleet, cycle: int) -> None:
        if cycle == FAULT_CYCLE:
            fleet.crash(FAULTY)

    got = play(script)
    statuses = [got.record(cycle, FAULTY).status for cycle in range(1, CYCLES + 1)]
    assert statuses == ["used", "failed", "failed", "failed"]


def test_all_devices_gone_is_the_end_of_the_run() -> None:
    def script(fleet: SimulatedFleet, cycle: int) -> None:
        if cycle == FAULT_CYCLE:
            for name in DEVICES:
                fleet.partition(name)

    with pytest.raises(QuorumNotReached, match=r"wanted 1 answers, got 0 .*nano: no answer by"):
        play(script)


def test_with_a_quorum_the_slowest_is_not_needed_and_not_waited_for() -> None:
    got = play(quorum=1)
    assert [end.status for end in got.records[0].devices] == ["used", "not needed", "not needed"]
    assert got.records[0].duration_s < 0.5
    assert got.models[0] == got.average(1, "nano")


# --- learners that lie -------------------------------------------------------------------------


def with_payload(change: Callable[[Any], Any]) -> Forge:
    def forge(update: Any) -> object:
        return replace(update, payload={"parameters": change(update.payload["parameters"])})

    return forge


def raising(error: BaseException) -> Forge:
    def forge(update: Any) -> object:
        raise error

    return forge


def spoilt(vector: Any) -> Any:
    vector = vector.copy()
    vector[3] = np.nan
    return vector


LIES: Mapping[str, tuple[Forge, str, str]] = {
    "a million batches": (
        lambda update: replace(update, batches=10**6),
        "refused",
        "claims 1000000 batches, its share has 12",
    ),
    "more batches than a float holds": (
        lambda update: replace(update, batches=10**400),
        "refused",
        "batches must be a whole number up to 2^53, got a value of type int",
    ),
    "no batches": (lambda update: replace(update, batches=0), "refused", "trained no batch"),
    "NaN": (with_payload(spoilt), "refused", "1 of 10 parameters are not finite"),
    "infinity": (
        with_payload(lambda vector: vector * np.float32(np.inf)),
        "refused",
        "10 of 10 parameters are not finite",
    ),
    "another shape": (
        with_payload(lambda vector: vector[:-1]),
        "refused",
        "its payload cannot be read: parameters must be 10 values of float32, "
        "got shape (9,) of float32",
    ),
    "a stale cycle": (
        lambda update: replace(update, cycle=1),
        "refused",
        "answered for cycle 1, not 2",
    ),
    "another's name": (
        lambda update: replace(update, device="pi-2"),
        "refused",
        "answered as pi-2, not pi-1",
    ),
    "another run": (
        lambda update: replace(update, run="\x1b[31mrun"),
        "refused",
        "answered for run  [31mrun, not run",
    ),
    "no update": (lambda _: {"a": 1}, "refused", "answered with dict, not an update"),
    "an error": (raising(AxonError("ouch")), "failed", "AxonError: ouch"),
    "a cancellation": (raising(asyncio.CancelledError()), "failed", "the call was cancelled"),
}


@pytest.mark.parametrize("lie", LIES)
def test_a_learner_that_lies(undisturbed: Outcome, lie: str) -> None:
    forgery, status, reason = LIES[lie]
    check_cost(play(forgery=forgery), undisturbed, status, reason)


def test_a_liar_that_decides_for_itself_is_bounded_by_what_it_fetched() -> None:
    got = play(forgery=lambda update: replace(update, batches=10**6), allocate=Open())
    liar = got.record(FAULT_CYCLE, FAULTY)
    assert liar.status == "refused"
    assert liar.reason == f"claims 1000000 batches, its share has {2 * liar.shards}"
    assert 1 <= liar.shards <= SHARDS
    assert got.models[1] == got.average(FAULT_CYCLE, "nano", "pi-2")


def test_a_bug_on_our_side_is_no_device_failing() -> None:
    with pytest.raises(ZeroDivisionError):
        play(forgery=raising(ZeroDivisionError()))
