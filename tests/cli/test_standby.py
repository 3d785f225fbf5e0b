"""`axon standby` and `axon train --failover`: what they are told, and what they say."""

from __future__ import annotations

import time
from contextlib import closing
from pathlib import Path

import pytest

from axon.cli.main import exit_code
from axon.cli.recipes import Surroundings
from axon.cli.standby import StandbyOptions
from axon.errors import Superseded
from axon.recipes.keeping import settings_of
from axon.recipes.settings import Recipe
from axon.rounds.checkpoint import open_store
from tests.cli.scenes import SMALL, Shell
from tests.rounds.stores import made

REAL = Recipe(world="deployed", hosts=("127.0.0.1:1",), cycles=1)


def begin(path: Path, recipe: Recipe = REAL) -> None:
    """A run that is over, of which a standby has only the records to tell."""
    with closing(open_store(path)) as store:
        store.begin(recipe.name, settings_of(recipe))
        store.save(*made(1, run=recipe.name))


@pytest.mark.parametrize("named", [(), ("run",)])
def test_a_standby_needs_the_store_and_the_name_and_ends_with_the_run(
    shell: Shell, tmp_path: Path, named: tuple[str, ...]
) -> None:
    begin(tmp_path / "runs.db")
    ended = shell("standby", tmp_path / "runs.db", *named)
    assert (ended.code, ended.err) == (0, "")
    assert f"after 1 cycle, 0.10 s in the deployed world; kept in {tmp_path}" in ended.out


def test_a_standby_waits_until_the_run_has_begun(
    shell: Shell, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    looks: list[float] = []

    def sleep(seconds: float) -> None:
        looks.append(seconds)
        if len(looks) == 3:
            begin(tmp_path / "runs.db")

    monkeypatch.setattr(time, "sleep", sleep)
    open_store(tmp_path / "runs.db").close()
    ended = shell("standby", tmp_path / "runs.db")
    assert (ended.code, ended.err) == (0, "axon: waiting for run run to begin\n")
    assert len(looks) == 3


def test_of_several_runs_one_must_be_named(shell: Shell, tmp_path: Path) -> None:
    with closing(open_store(tmp_path / "runs.db")) as store:
        store.begin("one", "{}")
        store.begin("two", "{}")
    ended = shell("standby", tmp_path / "runs.db")
    assert ended.code == 2
    assert "keeps 2 runs (say which: one, two)" in ended.err


def test_a_run_that_a_store_of_others_does_not_know_is_refused(
    shell: Shell, tmp_path: Path
) -> None:
    with closing(open_store(tmp_path / "runs.db")) as store:
        for number in range(10):
            store.begin(f"run-{number}", "{}")
    ended = shell("standby", tmp_path / "runs.db", "nope")
    assert ended.code == 2
    assert "runs.db keeps no run 'nope' (it keeps run-0, run-1, run-2" in ended.err
    assert ended.err.endswith("run-7 and 2 more)\n")


@pytest.mark.parametrize("place", ["{}", "sqlite:///{}"])
def test_a_store_that_is_not_there_is_refused_and_not_made(
    shell: Shell, tmp_path: Path, place: str
) -> None:
    path = tmp_path / "nosuch.sqlite"
    ended = shell("standby", place.format(path))
    assert ended.code == 2
    assert f"there is no store at '{path}'" in ended.err
    assert not path.exists()


def test_bytes_that_are_no_text_are_no_address(shell: Shell) -> None:
    ended = shell("standby", "postgresql://\udcff")
    assert ended.code == 2
    assert "cannot be the address of a store" in ended.err


@pytest.mark.parametrize("name", ["\udcff", "", "a/b"])
def test_a_name_that_no_run_can_have_is_refused(shell: Shell, tmp_path: Path, name: str) -> None:
    open_store(tmp_path / "runs.db").close()
    ended = shell("standby", tmp_path / "runs.db", name)
    assert ended.code == 2
    assert "name must be 1 to" in ended.err


def test_a_simulated_run_cannot_be_stood_by(shell: Shell, tmp_path: Path) -> None:
    begin(tmp_path / "runs.db", Recipe(cycles=1))
    for words in (("standby", tmp_path / "runs.db"), ("train", *SMALL, "--failover")):
        ended = shell(*words)
        assert (ended.code, ended.out) == (2, "")
        assert "the simulated world lives in the process of its orchestrator" in ended.err


def test_failover_needs_somewhere_that_others_reach(shell: Shell) -> None:
    ended = shell("train", "--world", "emulated", "--failover")
    assert ended.code == 2
    assert "--store" in ended.err


def test_a_heartbeat_that_cannot_be_meant_is_refused(shell: Shell, tmp_path: Path) -> None:
    ended = shell("train", "--failover", "--heartbeat", 0, "--store", tmp_path / "runs.db")
    assert ended.code == 2
    assert "heartbeat_s must be a finite number above 0" in ended.err


def test_one_that_goes_on_beside_a_leader_is_told_how(shell: Shell, tmp_path: Path) -> None:
    place = tmp_path / "runs.db"
    with closing(open_store(place)) as store:
        store.begin("run", settings_of(Recipe(devices="pair")))
        store.lead("run", "other")
    ended = shell("train", "--store", place, "--resume")
    assert ended.code == 8
    assert "run 'run' is led by other as epoch 1" in ended.err
    assert "--failover" in ended.err


def test_one_that_was_replaced_has_an_exit_code_of_its_own() -> None:
    assert exit_code(Superseded("run", 1, by=2, holder="other")) == 8


def test_a_standby_is_reached_as_a_run_that_is_taken_up(tmp_path: Path) -> None:
    options = StandbyOptions(store="s", out=tmp_path, key=tmp_path, listen="0.0.0.0", insecure=True)
    assert options.surroundings == Surroundings(
        store="s",
        out=tmp_path,
        key=tmp_path,
        listen="0.0.0.0",
        insecure=True,
        resume=True,
        failover=True,
    )
