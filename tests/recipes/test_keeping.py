"""Folders in which a run was left halfway, damaged, or that cannot hold one."""

from __future__ import annotations

import json
import os
import sqlite3
from contextlib import closing
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from axon.errors import AxonError, ConfigurationError, QuorumNotReached, RunExists
from axon.recipes.keeping import (
    CHECKPOINT,
    CONFIGURATION,
    FAILED,
    MODEL,
    RECORDS,
    Keeping,
    begun_as,
    kept_name,
)
from axon.recipes.runner import run_recipe
from axon.recipes.settings import Recipe, read_recipe, to_toml
from axon.report.records import RecordFile, read
from axon.rounds.checkpoint import open_store
from axon.rounds.events import CycleEnded, Event
from axon.values import RoundRecord

SMALL = Recipe(dataset="synthetic", devices="pi-1", cycles=2, deadline_s=1.0, seed=5)


class Killed(BaseException):
    """What ends a process: nobody catches it."""


def kept(out: Path, recipe: Recipe = SMALL, *, resume: bool = False, **changes: Any) -> int:
    """How many cycles the run has when it ends."""
    keeping = Keeping(out=out, resume=resume)
    return len(run_recipe(replace(recipe, **changes), keeping).records)


def kill_at(cycle: int) -> Any:
    def listen(event: Event) -> None:
        if cycle == 0 or (isinstance(event, CycleEnded) and event.record.cycle == cycle):
            raise Killed

    return listen


def begun(out: Path, name: str = "run") -> Recipe | None:
    with closing(open_store(out / CHECKPOINT)) as store:
        return begun_as(store, name)


@pytest.mark.parametrize("lost", ["removed", "empty", "another run"])
@pytest.mark.parametrize("resume", [False, True])
def test_records_without_a_checkpoint_are_not_destroyed(
    tmp_path: Path, lost: str, resume: bool
) -> None:
    kept(tmp_path)
    before = (tmp_path / RECORDS).read_bytes()
    for file in tmp_path.glob(f"{CHECKPOINT}*"):
        file.unlink()
    if lost == "empty":
        (tmp_path / CHECKPOINT).touch()
    with pytest.raises(RunExists, match=r"records of 2 cycles and no checkpoint .*another folder"):
        kept(tmp_path, resume=resume, name="other" if lost == "another run" else "run")
    assert (tmp_path / RECORDS).read_bytes() == before
    (tmp_path / RECORDS).rename(tmp_path / "old.jsonl")
    assert kept(tmp_path, resume=resume) == 2


@pytest.mark.parametrize("lost", [False, True])
def test_a_run_without_a_cycle_is_resumed_as_its_configuration_says(
    tmp_path: Path, lost: bool
) -> None:
    with pytest.raises(Killed):
        run_recipe(SMALL, Keeping(out=tmp_path), listen=kill_at(0))
    if lost:
        for file in tmp_path.glob(f"{CHECKPOINT}*"):
            file.unlink()
    assert kept(tmp_path, Recipe(dataset="digits", cycles=1), resume=True) == 1
    assert read_recipe(tmp_path / CONFIGURATION) == replace(SMALL, cycles=1)
    assert begun(tmp_path) == replace(SMALL, cycles=1)


def test_the_configuration_of_another_run_is_not_resumed(tmp_path: Path) -> None:
    (tmp_path / CONFIGURATION).write_text(to_toml(replace(SMALL, name="other", seed=9)))
    assert begun_as(None, "run", tmp_path) is None
    assert begun_as(None, "other", tmp_path) == replace(SMALL, name="other", seed=9)
    kept(tmp_path, resume=True)
    assert read_recipe(tmp_path / CONFIGURATION) == SMALL


def test_a_run_that_ended_before_its_first_cycle_does_not_take_the_folder(tmp_path: Path) -> None:
    with pytest.raises(Killed):
        run_recipe(SMALL, Keeping(out=tmp_path), listen=kill_at(0))
    assert kept(tmp_path, seed=6, cycles=1) == 1
    assert begun(tmp_path) == read_recipe(tmp_path / CONFIGURATION)
    assert read_recipe(tmp_path / CONFIGURATION).seed == 6


def test_more_cycles_are_remembered_through_a_kill(tmp_path: Path) -> None:
    kept(tmp_path, cycles=1)
    with pytest.raises(Killed):
        run_recipe(replace(SMALL, cycles=4), Keeping(out=tmp_path, resume=True), listen=kill_at(2))
    again = begun(tmp_path)
    assert again == read_recipe(tmp_path / CONFIGURATION) == replace(SMALL, cycles=4)
    assert again is not None
    assert kept(tmp_path, again, resume=True) == 4
    # Fewer than are done cannot be meant.
    assert kept(tmp_path, again, resume=True, cycles=2) == 4
    assert read_recipe(tmp_path / CONFIGURATION).cycles == 4


def test_the_only_run_of_a_store_is_known_by_name(tmp_path: Path) -> None:
    with closing(open_store(tmp_path / "runs.db")) as store:
        assert kept_name(store) is None
        store.begin("first", "{}")
        assert kept_name(store) == "first"
        store.begin("second", "{}")
        assert kept_name(store) is None


@pytest.mark.parametrize(
    ("damage", "wrong"),
    [
        ("UPDATE runs SET settings = '{'", "are no recipe"),
        ("UPDATE runs SET settings = '\"cycles = 0\"'", "are no recipe: cycles must be"),
        ("UPDATE runs SET settings = '\"name = 1\"'", "are no recipe: a setting"),
        (f"UPDATE runs SET settings = '\"a = {'[' * 9999}\"'", "nested too deeply"),
        ("UPDATE runs SET settings = replace(settings, 'name = ', 'name = \\\"a\\\" #')", "of run"),
        ("DELETE FROM records WHERE cycle = 1", "which cycle 1 has none"),
        ("UPDATE checkpoints SET cycle = 1", "of cycle 1, and it has 2 records"),
    ],
)
def test_a_damaged_store_is_not_taken_up(tmp_path: Path, damage: str, wrong: str) -> None:
    kept(tmp_path)
    before = (tmp_path / RECORDS).read_bytes()
    with closing(sqlite3.connect(tmp_path / CHECKPOINT)) as file, file:
        file.execute(damage)
    with pytest.raises(AxonError, match=rf"checkpoint\.sqlite: .*{wrong}") as caught:
        kept(tmp_path, resume=True, cycles=3)
    assert "restore it from a backup" in str(caught.value)
    assert (tmp_path / RECORDS).read_bytes() == before


@pytest.mark.parametrize("name", [".lock", RECORDS, CONFIGURATION, MODEL, FAILED])
def test_a_folder_in_the_place_of_a_file_is_named(tmp_path: Path, name: str) -> None:
    (tmp_path / name).mkdir()
    with pytest.raises(ConfigurationError, match=rf"cannot write .*{name}: Is a dir.*choose"):
        kept(tmp_path, cycles=1)
    assert {path.name for path in tmp_path.iterdir() if path.is_dir()} == {name}


@pytest.mark.parametrize("out", ["file", "file/deeper", "n" * 300])
def test_a_folder_that_cannot_be_made_is_named(tmp_path: Path, out: str) -> None:
    (tmp_path / "file").touch()
    with pytest.raises(ConfigurationError, match=rf"cannot write .*{out}: (File|Not|Name).*choose"):
        kept(tmp_path / out)


def test_a_full_disk_while_recording_is_named(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def full(self: RecordFile, record: RoundRecord) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(RecordFile, "append", full)
    with pytest.raises(ConfigurationError, match=r"cannot write .*jsonl: No space left"):
        kept(tmp_path)
    monkeypatch.undo()
    # The store has the cycle, so nothing is lost.
    assert kept(tmp_path, resume=True) == 2
    assert [record.cycle for record in read(tmp_path / RECORDS)] == [1, 2]


def test_what_lies_where_partial_files_were_is_not_touched(tmp_path: Path) -> None:
    elsewhere = tmp_path / "elsewhere"
    out = tmp_path / "out"
    out.mkdir()
    (out / f"{MODEL}.partial").symlink_to(elsewhere)
    os.mkfifo(out / f"{CONFIGURATION}.partial")
    os.mkfifo(out / RECORDS)
    kept(out, cycles=1)
    assert not elsewhere.exists()
    assert len(read(out / RECORDS)) == 1


def test_a_cycle_without_its_quorum_leaves_word_until_the_run_goes_on(tmp_path: Path) -> None:
    with pytest.raises(QuorumNotReached) as caught:
        kept(tmp_path, quorum=3)
    told = json.loads((tmp_path / FAILED).read_text())
    assert (told["cycle"], told["wanted"], told["got"]) == (1, 3, caught.value.got)
    assert [device["device"] for device in told["devices"]] == ["pi-1"]
    assert kept(tmp_path, cycles=1) == 1
    assert not (tmp_path / FAILED).exists()


def test_a_failure_that_cannot_be_written_is_still_a_failure(tmp_path: Path) -> None:
    def listen(_: Event) -> None:
        (tmp_path / FAILED).mkdir(exist_ok=True)

    with pytest.raises(QuorumNotReached) as caught:
        run_recipe(replace(SMALL, quorum=3), Keeping(out=tmp_path), listen=listen)
    assert any("cannot write" in note for note in caught.value.__notes__)
