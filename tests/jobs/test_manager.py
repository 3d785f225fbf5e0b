"""Several tasks at once in virtual time: who has which learners, and when.

That no learner is in two cycles at once, that money adds up and that no more than the budget is
ever set aside is checked of every scenario here, by `scenes.check`.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from axon.allocation.med import LearnerState
from axon.errors import ConfigurationError
from axon.jobs.ledger import money
from axon.jobs.manager import Manager
from axon.jobs.standing import Admission
from axon.testbed.simulation import SimulatedFleet
from tests.jobs.scenes import Played, Scene, Script, at, device, submission, submits


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "jobs.sqlite"


def play(scene: Scene, script: Script) -> Played:
    played = scene.play(script)
    assert played is not None
    return played


def learners(played: Played, name: str) -> list[set[str]]:
    """Of each cycle of a task."""
    return [{one.device for one in record.devices} for record in played.records[name]]


def answers(*asked: Any) -> tuple[Script, list[Admission]]:
    """A script that submits at given times, and what it is told."""
    told: list[Admission] = []

    def step(wanted: Any) -> Any:
        async def ask(manager: Manager, fleet: SimulatedFleet) -> None:
            told.append(await manager.submit(wanted))

        return ask

    return at(*((when_s, step(wanted)) for when_s, wanted in asked)), told


def test_two_tasks_share_a_fleet(path: Path) -> None:
    script = at((0.0, submits(submission("a"))), (0.0, submits(submission("b", cycles=5))))
    played = play(Scene(path), script)
    assert played.states() == {"a": "done", "b": "done"}
    assert [len(played.records[name]) for name in "ab"] == [3, 5]
    assert played.views["a"].spent == 36
    together = zip(learners(played, "a"), learners(played, "b"), strict=False)
    assert all(not one & other for one, other in list(together)[:3])


def test_every_shard_of_a_task_is_dealt_out_in_every_cycle(path: Path) -> None:
    script = at(*((0.0, submits(submission(name, shards=9, passes=2))) for name in "abc"))
    played = play(Scene(path, 6), script)
    for records in played.records.values():
        for record in records:
            assert sum(one.planned_shards or 0 for one in record.devices) == 9
            assert sum(one.samples for one in record.devices) == 9 * 4 * 2


def test_one_comes_in_the_middle_and_gets_learners_at_a_boundary(path: Path) -> None:
    script = at(
        (0.0, submits(submission("a", cycles=8, shards=40))),
        (1.0, submits(submission("b", cycles=2))),
    )
    played = play(Scene(path), script)
    assert played.states() == {"a": "done", "b": "done"}
    had = learners(played, "a")
    assert len(had[0]) == 4, "alone it had everybody"
    shared = [each for each in had if len(each) < 4]
    assert shared, "some went to the other"
    assert set().union(*learners(played, "b")).isdisjoint(shared[0])


def test_learners_of_one_that_is_done_go_to_the_others(path: Path) -> None:
    script = at(
        (0.0, submits(submission("a", cycles=1))), (0.0, submits(submission("b", cycles=9)))
    )
    played = play(Scene(path), script)
    had = learners(played, "b")
    assert len(had[0]) < 4
    assert len(had[-1]) == 4


def test_one_that_is_cancelled_frees_its_learners_and_is_paid_so_far(path: Path) -> None:
    script = at(
        (0.0, submits(submission("a", cycles=50))),
        (0.0, submits(submission("b", cycles=9))),
        (1.0, lambda manager, _: manager.cancel("a")),
    )
    played = play(Scene(path), script)
    assert played.states() == {"a": "cancelled", "b": "done"}
    ended = len(played.records["a"])
    assert 0 < ended < 50
    assert played.views["a"].spent == 12 * ended
    assert len(learners(played, "b")[-1]) == 4


def test_what_cannot_be_cancelled(path: Path) -> None:
    async def script(manager: Manager, fleet: SimulatedFleet, after_s: float) -> None:
        with pytest.raises(ConfigurationError, match="no task 'a'"):
            await manager.cancel("a")
        await manager.submit(submission("a"))
        await manager.settled()
        with pytest.raises(ConfigurationError, match="'a' is done already"):
            await manager.cancel("a")

    play(Scene(path), script)


def test_a_name_is_given_once(path: Path) -> None:
    async def script(manager: Manager, fleet: SimulatedFleet, after_s: float) -> None:
        await manager.submit(submission("a"))
        for _ in range(2):
            with pytest.raises(ConfigurationError, match="a task 'a' already"):
                await manager.submit(submission("a", shards=3))
            await manager.settled()

    play(Scene(path), script)


def rates(*tasks: str) -> list[LearnerState]:
    return [LearnerState(1.0, 1e6, dict.fromkeys(tasks, 40.0))]


def test_admission_tells_what_would_make_it_possible(path: Path) -> None:
    script, told = answers(
        (0.0, submission("a", shards=30, deadline_s=0.2)),
        (0.0, submission("a", shards=30, deadline_s=0.5)),
        (0.1, submission("b", shards=40)),
    )
    scene = Scene(path, {"d1": device(), "d2": device()}, budget=money(35))
    scene.given = {name: rates("a", "b") for name in ("d1", "d2")}
    played = play(scene, script)
    assert [one.verdict for one in told] == ["refused", "admitted", "refused"]
    assert "a deadline of 'a' of at least 0.37" in told[0].reason
    assert "a budget of at least 40" in told[2].reason
    assert played.states() == {"a": "done"}


def test_one_that_is_found_impossible_in_the_benchmark_fails_with_the_reason(path: Path) -> None:
    script, told = answers((0.0, submission("a", shards=40, deadline_s=0.11)))
    played = play(Scene(path, 2), script)
    assert (told[0].verdict, played.states()) == ("waiting", {"a": "failed"})
    assert "a deadline of 'a' of at least" in played.views["a"].reason


def test_more_tasks_than_learners_wait_their_turn(path: Path) -> None:
    script = at(*((0.0, submits(submission(name))) for name in "abcd"))
    played = play(Scene(path, 2), script)
    assert set(played.states().values()) == {"done"}
    began = [played.span(played.records[name][0])[0] for name in "abcd"]
    assert began == sorted(began)
    assert began[2] > began[1]


def test_one_that_fits_only_if_all_are_planned_together_makes_them_wait(path: Path) -> None:
    """Each of two tasks has two of four learners; a third needs one of each of them."""
    scene = Scene(path, {f"d{number}": device(0.02) for number in range(1, 5)})
    script = at(
        (0.0, submits(submission("a", cycles=30, shards=10, deadline_s=1.0))),
        (0.0, submits(submission("b", cycles=37, shards=11, deadline_s=1.0))),
        (2.0, submits(submission("c", cycles=2, shards=22, deadline_s=0.32))),
    )
    played = play(scene, script)
    assert set(played.states().values()) == {"done"}
    assert played.span(played.records["c"][0])[0] < played.span(played.records["a"][-1])[0]


def test_a_learner_that_keeps_to_itself_sits_out(path: Path) -> None:
    scene = Scene(path, 3)
    scene.options = {"private": ("d2",)}
    played = play(scene, at((0.0, submits(submission("a")))))
    assert all("d2" not in each for each in learners(played, "a"))
    assert played.sitting == {"d2": "it keeps its capability to itself"}


def test_devices_leave_and_come(path: Path) -> None:
    script = at(
        (0.0, submits(submission("a", cycles=30, shards=24))),
        (1.0, lambda _, fleet: fleet.leave("d3")),
        (2.5, lambda _, fleet: fleet.join("d3")),
    )
    played = play(Scene(path), script)
    had = learners(played, "a")
    assert len(had[0]) == len(had[-1]) == 4
    assert {"d1", "d2", "d4"} in had
    missed = [one.status for record in played.records["a"] for one in record.devices]
    assert set(missed) == {"used"}, "nobody was counted on who had left"


def test_one_whose_learners_all_leave_waits_for_others(path: Path) -> None:
    async def script(manager: Manager, fleet: SimulatedFleet, after_s: float) -> None:
        await manager.submit(submission("a", cycles=20))
        leaving = [(1.0, lambda *_, name=name: fleet.leave(name)) for name in ("d1", "d2")]
        await at(*leaving)(manager, fleet, 0.0)
        await manager.settled()
        (view,) = manager.tasks()
        assert (view.state, view.learners) == ("waiting", {})
        assert "need a learner each" in view.reason
        fleet.join("d1")
        await manager.submit(submission("b", cycles=1))
        await manager.settled()

    played = play(Scene(path, 2), script)
    assert set(played.states().values()) == {"done"}
    assert learners(played, "a")[-1] == {"d1"}


def test_one_that_does_not_answer_is_left_out_for_a_while(path: Path) -> None:
    script = at(
        (0.0, submits(submission("a", cycles=12, shards=24))),
        (1.0, lambda _, fleet: fleet.crash("d1")),
        (1.05, lambda _, fleet: fleet.start("d1")),
    )
    played = play(Scene(path), script)
    had = learners(played, "a")
    statuses = [one.status for record in played.records["a"] for one in record.devices]
    assert statuses.count("failed") == 1
    failed = next(
        at for at, record in enumerate(played.records["a"]) if record.with_status("failed")
    )
    assert all("d1" not in each for each in had[failed + 1 : failed + 3])
    assert "d1" in had[-1]


def test_a_cycle_that_brings_nothing_is_tried_again_on_others(path: Path) -> None:
    scene = Scene(path, {"d1": device(0.01), "d2": device(0.05), "d3": device(0.05)})
    script = at(
        (0.0, submits(submission("a", cycles=12, shards=3))),
        (0.0, submits(submission("b", cycles=40, shards=3))),
        (1.0, lambda _, fleet: fleet.crash("d1")),
    )
    played = play(scene, script)
    assert set(played.states().values()) == {"done"}
    had = learners(played, "a")
    assert had[0] == {"d1"}
    assert had[-1] <= {"d2", "d3"}


def test_one_that_never_brings_anything_fails(path: Path) -> None:
    script = at(
        (0.0, submits(submission("a", cycles=60))),
        (1.0, lambda _, fleet: fleet.crash("d1")),
        (1.0, lambda _, fleet: fleet.crash("d2")),
    )
    played = play(Scene(path, 2), script)
    assert played.states() == {"a": "failed"}
    assert "wanted 1 answers, got 0" in played.views["a"].reason
    assert played.ledger.reserved() == 0


def test_the_same_submissions_give_the_same_bytes(tmp_path: Path) -> None:
    script = at(
        (0.0, submits(submission("a", cycles=4))),
        (0.3, submits(submission("b", cycles=4))),
        (0.6, submits(submission("c", cycles=2))),
    )
    lines = [play(Scene(tmp_path / name, replan_every=2), script).lines for name in "xy"]
    assert lines[0] == lines[1]
    assert lines[0] != play(Scene(tmp_path / "z", 5, replan_every=2), script).lines
