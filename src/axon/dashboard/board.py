"""The tasks of an orchestrator: where each stands, what it has cost, and who asks what price.

They come from the orchestrator itself, or from the file that it keeps them in. Amounts are texts
throughout, exact to the last digit.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Mapping
from contextlib import closing
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import msgspec

from axon.errors import AxonError
from axon.jobs.ledger import Ledger, Promise, money, total, trained_shards
from axon.report.records import from_line

MOST_TASKS = 1_000


@dataclass(frozen=True, slots=True, kw_only=True)
class Task:
    """One task."""

    name: str
    state: str
    cycle: int
    cycles: int
    accuracy: float | None = None
    learners: Mapping[str, int] = field(default_factory=dict)
    """The shards that each is to train in a cycle."""
    prices: Mapping[str, str] = field(default_factory=dict)
    """What each asks for a shard, where that is known."""
    spent: str = "0"
    reserved: str | None = None
    """What the cycle under way may cost; None where that is not known."""
    reason: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Board:
    """All tasks, and the money."""

    place: str
    tasks: tuple[Task, ...]
    spent: str
    budget: str | None
    """What one cycle of all tasks together may cost."""
    sitting: Mapping[str, str] = field(default_factory=dict)
    """Who sits out, and why."""
    may_cancel: bool = False


def board_from(answer: Mapping[str, Any], place: str, *, may_cancel: bool) -> Board:
    """What an orchestrator answered; it is believed no more than any other machine."""
    wanted = {key: answer.get(key) for key in ("tasks", "spent", "budget", "sitting")}
    try:
        return msgspec.convert({**wanted, "place": place, "may_cancel": may_cancel}, Board)
    except msgspec.ValidationError as error:
        raise AxonError(f"{place} does not answer like an orchestrator: {error}") from error


class _Work(msgspec.Struct):
    shard_samples: int
    passes: int


class _Submitted(msgspec.Struct):
    name: str
    cycles: int


class _Standing(msgspec.Struct):
    """The part of a task's standing that is shown."""

    submission: _Submitted
    work: _Work
    state: str = "waiting"
    reason: str = ""


class _Rules(msgspec.Struct):
    budget: str


class _Affairs(msgspec.Struct):
    rules: _Rules | None = None


def board_in(path: Path) -> Board | None:
    """The tasks that a file keeps; None where it keeps none.

    It is opened for reading only, beside an orchestrator that may be writing to it.
    """
    try:
        with closing(sqlite3.connect(f"{path.absolute().as_uri()}?mode=ro", uri=True)) as file:
            tables = {name for (name,) in file.execute("SELECT name FROM sqlite_master")}
            if not {"tasks", "plans", "affairs", "records"} <= tables:
                return None
            file.execute("BEGIN")  # One moment for all that is read.
            return _read(file, str(path))
    except sqlite3.Error as error:
        raise AxonError(f"{path}: {error}") from error
    except (msgspec.DecodeError, ValueError) as error:
        raise AxonError(f"{path}: what it holds of a task cannot be read: {error}") from error


def _read(file: sqlite3.Connection, place: str) -> Board:
    kept = file.execute("SELECT kept FROM affairs").fetchone()
    rules = msgspec.json.decode(kept[0], type=_Affairs).rules if kept else None
    budget = None if rules is None else rules.budget
    ledger = Ledger(money(0))
    rows = file.execute(f"SELECT standing FROM tasks ORDER BY place LIMIT {MOST_TASKS}")  # noqa: S608
    standings = [msgspec.json.decode(text, type=_Standing) for (text,) in rows]
    tasks = tuple(_task(file, one, ledger) for one in standings)
    return Board(place=place, tasks=tasks, spent=str(ledger.spent()), budget=budget)


def _task(file: sqlite3.Connection, standing: _Standing, ledger: Ledger) -> Task:
    name = standing.submission.name
    plans = {
        int(cycle): msgspec.json.decode(text, type=dict[str, Promise])
        for cycle, text in file.execute("SELECT cycle, shares FROM plans WHERE task = ?", (name,))
    }
    shares: Mapping[str, Promise] = {}
    cycle, accuracy = 0, None
    lines = file.execute("SELECT line FROM records WHERE run = ? ORDER BY cycle", (name,))
    for cycle, (line,) in enumerate(lines, start=1):  # noqa: B007  (the last one counts)
        record = from_line(line)
        work = standing.work
        trained = trained_shards(record, shard_samples=work.shard_samples, passes=work.passes)
        ledger.recall(name, record.cycle, _in_force(plans, record.cycle), trained)
        accuracy = record.accuracy if record.accuracy is not None else accuracy
    if standing.state == "running":
        shares = _in_force(plans, cycle + 1)
    return Task(
        name=name,
        state=standing.state,
        cycle=cycle,
        cycles=standing.submission.cycles,
        accuracy=accuracy,
        learners={learner: promise.shards for learner, promise in sorted(shares.items())},
        prices={learner: str(promise.price) for learner, promise in sorted(shares.items())},
        spent=str(ledger.spent(name)),
        reserved=str(total(shares)) if shares else None,
        reason=standing.reason,
    )


def _in_force(plans: Mapping[int, Mapping[str, Promise]], cycle: int) -> Mapping[str, Promise]:
    """The last plan that was made for that cycle or an earlier one."""
    first = max((begun for begun in plans if begun <= cycle), default=None)
    return {} if first is None else plans[first]
