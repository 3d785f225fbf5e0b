"""Runs kept in a PostgreSQL database, for orchestrators that come and go on several machines.

Whoever saves a cycle locks the run's row first, so two orchestrators cannot both advance a run: the
second finds the cycle taken and gets `CheckpointConflict`. Needs the `postgres` extra. PostgreSQL
holds arrays of up to 1 GB, which is 250 million parameters.
"""

from __future__ import annotations

import threading
from collections.abc import Callable
from types import ModuleType
from typing import TYPE_CHECKING, Any, TypeAlias, TypeVar

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

if TYPE_CHECKING:
    import psycopg

    Connection: TypeAlias = psycopg.Connection[tuple[Any, ...]]

T = TypeVar("T")

VERSION = 2
LOCK_S = 30
"""How long to wait for another orchestrator that is saving a cycle of the same run."""
LOST_S = 10
"""How long a server may leave unacknowledged what it was sent before it counts as gone."""
_SETUP_LOCK = int.from_bytes(b"Axon", "big")

_FIRST = (
    "CREATE TABLE axon_store (version integer NOT NULL)",
    "CREATE TABLE axon_runs (run text PRIMARY KEY, settings text NOT NULL)",
    """CREATE TABLE axon_records (
        run text NOT NULL REFERENCES axon_runs, cycle integer NOT NULL, line text NOT NULL,
        PRIMARY KEY (run, cycle))""",
    """CREATE TABLE axon_checkpoints (
        run text PRIMARY KEY REFERENCES axon_runs, cycle integer NOT NULL, head text NOT NULL)""",
    """CREATE TABLE axon_vectors (
        run text NOT NULL REFERENCES axon_runs, place integer NOT NULL, name text NOT NULL,
        digest text NOT NULL, data bytea NOT NULL, PRIMARY KEY (run, place))""",
    # Floats do not compress; trying costs more than writing them.
    "ALTER TABLE axon_vectors ALTER COLUMN data SET STORAGE EXTERNAL",
)
_SECOND = (
    """CREATE TABLE axon_leaders (
        run text PRIMARY KEY REFERENCES axon_runs, epoch integer NOT NULL, holder text NOT NULL,
        owner text NOT NULL, heartbeat_s double precision NOT NULL, beats bigint NOT NULL)""",
)
_SCHEMAS = {1: _FIRST, 2: _SECOND}
"""What each version added to the one before."""


class PostgresStore:
    """A `Store` in a database, which any number of processes may use at once.

    A lost connection is opened anew, once per operation. That never saves a cycle twice: a save
    whose outcome is unknown first looks, under the run's lock, whether it is there already.
    """

    def __init__(self, address: str) -> None:
        self._psycopg = _library()
        self._parameters = self._parse(address)
        self.name = "{dbname} on {host}".format_map(
            {"dbname": "the database", "host": "this machine", **self._parameters}
        )
        # One connection serves all threads, one at a time.
        self._lock = threading.Lock()
        self._connection = self._connect()
        try:
            self._run(self._prepare)
        except BaseException:
            self._connection.close()
            raise

    def begin(self, run: str, settings: str) -> None:
        """See `Store.begin`."""
        check_beginning(run, settings)

        def work(connection: Connection) -> None:
            # Waits for another orchestrator that is beginning or advancing the same run; what is
            # raised afterwards takes it back.
            connection.execute(
                """INSERT INTO axon_runs VALUES (%s, %s)
                ON CONFLICT (run) DO UPDATE SET settings = excluded.settings""",
                (run, settings),
            )
            check_unsaved(run, _saved(connection, run))

        self._run(work)

    def amend(self, run: str, settings: str) -> None:
        """See `Store.amend`."""
        check_beginning(run, settings)

        def work(connection: Connection) -> None:
            changed = connection.execute(
                "UPDATE axon_runs SET settings = %s WHERE run = %s", (settings, run)
            )
            check_amended(run, changed.rowcount)

        self._run(work)

    def settings(self, run: str) -> str | None:
        """See `Store.settings`."""
        return self._run(lambda connection: _settings(connection, run))

    def save(self, checkpoint: Checkpoint, record: RoundRecord, epoch: int | None = None) -> None:
        """See `Store.save`."""
        check_pair(checkpoint, record)
        line, (head, vectors) = to_line(record), pack(checkpoint, record.digest)
        run, cycle = checkpoint.run, checkpoint.cycle

        def work(connection: Connection) -> None:
            _take_turn(connection, run, cycle, epoch)
            _save(connection, (run, cycle), line, head, vectors)

        self._run(
            work,
            again=lambda connection: (
                None if _has(connection, run, cycle, line) else work(connection)
            ),
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

        def work(connection: Connection) -> Leadership:
            found = check_begun(run, _leadership(connection, run, lock=True))
            led = found.claimed(holder, heartbeat_s, after)
            if led is not found:
                connection.execute(
                    """INSERT INTO axon_leaders VALUES (%s, %s, %s, %s, %s, %s)
                    ON CONFLICT (run) DO UPDATE SET epoch = excluded.epoch,
                    holder = excluded.holder, owner = excluded.owner,
                    heartbeat_s = excluded.heartbeat_s, beats = excluded.beats""",
                    (run, led.epoch, led.holder, led.owner, led.heartbeat_s, led.beats),
                )
            return led

        return self._run(work)

    def beat(self, run: str, epoch: int) -> None:
        """See `Store.beat`."""

        def work(connection: Connection) -> None:
            check_epoch(run, check_begun(run, _leadership(connection, run, lock=True)), epoch)
            _count(connection, run, epoch)

        self._run(work)

    def leadership(self, run: str) -> Leadership | None:
        """See `Store.leadership`."""
        return self._run(lambda connection: _leadership(connection, run))

    def latest(self, run: str) -> Checkpoint | None:
        """See `Store.latest`."""
        found = self._run(lambda connection: _find(connection, run))
        if found is None:
            return None
        with reading(self.name, f"run {run!r} cannot be taken up after cycle {found[0]}"):
            return unpack(run, *found)

    def records(self, run: str) -> list[RoundRecord]:
        """See `Store.records`."""
        question = "SELECT cycle, line FROM axon_records WHERE run = %s ORDER BY cycle"
        rows = self._run(lambda connection: connection.execute(question, (run,)).fetchall())
        return records_of(self.name, run, [(cycle, line) for cycle, line in rows])

    def runs(self) -> list[str]:
        """See `Store.runs`."""
        question = "SELECT run FROM axon_runs"
        # Sorted here, because each database has an alphabet of its own.
        return sorted(
            run for (run,) in self._run(lambda connection: connection.execute(question).fetchall())
        )

    def close(self) -> None:
        """See `Store.close`."""
        with self._lock:
            self._connection.close()

    def _run(
        self, work: Callable[[Connection], T], *, again: Callable[[Connection], T] | None = None
    ) -> T:
        """Do the work in one transaction; where the connection is lost, `again` on a new one."""
        psycopg = self._psycopg
        # A server is read-only while another takes its place: it does not answer, for now.
        silent = (
            psycopg.OperationalError,
            psycopg.InterfaceError,
            psycopg.errors.ReadOnlySqlTransaction,
        )
        with self._lock:
            try:
                try:
                    return self._transact(work)
                except (psycopg.OperationalError, psycopg.InterfaceError):
                    # `broken` is a connection that was lost; one that was closed was meant to be.
                    if not self._connection.broken:
                        raise
                    self._connection = self._connect()
                    return self._transact(again or work)
            except silent as error:
                raise StoreSilent(f"{self.name}: {str(error).strip()}") from error
            except psycopg.Error as error:
                raise AxonError(f"{self.name}: {str(error).strip()}") from error

    def _transact(self, work: Callable[[Connection], T]) -> T:
        with self._connection.transaction():
            return work(self._connection)

    def _parse(self, address: str) -> dict[str, Any]:
        try:
            given = self._psycopg.conninfo.conninfo_to_dict(address)
        except self._psycopg.ProgrammingError as error:
            raise ConfigurationError(
                f"not an address of a PostgreSQL database: {error}",
                hint="postgresql://user@host:port/database",
            ) from error
        # Whoever waits for a server that is gone would neither lead nor step down.
        patience = {"connect_timeout": 10, "tcp_user_timeout": 1000 * LOST_S}
        return {**patience, "application_name": "axon", **given}

    def _connect(self) -> Connection:
        psycopg = self._psycopg
        try:
            # Nothing is prepared on the server: a pooler may hand out another one each time.
            connection: Connection = psycopg.connect(
                **self._parameters, autocommit=True, prepare_threshold=None
            )
            # A server may be set to another level, at which waiting for a lock ends in an error.
            connection.isolation_level = psycopg.IsolationLevel.READ_COMMITTED
            connection.execute(f"SET lock_timeout = '{LOCK_S}s'")
        except psycopg.Error as error:
            raise StoreSilent(
                f"cannot connect to {self.name}: {str(error).strip()}",
                hint="is the server running, and are its address, user and password right?",
            ) from error
        return connection

    def _prepare(self, connection: Connection) -> None:
        # Of two processes only one makes the tables; IF NOT EXISTS alone does not see to that.
        connection.execute("SELECT pg_advisory_xact_lock(%s)", (_SETUP_LOCK,))
        row = connection.execute("SELECT to_regclass('axon_store') IS NOT NULL").fetchone()
        there = 0
        if row == (True,):
            found = connection.execute("SELECT max(version) FROM axon_store").fetchone()
            there = 0 if found is None else int(found[0])
        if there > VERSION:
            raise ConfigurationError(
                f"{self.name} has version {there}, and this Axon knows {VERSION}",
                hint="open it with the newer Axon that made it",
            )
        for version in [one for one in _SCHEMAS if one > there]:
            for statement in _SCHEMAS[version]:
                connection.execute(statement)
            connection.execute("INSERT INTO axon_store VALUES (%s)", (version,))


def _library() -> ModuleType:
    # Late, because psycopg is an extra.
    try:
        import psycopg
        import psycopg.conninfo
    except ImportError as error:
        raise ConfigurationError(
            "PostgreSQL was asked for and psycopg is not installed",
            hint="pip install 'axon-edge[postgres]'",
        ) from error
    return psycopg


def _settings(connection: Connection, run: str, *, lock: bool = False) -> str | None:
    question = "SELECT settings FROM axon_runs WHERE run = %s"
    row = connection.execute(question + " FOR UPDATE" * lock, (run,)).fetchone()
    return None if row is None else str(row[0])


def _saved(connection: Connection, run: str) -> int:
    """The number of the last cycle saved, 0 when there is none."""
    question = "SELECT coalesce(max(cycle), 0) FROM axon_records WHERE run = %s"
    row = connection.execute(question, (run,)).fetchone()
    return 0 if row is None else int(row[0])


def _leadership(connection: Connection, run: str, *, lock: bool = False) -> Leadership | None:
    # The run's row is locked first: only then does what is found stay true.
    if _settings(connection, run, lock=lock) is None:
        return None
    question = "SELECT epoch, holder, owner, heartbeat_s, beats FROM axon_leaders WHERE run = %s"
    row = connection.execute(question, (run,)).fetchone()
    cycles = _saved(connection, run)
    if row is None:
        return Leadership(cycles=cycles)
    epoch, holder, owner, heartbeat_s, beats = row
    return Leadership(
        epoch=epoch,
        holder=holder,
        owner=owner,
        heartbeat_s=heartbeat_s,
        beats=beats,
        cycles=cycles,
    )


def _count(connection: Connection, run: str, epoch: int | None) -> None:
    """A sign of life of whoever leads the run, if somebody does."""
    connection.execute(
        "UPDATE axon_leaders SET beats = beats + 1 WHERE run = %s AND epoch = %s", (run, epoch)
    )


def _take_turn(connection: Connection, run: str, cycle: int, epoch: int | None) -> None:
    """Lock the run, and raise unless the cycle is its next and the epoch the one that leads it."""
    led = _leadership(connection, run, lock=True)
    if led is not None:
        check_epoch(run, led, epoch)
    check_next(run, None if led is None else led.cycles, cycle)
    _count(connection, run, epoch)


def _save(
    connection: Connection,
    at: tuple[str, int],
    line: str,
    head: str,
    vectors: list[StoredVector],
) -> None:
    run, cycle = at
    connection.execute("INSERT INTO axon_records VALUES (%s, %s, %s)", (run, cycle, line))
    connection.execute(
        """INSERT INTO axon_checkpoints VALUES (%s, %s, %s)
        ON CONFLICT (run) DO UPDATE SET cycle = excluded.cycle, head = excluded.head""",
        (run, cycle, head),
    )
    connection.execute("DELETE FROM axon_vectors WHERE run = %s", (run,))
    for item in vectors:
        connection.execute(
            "INSERT INTO axon_vectors VALUES (%s, %s, %s, %s, %b)",
            (run, item.place, item.name, item.digest, item.data),
        )


def _has(connection: Connection, run: str, cycle: int, line: str) -> bool:
    """Whether this very record is there, once nobody else is saving one."""
    _settings(connection, run, lock=True)
    row = connection.execute(
        "SELECT line FROM axon_records WHERE run = %s AND cycle = %s", (run, cycle)
    ).fetchone()
    return row == (line,)


def _find(connection: Connection, run: str) -> tuple[int, str, list[StoredVector]] | None:
    # Both answers from one snapshot: a save may come between the two questions.
    connection.execute("SET TRANSACTION ISOLATION LEVEL REPEATABLE READ")
    question = "SELECT cycle, head FROM axon_checkpoints WHERE run = %s"
    row = connection.execute(question, (run,)).fetchone()
    if row is None:
        return None
    # In binary, which is half of what the server would write as text.
    found = connection.execute(
        "SELECT place, name, digest, data FROM axon_vectors WHERE run = %s ORDER BY place",
        (run,),
        binary=True,
    ).fetchall()
    return row[0], row[1], [StoredVector(*item) for item in found]
