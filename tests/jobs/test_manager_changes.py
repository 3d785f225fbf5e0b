"""What changes under a manager's hands: learners that leave, tasks that end, other rules."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from axon.allocation.med import LearnerState
from axon.jobs.ledger import money
from axon.jobs.manager import Manager, _when
from axon.jobs.replanning import Replanner
from axon.testbed.simulation import SimulatedFleet
from tests.jobs.scenes import Played, Scene, Script, at, submission, submits


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "jobs.sqlite"


def play(scene: Scene, script: Script) -> Played:
    played = scene.play(script)
    assert played is not None
    return played


async def come(true: Callable[[], object]) -> None:
    """Look often, until it is."""
    for _ in range(5000):
        if true():
            return
        await asyncio.sleep(0.002)
    raise AssertionError("it never came to that")


def test_one_that_is_cancelled_while_it_is_planned_stays_so(
    path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """On a real fleet planning takes a while, in which a requester may change its mind."""
    quick = Replanner._planned

    async def slow(self: Replanner, *words: Any) -> Any:
        found = await quick(self, *words)
        await asyncio.sleep(0.2)
        return found

    monkeypatch.setattr(Replanner, "_planned", slow)

    async def script(manager: Manager, fleet: SimulatedFleet, after_s: float) -> None:
        for name in "ab":
            await manager.submit(submission(name, cycles=30, shards=30, deadline_s=0.6))
        await asyncio.sleep(4.0)
        await manager.submit(submission("c", cycles=5, shards=20, deadline_s=0.6))
        desk, replanner = manager._desk, manager._replanner
        await come(lambda: desk.affairs.holding)
        for name in ("d2", "d3", "d4"):
            fleet.leave(name)
        await come(lambda: len(replanner._included & set(desk.running)) > 1)
        # The last to rest is the one that plans, and would take its plan with it.
        first = min(desk.running, key=_when)
        await manager.cancel(first.name)
        await asyncio.sleep(1.0)
        assert (first.standing.state, first.standing.reason) == ("cancelled", "")
        for name in ("d2", "d3", "d4"):
            fleet.join(name)

    played = play(Scene(path), script)
    assert sorted(played.states().values()) == ["cancelled", "done", "done"]


def test_one_trains_all_its_shards_or_waits(path: Path) -> None:
    async def script(manager: Manager, fleet: SimulatedFleet, after_s: float) -> None:
        await manager.submit(submission("a", cycles=20, shards=40, deadline_s=0.6))
        await asyncio.sleep(2.0)
        for name in ("d2", "d3", "d4"):
            fleet.leave(name)
        await manager.settled()
        (view,) = manager.tasks()
        assert (view.state, view.learners) == ("waiting", {})
        assert "a deadline of 'a' of at least 0.8" in view.reason
        assert 0 < view.cycle < 20
        for name in ("d2", "d3", "d4"):
            fleet.join(name)
        await manager.submit(submission("b", cycles=1))

    played = play(Scene(path), script)
    assert played.states() == {"a": "done", "b": "done"}
    assert played.views["a"].reason == ""
    for record in played.records["a"]:
        assert sum(one.planned_shards or 0 for one in record.devices) == 40


def test_one_whose_learners_are_all_there_goes_on_though_they_are_slower(path: Path) -> None:
    scene = Scene(path, 2, replan_every=2)
    scene.given = {name: [LearnerState(1.0, 1e6, {"a": 40.0})] for name in ("d1", "d2")}
    told = []

    async def script(manager: Manager, fleet: SimulatedFleet, after_s: float) -> None:
        await manager.submit(submission("a", cycles=9))
        await asyncio.sleep(0.6)
        slower = {name: [LearnerState(1.0, 1e6, {"a": 1.0})] for name in ("d1", "d2")}
        manager._desk.knowledge._given.update(slower)
        await asyncio.sleep(0.7)
        told.extend(manager.tasks())

    played = play(scene, script)
    assert (told[0].state, sum(told[0].learners.values())) == ("running", 12)
    assert "planned as before: " in told[0].reason
    assert played.views["a"].spent == 9 * 12
    assert (played.views["a"].state, played.views["a"].reason) == ("done", "")


def test_one_that_needs_a_learner_that_does_not_answer_tries_it_and_says_so(path: Path) -> None:
    """It is left out for so many cycles, and without it there are none that could be counted."""
    script = at(
        (0.0, submits(submission("a", cycles=8, shards=40, deadline_s=0.6))),
        (1.0, lambda _, fleet: fleet.crash("d3")),
    )
    played = play(Scene(path), script)
    trained = int(played.ledger.spent("a"))
    assert played.states() == {"a": "done"}
    assert 0 < trained < 320
    assert played.views["a"].reason == f"trained {trained} of 320 shards in 8 cycles"


def test_more_money_after_a_restart_places_who_waits(path: Path) -> None:
    script = at(*((0.0, submits(submission(name, cycles=12))) for name in "ab"))
    assert Scene(path, budget=money(12)).play(script, crash_s=0.8) is None
    played = play(Scene(path, budget=money(24)), at())
    assert played.states() == {"a": "done", "b": "done"}
    begun_s = played.span(played.records["b"][0])[0]
    assert begun_s < played.span(played.records["a"][-1])[0], "beside the other, not after it"
    assert begun_s > 0.5, "and not before what had happened"


def test_too_little_money_after_a_restart_ends_nobody_who_has_trained(path: Path) -> None:
    script = at((0.0, submits(submission("a", cycles=9))))
    assert Scene(path).play(script, crash_s=1.0) is None
    for _ in range(2):
        poorer = Scene(path, budget=money(5))
        poorer.most = money(100)
        played = play(poorer, at())
        assert played.states() == {"a": "waiting"}
        assert "a budget of at least 12" in played.views["a"].reason
    assert 0 < len(played.records["a"]) < 9
    played = play(Scene(path), at())
    assert played.states() == {"a": "done"}
    assert played.ledger.spent() == 9 * 12
