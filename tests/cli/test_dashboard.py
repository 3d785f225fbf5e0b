"""`axon dashboard`, `axon report` and `axon train --dashboard`."""

from __future__ import annotations

import re
import threading
from pathlib import Path
from typing import Any

import pytest

from axon.cli import dashboard as command
from axon.cli.main import fill_dashboard
from axon.errors import AxonError, Unauthorised
from axon.report.records import RecordFile
from axon.rounds.checkpoint import open_store
from tests.cli.scenes import SMALL, Shell
from tests.dashboard.scenes import device, got, record


@pytest.fixture
def run(tmp_path: Path) -> Path:
    folder = tmp_path / "first"
    folder.mkdir()
    RecordFile(folder / "records.jsonl").rewrite([record(1, [device("a")])])
    (folder / "run.toml").write_text("cycles = 1\nseed = 3\n")
    return folder


def test_a_folder_is_served_until_it_is_ended(
    run: Path, shell: Shell, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    seen: list[Any] = []

    def look() -> None:
        address = re.search(r"http://\S+(?=;)", capsys.readouterr().out)
        assert address is not None
        while not seen or not seen[-1]["runs"][0]["cycles"]:
            seen.append(got(f"{address[0]}/api/runs"))

    monkeypatch.setattr(command, "wait", look)
    assert shell("dashboard", run, "--port", "0").code == 0
    assert seen[-1]["runs"][0]["label"] == "first"
    assert seen[-1]["runs"][0]["seed"] == 3


@pytest.mark.parametrize(
    ("words", "problem"),
    [
        ((), "nothing to show"),
        (("nowhere",), "there is no file or folder 'nowhere'"),
        (("run.toml",), "run.toml, line 1: not a round record"),
        (("--store", "nosuch.sqlite"), "there is no store 'nosuch.sqlite'"),
        (("--store", "runs.sqlite", "--run", "x"), "keeps no run 'x'"),
        ((".", "--listen", "0.0.0.0"), "everybody who can reach 0.0.0.0"),
    ],
)
def test_what_cannot_be_shown_is_told_at_once(
    words: tuple[str, ...],
    problem: str,
    run: Path,
    shell: Shell,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.chdir(run)
    open_store("runs.sqlite").close()
    ended = shell("dashboard", *words)
    assert ended.code == 2
    assert problem in ended.err
    assert not Path("nosuch.sqlite").exists()


def test_an_orchestrator_that_does_not_answer_is_told_of_and_asked_again(
    shell: Shell, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    asked, twice = [], threading.Event()

    def ask(way: Any, function: str) -> dict[str, Any]:
        asked.append((way.to, function))
        if len(asked) > 1:
            twice.set()
        raise Unauthorised(f"{way.to} wants a key")

    def look() -> None:
        printed = capsys.readouterr()
        address = re.search(r"http://\S+(?=;)", printed.out)
        assert address is not None
        assert twice.wait(10)
        told = got(f"{address[0]}/api/runs")
        assert (told["problems"], told["board"]) == (["here:8100 wants a key"], None)
        errors = printed.err + capsys.readouterr().err
        assert errors.count("axon: here:8100 wants a key") == 1

    monkeypatch.setattr("axon.cli.jobs.ask", ask)
    monkeypatch.setattr(command, "wait", look)
    ended = shell("dashboard", "--to", "here:8100", "--port", "0")
    assert ended.code == 0, ended.err


def test_cancelling_asks_the_orchestrator(monkeypatch: pytest.MonkeyPatch) -> None:
    asked: list[tuple[Any, ...]] = []

    def ask(way: Any, function: str, *arguments: Any) -> dict[str, Any]:
        asked.append((way.to, function, *arguments))
        verdict = "cancelled" if arguments == ("a",) else "refused"
        return {"verdict": verdict, "reason": "there is no such task"}

    monkeypatch.setattr("axon.cli.jobs.ask", ask)
    cancel = command.canceller("here:8100", command.PageOptions())
    assert cancel("a") == "cancelled"
    assert asked == [("here:8100", "cancel", "a")]
    with pytest.raises(AxonError, match="no such task"):
        cancel("b")


def test_a_run_is_watched_while_it_goes_on(
    tmp_path: Path, shell: Shell, monkeypatch: pytest.MonkeyPatch
) -> None:
    told: list[Any] = []
    monkeypatch.setattr("axon.cli.watching.tell", lambda text: told.append(text))
    ended = shell("train", *SMALL, "--out", tmp_path / "run", "--dashboard=0")
    assert ended.code == 0
    assert "accuracy" in ended.out
    assert re.fullmatch(r"dashboard at http://127\.0\.0\.1:\d+", told[0])
    assert len(told) == 1, "a page stays only for somebody at a terminal"


def test_a_dashboard_without_a_port_takes_any() -> None:
    words = ["train", "--dashboard", "--out", "x", "--", "--dashboard"]
    assert fill_dashboard(words) == ["train", "--dashboard=-1", *words[2:]]
    assert fill_dashboard(["--dashboard=80"]) == ["--dashboard=80"]


@pytest.mark.parametrize(
    ("words", "hint"),
    [
        (("--dashboard=-1",), "a port from 0 to 65535"),
        (("--dashboard", "8300"), "say --dashboard=8300"),
    ],
)
def test_what_is_no_port_is_refused(words: tuple[str, ...], hint: str, shell: Shell) -> None:
    ended = shell("train", *SMALL, *words)
    assert (ended.code, ended.out) == (2, "")
    assert hint in ended.err


def test_a_report_is_written(run: Path, tmp_path: Path, shell: Shell) -> None:
    out = tmp_path / "report.html"
    ended = shell("report", run, "-o", out, "--csv", tmp_path / "sheets")
    assert (ended.code, ended.err) == (0, "")
    assert ended.out.startswith(f"1 run of 1 cycle, written to {out}, ")
    assert b'"label":"first"' in out.read_bytes()
    assert (tmp_path / "sheets/devices.csv").read_text().count("\n") == 2
    refused = shell("report", run, "-o", tmp_path / "nowhere/report.html")
    assert refused.code == 2
    assert "cannot write" in refused.err
    refused = shell("report", run, "-o", tmp_path)
    assert refused.code == 2
    assert f"'{tmp_path}' is a folder" in refused.err
