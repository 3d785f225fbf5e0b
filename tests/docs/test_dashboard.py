"""The guide to the dashboard typed from its first line to its last."""

from __future__ import annotations

import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import msgspec
import pytest

from tests import forks
from tests.dashboard.scenes import got
from tests.pages import commands, pictures, typed

pytestmark = [pytest.mark.system, pytest.mark.timeout(120)]
PAGE = "docs/dashboard.md"


@contextmanager
def served(words: str, folder: Path) -> Iterator[str]:
    """A command that stays, at some free port: its address."""
    with forks.command(f"{words} --port 0", folder) as running:
        yield "http://" + running.line().partition("http://")[2].partition(";")[0].strip()


def until(address: str, runs: int) -> Any:
    """What a page is told once so many runs are read."""
    for _ in range(200):
        told = got(f"{address}/api/runs")
        if sum(run["state"] == "finished" for run in told["runs"]) == runs:
            return told
    raise AssertionError(told)


def test_the_guide_to_the_dashboard(tmp_path: Path) -> None:
    first, second, folders, store, page, sheets, keys, manager, tasks = commands(PAGE)
    for words in (first, second):
        assert "accuracy" in typed(words, tmp_path)
    with served(folders, tmp_path) as address:
        told = until(address, 2)
        assert [run["label"] for run in told["runs"]] == ["first", "second"]
        assert len(told["comparison"]) == 2
    with served(store, tmp_path) as address:
        assert until(address, 1)["runs"][0]["cycles"] == 10
    assert "2 runs of 20 cycles" in typed(page, tmp_path)
    typed(sheets, tmp_path)
    for file in ("report.html", "sheets/cycles.csv", "pictures/accuracy.png"):
        assert (tmp_path / file).stat().st_size > 500
    typed(keys, tmp_path)
    with served(manager, tmp_path) as orchestrator:
        to = orchestrator.removeprefix("http://")
        key = "--key my-keys/axon.key"
        typed(f"submit --to {to} {key} --name long --shards 30 --deadline-s 2 --cycles 90000",
              tmp_path)  # fmt: skip
        with served(tasks.replace("127.0.0.1:8100", to), tmp_path) as address:
            assert cancelled(address, "long") == {"answer": "cancelled"}
        assert "long  cancelled" in typed(f"tasks --to {to} {key}", tmp_path)
    assert len(pictures(PAGE)) == 2
    assert all(picture.exists() for picture in pictures(PAGE))


def cancelled(address: str, task: str) -> Any:
    """What comes of the button."""
    headers = {"x-axon-token": got(f"{address}/api/runs")["token"], "origin": address}
    request = urllib.request.Request(
        f"{address}/api/cancel", msgspec.json.encode({"task": task}), headers
    )
    with urllib.request.urlopen(request, timeout=10) as answer:
        return msgspec.json.decode(answer.read())
