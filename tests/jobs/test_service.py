"""What requesters are answered: on the manager's own loop, and through the gate to virtual time."""

from __future__ import annotations

import asyncio
import threading
from dataclasses import asdict
from pathlib import Path
from typing import Any

from axon.jobs.ledger import money
from axon.jobs.manager import Manager
from axon.jobs.service import Direct, Gate, TasksService
from axon.jobs.standing import Rules
from axon.testbed.simulation import SimulatedFleet, simulated
from tests.jobs.scenes import devices, make, submission
from tests.rounds.worlds import sum_up

RULES = Rules(budget=money(20))


def test_answers_are_words_and_numbers(tmp_path: Path) -> None:
    async def main(fleet: SimulatedFleet) -> list[dict[str, Any]]:
        async with Manager.opened(fleet, tmp_path / "jobs", RULES, make=make) as manager:
            service = TasksService(Direct(manager))
            table = asdict(submission("a"))
            told = [await service.submit(table), await service.submit(table)]
            told += [await service.submit({"name": "b"}), await service.cancel("b")]
            told += [await service.submit(asdict(submission("b", cycles=9)))]
            await asyncio.sleep(0.4)
            told += [await service.cancel("b")]
            await manager.settled()
            return [*told, await service.list()]

    told = simulated(devices(3), seed=7, trainer=sum_up).run(main)
    verdicts = [one["verdict"] for one in told]
    assert verdicts == ["waiting", *["refused"] * 3, "waiting", "cancelled", "told"]
    assert "a task 'a' already" in told[1]["reason"]
    assert "missing required field" in told[2]["reason"]
    assert "no task 'b'" in told[3]["reason"]
    listed = told[-1]
    assert [(one["name"], one["state"]) for one in listed["tasks"]] == [
        ("a", "done"),
        ("b", "cancelled"),
    ]
    assert listed["tasks"][0]["spent"] == "36"
    assert (listed["budget"], listed["sitting"]) == ("20", {})


def test_what_is_no_task_and_no_name_is_refused_in_words(tmp_path: Path) -> None:
    async def main(fleet: SimulatedFleet) -> list[dict[str, Any]]:
        async with Manager.opened(fleet, tmp_path / "jobs", RULES, make=make) as manager:
            service = TasksService(Direct(manager))
            tables: list[Any] = [None, [1], "a"]
            names: list[Any] = [{}, [], None]
            told = [await service.submit(table) for table in tables]
            return told + [await service.cancel(name) for name in names]

    told = simulated(devices(2), seed=7, trainer=sum_up).run(main)
    assert {one["verdict"] for one in told} == {"refused"}
    assert "a task is a table of settings, got [1]" in told[1]["reason"]
    assert told[3]["reason"] == "a task is cancelled by its name, got {}"


def test_the_gate_leads_into_virtual_time(tmp_path: Path) -> None:
    """A thread asks as a requester would; while nothing runs, virtual time stands still."""
    gate = Gate()
    told: list[dict[str, Any]] = []

    def ask() -> None:
        async def asked() -> None:
            service = TasksService(gate)
            told.append(await service.list())
            told.append(await service.submit(asdict(submission("a"))))
            while (await service.list())["tasks"][0]["state"] != "done":
                pass
            told.append(await service.submit({"name": "a/b"}))
            told.append(await gate.reach(stop))

        asyncio.run(asked())

    stopped = asyncio.Event()

    async def stop(manager: Manager) -> dict[str, Any]:
        stopped.set()
        return {"verdict": "stopped"}

    async def main(fleet: SimulatedFleet) -> float:
        async with Manager.opened(fleet, tmp_path / "jobs", RULES, make=make) as manager:
            thread = threading.Thread(target=ask)
            thread.start()
            attending = asyncio.ensure_future(gate.attend(manager))
            await stopped.wait()
            attending.cancel()
            thread.join()
            return asyncio.get_running_loop().time()

    ended_s = simulated(devices(3), seed=7, trainer=sum_up).run(main)
    assert [one["verdict"] for one in told] == ["told", "waiting", "refused", "stopped"]
    assert told[0]["tasks"] == []
    assert ended_s > 0.3
