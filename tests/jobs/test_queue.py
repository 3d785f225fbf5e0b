"""The queue in its file: all or nothing, one manager at a time, damage told."""

from __future__ import annotations

import sqlite3
from contextlib import closing
from dataclasses import replace
from pathlib import Path

import pytest

from axon.devices.states import StateEstimate
from axon.errors import AxonError, ConfigurationError
from axon.jobs.knowledge import Answers
from axon.jobs.ledger import Promise, money
from axon.jobs.queue import Queue, plan_in_force
from axon.jobs.standing import Affairs, Moment, Planning, Standing
from axon.rounds.checkpoint import open_store
from axon.rounds.survey import Finding
from axon.rounds.telling import Telling
from axon.values import Capability
from tests.jobs.scenes import make, submission


@pytest.fixture
def path(tmp_path: Path) -> Path:
    where = tmp_path / "jobs.sqlite"
    open_store(where).close()
    return where


def standing(name: str, place: int) -> Standing:
    asked = submission(name)
    return Standing(submission=asked, work=make(asked).work, place=place, arrived_s=0.1 * place)


def test_what_is_kept_comes_back(path: Path) -> None:
    moment = Moment(cycle=2, at_s=0.1 + 0.2, number=7)
    first = replace(standing("b", 1), state="running", begun=moment, ended=moment, tried=("x",))
    second = standing("a", 2)
    plan = {"d1": Promise(shards=3, price=money(0.1)), "d2": Promise(shards=1, price=money(1))}
    found = Finding(
        status="told", capability=Capability(shards_per_s=0.1, bytes_per_s=1e-3), cycle=3
    )
    affairs = Affairs(
        version=4,
        available=("d1", "d2"),
        planning=Planning(at_s=0.7, version=3, cycles=2, kinds=("line",)),
        holding=True,
    )
    state = StateEstimate(probability=1.0, bytes_per_s=0.3, shards_per_s={"line": 0.1})
    answers = Answers({("line", "d1"): found}, {"d1": Telling(states=(state,), cycle=3, misses=1)})
    with closing(Queue(path)) as queue:
        queue.keep([second, first], {("b", 1): plan, ("b", 3): {}}, answers, affairs)
        queue.keep([second])
    with closing(Queue(path)) as queue:
        assert queue.standings() == [first, second]
        assert queue.plans("b") == {1: plan, 3: {}}
        assert queue.plans("a") == {}
        assert queue.answers() == answers
        assert queue.affairs() == affairs


def test_all_or_nothing(path: Path) -> None:
    with closing(Queue(path)) as queue:
        queue.keep([standing("a", 1)])
        broken = {("a", 1): object()}
        with pytest.raises(TypeError):
            queue.keep([standing("b", 2)], broken)  # type: ignore[arg-type]
        assert [one.name for one in queue.standings()] == ["a"]
        assert queue.affairs() == Affairs()


def test_one_manager_at_a_time(path: Path) -> None:
    with closing(Queue(path)), pytest.raises(ConfigurationError, match="another orchestrator"):
        Queue(path)
    Queue(path).close()


def test_damage_is_told_with_the_file(path: Path) -> None:
    with closing(Queue(path)) as queue:
        queue.keep([standing("a", 1)])
    with closing(sqlite3.connect(path)) as connection, connection:
        connection.execute("UPDATE tasks SET standing = '{\"place\": 1}'")
    with closing(Queue(path)) as queue, pytest.raises(AxonError, match=r"jobs.sqlite: what it"):
        queue.standings()


def test_the_plan_of_a_cycle_is_the_last_one_made_before_it() -> None:
    first, second = ({name: Promise(shards=1, price=money(1))} for name in ("d1", "d2"))
    plans = {1: first, 4: second}
    assert plan_in_force({}, 1) == {}
    assert [plan_in_force(plans, cycle) for cycle in (1, 3, 4, 9)] == [first, first, second, second]
