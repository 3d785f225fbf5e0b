"""An orchestrator that is killed again and again, and taken up each time: nothing is lost or done
twice."""

from __future__ import annotations

import time
from contextlib import closing
from pathlib import Path

import pytest

from axon.recipes.keeping import CHECKPOINT, MODEL, RECORDS
from axon.recipes.settings import Recipe
from axon.report.records import read
from axon.rounds.checkpoint import open_store
from axon.seeds import plain_stream
from tests.system.processes import Life, device_processes, wait_until_gone

pytestmark = [pytest.mark.system, pytest.mark.timeout(120)]

KILLS = 30
LONGEST_S = 0.06
"""How long a life lasts, at most, after its first cycle has begun or ended."""


def saved_cycles(out: Path, name: str = "run") -> int:
    """How many cycles the checkpoint has, each of them once."""
    with closing(open_store(str(out / CHECKPOINT))) as store:
        latest = store.latest(name)
        numbers = [record.cycle for record in store.records(name)]
    assert numbers == list(range(1, len(numbers) + 1))
    assert len(numbers) == (0 if latest is None else latest.cycle)
    return len(numbers)


def test_killed_thirty_times_in_a_row(tmp_path: Path) -> None:
    recipe = Recipe(devices="jetson-nano*2", allocator="equal:28", cycles=300, seed=11)
    undisturbed, out = tmp_path / "undisturbed", tmp_path / "killed"
    assert Life(recipe, undisturbed).end() == 0
    random, saved = plain_stream(11, "kills"), 0
    for _ in range(KILLS):
        life = Life(recipe, out)
        assert life.next_cycle() == 0
        told = saved
        # The first cycle of a life pays for much that happens once, so most kills wait for its end.
        if random.random() < 0.8:
            assert life.next_cycle() == saved + 1
            told += 1
        time.sleep(random.uniform(0.0, LONGEST_S))
        life.kill()
        while (number := life.next_cycle()) is not None:
            assert number == told + 1, "a life goes on where the one before it ended"
            told = number
        saved = saved_cycles(out)
        assert told <= saved <= told + 1, "what was said to be done is kept"
    print(f"\n{saved} of {recipe.cycles} cycles were saved by {KILLS} lives")
    assert saved < recipe.cycles, "the run was over before its last kill"
    assert Life(recipe, out).end() == 0
    assert (out / RECORDS).read_bytes() == (undisturbed / RECORDS).read_bytes()
    assert (out / MODEL).read_bytes() == (undisturbed / MODEL).read_bytes()


def test_killed_beside_its_devices(tmp_path: Path) -> None:
    like = {"like": "jetson-nano", "batch_overhead_s": 0.002}
    # Told what to do, devices take as long as that takes, and a busy machine has time to spare.
    recipe = Recipe(
        world="emulated",
        device={"a": like, "b": like},
        cycles=10,
        passes=4,
        deadline_s=10.0,
        allocator="equal:28",
        links="none",
    )
    random, saved = plain_stream(12, "kills"), 0
    for _ in range(2):
        life = Life(recipe, tmp_path)
        assert life.next_cycle() == 0
        assert life.next_cycle() == saved + 1
        devices = device_processes(life.pid)
        assert len(devices) == 2
        time.sleep(random.uniform(0.0, 0.1))
        life.kill()
        assert wait_until_gone(devices, within_s=15.0)
        assert saved_cycles(tmp_path) > saved
        saved = saved_cycles(tmp_path)
    assert Life(recipe, tmp_path).end() == 0
    records = read(tmp_path / RECORDS)
    assert [record.cycle for record in records] == list(range(1, recipe.cycles + 1))
