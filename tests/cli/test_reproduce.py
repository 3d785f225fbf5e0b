"""`axon reproduce`: what it prints, what it leaves behind, and how it refuses."""

from __future__ import annotations

import errno
import json
import os
import sys
from pathlib import Path

import pytest

from axon.experiments.result import Result
from axon.experiments.settings import Settings
from tests.cli.scenes import Shell
from tests.experiments import scenes


def tiny(settings: Settings) -> Result:
    settings.progress(f"seed {settings.seed}")
    return scenes.result(repeats=settings.repeated(30, 3))


@pytest.fixture(autouse=True)
def experiments(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    scenes.install(monkeypatch, tiny, "tiny")
    monkeypatch.chdir(tmp_path)


def test_a_person_reads_table_notes_and_verdicts(shell: Shell) -> None:
    ended = shell("reproduce", "tiny", "--seed", 4)
    assert (ended.code, ended.err) == (0, "tiny: seed 4\n")
    assert ended.out.splitlines() == [
        "A tiny result",
        "",
        "K         time  note",
        "2  2.50 ± 0.25  none",
        "4            -  infeasible",
        "",
        "Assumed: nothing.",
        "",
        "holds          it is 2 & more: paper 2, measured 2.5 s (2.25 to 2.75)",
        "does not hold  it is <small>: paper says nothing, measured large",
        "               it grew",
        "",
        f"kept in {Path('reproduced', 'tiny.json')}",
    ]


def test_the_folder_and_the_file_have_the_result(shell: Shell) -> None:
    ended = shell("reproduce", "tiny", "--quick", "--json", "here.json", "--out", "a/b")
    assert ended.code == 0
    kept = Path("a/b/tiny.json").read_text()
    assert Path("here.json").read_text() == kept
    found = json.loads(kept)
    assert [claim["holds"] for claim in found["claims"]] == [True, False]
    assert (found["quick"], found["repeats"], found["seed"]) == (True, 3, 0)
    assert Path("a/b/tiny.svg").read_text().startswith("<?xml")
    assert not Path("a/b/index.html").exists()


def test_a_dash_leaves_standard_output_to_the_json(shell: Shell) -> None:
    ended = shell("reproduce", "tiny", "--json", "-", "--repeats", 7)
    assert json.loads(ended.out)["repeats"] == 7
    assert Path("reproduced/tiny.json").read_text() == ended.out


def test_all_of_them_make_one_page(shell: Shell, monkeypatch: pytest.MonkeyPatch) -> None:
    runs = iter(["first", "second"])
    scenes.install(
        monkeypatch, lambda settings: scenes.result(next(runs)), "first", "second", trains=True
    )
    ended = shell("reproduce", "--all", "--quick", "--json", "all.json")
    assert ended.code == 0
    assert [each["name"] for each in json.loads(Path("all.json").read_text())] == [
        "first",
        "second",
    ]
    page = Path("reproduced/index.html").read_text()
    assert page.count("data:image/svg+xml") == 2
    assert sorted(os.listdir("reproduced")) == [
        "first.json", "first.svg", "index.html", "second.json", "second.svg",
    ]  # fmt: skip


def test_without_matplotlib_only_the_figure_is_missing(
    shell: Shell, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, "matplotlib", None)
    ended = shell("reproduce", "tiny")
    assert ended.code == 0
    assert "the figure was left out: drawing a figure needs matplotlib" in ended.err
    assert os.listdir("reproduced") == ["tiny.json"]


def test_the_list_has_a_line_each(shell: Shell) -> None:
    assert shell("reproduce", "--list").out == "tiny  what tiny does\n"


def test_a_data_set_that_nobody_reads_is_mentioned(shell: Shell) -> None:
    ended = shell("reproduce", "tiny", "--dataset", "digits")
    assert ended.code == 0
    assert "axon: tiny learns nothing and reads no --dataset\n" in ended.err


@pytest.mark.parametrize(
    ("words", "part"),
    [
        ([], "which experiment? (give a NAME that --list shows, or --all)"),
        (["big"], "there is no experiment 'big' (known are tiny)"),
        (["tiny", "--all"], "--all runs every experiment, and 'tiny' asks for one"),
        (["tiny", "--seed", "-1"], "seed must be at least 0, got -1"),
        (["tiny", "--repeats", "0"], "repeats must be from 1 to 10000, got 0"),
        (["tiny", "--out", "file"], "cannot write to file: File exists"),
        (["tiny", "--out", "file/in"], "cannot write to file/in: Not a directory"),
        (["tiny", "--json", "folder"], "cannot write to folder: it is a folder"),
        (["tiny", "--json", "no/such.json"], "cannot write to no/such.json: no such folder"),
    ],
    ids=lambda value: " ".join(value) if isinstance(value, list) else "",
)
def test_what_cannot_be_meant_is_one_line_before_any_work(
    words: list[str], part: str, shell: Shell
) -> None:
    Path("file").touch()
    Path("folder").mkdir()
    ended = shell("reproduce", *words)
    assert (ended.code, ended.out, ended.err.count("\n")) == (2, "", 1)
    assert ended.err.startswith(f"axon: {part}")


@pytest.mark.parametrize(
    ("option", "given", "place"),
    [("--out", "closed", "closed/tiny.json"), ("--json", "closed/it.json", "closed/it.json")],
)
def test_a_place_that_may_not_be_written_to(
    option: str, given: str, place: str, shell: Shell, monkeypatch: pytest.MonkeyPatch
) -> None:
    Path("closed").mkdir()
    # As it is for anybody but the superuser, as whom these tests may run.
    monkeypatch.setattr(
        os, "access", lambda path, mode: Path(path).name != "closed" or not mode & os.W_OK
    )
    ended = shell("reproduce", "tiny", option, given)
    assert (ended.code, ended.out) == (2, "")
    assert ended.err == f"axon: cannot write to {place}: permission denied\n"


def test_a_folder_in_a_results_place_is_found_before_the_work(shell: Shell) -> None:
    Path("reproduced/tiny.svg").mkdir(parents=True)
    ended = shell("reproduce", "tiny")
    assert (ended.code, ended.out) == (2, "")
    assert ended.err == "axon: cannot write to reproduced/tiny.svg: it is a folder\n"


def test_what_was_there_stays_when_the_disk_is_full(
    shell: Shell, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert shell("reproduce", "tiny").code == 0
    before = Path("reproduced/tiny.json").read_bytes()

    def full(handle: int) -> None:
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr(os, "fsync", full)
    ended = shell("reproduce", "tiny", "--seed", "3")
    assert ended.code == 2
    assert ended.err.endswith("cannot write to reproduced/tiny.json: No space left on device\n")
    assert Path("reproduced/tiny.json").read_bytes() == before
    assert not list(Path("reproduced").glob(".*"))


def test_an_interrupt_is_quiet(shell: Shell, monkeypatch: pytest.MonkeyPatch) -> None:
    def interrupted(settings: Settings) -> Result:
        raise KeyboardInterrupt

    scenes.install(monkeypatch, interrupted, "tiny")
    ended = shell("reproduce", "tiny")
    assert (ended.code, ended.out, ended.err) == (130, "", "")
    assert os.listdir("reproduced") == []


def test_on_a_terminal_progress_is_one_line_that_goes_away(
    shell: Shell, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sys.stderr, "isatty", lambda: True)
    assert shell("reproduce", "tiny").err == "\r\x1b[Ktiny: seed 0\r\x1b[K"


def test_help_says_what_the_exit_status_means(shell: Shell) -> None:
    helped = shell("reproduce", "--help").out
    assert "Example: axon reproduce staleness" in helped
    assert "Ends with 0 whenever the experiment ran" in helped
