"""Runs kept in one SQLite file: the store that needs no server.

The file is in write-ahead mode with `synchronous=NORMAL`: a commit is in the operating system's
hands when `save` returns, so killing the process loses nothing. A power cut may take the last
cycles back, always whole ones; `FULL` would save those too, at the price of waiting for the disk in
every cycle. Write-ahead mode needs a local disk, not a network folder. SQLite holds arrays of up to
1 GB, which is 250 million parameters.
"""

from __future__ import annotations

import os
import sqlite3
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from axon.errors import AxonError, ConfigurationError, StoreSilent
from axon.report.records import to_line
from axon.rounds.checkpoint import (
    Checkpoint,
    StoredVector,
    check_amended,
    check_beginning,
    check_next,
    check_pair,
    check_unsaved,
    damaged,
    pack,
    reading,
    records_of,
    unpack,
)
from axon.rounds.leadership import (
    HEARTBEAT_S,
    Leadership,
    check_begun,
    check_claim,
    check_epoch,
)
from axon.values import RoundRecord

VERSION = 2
_APPLICATION = int.from_bytes(b"Axon", "big")
"""Tells our files from those of other programs; SQLite keeps a place for it in the header."""

_FIRST = (
    """CREATE TABLE runs (
        run TEXT PRIMARY KEY, settings TEXT NOT NULL) WITHOUT ROWID""",
    """CREATE TABLE records (
        run TEXT NOT NULL REFERENCES runs, cycle INTEGER NOT NULL, line TEXT NOT NULL,
        PRIMARY KEY (run, cycle))""",
    """CREATE TABLE checkpoints (
        run TEXT PRIMARY KEY REFERENCES runs, cycle INTEGER NOT NULL, head TEXT NOT NULL)""",
    """CREATE TABLE vectors (
        run TEXT NOT NULL REFERENCES runs, place INTEGER NOT NULL, name TEXT NOT NULL,
        digest TEXT NOT NULL, data BLOB NOT NULL, PRIMARY KEY (run, place))""",
    f"PRAGMA application_id = {_APPLICATION}",
)
_SECOND = (
    """CREATE TABLE leaders (
        run TEXT PRIMARY KEY REFERENCES runs, epoch INTEGER NOT NULL, holder TEXT NOT NULL,
        owner TEXT NOT NULL, heartbeat_s REAL NOT NULL, beats INTEGER NOT NULL)""",
)
_SCHEMAS = {1: _FIRST, 2: _SECOND}
"""What each version added to the one before."""

_UNUSABLE = {
    "SQLITE_NOTADB": "it is not a SQLite database",
    "SQLITE_CANTOPEN": "it cannot be opened: its folder is missing or may not be written to",
    "SQLITE_READONLY": "it may not be written to",
    "SQLITE_PERM": "it may not be written to",
}
_BROKEN = {
    "SQLITE_CORRUPT": "it is damaged: restore it from a backup",
    "SQLITE_TOOBIG": "an array is over SQLite's limit of 1 GB",
}
_SILENT = {
    "SQLITE_BUSY": "another process has held it for too long",
    "SQLITE_FULL": "the disk is full",
    "SQLITE_IOERR": "the disk does not answer",
}


@contextmanager
def transaction(connection: sqlite3.Connection, kind: str = "IMMEDIATE") -> Iterator[None]:
    """All or nothing of what is done in the block, whatever ends it."""
    connection.execute(f"BEGIN {kind}")
    try:
        yield
        connection.execute("COMMIT")
    finally:
        if connection.in_transaction:
            connection.execute("ROLLBACK")


class SqliteStore:
    """A `Store` in one file, which several processes may open at once."""

    def __init__(self, path: Path, *, busy_s: float = 30.0) -> None:
        self.path = path
        # One connection serves all threads, one at a time.
        self._lock = threading.Lock()
        self._place = path.absolute()
        self._file: tuple[int, int] | None = None
        with self._translated():
            self._connection = sqlite3.connect(
                path, timeout=busy_s, isolation_level=None, check_same_thread=False
            )
        try:
            self._prepare(busy_s)
            self._file = _identity(self._place)
        except BaseException:
            self._connection.close()
            raise

    @property
    def name(self) -> str:
        """See `Store.name`."""
        return str(self.path)

    def begin(self, run: str, settings: str) -> None:
        """See `Store.begin`."""
        check_beginning(run, settings)
        with self._transaction() as connection:
            check_unsaved(run, self._saved(run))
            connection.execute(
                """INSERT INTO runs VALUES (?, ?)
                ON CONFLICT (run) DO UPDATE SET settings = excluded.settings""",
                (run, settings),
            )

    def amend(self, run: str, settings: str) -> None:
        """See `Store.amend`."""
        check_beginning(run, settings)
        with self._transaction() as connection:
            changed = connection.execute(
                "UPDATE runs SET settings = ? WHERE run = ?", (settings, run)
            )
            check_amended(run, changed.rowcount)

    def settings(self, run: str) -> str | None:
        """See `Store.settings`."""
        with self._transaction("DEFERRED") as connection:
            return _settings(connection, run)

    def save(self, checkpoint: Checkpoint, record: RoundRecord, epoch: int | None = None) -> None:
        """See `Store.save`."""
        check_pair(checkpoint, record)
        # Before the transaction: nobody else should wait for the digests.
        run, cycle, line = checkpoint.run, checkpoint.cycle, to_line(record)
        head, vectors = pack(checkpoint, record.digest)
        with self._transaction() as connection:
            led = self._leadership(run)
            if led is not None:
                check_epoch(run, led, epoch)
            check_next(run, None if led is None else led.cycles, cycle)
            _count(connection, run, epoch)
            connection.execute("INSERT INTO records VALUES (?, ?, ?)", (run, cycle, line))
            connection.execute(
                "INSERT OR REPLACE INTO checkpoints VALUES (?, ?, ?)", (run, cycle, head)
            )
            connection.execute("DELETE FROM vectors WHERE run = ?", (run,))
            connection.executemany(
                "INSERT INTO vectors VALUES (?, ?, ?, ?, ?)",
                [(run, item.place, item.name, item.digest, item.data) for item in vectors],
            )

    def lead(
        self,
        run: str,
        holder: str,
        *,
        heartbeat_s: float = HEARTBEAT_S,
        after: Leadership | None = None,
    ) -> Leadership:
        """See `Store.lead`."""
        check_claim(holder, heartbeat_s)
        with self._transaction() as connection:
            found = check_begun(run, self._leadership(run))
            led = found.claimed(holder, heartbeat_s, after)
            if led is not found:
                connection.execute(
                    "INSERT OR REPLACE INTO leaders VALUES (?, ?, ?, ?, ?, ?)",
                    (run, led.epoch, led.holder, led.owner, led.heartbeat_s, led.beats),
                )
        return led

    def beat(self, run: str, epoch: int) -> None:
        """See `Store.beat`."""
        with self._transaction() as connection:
            check_epoch(run, check_begun(run, self._leadership(run)), epoch)
            _count(connection, run, epoch)

    def leadership(self, run: str) -> Leadership | None:
        """See `Store.leadership`."""
        with self._transaction("DEFERRED"):
            return self._leadership(run)

    def latest(self, run: str) -> Checkpoint | None:
        """See `Store.latest`."""
        with self._transaction("DEFERRED") as connection:
            row = connection.execute(
                "SELECT cycle, head FROM checkpoints WHERE run = ?", (run,)
            ).fetchone()
            found = connection.execute(
                "SELECT place, name, digest, data FROM vectors WHERE run = ? ORDER BY place", (run,)
            ).fetchall()
        if row is None:
            return None
        cycle, head = row
        with reading(self.name, f"run {run!r} cannot be taken up after cycle {cycle}"):
            return unpack(run, cycle, head, [StoredVector(*item) for item in found])

    def records(self, run: str) -> list[RoundRecord]:
        """See `Store.records`."""
        with self._transaction("DEFERRED") as connection:
            rows = connection.execute(
                "SELECT cycle, line FROM records WHERE run = ? ORDER BY cycle", (run,)
            ).fetchall()
        return records_of(self.name, run, rows)

    def runs(self) -> list[str]:
        """See `Store.runs`."""
        with self._transaction("DEFERRED") as connection:
            found = [run for (run,) in connection.execute("SELECT run FROM runs")]
        # SQLite keeps anything in a column of text.
        strange = [run for run in found if not isinstance(run, str)]
        if strange:
            raise damaged(self.name, "the names of runs cannot be read", f"got {strange[0]!r}")
        return sorted(found)

    def close(self) -> None:
        """See `Store.close`."""
        with self._lock:
            self._connection.close()

    def _prepare(self, busy_s: float) -> None:
        with self._translated():
            self._connection.execute("PRAGMA synchronous = NORMAL")
            self._connection.execute("PRAGMA foreign_keys = ON")
        # Before anything is written to it, and in one look.
        with self._transaction("DEFERRED"):
            self._check_owner()
        with self._translated():
            self._write_ahead(time.monotonic() + busy_s)
        # Under the writer's lock, so that of two processes only one makes the tables.
        with self._transaction() as connection:
            there = self._check_owner()
            for statements in [_SCHEMAS[one] for one in _SCHEMAS if one > there]:
                for statement in statements:
                    connection.execute(statement)
            if there < VERSION:
                connection.execute(f"PRAGMA user_version = {VERSION}")

    def _write_ahead(self, until_s: float) -> None:
        """Turn write-ahead mode on, which the file remembers."""
        # For this one lock SQLite does not wait by itself; two that make the file at once meet it.
        while True:
            try:
                self._connection.execute("PRAGMA journal_mode = WAL")
            except sqlite3.OperationalError as error:
                if error.sqlite_errorcode != sqlite3.SQLITE_BUSY or time.monotonic() > until_s:
                    raise
                time.sleep(0.01)
            else:
                return

    def _check_owner(self) -> int:
        """The version of the file, 0 for an empty one; raises unless it is one of ours."""
        number = {
            name: int(self._connection.execute(question).fetchone()[0])
            for name, question in (
                ("application", "PRAGMA application_id"),
                ("version", "PRAGMA user_version"),
                ("tables", "SELECT count(*) FROM sqlite_master"),
            )
        }
        if number["tables"] and number["application"] != _APPLICATION:
            raise ConfigurationError(
                f"{self.path} is a SQLite database of another program", hint="name another file"
            )
        if number["version"] > VERSION:
            raise ConfigurationError(
                f"{self.path} has version {number['version']}, and this Axon knows {VERSION}",
                hint="open it with the newer Axon that made it",
            )
        return number["version"]

    def _saved(self, run: str) -> int:
        """The number of the last cycle saved, 0 when there is none."""
        question = "SELECT max(cycle) FROM records WHERE run = ?"
        (last,) = self._connection.execute(question, (run,)).fetchone()
        with reading(self.name, f"the records of run {run!r} cannot be counted"):
            return int(last or 0)

    def _leadership(self, run: str) -> Leadership | None:
        if _settings(self._connection, run) is None:
            return None
        question = "SELECT epoch, holder, owner, heartbeat_s, beats FROM leaders WHERE run = ?"
        row = self._connection.execute(question, (run,)).fetchone()
        cycles = self._saved(run)
        if row is None:
            return Leadership(cycles=cycles)
        epoch, holder, owner, heartbeat_s, beats = row
        with reading(self.name, f"who leads run {run!r} cannot be read"):
            return Leadership(
                epoch=int(epoch),
                holder=str(holder),
                owner=str(owner),
                heartbeat_s=float(heartbeat_s),
                beats=int(beats),
                cycles=cycles,
            )

    @contextmanager
    def _transaction(self, kind: str = "IMMEDIATE") -> Iterator[sqlite3.Connection]:
        """All or nothing. A writer is IMMEDIATE: what it checks stays true until it commits."""
        self._check_there()
        with self._lock, self._translated(), transaction(self._connection, kind):
            yield self._connection

    def _check_there(self) -> None:
        """Raise once the path leads elsewhere: SQLite itself goes on in a file nobody else sees."""
        if self._file is not None and _identity(self._place) != self._file:
            raise AxonError(
                f"{self.path} was moved, deleted or replaced while it was in use",
                hint="stop whoever uses it, put the file back with its -wal, and resume",
            )

    @contextmanager
    def _translated(self) -> Iterator[None]:
        try:
            yield
        except UnicodeDecodeError as error:
            # SQLite's own message, which quotes damaged names of tables as they are.
            wrong = error.object.decode(errors="replace")
            raise damaged(self.name, "what it holds cannot be read", wrong) from error
        except sqlite3.Error as error:
            # Only errors that come from SQLite itself have a name; the others are ours, so bugs.
            name = getattr(error, "sqlite_errorname", "")
            if not name and isinstance(error, sqlite3.OperationalError):
                # The one kind without a name that is no bug: a text that is not UTF-8.
                raise damaged(self.name, "what it holds cannot be read", str(error)) from error
            if not name:
                raise
            # SQLITE_READONLY_DIRECTORY says no more than SQLITE_READONLY does.
            short = "_".join(name.split("_")[:2])
            if short in _UNUSABLE:
                raise ConfigurationError(f"{self.path}: {_UNUSABLE[short]} ({error})") from error
            if short in _SILENT:
                raise StoreSilent(f"{self.path}: {_SILENT[short]} ({error})") from error
            raise AxonError(f"{self.path}: {_BROKEN.get(short, name)} ({error})") from error


def _identity(path: Path) -> tuple[int, int] | None:
    """Which file a path leads to; None where there is none, as for a store in memory."""
    try:
        found = os.stat(path)
    except OSError:
        return None
    return found.st_dev, found.st_ino


def _settings(connection: sqlite3.Connection, run: str) -> str | None:
    row = connection.execute("SELECT settings FROM runs WHERE run = ?", (run,)).fetchone()
    return None if row is None else str(row[0])


def _count(connection: sqlite3.Connection, run: str, epoch: int | None) -> None:
    """A sign of life of whoever leads the run, if somebody does."""
    connection.execute(
        "UPDATE leaders SET beats = beats + 1 WHERE run = ? AND epoch = ?", (run, epoch)
    )
