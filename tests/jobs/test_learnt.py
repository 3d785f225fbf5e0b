"""Plans by the states that learners found themselves in, as far as they tell them."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from axon.jobs.manager import Manager
from axon.learning.learner import PRIVATE
from axon.rpc.link import Link
from axon.testbed.activity import Activity
from axon.testbed.catalogue import Device
from axon.testbed.simulation import SimulatedFleet, SimulatedLearner
from tests.jobs.scenes import Played, Scene, at, submission, submits

pytestmark = pytest.mark.slow  # All together they take seconds.

LINK = Link(latency_s=0.001, up_bytes_per_s=1e8, down_bytes_per_s=1e8, jitter_s=0.002)
RELIABLE = Activity({"idle": 1.0})
FICKLE = Activity({"idle": 0.5, "training": 0.5})


def device(batch_s: float) -> Device:
    # The owner's product takes 15 ms beside every batch.
    return Device(
        kind="quick", flops_per_s=1e11, batch_overhead_s=batch_s, memory_bytes=1 << 30, link=LINK
    )


def scene(folder: Path, **rules: Any) -> Scene:
    made = Scene(
        folder / "jobs.sqlite",
        {"d1": device(0.01), "d2": device(0.01), "d3": device(0.015)},
        **({"replan_every": 4, "ask_every": 4} | rules),
    )
    made.options = {"activity": {"d1": RELIABLE, "d2": FICKLE, "d3": RELIABLE}}
    return made


SCRIPT = at((0.0, submits(submission("a", cycles=25, shards=24))))


def shards(played: Played, learner: str, since: int = 15) -> float:
    """What it was dealt on average in the cycles after that one."""
    records = played.records["a"][since:]
    dealt = [
        each.planned_shards or 0
        for record in records
        for each in record.devices
        if each.device == learner
    ]
    return sum(dealt) / len(records)


def test_one_whose_owner_uses_it_too_is_dealt_less(tmp_path: Path) -> None:
    played = scene(tmp_path).play(SCRIPT)
    assert played is not None
    assert played.states() == {"a": "done"}
    # Of 24 shards at 10 ms, at 10 or 25 ms and at 15 ms: about 11, 6 and 7.
    assert shards(played, "d2") < 0.8 * shards(played, "d1")


def test_without_it_they_are_dealt_for_ever_what_the_benchmark_told(tmp_path: Path) -> None:
    played = scene(tmp_path, learns=False).play(SCRIPT)
    assert played is not None
    assert shards(played, "d2", since=0) == shards(played, "d2")


def test_learners_are_asked_at_the_first_boundary_and_seldom_after(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked: list[str] = []
    answer = SimulatedLearner.states

    async def counted(self: SimulatedLearner, kinds: Any) -> Any:
        asked.append(self.learner.name)
        return await answer(self, kinds)

    monkeypatch.setattr(SimulatedLearner, "states", counted)
    played = scene(tmp_path, ask_every=10, replan_every=2).play(SCRIPT)
    assert played is not None
    assert [asked.count(name) for name in ("d1", "d2", "d3")] == [3, 3, 3]


def test_one_that_tells_neither_sits_out(tmp_path: Path) -> None:
    made = scene(tmp_path)
    made.options["private"] = ("d1",)
    played = made.play(SCRIPT)
    assert played is not None
    assert shards(played, "d1", since=0) == 0
    assert played.sitting == {"d1": PRIVATE}


def test_a_learner_that_is_mute_holds_nobody_for_long(tmp_path: Path) -> None:
    """Cut off, it is waited for once at a boundary, and left out after a cycle without it."""

    async def script(manager: Manager, fleet: SimulatedFleet, after_s: float) -> None:
        await manager.submit(submission("a", cycles=6, shards=24))
        await at((0.9, lambda _, fleet: fleet.partition("d3")))(manager, fleet, 0.0)

    played = scene(tmp_path, ask_every=1).play(script)
    assert played is not None
    assert played.states() == {"a": "done"}
    ended_s = max(played.span(record)[1] for record in played.records["a"])
    # The survey, a cycle to its deadline and a question to its end; the rest are short.
    assert ended_s < 2.0 + 2.0 + 2 * 2.2


@pytest.mark.parametrize("crashes", [(0.9,), (1.3, 1.9)])
def test_a_manager_that_dies_plans_with_what_was_told(
    tmp_path: Path, crashes: tuple[float, ...]
) -> None:
    (tmp_path / "x").mkdir()
    (tmp_path / "y").mkdir()
    script = at(
        (0.0, submits(submission("a", cycles=6, shards=24))),
        (0.7, submits(submission("b", cycles=3, shards=9, batch_size=2))),
    )
    often = {"ask_every": 1, "replan_every": 1}
    undisturbed, disturbed = scene(tmp_path / "x", **often), scene(tmp_path / "y", **often)
    for crash_s in crashes:
        assert disturbed.play(script, crash_s=crash_s) is None
    whole, parts = undisturbed.play(script), disturbed.play(script)
    assert whole is not None
    assert parts is not None
    assert whole.states() == {"a": "done", "b": "done"}
    assert parts.lines == whole.lines
