"""SQLite alone: files that are not what they should be, and a writer killed at any instant."""

from __future__ import annotations

import os
import sqlite3
import tempfile
import time
from collections.abc import Iterator
from contextlib import closing, contextmanager
from itertools import count
from multiprocessing.connection import Connection
from pathlib import Path

import pytest

from axon.errors import AxonError, ConfigurationError, StoreSilent
from axon.report.records import digest
from axon.rounds.sqlite import SqliteStore
from axon.seeds import stream
from tests.forks import FORKS
from tests.rounds.stores import execute, made


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


def test_nobody_goes_on_in_a_file_that_is_gone(tmp_path: Path) -> None:
    path = tmp_path / "runs.db"
    with closing(SqliteStore(path)) as store:
        store.begin("run", "{}")
        led = store.lead("run", "desk")
        path.rename(tmp_path / "elsewhere.db")
        for _ in range(2):
            with pytest.raises(AxonError, match=r"runs\.db was moved, deleted or replaced"):
                store.beat("run", led.epoch)
            path.touch()  # Nor in another one of its name.
        path.unlink()
        (tmp_path / "elsewhere.db").rename(path)
        store.beat("run", led.epoch)


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
        with pytest.raises(StoreSilent, match="another process has held it for too long"):
            store.begin("run", "{}")
        assert store.runs() == []  # readers do not wait for writers
        other.rollback()
        store.begin("run", "{}")


def advance_for_ever(path: Path, told: Connection) -> None:
    store = SqliteStore(path)
    for cycle in count(len(store.records("run")) + 1):
        store.save(*made(cycle, size=50_000))
        told.send(cycle)


@pytest.mark.system
def test_a_run_survives_being_killed_thirty_times(tmp_path: Path) -> None:
    path, random = tmp_path / "runs.db", stream(11, "kill")
    with closing(SqliteStore(path)) as store:
        store.begin("run", "{}")
    reached = []
    for _ in range(30):
        hears, tells = FORKS.Pipe(duplex=False)
        child = FORKS.Process(target=advance_for_ever, args=(path, tells))
        child.start()
        tells.close()
        # By its cycles and not by the clock alone: a busy machine may take long to start it.
        for _ in range(int(random.integers(0, 4))):
            hears.recv()
        time.sleep(random.uniform(0.0, 0.02))
        child.kill()
        child.join()
        hears.close()
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
