"""Small fleets and tasks for the tests of jobs, and what must hold of every scenario."""

from __future__ import annotations

import asyncio
from collections import defaultdict
from collections.abc import Awaitable, Callable, Coroutine, Mapping
from contextlib import closing
from dataclasses import dataclass, field
from decimal import Decimal
from itertools import pairwise
from pathlib import Path
from typing import Any

from torch import nn

from axon.data.synthetic import synthetic
from axon.jobs.ledger import Ledger, money, summed
from axon.jobs.manager import Manager
from axon.jobs.standing import Rules, Standing, TaskView
from axon.jobs.submission import Prepared, Submission
from axon.learning.nets import initial
from axon.learning.tasks import default_spec, define
from axon.report.records import to_line
from axon.rounds.checkpoint import open_store
from axon.rounds.settings import Run
from axon.rpc.link import Link
from axon.testbed.catalogue import Device
from axon.testbed.simulation import SimulatedFleet, simulated
from axon.values import RoundRecord
from tests.rounds.worlds import sum_up

LINK = Link(latency_s=0.001, up_bytes_per_s=1e6, down_bytes_per_s=1e6, jitter_s=0.002)
DATASET = synthetic(samples=200, features=4, classes=2, seed=1)
SHARD_SAMPLES = 4


@define("jobs-line")
def line(inputs: tuple[int, ...], classes: int) -> nn.Module:
    return nn.Linear(inputs[0], classes)


def device(batch_s: float = 0.02) -> Device:
    return Device(
        kind="small", flops_per_s=1e9, batch_overhead_s=batch_s, memory_bytes=1 << 30, link=LINK
    )


def devices(count: int) -> dict[str, Device]:
    return {f"d{number}": device(0.01 * (1 + number % 3)) for number in range(1, count + 1)}


def submission(name: str, **changes: Any) -> Submission:
    settings: dict[str, Any] = {
        "name": name,
        "task": "jobs-line",
        "dataset": "synthetic",
        "shards": 12,
        "cycles": 3,
        "deadline_s": 2.0,
        "shard_samples": SHARD_SAMPLES,
        "batch_size": SHARD_SAMPLES,
        "evaluate_every": 0,
    }
    return Submission(**(settings | changes))


def make(asked: Submission) -> Prepared:
    """A tiny task, whatever its data set is called."""
    spec = default_spec("jobs-line", DATASET.shape, DATASET.classes, batch_size=asked.batch_size)
    run = Run(
        spec=spec,
        cycles=asked.cycles,
        deadline_s=asked.deadline_s,
        shard_samples=asked.shard_samples,
        name=asked.name,
        seed=asked.seed,
        evaluate_every=asked.evaluate_every,
    )
    shard_bytes = DATASET.train.nbytes * asked.shard_samples // len(DATASET.train)
    return Prepared(
        submission=asked,
        run=run,
        dataset=DATASET,
        model=initial(spec, asked.seed),
        shard_bytes=shard_bytes,
    )


Script = Callable[[Manager, SimulatedFleet, float], Coroutine[Any, Any, None]]
"""With the time up to which an earlier life has done it."""


@dataclass(repr=False)
class Played:
    """What a scenario left."""

    views: dict[str, TaskView]
    ledger: Ledger
    records: dict[str, list[RoundRecord]]
    standings: dict[str, Standing]
    sitting: Mapping[str, str] = field(default_factory=dict)

    @property
    def lines(self) -> str:
        """Records and ledger, to be compared byte by byte."""
        told = [to_line(one) for name in sorted(self.records) for one in self.records[name]]
        return "\n".join([*told, *map(str, self.ledger.entries())])

    def span(self, record: RoundRecord) -> tuple[float, float]:
        """When a cycle began and ended on the manager's clock."""
        zero_s = self.standings[record.run].zero_s
        return zero_s + record.started_s, zero_s + record.ended_s

    def states(self) -> dict[str, str]:
        return {name: view.state for name, view in self.views.items()}


class Crash(Exception):
    """The end of a manager that is not waited for."""


class Scene:
    """A fleet, a file and rules, to be played as often as it takes."""

    def __init__(self, path: Path, fleet: int | Mapping[str, Device] = 4, **rules: Any) -> None:
        self.path = path
        self.devices = devices(fleet) if isinstance(fleet, int) else dict(fleet)
        self.options: dict[str, Any] = {}
        """Of the world."""
        self.given: Any = None
        self.rules = Rules(**({"budget": money(100)} | rules))
        self.most: Decimal | None = None
        """The budget of an earlier life, where it was larger."""
        self._lived_s = 0.0

    def play(self, script: Script, *, crash_s: float | None = None) -> Played | None:
        """Run a script and wait until nothing is left to do; None where it crashed before."""
        try:
            return self._play(script, crash_s)
        except Crash:
            self._lived_s = max(self._lived_s, crash_s or 0.0)
        return None

    def _play(self, script: Script, crash_s: float | None) -> Played:
        world = simulated(self.devices, seed=7, trainer=sum_up, **self.options)

        async def main(fleet: SimulatedFleet) -> Played:
            opened = Manager.opened(fleet, self.path, self.rules, given=self.given, make=make)
            async with opened as manager:
                if crash_s is not None:
                    asyncio.get_running_loop().create_task(script(manager, fleet, self._lived_s))
                    await asyncio.sleep(crash_s)
                    raise Crash
                await script(manager, fleet, self._lived_s)
                await manager.settled()
                return self._played(manager)

        return world.run(main)

    def _played(self, manager: Manager) -> Played:
        views = {view.name: view for view in manager.tasks()}
        with closing(open_store(self.path)) as store:
            records = {name: store.records(name) for name in views}
        standings = {one.name: one for one in manager._desk.queue.standings()}
        played = Played(views, manager.ledger, records, standings, manager.sitting)
        check(played, self.most or self.rules.budget)
        return played


def at(*steps: tuple[float, Callable[[Manager, SimulatedFleet], object]]) -> Script:
    """A script of things to do at given times; those of the past were done by an earlier life."""

    async def play(manager: Manager, fleet: SimulatedFleet, after_s: float) -> None:
        loop = asyncio.get_running_loop()
        for when_s, step in steps:
            if when_s >= after_s:
                await asyncio.sleep(when_s - loop.time())
                found = step(manager, fleet)
                if isinstance(found, Awaitable):
                    await found

    return play


def submits(asked: Submission) -> Callable[[Manager, SimulatedFleet], Awaitable[Any]]:
    return lambda manager, _fleet: manager.submit(asked)


def check(played: Played, budget: Decimal) -> None:
    """What holds of every scenario: disjoint learners, money that adds up, no cycle twice."""
    spans = defaultdict(list)
    for records in played.records.values():
        assert [one.cycle for one in records] == list(range(1, len(records) + 1))
        for record in records:
            for each in record.devices:
                assert each.planned_shards is not None
                spans[each.device].append(played.span(record))
    for taken in spans.values():
        for (_, ended_s), (begun_s, _) in pairwise(sorted(taken)):
            assert begun_s >= ended_s - 1e-5, "a learner was in two cycles at once"
    check_money(played, budget)


def check_money(played: Played, budget: Decimal) -> None:
    entries = played.ledger.entries()
    by_kind = {
        kind: summed(one.amount for one in entries if one.kind == kind)
        for kind in ("reserved", "paid", "released")
    }
    assert by_kind["reserved"] == by_kind["paid"] + by_kind["released"]
    assert by_kind["paid"] == played.ledger.spent()
    assert played.ledger.reserved() == 0
    for name, records in played.records.items():
        paid = summed(one.amount for one in entries if (one.task, one.kind) == (name, "paid"))
        assert paid == played.views[name].spent
        for record in records:
            passes = played.standings[name].work.passes
            check_payment(played.ledger, record, SHARD_SAMPLES * passes)
    check_reservations(played, budget)


def check_payment(ledger: Ledger, record: RoundRecord, samples: int) -> None:
    paid = {
        one.learner: one.shards
        for one in ledger.entries()
        if (one.task, one.cycle, one.kind) == (record.run, record.cycle, "paid")
    }
    for each in record.devices:
        trained = each.samples // samples if each.status == "used" else 0
        assert paid.get(each.device, 0) == min(trained, each.planned_shards or 0)


def check_reservations(played: Played, budget: Decimal) -> None:
    """At no time was more than the budget set aside."""
    reserved: dict[tuple[str, int], Decimal] = defaultdict(Decimal)
    for one in played.ledger.entries():
        if one.kind == "reserved":
            reserved[one.task, one.cycle] += one.amount
    changes = []
    for name, records in played.records.items():
        for record in records:
            amount = reserved[name, record.cycle]
            begun_s, ended_s = played.span(record)
            # Records are rounded, so that a beginning may lie a hair before the end it follows.
            changes.append((begun_s, amount))
            changes.append((ended_s - 1e-5, -amount))
    level = Decimal(0)
    for _, amount in sorted(changes):
        level += amount
        assert level <= budget
