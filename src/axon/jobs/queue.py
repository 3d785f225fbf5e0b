"""The tasks of a manager in a SQLite file: what was asked for, where each stands, every plan.

It is the file of the checkpoints and records. What belongs together is written in one transaction,
and what each cycle has cost follows from its plan and its record, so that a manager that is killed
goes on where it was and pays for nothing twice.
"""

from __future__ import annotations

import fcntl
import os
import sqlite3
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any, TypeVar

import msgspec

from axon.errors import AxonError, ConfigurationError
from axon.jobs.knowledge import Answers
from axon.jobs.ledger import Promise
from axon.jobs.standing import Affairs, Shares, Standing
from axon.rounds.checkpoint import reading
from axon.rounds.sqlite import transaction
from axon.rounds.survey import Finding
from axon.rounds.telling import Telling

T = TypeVar("T")

_SCHEMA = (
    "CREATE TABLE IF NOT EXISTS tasks (name TEXT PRIMARY KEY, place INTEGER, standing TEXT)",
    """CREATE TABLE IF NOT EXISTS plans (
        task TEXT, cycle INTEGER, shares TEXT, PRIMARY KEY (task, cycle))""",
    """CREATE TABLE IF NOT EXISTS findings (
        kind TEXT, learner TEXT, finding TEXT, PRIMARY KEY (kind, learner))""",
    "CREATE TABLE IF NOT EXISTS tellings (learner TEXT PRIMARY KEY, telling TEXT)",
    "CREATE TABLE IF NOT EXISTS affairs (place INTEGER PRIMARY KEY CHECK (place = 0), kept TEXT)",
)


class Queue:
    """Keeps tasks; one manager at a time may have it open."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self._lock = _locked(path)
        try:
            with self._translated():
                self._connection = sqlite3.connect(path, timeout=30.0, isolation_level=None)
                # As the store of the same file has it.
                self._connection.execute("PRAGMA synchronous = NORMAL")
                for statement in _SCHEMA:
                    self._connection.execute(statement)
        except BaseException:
            os.close(self._lock)
            raise

    def close(self) -> None:
        """Let go of the file."""
        self._connection.close()
        os.close(self._lock)

    def keep(
        self,
        standings: Iterable[Standing] = (),
        plans: Mapping[tuple[str, int], Shares] | None = None,
        answers: Answers | None = None,
        affairs: Affairs | None = None,
    ) -> None:
        """Write all of it, or nothing; a plan is kept under the first cycle that it is for."""
        told = answers or Answers()
        with self._transaction() as connection:
            connection.executemany(
                "INSERT OR REPLACE INTO tasks VALUES (?, ?, ?)",
                [(one.name, one.place, _text(one)) for one in standings],
            )
            connection.executemany(
                "INSERT OR REPLACE INTO plans VALUES (?, ?, ?)",
                [(*where, _text(shares)) for where, shares in (plans or {}).items()],
            )
            connection.executemany(
                "INSERT OR REPLACE INTO findings VALUES (?, ?, ?)",
                [(*who, _text(finding)) for who, finding in told.findings.items()],
            )
            connection.executemany(
                "INSERT OR REPLACE INTO tellings VALUES (?, ?)",
                [(learner, _text(telling)) for learner, telling in told.tellings.items()],
            )
            if affairs is not None:
                connection.execute(
                    "INSERT OR REPLACE INTO affairs VALUES (0, ?)", (_text(affairs),)
                )

    def standings(self) -> list[Standing]:
        """Of all tasks, in the order in which they came."""
        rows = self._rows("SELECT standing FROM tasks ORDER BY place")
        return [self._value(text, Standing) for (text,) in rows]

    def plans(self, task: str) -> dict[int, dict[str, Promise]]:
        """Every plan of a task, by the first cycle that it is for."""
        rows = self._rows("SELECT cycle, shares FROM plans WHERE task = ? ORDER BY cycle", task)
        return {cycle: self._value(text, dict[str, Promise]) for cycle, text in rows}

    def answers(self) -> Answers:
        """What came of asking learners, the last time."""
        found = self._rows("SELECT kind, learner, finding FROM findings")
        told = self._rows("SELECT learner, telling FROM tellings")
        return Answers(
            {(kind, learner): self._value(text, Finding) for kind, learner, text in found},
            {learner: self._value(text, Telling) for learner, text in told},
        )

    def affairs(self) -> Affairs:
        """As they were last kept."""
        rows = self._rows("SELECT kept FROM affairs")
        return self._value(rows[0][0], Affairs) if rows else Affairs()

    def _rows(self, question: str, *values: object) -> list[tuple[Any, ...]]:
        with self._translated():
            return self._connection.execute(question, values).fetchall()

    def _value(self, text: str, kind: type[T]) -> T:
        with reading(str(self.path), "what it holds of a task cannot be read"):
            return msgspec.json.decode(text, type=kind)

    @contextmanager
    def _transaction(self) -> Iterator[sqlite3.Connection]:
        with self._translated(), transaction(self._connection):
            yield self._connection

    @contextmanager
    def _translated(self) -> Iterator[None]:
        try:
            yield
        except sqlite3.Error as error:
            if not getattr(error, "sqlite_errorname", ""):
                raise  # Not from SQLite itself, so a bug.
            raise AxonError(f"{self.path}: {error}") from error


def plan_in_force(plans: Mapping[int, Shares], cycle: int) -> Shares:
    """The plan of that cycle: the last one that was made for it or an earlier one."""
    first = max((begun for begun in plans if begun <= cycle), default=None)
    return {} if first is None else plans[first]


def _text(value: object) -> str:
    return msgspec.json.encode(value).decode()


def _locked(path: Path) -> int:
    """A lock on the file that ends with this process."""
    lock = path.with_name(f"{path.name}.lock")
    try:
        handle = os.open(lock, os.O_CREAT | os.O_RDWR, 0o644)
    except OSError as error:
        raise ConfigurationError(f"cannot write {lock}: {error.strerror}") from error
    try:
        fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError as error:
        os.close(handle)
        raise ConfigurationError(
            f"another orchestrator has {path} open", hint="stop it, or name another file"
        ) from error
    return handle
