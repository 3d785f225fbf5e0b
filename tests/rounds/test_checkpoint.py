"""The stores: one contract for all of them, then what only one of them can meet with."""

from __future__ import annotations

import multiprocessing
import os
import select
import shutil
import socket
import sqlite3
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing, contextmanager, suppress
from dataclasses import replace
from itertools import count
from pathlib import Path

import numpy as np
import pytest

from axon.errors import AxonError, CheckpointConflict, ConfigurationError, RunExists
from axon.report.records import digest
from axon.rounds.checkpoint import Checkpoint, Store, open_store
from axon.rounds.sqlite import SqliteStore
from axon.seeds import stream
from axon.values import DeviceRecord, RoundRecord

FOLDERS = [os.environ.get("PATH", ""), *map(str, Path("/usr/lib/postgresql").glob("*/bin"))]


def made(cycle: int, *, size: int = 3, run: str = "run") -> tuple[Checkpoint, RoundRecord]:
    """What a cycle ends with; the parameters all say which cycle it was."""
    parameters = np.full(size, cycle, np.float32)
    checkpoint = Checkpoint(
        run=run,
        cycle=cycle,
        parameters=parameters,
        step_state={"velocity": -parameters[:2], "age": parameters[:0]},
        clock_s=0.1 * cycle,
        members=("pi-1", "pi-ü"),
        seed=2**70,
        previous_s={"pi-1": 0.3},
        fleet="[1]",
    )
    record = RoundRecord(
        run=run,
        cycle=cycle,
        started_s=0.0,
        ended_s=0.1 * cycle,
        deadline_s=1.0,
        devices=(DeviceRecord(device="pi-ü", status="failed", reason="\0\ud800"),),
        batches=cycle,
        digest=digest(parameters),
    )
    return checkpoint, record


# --- a PostgreSQL server of our own ------------------------------------------------------------


class Server:
    """A server in a temporary folder that listens on a unix socket only."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        # The server refuses to run as root.
        user = next((name for name in ("postgres", "nobody") if _is_user(name)), "nobody")
        self._prefix = ["runuser", "-u", user, "--"] if os.geteuid() == 0 else []
        if self._prefix:
            shutil.chown(folder, user)
        self._control("initdb", "-U", "axon", "-A", "trust", "-N", "-E", "UTF8", "--no-locale")
        options = f"-k {folder} -c listen_addresses='' -F"
        self._control("pg_ctl", "-w", "-l", str(folder / "log"), "-o", options, "start")
        self._numbers = count()

    def _control(self, program: str, *arguments: str) -> None:
        found = shutil.which(program, path=os.pathsep.join(FOLDERS))
        assert found
        # Nothing is captured: the server would keep the pipe open for as long as it lives.
        subprocess.run(
            [*self._prefix, found, "-D", str(self.folder / "data"), *arguments],
            check=True,
            cwd=self.folder,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
        )

    def address(self, database: str = "postgres", folder: Path | None = None) -> str:
        return f"postgresql:///{database}?user=axon&host={folder or self.folder}"

    def database(self) -> str:
        """A new, empty one."""
        name = f"test{next(self._numbers)}"
        execute(self.address(), f"CREATE DATABASE {name}")
        return name

    def stop(self) -> None:
        self._control("pg_ctl", "-m", "immediate", "-w", "stop")


def _is_user(name: str) -> bool:
    return any(line.startswith(f"{name}:") for line in Path("/etc/passwd").read_text().splitlines())


@pytest.fixture(scope="module")
def server() -> Iterator[Server]:
    if not all(shutil.which(name, path=os.pathsep.join(FOLDERS)) for name in ("initdb", "pg_ctl")):
        pytest.skip("no PostgreSQL server is installed: initdb and pg_ctl were not found")
    # Not pytest's folder: its path may be too long for a socket, and is closed to other users.
    with tempfile.TemporaryDirectory(prefix="axon") as folder:
        server = Server(Path(folder))
        yield server
        server.stop()


def execute(where: str, statement: str) -> None:
    """Do something behind the store's back."""
    if where.startswith("postgresql:"):
        import psycopg

        with psycopg.connect(where, autocommit=True) as connection:
            connection.execute(statement)
    else:
        with closing(sqlite3.connect(where)) as file, file:
            file.execute(statement.replace("axon_", ""))


# --- the contract --------------------------------------------------------------------------------


@pytest.fixture(params=["sqlite", pytest.param("postgres", marks=pytest.mark.system)])
def where(request: pytest.FixtureRequest, tmp_path: Path) -> str:
    if request.param == "sqlite":
        return str(tmp_path / "runs.db")
    server: Server = request.getfixturevalue("server")
    return server.address(server.database())


@pytest.fixture
def store(where: str) -> Iterator[Store]:
    with closing(open_store(where)) as store:
        yield store


def test_what_is_saved_is_there_when_the_store_is_opened_again(where: str, store: Store) -> None:
    store.begin("run", '{"cycles": 3}')
    assert (store.latest("run"), store.records("run")) == (None, [])
    pairs = [made(cycle) for cycle in (1, 2, 3)]
    for pair in pairs:
        store.save(*pair)
    store.close()
    with closing(open_store(where)) as again:
        assert again.runs() == ["run"]
        assert again.settings("run") == '{"cycles": 3}'
        assert again.records("run") == [record for _, record in pairs]
        latest, wanted = again.latest("run"), pairs[-1][0]
    assert latest is not None
    for name in ("run", "cycle", "clock_s", "members", "seed", "previous_s", "fleet"):
        assert getattr(latest, name) == getattr(wanted, name)
    assert list(latest.step_state) == ["velocity", "age"]
    assert latest.parameters.dtype == np.dtype(np.float32)
    assert latest.parameters.tolist() == [3.0, 3.0, 3.0]
    assert latest.step_state["velocity"].tolist() == [-3.0, -3.0]
    assert latest.step_state["age"].tolist() == []
    latest.parameters[0] = 0  # a trainer may work in place


def test_every_bit_of_the_parameters_comes_back(store: Store) -> None:
    store.begin("run", "{}")
    bits = np.array([0x7FC12345, 0x80000000, 1, 0x7F800000], np.uint32)  # odd NaN, -0, tiny, inf
    checkpoint, record = made(1)
    odd = Checkpoint(
        run="run", cycle=1, parameters=bits.view(np.float32), clock_s=0.0, members=(), seed=0
    )
    store.save(odd, replace(record, digest=""))
    latest = store.latest("run")
    assert latest is not None
    assert latest.parameters.view(np.uint32).tolist() == bits.tolist()
    assert (latest.step_state, latest.members) == ({}, ())
    assert checkpoint.parameters.tolist() != latest.parameters.tolist()


@pytest.mark.parametrize("cycle", [0, 1, 2, 4])
def test_only_the_next_cycle_is_saved(store: Store, cycle: int) -> None:
    store.begin("run", "{}")
    for saved in (1, 2):
        store.save(*made(saved))
    with pytest.raises(CheckpointConflict, match=f"2 cycles, so the next is 3, got {cycle}"):
        store.save(*made(cycle, size=9))
    latest = store.latest("run")
    assert latest is not None
    assert (latest.cycle, len(latest.parameters), len(store.records("run"))) == (2, 3, 2)
    store.save(*made(3))


def test_a_save_that_fails_half_way_leaves_nothing(where: str, store: Store) -> None:
    store.begin("run", "{}")
    store.save(*made(1))
    execute(where, "ALTER TABLE axon_vectors RENAME TO axon_elsewhere")
    with pytest.raises(AxonError, match="vectors"):
        store.save(*made(2))
    execute(where, "ALTER TABLE axon_elsewhere RENAME TO axon_vectors")
    assert len(store.records("run")) == 1
    store.save(*made(2))
    assert [record.cycle for record in store.records("run")] == [1, 2]


def test_a_run_may_begin_otherwise_until_it_has_a_cycle(store: Store) -> None:
    store.begin("run", '{"a": 1}')
    store.begin("run", '{"a": 2}')
    assert store.settings("run") == '{"a": 2}'
    store.save(*made(1))
    for settings in ('{"a": 2}', '{"a": 3}'):
        with pytest.raises(RunExists, match="with 1 cycles"):
            store.begin("run", settings)
    assert store.settings("run") == '{"a": 2}'


def test_settings_are_amended_and_nothing_else(where: str, store: Store) -> None:
    for run in ("run", "other"):
        store.begin(run, '{"a": 1}')
    store.save(*made(1))
    store.amend("run", '{"a": 2}')
    with closing(open_store(where)) as again:
        assert [again.settings(run) for run in again.runs()] == ['{"a": 1}', '{"a": 2}']
        assert [record.cycle for record in again.records("run")] == [1]
    with pytest.raises(ConfigurationError, match="no run 'none' to amend"):
        store.amend("none", "{}")
    with pytest.raises(ConfigurationError, match="JSON"):
        store.amend("run", "{a}")


def test_the_digest_of_a_record_is_that_of_the_parameters(store: Store) -> None:
    store.begin("run", "{}")
    checkpoint, record = made(1)
    store.save(checkpoint, replace(record, digest="of others"))
    with pytest.raises(AxonError, match=r"'parameters' is .* and should be of others"):
        store.latest("run")


def test_runs_do_not_touch_one_another(store: Store) -> None:
    for run in ("b", "é", "B"):
        store.begin(run, "{}")
    store.save(*made(1, run="b"))
    store.save(*made(1, run="é", size=5))
    store.save(*made(2, run="b"))
    assert store.runs() == ["B", "b", "é"]
    assert [len(store.records(run)) for run in store.runs()] == [0, 2, 1]
    latest = store.latest("é")
    assert latest is not None
    assert len(latest.parameters) == 5


def test_an_unknown_run_has_nothing_and_cannot_be_advanced(store: Store) -> None:
    assert (store.settings("x"), store.latest("x"), store.records("x")) == (None, None, [])
    with pytest.raises(ConfigurationError, match="no run 'run'"):
        store.save(*made(1))


def test_what_cannot_be_meant_is_refused(store: Store) -> None:
    for run in ("", "a\0", "a\n", "\ud800"):
        with pytest.raises(ConfigurationError, match="printable"):
            store.begin(run, "{}")
    with pytest.raises(ConfigurationError, match="JSON"):
        store.begin("run", "{a}")
    with pytest.raises(ConfigurationError, match="cycle 1 of 'run' and 2 of 'run'"):
        store.save(made(1)[0], made(2)[1])


@pytest.mark.parametrize(
    "damage",
    [
        "UPDATE axon_vectors SET data = (SELECT data FROM axon_vectors WHERE place = 1)",
        "DELETE FROM axon_vectors",
    ],
)
def test_damaged_parameters_are_never_used(where: str, store: Store, damage: str) -> None:
    store.begin("run", "{}")
    store.save(*made(1))
    execute(where, damage)
    with pytest.raises(AxonError, match="cannot be taken up after cycle 1: the ") as caught:
        store.latest("run")
    assert "backup" in str(caught.value)


def test_of_two_orchestrators_only_one_saves_each_cycle(where: str, store: Store) -> None:
    store.begin("run", "{}")
    last = 20

    def advance(mine: Store) -> int:
        saved = 0
        while (done := len(mine.records("run"))) < last:
            try:
                mine.save(*made(done + 1))
                saved += 1
            except CheckpointConflict:
                continue
        return saved

    with closing(open_store(where)) as other, ThreadPoolExecutor(4) as pool:
        assert sum(pool.map(advance, [store, other, store, other])) == last
    assert [record.cycle for record in store.records("run")] == list(range(1, last + 1))


def test_two_may_make_the_store_at_once(where: str) -> None:
    with ThreadPoolExecutor(8) as pool:
        stores = list(pool.map(open_store, [where] * 8))
    for number, store in enumerate(stores):
        store.begin(f"run{number}", "{}")
    assert len(stores[0].runs()) == 8
    for store in stores:
        store.close()


def test_a_newer_store_is_not_touched(where: str) -> None:
    open_store(where).close()
    postgres = where.startswith("postgresql:")
    execute(where, "UPDATE axon_store SET version = 2" if postgres else "PRAGMA user_version = 2")
    with pytest.raises(ConfigurationError, match="has version 2, and this Axon knows 1"):
        open_store(where)


@pytest.mark.slow
def test_a_hundred_megabytes_are_saved_and_read(store: Store) -> None:
    store.begin("run", "{}")
    for cycle in (1, 2):
        store.save(*made(cycle, size=25_000_000))
    latest = store.latest("run")
    assert latest is not None
    assert latest.parameters.shape == (25_000_000,)
    assert digest(latest.parameters) == store.records("run")[-1].digest


# --- addresses and values ------------------------------------------------------------------------


def test_a_path_and_an_address_open_the_same_file(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    with closing(open_store(Path("a.db"))) as store:
        store.begin("run", "{}")
    for where in ("a.db", "sqlite:///a.db", f"sqlite:///{tmp_path}/a.db"):
        with closing(open_store(where)) as store:
            assert store.runs() == ["run"]


@pytest.mark.parametrize("where", ["mysql://x", "sqlite://a.db", "sqlite:///", "postgresql://[x"])
def test_an_address_that_is_none_says_what_would_be(where: str) -> None:
    with pytest.raises(ConfigurationError, match=r"sqlite:///|postgresql://user@"):
        open_store(where)


def test_without_psycopg_the_extra_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "psycopg", None)
    with pytest.raises(ConfigurationError, match=r"axon-edge\[postgres\]"):
        open_store("postgresql:///x")


def test_a_server_that_is_not_there_is_an_error_without_the_password() -> None:
    with pytest.raises(AxonError, match="cannot connect to db on /nowhere") as caught:
        open_store("postgresql:///db?user=axon&password=secret&host=/nowhere")
    assert "secret" not in str(caught.value)


def test_a_checkpoint_holds_only_what_comes_back_unchanged() -> None:
    checkpoint, _ = made(1)
    for wrong in ({"clock_s": float("nan")}, {"cycle": -1}, {"parameters": np.zeros((2, 2), "f4")}):
        fields = {name: getattr(checkpoint, name) for name in checkpoint.__slots__}
        with pytest.raises(ConfigurationError):
            Checkpoint(**{**fields, **wrong})
    with pytest.raises(ConfigurationError, match="state must be a flat array of float32, got int8"):
        Checkpoint(**{**fields, "step_state": {"state": np.zeros(1, np.int8)}})


# --- SQLite: files that are not what they should be ----------------------------------------------


@contextmanager
def unprivileged() -> Iterator[None]:
    """Root may write anywhere, so be somebody else for a moment."""
    root = os.geteuid() == 0
    if root:
        os.seteuid(65534)
    try:
        yield
    finally:
        if root:
            os.seteuid(0)


def test_a_read_only_folder_is_a_clear_error() -> None:
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "runs.db"
        Path(folder).chmod(0o555)
        with unprivileged(), pytest.raises(ConfigurationError, match="may not be written to"):
            SqliteStore(path)
        Path(folder).chmod(0o755)
        SqliteStore(path).close()
        path.chmod(0o444)
        Path(folder).chmod(0o555)
        with unprivileged(), pytest.raises(ConfigurationError, match="may not be written to"):
            SqliteStore(path)
        Path(folder).chmod(0o755)


def test_a_missing_folder_is_a_clear_error(tmp_path: Path) -> None:
    with pytest.raises(ConfigurationError, match=r"runs\.db: it cannot be opened: its folder"):
        SqliteStore(tmp_path / "none" / "runs.db")


def test_a_file_that_is_no_database_is_left_alone(tmp_path: Path) -> None:
    path = tmp_path / "notes.txt"
    path.write_text("something else " * 100)
    with pytest.raises(ConfigurationError, match="not a SQLite database"):
        SqliteStore(path)
    assert path.read_text() == "something else " * 100


def test_a_database_of_another_program_is_left_alone(tmp_path: Path) -> None:
    path = tmp_path / "other.db"
    execute(str(path), "CREATE TABLE songs (name TEXT)")
    before = path.read_bytes()
    with pytest.raises(ConfigurationError, match="of another program"):
        SqliteStore(path)
    assert path.read_bytes() == before


@pytest.mark.parametrize("kept", [0.01, 0.5, 0.9])
def test_a_truncated_file_is_a_clear_error(tmp_path: Path, kept: float) -> None:
    path = tmp_path / "runs.db"
    with closing(SqliteStore(path)) as store:
        store.begin("run", "{}")
        store.save(*made(1, size=20_000))
    os.truncate(path, int(path.stat().st_size * kept))
    with pytest.raises(AxonError, match=r"damaged|not a SQLite database"):
        SqliteStore(path)


def test_a_writer_that_does_not_let_go_is_named(tmp_path: Path) -> None:
    path = tmp_path / "runs.db"
    with closing(SqliteStore(path, busy_s=0.05)) as store, closing(sqlite3.connect(path)) as other:
        other.execute("BEGIN IMMEDIATE")
        with pytest.raises(AxonError, match="another process has held it for too long"):
            store.begin("run", "{}")
        assert store.runs() == []  # readers do not wait for writers
        other.rollback()
        store.begin("run", "{}")


# --- SQLite: killed at any instant ---------------------------------------------------------------


def advance_for_ever(path: Path) -> None:
    store = SqliteStore(path)
    for cycle in count(len(store.records("run")) + 1):
        store.save(*made(cycle, size=50_000))


@pytest.mark.system
def test_a_run_survives_being_killed_thirty_times(tmp_path: Path) -> None:
    path, random = tmp_path / "runs.db", stream(11, "kill")
    with closing(SqliteStore(path)) as store:
        store.begin("run", "{}")
    context = multiprocessing.get_context("forkserver")
    # One server forks for every test of a session: the system tests need the other two as well.
    context.set_forkserver_preload([__name__, "axon.recipes.runner", "torch._dynamo"])
    reached = []
    for _ in range(30):
        child = context.Process(target=advance_for_ever, args=(path,))
        child.start()
        time.sleep(random.uniform(0.0, 0.15))
        child.kill()
        child.join()
        with closing(SqliteStore(path)) as store:
            records, latest = store.records("run"), store.latest("run")
        reached.append(len(records))
        assert [record.cycle for record in records] == list(range(1, reached[-1] + 1))
        if latest is None:
            assert not records
            continue
        assert latest.cycle == reached[-1]
        assert (
            digest(latest.parameters)
            == records[-1].digest
            == digest(made(latest.cycle, size=50_000)[0].parameters)
        )
    assert reached == sorted(reached)
    assert len(set(reached)) > 10


# --- PostgreSQL: connections that break ----------------------------------------------------------


class Cut:
    """Stands between store and server and, once armed, breaks the link at the next commit."""

    def __init__(self, server: Server, folder: Path) -> None:
        self.address = server.address(server.database(), folder)
        self.direct = self.address.replace(str(folder), str(server.folder))
        self.armed = ""
        """`before` loses the commit itself, `after` only the answer to it."""
        self.meanwhile: Callable[[], None] = lambda: None
        self._server = str(server.folder / ".s.PGSQL.5432")
        self._listener = socket.socket(socket.AF_UNIX)
        self._listener.bind(str(folder / ".s.PGSQL.5432"))
        self._listener.listen()
        threading.Thread(target=self._accept, daemon=True).start()

    def close(self) -> None:
        with suppress(OSError):  # it may be closed already
            self._listener.shutdown(socket.SHUT_RDWR)
        self._listener.close()

    def _accept(self) -> None:
        with suppress(OSError):  # closed, so it is over
            while True:
                client, _ = self._listener.accept()
                threading.Thread(target=self._carry, args=(client,), daemon=True).start()

    def _carry(self, client: socket.socket) -> None:
        with client, socket.socket(socket.AF_UNIX) as server:
            server.connect(self._server)
            while ready := select.select([client, server], [], [])[0]:
                data = ready[0].recv(1 << 16)
                # With the byte that ends it: a transaction begins with READ COMMITTED.
                committing = bool(self.armed) and ready[0] is client and b"COMMIT\0" in data
                if committing and self.armed == "after":
                    server.sendall(data)
                    server.recv(1 << 16)
                if committing or not data:
                    break
                (server if ready[0] is client else client).sendall(data)
            server.close()
            if committing:
                self.armed = ""
                self.meanwhile()


@pytest.fixture
def cut(server: Server) -> Iterator[Cut]:
    folder = Path(tempfile.mkdtemp(prefix="axon"))
    with closing(Cut(server, folder)) as cut:
        yield cut
    shutil.rmtree(folder)


@pytest.mark.system
@pytest.mark.parametrize("armed", ["before", "after"])
def test_a_link_lost_at_the_commit_saves_the_cycle_once(cut: Cut, armed: str) -> None:
    seen = []
    with closing(open_store(cut.address)) as store, closing(open_store(cut.direct)) as other:
        store.begin("run", "{}")
        store.save(*made(1))
        cut.armed, cut.meanwhile = armed, lambda: seen.append(len(other.records("run")))
        store.save(*made(2))
        assert seen == [1 if armed == "before" else 2]
        store.save(*made(3))
        assert [record.cycle for record in store.records("run")] == [1, 2, 3]


@pytest.mark.system
def test_a_cycle_that_another_saved_while_the_link_was_lost_is_a_conflict(cut: Cut) -> None:
    with closing(open_store(cut.address)) as store, closing(open_store(cut.direct)) as other:
        store.begin("run", "{}")
        cut.armed, cut.meanwhile = "before", lambda: other.save(*made(1, size=7))
        with pytest.raises(CheckpointConflict, match="1 cycles, so the next is 2, got 1"):
            store.save(*made(1))
        latest = store.latest("run")
        assert latest is not None
        assert len(latest.parameters) == 7


@pytest.mark.system
def test_a_lost_connection_is_opened_anew_while_there_is_a_server(cut: Cut) -> None:
    lose = (
        "SELECT pg_terminate_backend(pid, 5000) FROM pg_stat_activity "
        "WHERE application_name = 'axon' AND datname = current_database()"
    )
    with closing(open_store(cut.address)) as store:
        for cycle in (1, 2):
            execute(cut.direct, lose)
            if cycle == 1:
                store.begin("run", "{}")
            execute(cut.direct, lose)
            store.save(*made(cycle))
            execute(cut.direct, lose)
            assert len(store.records("run")) == cycle
        cut.close()
        execute(cut.direct, lose)
        for _ in range(2):
            with pytest.raises(AxonError, match="cannot connect to test"):
                store.latest("run")


@pytest.mark.system
def test_a_run_that_stays_locked_is_an_error(
    server: Server, monkeypatch: pytest.MonkeyPatch
) -> None:
    import psycopg

    monkeypatch.setattr("axon.rounds.postgres.LOCK_S", 0.1)
    where = server.address(server.database())
    with closing(open_store(where)) as store, psycopg.connect(where) as other:
        store.begin("run", "{}")
        other.execute("SELECT FROM axon_runs FOR UPDATE")
        with pytest.raises(AxonError, match="lock timeout"):
            store.save(*made(1))
        other.rollback()
        store.save(*made(1))
