"""Leaders that replace one another over a network, with learners that hear of it."""

from __future__ import annotations

import asyncio
from contextlib import AsyncExitStack
from pathlib import Path

import pytest

from axon.errors import QuorumNotReached, Superseded
from axon.rounds.lease import Lease
from axon.rounds.orchestrator import Orchestrator
from axon.rounds.remote import Hosting
from axon.rounds.settings import Scheme, Survey
from axon.rounds.sqlite import SqliteStore
from axon.rounds.standby import Candidacy, Standby
from axon.testbed import virtual
from tests.rounds.worlds import DATASET, NAMES, FakeFleet, InlineFleet, NetworkScene, good, run_of


class Led(NetworkScene):
    """One run over a network, and a store that several orchestrators reach."""

    def __init__(self, cycles: int = 4) -> None:
        super().__init__(cycles=cycles)
        self.store = SqliteStore(Path(":memory:"))
        self.store.begin(self.run.name, "{}")

    def fleet_of(self, name: str) -> InlineFleet:
        transport = self.network.transport(name)
        return InlineFleet(
            self.addresses, hosting=Hosting(host=name, port=9000, transport=transport)
        )

    def lease_of(self, name: str) -> Lease:
        held = self.store.lead(self.run.name, name)
        return Lease(self.store, self.run.name, held, self.fleet_of(name))

    def orchestrator(self, name: str) -> Orchestrator:
        return Orchestrator(self.run, DATASET, self.fleet_of(name), self.scheme, store=self.store)

    def standby(self, name: str, *, eager: bool = False) -> asyncio.Task[object]:
        candidacy = Candidacy(holder=name, eager=eager)
        standby = Standby(
            self.run,
            DATASET,
            self.fleet_of(name),
            self.scheme,
            store=self.store,
            candidacy=candidacy,
        )
        return asyncio.create_task(standby.run())


async def served(scene: Led, stack: AsyncExitStack) -> None:
    for name in NAMES:
        await stack.enter_async_context(scene.served(name))


def test_learners_leave_a_leader_for_the_one_that_replaced_it() -> None:
    async def main(scene: Led) -> None:
        async with AsyncExitStack() as stack:
            await served(scene, stack)
            older = scene.lease_of("one")
            first = asyncio.create_task(scene.orchestrator("one").run(older))
            await asyncio.sleep(0.02)
            newer = scene.lease_of("two")
            second = asyncio.create_task(newer.during(scene.orchestrator("two").run(newer)))
            with pytest.raises(QuorumNotReached, match="a newer order took its place"):
                await first
            with pytest.raises(QuorumNotReached, match="epoch 2 leads run run, this order is of"):
                await scene.orchestrator("one").run(older)
            with pytest.raises(Superseded, match="led by two as epoch 2"):
                await older.during(scene.orchestrator("one").run(older))
            await second
            assert [record.epoch for record in scene.store.records("run")] == [2] * 4

    virtual.run(main(Led()))


def test_a_leader_cut_off_from_its_learners_is_replaced_by_one_that_is_not() -> None:
    async def main(scene: Led) -> None:
        async with AsyncExitStack() as stack:
            await served(scene, stack)
            first = scene.standby("one", eager=True)
            await asyncio.sleep(0.01)
            second = scene.standby("two")
            await asyncio.sleep(0.01)
            scene.network.partition("one")
            with pytest.raises(QuorumNotReached):
                await first
            await second
        records = scene.store.records("run")
        assert [record.cycle for record in records] == [1, 2, 3, 4]
        assert [record.epoch for record in records][-1] == 2
        assert all(device.status == "used" for device in records[-1].devices)

    virtual.run(main(Led()))


def test_a_survey_is_an_order_of_an_epoch_too() -> None:
    async def main() -> None:
        store, fleet = SqliteStore(Path(":memory:")), FakeFleet(a=good(1.0))
        store.begin("run", "{}")
        store.lead("run", "nobody")
        lease = Lease(store, "run", store.lead("run", "one"), fleet)
        scheme = Scheme(survey=Survey(shards=1))
        await Orchestrator(run_of(cycles=1), DATASET, fleet, scheme, store=store).run(lease)
        ((order, _),) = fleet.asked
        assert (order.epoch, order.owner) == (2, lease.owner)

    virtual.run(main())
