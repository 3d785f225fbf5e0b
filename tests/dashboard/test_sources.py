"""Files and stores that are followed while somebody writes to them."""

from __future__ import annotations

import json
import os
import threading
from pathlib import Path

import numpy as np
import pytest

from axon.dashboard.feed import Feed
from axon.dashboard.sources import (
    Polled,
    RecordsFile,
    check_records,
    following,
    labels,
    record_files,
)
from axon.dashboard.stores import RunsInStore, store_path
from axon.dashboard.views import runs_view
from axon.errors import AxonError, ConfigurationError
from axon.report.records import RecordFile, to_line
from axon.rounds.checkpoint import Checkpoint, open_store
from axon.values import RoundRecord
from tests.dashboard.scenes import device, record


def cycle(number: int) -> RoundRecord:
    return record(number, [device("a"), device("b")])


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    (tmp_path / "run.toml").write_text('cycles = 3\nseed = 5\nname = "digits"\n')
    return tmp_path


def followed(folder: Path, feed: Feed) -> RecordsFile:
    return RecordsFile(feed, folder / "records.jsonl", "label")


def test_a_file_is_followed_as_it_grows(folder: Path) -> None:
    feed = Feed()
    source, file = followed(folder, feed), RecordFile(folder / "records.jsonl")
    course = feed.courses[0]
    source.poll()
    assert (course.state, course.about.name, course.about.seed) == ("waiting", "digits", 5)
    file.append(cycle(1))
    source.poll()
    assert (course.state, len(course.curves), course.about.name) == ("running", 1, "run")
    with open(file.path, "a") as torn:
        torn.write(to_line(cycle(2))[:100])
    source.poll()
    assert len(course.curves) == 1, "a torn line is no record yet"
    file.append(cycle(2))
    file.append(cycle(3))
    source.poll()
    assert (course.state, len(course.curves)) == ("finished", 3)
    line = source.record_at(1)
    assert line is not None
    assert line.cycle == 2
    assert source.record_at(3) is None


def test_a_file_that_is_written_anew_is_read_anew(folder: Path) -> None:
    feed = Feed()
    source, file = followed(folder, feed), RecordFile(folder / "records.jsonl")
    file.rewrite([cycle(1), cycle(2)])
    source.poll()
    file.rewrite([record(1, [device("c")])])
    source.poll()
    course = feed.courses[0]
    assert len(course.curves) == 1
    assert course.rolls.devices.texts == ["c"]


def test_a_run_that_failed_or_stopped_says_so(folder: Path) -> None:
    feed = Feed()
    source, file = followed(folder, feed), RecordFile(folder / "records.jsonl")
    file.append(cycle(1))
    os.utime(file.path, (0, 0))
    source.poll()
    assert feed.courses[0].state == "stopped"
    told = {"cycle": 2, "wanted": 3, "got": 1, "devices": []}
    (folder / "failed.json").write_text(json.dumps(told))
    source.poll()
    course = feed.courses[0]
    assert (course.state, course.reason) == ("failed", "cycle 2 wanted 3 answers and got 1")


def test_a_damaged_line_is_named_by_its_place(folder: Path) -> None:
    feed, whole = Feed(), to_line(cycle(1))
    (folder / "records.jsonl").write_text(f"{whole}\nnonsense\n{whole}\n")
    source = followed(folder, feed)
    for _ in range(2):
        source.poll()
    course = feed.courses[0]
    assert len(course.curves) == 1, "what stands before it is shown"
    assert course.state == "unreadable"
    assert "line 2: not a round record" in course.reason
    assert len([entry for entry in feed.log if entry.kind == "state"]) == 1
    with pytest.raises(ConfigurationError, match=r"line 2: not a round record"):
        source.read()
    RecordFile(folder / "records.jsonl").rewrite([cycle(1), cycle(2), cycle(3)])
    source.poll()
    assert (course.state, course.reason) == ("finished", "")


@pytest.mark.parametrize(
    "text", ["# A page\n", "# A page", '{"step": 1, "loss": 0.5}\n', '{"run": "a"}', "\xff\n"]
)
def test_a_file_of_something_else_is_refused(text: str, folder: Path) -> None:
    path, feed = folder / "records.jsonl", Feed()
    path.write_bytes(text.encode("latin-1"))
    with pytest.raises(ConfigurationError, match="line 1: not a round record"):
        check_records(path)
    followed(folder, feed).poll()
    assert feed.courses[0].state == "unreadable"


def test_a_first_line_under_way_is_waited_for(folder: Path) -> None:
    path = folder / "records.jsonl"
    for text in ("", to_line(cycle(1))[:100], to_line(cycle(1))):
        path.write_text(text)
        check_records(path)
    feed = Feed()
    followed(folder, feed).poll()
    assert feed.courses[0].state == "running"


def test_a_run_of_unknown_length_has_not_stopped(tmp_path: Path) -> None:
    feed, file = Feed(), RecordFile(tmp_path / "records.jsonl")
    file.append(cycle(1))
    os.utime(file.path, (0, 0))
    followed(tmp_path, feed).poll()
    assert feed.courses[0].state == "length unknown"


def test_runs_are_found_in_folders(tmp_path: Path) -> None:
    for name in ("x/one", "x/two", "y/one"):
        (tmp_path / name).mkdir(parents=True)
        (tmp_path / name / "records.jsonl").touch()
    found = record_files([tmp_path / "x", tmp_path / "y/one", tmp_path / "x/two/records.jsonl"])
    assert labels(found) == ["x/one", "x/two", "y/one"]
    assert labels(found[:2]) == ["one", "two"]
    (tmp_path / "empty").mkdir()
    for place in ("empty", "nowhere"):
        with pytest.raises(ConfigurationError, match=f"'.*{place}'.*axon train --out"):
            record_files([tmp_path / place])


def test_the_runs_of_a_store(tmp_path: Path) -> None:
    path = str(tmp_path / "runs.sqlite")
    store = open_store(path)
    store.begin("digits", json.dumps("cycles = 2\nseed = 9\n"))
    feed = Feed()
    source = RunsInStore(feed, path)
    source.poll()
    course = feed.courses[0]
    assert (course.state, course.about.seed, course.about.cycles) == ("running", 9, 2)
    for number in (1, 2):
        checkpoint = Checkpoint(
            run="digits",
            cycle=number,
            parameters=np.zeros(2, dtype=np.float32),
            clock_s=float(number),
            members=("a",),
            seed=9,
        )
        store.save(checkpoint, record(number, [device("a")], run="digits"))
    source.poll()
    source.poll()
    assert (course.state, len(course.curves)) == ("finished", 2)
    store.close()
    with pytest.raises(ConfigurationError, match="keeps no run 'other'"):
        RunsInStore(feed, path, "other").poll()


@pytest.mark.parametrize("scheme", ["", "sqlite:///"])
def test_a_store_that_is_not_there_is_not_made(
    scheme: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    with pytest.raises(ConfigurationError, match=r"there is no store 'runs\.sqlite'"):
        RunsInStore(Feed(), f"{scheme}runs.sqlite").poll()
    assert list(tmp_path.iterdir()) == []
    assert store_path("postgresql://axon@db/runs") is None


def test_trouble_is_told_once_and_looked_at_again() -> None:
    feed, looks, back = Feed(), [], threading.Event()
    told: list[str] = []

    def look() -> None:
        looks.append(1)
        if len(looks) < 4:
            raise AxonError("out of \x1breach")
        assert runs_view(feed)["problems"] == ["out of ␛reach"]
        feed.note("state", "back")
        back.set()

    with following(feed, [Polled(look)], poll_s=0.001, tell=told.append):
        assert back.wait(10)
    assert [entry.text for entry in feed.log][:2] == ["out of ␛reach", "back"]
    assert told == ["out of ␛reach"]
    assert runs_view(feed)["problems"] == []
