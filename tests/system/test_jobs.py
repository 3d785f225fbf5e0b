"""`axon orchestrate` in processes of its own: two tasks at once, killed in the middle and again."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
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
from tests.system.processes import device_processes, wait_until_gone

pytestmark = pytest.mark.system

WORLD = ("--world", "emulated", "--devices", "jetson-nano*2", "--budget", "40")


class Orchestrator:
    """The command in a process of its own."""

    def __init__(self, store: Path) -> None:
        self._process = subprocess.Popen(
            [
                *(sys.executable, "-m", "axon.cli", "orchestrate", *WORLD),
                *("--store", str(store), "--port", "0"),
            ],
            stdout=subprocess.PIPE,
            text=True,
            env=os.environ | {"OMP_NUM_THREADS": "1"},
        )
        assert self._process.stdout is not None
        self.told = self._process.stdout.readline()
        assert "takes tasks at http" in self.told
        self.to = self.told.split()[4].rstrip(",").removeprefix("http://")

    @property
    def pid(self) -> int:
        return self._process.pid

    def ask(self, *words: object) -> str:
        """What another command of the same machine is answered."""
        command = [sys.executable, "-m", "axon.cli", *map(str, words), "--to", self.to]
        asked = subprocess.run(command, capture_output=True, text=True, check=True, timeout=30)
        return asked.stdout

    def tasks(self) -> dict[str, dict[str, Any]]:
        # Not by the command, which takes a second to start: tasks would be over before it asks.
        told = client.call(f"{self.to}/tasks/list")
        return {task["name"]: task for task in told["tasks"]}

    def wait_for(self, holds: Callable[[dict[str, dict[str, Any]]], bool]) -> None:
        until_s = time.monotonic() + 40
        while not holds(tasks := self.tasks()):
            assert time.monotonic() < until_s, f"it did not come to that: {tasks}"
            time.sleep(0.05)

    def end(self, number: signal.Signals) -> int:
        self._process.send_signal(number)
        assert self._process.stdout is not None
        self._process.stdout.close()
        return self._process.wait(15)

    def __enter__(self) -> Orchestrator:
        return self

    def __exit__(self, *exception: object) -> None:
        if self._process.poll() is None:
            self.end(signal.SIGKILL)


def submitted(name: str, cycles: int) -> tuple[object, ...]:
    return (
        *("submit", "--name", name, "--shards", 20, "--cycles", cycles),
        *("--deadline-s", 4, "--evaluate-every", 0),
    )


def test_killed_in_the_middle_of_two_tasks(tmp_path: Path) -> None:
    store = tmp_path / "jobs.sqlite"
    with Orchestrator(store) as first:
        assert "waiting" in first.ask(*submitted("a", 24))
        first.ask(*submitted("b", 14))
        first.wait_for(lambda tasks: min(task["cycle"] for task in tasks.values()) >= 2)
        both = first.tasks()
        devices = device_processes(first.pid)
        assert len(devices) == 2
        first.end(signal.SIGKILL)
    assert wait_until_gone(devices, within_s=5.0)

    with Orchestrator(store) as again:
        assert "goes on with 2 tasks" in again.told
        again.wait_for(lambda tasks: all(task["state"] == "done" for task in tasks.values()))
        assert "24/24" in again.ask("tasks")
        ended = again.tasks()
        assert again.end(signal.SIGTERM) == 0

    assert all(ended[name]["cycle"] > both[name]["cycle"] for name in "ab")
    records = kept(store)
    assert {name: len(each) for name, each in records.items()} == {"a": 24, "b": 14}
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
