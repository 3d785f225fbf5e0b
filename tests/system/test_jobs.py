"""`axon orchestrate` in processes of its own: two tasks at once, killed in the middle and again."""

from __future__ import annotations

import signal
import time
from collections.abc import Callable
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest

from axon import client
from axon.jobs.ledger import Ledger, money, trained_shards
from axon.jobs.queue import Queue, plan_in_force
from axon.rounds.checkpoint import open_store
from axon.values import RoundRecord
from tests import forks
from tests.pages import typed
from tests.system.processes import device_processes, wait_until_gone

pytestmark = [pytest.mark.system, pytest.mark.timeout(120)]

OPENING = "orchestrate --world emulated --devices jetson-nano*2 --budget 40"


class Orchestrator:
    """The command in a process of its own."""

    def __init__(self, store: Path) -> None:
        self._folder = store.parent
        self._running = forks.command(f"{OPENING} --store {store} --port 0", self._folder)
        self.told = self._running.line()
        assert "takes tasks at http" in self.told
        self.to = self.told.split()[4].rstrip(",").removeprefix("http://")

    @property
    def pid(self) -> int:
        return self._running.pid

    def ask(self, words: str) -> str:
        """What another command of the same machine is answered."""
        return typed(f"{words} --to {self.to}", self._folder)

    def tasks(self) -> dict[str, dict[str, Any]]:
        # Not by the command, whose start takes long beside a cycle.
        told = client.call(f"{self.to}/tasks/list")
        return {task["name"]: task for task in told["tasks"]}

    def wait_for(self, holds: Callable[[dict[str, dict[str, Any]]], bool]) -> None:
        until_s = time.monotonic() + 40
        while not holds(tasks := self.tasks()):
            assert time.monotonic() < until_s, f"it did not come to that: {tasks}"
            time.sleep(0.05)

    def end(self, number: signal.Signals) -> int:
        self._running.send(number)
        return self._running.result(15.0)[0]

    def __enter__(self) -> Orchestrator:
        return self

    def __exit__(self, *exception: object) -> None:
        self._running.__exit__(None, None, None)


def submitted(name: str, cycles: int) -> str:
    work = f"submit --name {name} --shards 20 --cycles {cycles}"
    return f"{work} --deadline-s 4 --evaluate-every 0"


def test_killed_in_the_middle_of_two_tasks(tmp_path: Path) -> None:
    store = tmp_path / "jobs.sqlite"
    with Orchestrator(store) as first:
        assert "waiting" in first.ask(submitted("a", 14))
        first.ask(submitted("b", 8))
        first.wait_for(lambda tasks: min(task["cycle"] for task in tasks.values()) >= 2)
        both = first.tasks()
        devices = device_processes(first.pid)
        assert len(devices) == 2
        first.end(signal.SIGKILL)
    assert wait_until_gone(devices, within_s=15.0)

    with Orchestrator(store) as again:
        assert "goes on with 2 tasks" in again.told
        again.wait_for(lambda tasks: all(task["state"] == "done" for task in tasks.values()))
        assert "14/14" in again.ask("tasks")
        ended = again.tasks()
        assert again.end(signal.SIGTERM) == 0

    assert all(ended[name]["cycle"] > both[name]["cycle"] for name in "ab")
    records = kept(store)
    assert {name: len(each) for name, each in records.items()} == {"a": 14, "b": 8}
    check_paid(store, records, {name: ended[name]["spent"] for name in "ab"})


def kept(store: Path) -> dict[str, list[RoundRecord]]:
    with closing(open_store(store)) as opened:
        records = {name: opened.records(name) for name in "ab"}
    for each in records.values():
        assert [one.cycle for one in each] == list(range(1, len(each) + 1))
    return records


def check_paid(store: Path, records: dict[str, list[RoundRecord]], spent: dict[str, str]) -> None:
    """What was told to be spent is what the plans and the records come to."""
    ledger = Ledger(money(40))
    with closing(Queue(store)) as queue:
        works = {one.name: one.work for one in queue.standings()}
        for name, each in records.items():
            plans = queue.plans(name)
            for record in each:
                shares = plan_in_force(plans, record.cycle)
                assert {one.device for one in record.devices} <= set(shares)
                samples = works[name].shard_samples
                trained = trained_shards(record, shard_samples=samples, passes=1)
                ledger.reserve(name, record.cycle, shares)
                ledger.settle(name, record.cycle, trained)
    assert {name: str(ledger.spent(name)) for name in records} == spent
