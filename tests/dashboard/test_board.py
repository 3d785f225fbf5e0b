"""The tasks of an orchestrator, read from its file while it writes to it, or told by itself."""

from __future__ import annotations

import sqlite3
from pathlib import Path

import pytest

from axon.dashboard.board import Board, board_from, board_in
from axon.errors import AxonError
from axon.jobs.ledger import money
from axon.rounds.checkpoint import open_store
from tests.jobs.scenes import Scene, at, submission, submits


def test_a_file_tells_what_its_orchestrator_knows(tmp_path: Path) -> None:
    path = tmp_path / "jobs.sqlite"
    played = Scene(path).play(at((0.0, submits(submission("a"))), (0.1, submits(submission("b")))))
    assert played is not None
    board = board_in(path)
    assert board is not None
    assert board.spent == str(played.ledger.spent())
    assert board.budget == "100"
    for task, view in zip(board.tasks, played.views.values(), strict=True):
        told = (task.name, task.state, task.cycle, task.cycles, task.spent, dict(task.learners))
        assert told == (view.name, view.state, view.cycle, view.cycles, str(view.spent), {})


def test_a_task_under_way_has_learners_with_prices(tmp_path: Path) -> None:
    path = tmp_path / "jobs.sqlite"
    scene = Scene(path, price=money(0.5))
    assert scene.play(at((0.0, submits(submission("a", cycles=50)))), crash_s=4.0) is None
    board = board_in(path)
    assert board is not None
    (task,) = board.tasks
    assert task.state == "running"
    assert 0 < task.cycle < 50
    assert sum(task.learners.values()) == 12
    assert set(task.prices.values()) == {"0.5"}
    assert task.reserved == "6.0"


def test_a_file_without_tasks_has_no_board(tmp_path: Path) -> None:
    open_store(str(tmp_path / "runs.sqlite")).close()
    assert board_in(tmp_path / "runs.sqlite") is None
    (tmp_path / "text").write_text("no database, but quite long for a text" * 100)
    with pytest.raises(AxonError, match="text"):
        board_in(tmp_path / "text")
    connection = sqlite3.connect(tmp_path / "strange.sqlite")
    for table in ("tasks (standing, place)", "plans (x)", "affairs (kept)", "records (x)"):
        connection.execute(f"CREATE TABLE {table}")
    connection.execute("INSERT INTO affairs VALUES ('nonsense')")
    connection.commit()
    connection.close()
    with pytest.raises(AxonError, match="cannot be read"):
        board_in(tmp_path / "strange.sqlite")


def test_what_an_orchestrator_answers_is_checked() -> None:
    task = {"name": "a", "state": "running", "cycle": 1, "cycles": 2, "accuracy": None,
            "learners": {"d1": 3}, "spent": "1.5", "reason": ""}  # fmt: skip
    answer = {"tasks": [task], "spent": "1.5", "budget": "10", "sitting": {}, "verdict": "told"}
    board = board_from(answer, "here:8100", may_cancel=True)
    assert isinstance(board, Board)
    assert board.tasks[0].learners == {"d1": 3}
    with pytest.raises(AxonError, match="does not answer like an orchestrator"):
        board_from({**answer, "tasks": [{"name": 7}]}, "here:8100", may_cancel=True)
