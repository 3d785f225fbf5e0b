"""Parts of a remote fleet: several runs at once over a network, each with a depot of its own."""

from __future__ import annotations

import asyncio
from contextlib import AsyncExitStack

from axon.rounds.orchestrator import Orchestrator
from axon.testbed import virtual
from axon.values import RoundRecord
from tests.rounds.worlds import DATASET, NAMES, NetworkScene, address_of, run_of


class Scene(NetworkScene):
    """Two runs on one fleet."""

    async def both(self) -> list[list[RoundRecord]]:
        async with AsyncExitStack() as stack:
            for name in NAMES:
                await stack.enter_async_context(self.served(name))
            fleet = self.fleet()
            await stack.enter_async_context(fleet.watching())
            assert await fleet.roster() == NAMES
            parts = {"a": ("nano",), "b": ("pi-1", "pi-2")}
            runs = [
                Orchestrator(
                    run_of(name=name, own_data=False, evaluate_every=0),
                    DATASET,
                    fleet.part(lambda members=members: members),  # type: ignore[misc]
                    self.scheme,
                )
                for name, members in parts.items()
            ]
            return list(await asyncio.gather(*(run.run() for run in runs)))


def statuses(records: list[RoundRecord]) -> list[dict[str, str]]:
    return [{one.device: one.status for one in record.devices} for record in records]


def test_two_runs_at_once() -> None:
    a, b = virtual.run(Scene().both())
    assert statuses(a) == [{"nano": "used"}] * 3
    assert statuses(b) == [{"pi-1": "used", "pi-2": "used"}] * 3


def test_devices_that_are_known_by_address_alone_are_parted_by_their_names() -> None:
    a, b = virtual.run(Scene([address_of(name) for name in NAMES]).both())
    assert statuses(a) == [{"nano": "used"}] * 3
    assert statuses(b) == [{"pi-1": "used", "pi-2": "used"}] * 3


def test_who_joins_the_fleet_joins_its_parts() -> None:
    async def main() -> None:
        fleet = Scene().fleet()
        part = fleet.part(lambda: ("nano", "late"))
        fleet.join("late", "memory://late:8000")
        fleet.leave("nano")
        async with fleet.watching():
            assert await fleet.roster() == ("late", "pi-1", "pi-2")
        assert set(part._members()) == {"late"}

    virtual.run(main())
