"""Damage that SQLite itself does not notice: said to be damage, with the file and what is wrong."""

from __future__ import annotations

import json
import math
import sqlite3
from collections.abc import Callable, Iterator
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest

from axon.errors import AxonError, ConfigurationError
from axon.rounds.checkpoint import Store, open_store, pack, state_of
from axon.seeds import stream
from axon.values import RoundRecord
from tests.rounds.stores import made

NOT_UTF8 = "CAST(x'ff41' AS TEXT)"
CYCLES = 3


@pytest.fixture
def path(tmp_path: Path) -> Path:
    """A sound store of one run."""
    path = tmp_path / "runs.db"
    with closing(open_store(path)) as store:
        store.begin("run", "{}")
        for cycle in range(1, CYCLES + 1):
            store.save(*made(cycle))
    return path


def execute(path: Path, statement: str, *values: Any) -> None:
    # Without foreign keys, which damage does not ask for either.
    with closing(sqlite3.connect(path)) as file, file:
        file.execute(statement, values)


@pytest.fixture
def store(path: Path) -> Iterator[Store]:
    with closing(open_store(path)) as store:
        yield store


def head(**changes: Any) -> str:
    """The plain fields of a checkpoint, with some of them changed."""
    return json.dumps({**json.loads(pack(made(CYCLES)[0])[0]), **changes})


def test_a_sound_run_agrees_with_itself(store: Store) -> None:
    latest, records = state_of(store, "run")
    assert latest is not None
    assert (latest.cycle, len(records)) == (CYCLES, CYCLES)
    assert latest.previous_s == {"pi-1": 0.3}
    assert state_of(store, "other") == (None, [])


def test_a_run_that_goes_on_while_it_is_read_is_no_damage(
    store: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    read = store.records

    def late(run: str) -> list[RoundRecord]:
        for cycle in (CYCLES + 1, CYCLES + 2):
            store.save(*made(cycle))
        return read(run)

    monkeypatch.setattr(store, "records", late)
    latest, records = state_of(store, "run")
    assert latest is not None
    assert (latest.cycle, len(records)) == (CYCLES, CYCLES)


def test_a_checkpoint_of_before_runs_had_owners_and_surveys_is_sound(
    path: Path, store: Store
) -> None:
    execute(path, "UPDATE checkpoints SET head = ?", head(seed=7))
    execute(path, "UPDATE checkpoints SET head = json_remove(head, '$.owner', '$.findings')")
    latest = store.latest("run")
    assert latest is not None
    assert (latest.seed, latest.owner, latest.members) == (7, "", ("pi-1", "pi-ü"))
    assert latest.findings == {}


@pytest.mark.parametrize(
    "damage",
    [
        "UPDATE checkpoints SET head = '{'",
        "UPDATE checkpoints SET head = '[]'",
        "UPDATE checkpoints SET head = '{}'",
        "UPDATE checkpoints SET head = x'00ff'",
        f"UPDATE checkpoints SET head = {NOT_UTF8}",
        "UPDATE checkpoints SET head = replace(head, 'seed', 'seeds')",
        f"UPDATE checkpoints SET head = '{'[' * 9999}'",
        f"UPDATE checkpoints SET head = '{head(clock_s=math.nan)}'",
        f"UPDATE checkpoints SET head = '{head(clock_s=10**400)}'",
        f"UPDATE checkpoints SET head = '{head(members=7)}'",
        f"UPDATE checkpoints SET head = '{head(members=[7])}'",
        f"UPDATE checkpoints SET head = '{head(previous_s=[])}'",
        f"UPDATE checkpoints SET head = '{head(owner={})}'",
        f"UPDATE checkpoints SET head = '{head(findings=[])}'",
        f"UPDATE checkpoints SET head = '{head(findings={'a': {'status': 'odd', 'cycle': 1}})}'",
        f"UPDATE checkpoints SET head = '{head(findings={'a': {'status': 'told', 'cycle': 0}})}'",
        "UPDATE checkpoints SET head = replace(head, '300000.0', '-1.0')",
        "UPDATE checkpoints SET cycle = 'three'",
        "UPDATE checkpoints SET cycle = -1",
        "UPDATE vectors SET data = 'text' WHERE place = 0",
        "UPDATE vectors SET data = 7 WHERE place = 0",
        "UPDATE vectors SET data = x'00' WHERE place = 0",
        "UPDATE vectors SET digest = x'00' WHERE place = 1",
        f"UPDATE vectors SET name = {NOT_UTF8} WHERE place = 1",
        "UPDATE vectors SET place = place + 1000",
        "UPDATE vectors SET place = 'first' WHERE place = 0",
        "DELETE FROM vectors WHERE place < 2",
        "DELETE FROM vectors WHERE place = 1",
    ],
)
def test_a_damaged_checkpoint_is_named(path: Path, store: Store, damage: str) -> None:
    execute(path, damage)
    with pytest.raises(AxonError, match=r"runs\.db: .*cannot be .*: .*backup") as caught:
        store.latest("run")
    assert not isinstance(caught.value, ConfigurationError)


@pytest.mark.parametrize(
    "line",
    [
        "''",
        "'null'",
        "'{}'",
        "x'00ff'",
        NOT_UTF8,
        f"'{'[' * 9999}'",
        f"'{'9' * 9999}'",
        "replace(line, 'failed', 'lost')",
        "replace(line, '\"cycle\":2', '\"cycle\":7')",
        'replace(line, \'"run":"run"\', \'"run":"other"\')',
    ],
)
def test_a_damaged_record_is_named(path: Path, store: Store, line: str) -> None:
    execute(path, f"UPDATE records SET line = {line} WHERE cycle = 2")
    with pytest.raises(AxonError, match=r"runs\.db: .* cannot be read: .*backup") as caught:
        store.records("run")
    assert line == NOT_UTF8 or "cycle 2 of run 'run'" in str(caught.value)


@pytest.mark.parametrize(
    ("damage", "wrong"),
    [
        ("DELETE FROM records WHERE cycle = 2", "2 records, of which cycle 2 has none"),
        ("DELETE FROM records WHERE cycle = 3", "of cycle 3, and it has 2 records, of the cycles"),
        ("DELETE FROM records", "of cycle 3, and it has 0 records, of no cycle"),
        ("DELETE FROM checkpoints", "of cycle 0, and it has 3 records, of the cycles 1 to 3"),
        ("UPDATE checkpoints SET cycle = 2", "of cycle 2, and it has 3 records"),
        ("UPDATE checkpoints SET cycle = 4", "of cycle 4, and it has 3 records"),
        (
            'UPDATE records SET line = replace(line, \'"digest":"\', \'"digest":"0\')',
            "not those of the record of cycle 3",
        ),
    ],
)
def test_records_and_checkpoint_must_agree(
    path: Path, store: Store, damage: str, wrong: str
) -> None:
    execute(path, damage)
    with pytest.raises(AxonError, match=rf"runs\.db: run 'run' cannot be taken up: .*{wrong}"):
        state_of(store, "run")


@pytest.mark.parametrize(
    ("damage", "use"),
    [
        ("INSERT INTO runs VALUES (x'00', '')", lambda store: store.runs()),
        (f"INSERT INTO runs VALUES ({NOT_UTF8}, '')", lambda store: store.runs()),
        (f"UPDATE runs SET settings = {NOT_UTF8}", lambda store: store.settings("run")),
        ("UPDATE records SET cycle = 'x' WHERE cycle = 2", lambda store: store.begin("run", "{}")),
        (
            "UPDATE records SET cycle = 'x' WHERE cycle = 2",
            lambda store: store.save(*made(CYCLES + 1)),
        ),
    ],
)
def test_what_is_no_text_or_number_is_damage(
    path: Path, store: Store, damage: str, use: Callable[[Store], object]
) -> None:
    execute(path, damage)
    with pytest.raises(AxonError, match=r"runs\.db: .* cannot be (read|counted): .*backup"):
        use(store)


def test_a_table_with_a_damaged_name_is_damage(path: Path) -> None:
    execute(path, "PRAGMA wal_checkpoint(TRUNCATE)")
    path.write_bytes(path.read_bytes().replace(b"CREATE TABLE vectors", b"CREATE TABL\xff vectors"))
    with pytest.raises(AxonError, match=r"runs\.db: .*malformed database schema .*backup"):
        open_store(path)


def test_a_closed_store_is_a_bug_not_damage(store: Store) -> None:
    store.close()
    with pytest.raises(sqlite3.ProgrammingError, match="closed"):
        store.runs()


def test_any_flipped_byte_is_noticed_or_does_no_harm(path: Path, tmp_path: Path) -> None:
    execute(path, "PRAGMA wal_checkpoint(TRUNCATE)")
    sound = path.read_bytes()
    random, other, refused = stream(3, "damage"), tmp_path / "flipped.db", 0
    for _ in range(150):
        data = bytearray(sound)
        data[random.integers(len(data))] ^= 1 << int(random.integers(8))
        other.write_bytes(data)
        for beside in tmp_path.glob("flipped.db-*"):
            beside.unlink()
        try:
            with closing(open_store(other)) as store:
                latest, records = state_of(store, "run")
        except AxonError:
            refused += 1
            continue
        assert len(records) == (0 if latest is None else latest.cycle)
    assert refused > 5
