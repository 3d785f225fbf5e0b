"""Parts of a simulated fleet: several runs at once, as if each had learners of its own."""

from __future__ import annotations

import asyncio
import json
from pathlib import Path

from axon.allocation.equal import Equal
from axon.report.records import to_line
from axon.rounds.checkpoint import open_store
from axon.rounds.fleet import Fleet
from axon.rounds.orchestrator import Orchestrator
from axon.rounds.settings import Scheme
from axon.testbed.activity import Activity
from axon.testbed.simulation import SimulatedFleet
from axon.values import RoundRecord
from tests.rounds.worlds import DATASET, run_of, world_of

NANO, PIS = ("nano",), ("pi-1", "pi-2")
HABITS = Activity({"idle": 0.5, "downloading": 0.5})


def cycles(name: str, fleet: Fleet, **run: object) -> Orchestrator:
    chosen = run_of(name=name, own_data=False, **({"cycles": 3} | run))
    return Orchestrator(chosen, DATASET, fleet, Scheme(allocate=Equal(shards=6)))


async def both(fleet: SimulatedFleet) -> list[list[RoundRecord]]:
    runs = [cycles("a", fleet.part(lambda: NANO)), cycles("b", fleet.part(lambda: PIS))]
    return list(await asyncio.gather(*(run.run() for run in runs)))


def lines(records: list[RoundRecord]) -> list[str]:
    return [to_line(one) for one in records]


def devices(records: list[RoundRecord]) -> set[str]:
    return {one.device for record in records for one in record.devices}


def test_two_runs_at_once_are_each_as_if_alone() -> None:
    def alone(name: str, members: tuple[str, ...]) -> list[RoundRecord]:
        return world_of().run(lambda fleet: cycles(name, fleet.part(lambda: members)).run())

    a, b = world_of().run(both)
    assert (devices(a), devices(b)) == ({"nano"}, {"pi-1", "pi-2"})
    assert lines(a) == lines(alone("a", NANO))
    assert lines(b) == lines(alone("b", PIS))


def test_the_same_cycle_of_another_run_has_other_chances() -> None:
    async def main(fleet: SimulatedFleet) -> list[list[float | None]]:
        part = fleet.part(lambda: NANO)
        return [
            [one.devices[0].fetched_s for one in await cycles(name, part, deadline_s=30.0).run()]
            for name in "ab"
        ]

    first, second = world_of(activity={"nano": HABITS}).run(main)
    assert first != second


def test_members_are_asked_at_every_muster_and_those_away_are_not_there() -> None:
    members = {"nano", "pi-1", "stranger"}

    async def main(fleet: SimulatedFleet) -> list[set[str]]:
        assert await fleet.roster() == ("nano", "pi-1", "pi-2")
        part = fleet.part(lambda: members)
        found = [set(await part.muster(1))]
        members.add("pi-2")
        found.append(set(await part.muster(2)))
        fleet.leave("nano")
        assert await fleet.roster() == ("pi-1", "pi-2")
        return [*found, set(await part.muster(3))]

    found = world_of().run(main)
    assert found == [{"nano", "pi-1"}, {"nano", "pi-1", "pi-2"}, {"pi-1", "pi-2"}]


def test_a_snapshot_leaves_out_those_in_another_cycle() -> None:
    async def main(fleet: SimulatedFleet) -> list[set[str]]:
        first, second = fleet.part(lambda: NANO), fleet.part(lambda: ("pi-1",))
        await first.muster(1)
        await second.muster(1)
        # Its own cycle has ended, or it would not be asked.
        found = [first.snapshot(), second.snapshot(), fleet.snapshot()]
        return [set(json.loads(each)[0]) for each in found]

    found = world_of().run(main)
    assert found == [{"nano", "pi-2"}, {"nano", "pi-1", "pi-2"}, {"nano", "pi-1", "pi-2"}]


def test_a_part_is_taken_up_where_it_was(tmp_path: Path) -> None:
    def played(*lives: int) -> list[str]:
        store = open_store(tmp_path / f"{len(lives)}.sqlite")
        for end in lives:

            async def main(fleet: SimulatedFleet, end: int = end) -> None:
                part = fleet.part(lambda: PIS)
                chosen = run_of(own_data=False, cycles=end)
                await Orchestrator(chosen, DATASET, part, store=store).run()

            saved = store.latest("run")
            world_of().run(main, start_s=0.0 if saved is None else saved.clock_s)
        records = lines(store.records("run"))
        store.close()
        return records

    assert played(2, 3, 5) == played(5)
