"""What the guides tell people to type, typed, and what they say that it prints."""

from __future__ import annotations

import re
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from tests import forks
from tests.pages import ROOT, blocks, commands, pictures, played, text_of, typed
from tests.rpc.scripts import free_port

pytestmark = [pytest.mark.system, pytest.mark.timeout(180)]


def test_the_guide_to_training(tmp_path: Path) -> None:
    page = "docs/learning.md"
    (tmp_path / "examples").symlink_to(ROOT / "examples")
    (tmp_path / "fleet.toml").write_text(blocks(page, "toml")[0])
    words = commands(page) + re.findall(r"`axon (train --task [^`]*)`", text_of(page))
    words += ["run fleet.toml", "bench"]
    # Those for several machines are typed in other tests, with hosts that exist.
    here = [each for each in words if not re.search("--host|keys|--discover|--data", each)]
    assert len(here) == 9
    for each in here:
        typed(each, tmp_path)
    assert (tmp_path / "runs/a/records.jsonl").read_text().count("\n") == 20
    for code in blocks(page):
        if "runs/a" in code:
            played(code, tmp_path)


def test_the_guide_to_staleness(tmp_path: Path) -> None:
    page = "docs/staleness.md"
    words = commands(page)
    assert len(words) == 5
    told = [typed(each, tmp_path) for each in words]
    assert "keeps its capability to itself" in told[1]
    assert (tmp_path / "reproduced/staleness.json").exists()
    plans, rounds = (played(code, tmp_path) for code in blocks(page))
    # What the page says that they print stands behind the lines that print it.
    for line in plans.splitlines():
        assert f"# {line}" in text_of(page)
    assert rounds.count("('pi-1', 'declined', 0, 0)") == 2
    assert all(picture.exists() for picture in pictures(page))


@pytest.mark.parametrize(
    ("page", "count", "expected"),
    [
        ("docs/subset-benchmarking.md", 5, ["20.0 s, 9.4 to 30.6"]),
        ("docs/dab.md", 5, ["2\n", "1 3.65 s [('jetson-nano', 60), ('pi-1', 25)"]),
    ],
)
def test_the_guide_to_a_scheme(page: str, count: int, expected: list[str], tmp_path: Path) -> None:
    words = commands(page)
    assert len(words) == count
    for each in words:
        typed(each, tmp_path)
    codes = blocks(page)
    assert len(codes) == len(expected)
    for code, beginning in zip(codes, expected, strict=True):
        assert played(code, tmp_path).startswith(beginning)
    assert pictures(page)
    assert all(picture.exists() for picture in pictures(page))


def test_the_guide_to_nodes_that_lie(tmp_path: Path) -> None:
    page = "docs/byzantine.md"
    words = commands(page)
    told = re.findall(r"^axon .*# .*accuracy ([\d.]+)$", text_of(page), re.MULTILINE)
    ends = [typed(each, tmp_path).splitlines()[-1] for each in words]
    assert (len(ends), len(told)) == (3, 2)
    for end, accuracy in zip(ends[:2], told, strict=True):
        # Another processor's sums may differ in their last bits, and one sample of 297 with them.
        assert float(end.split()[1]) == pytest.approx(float(accuracy), abs=0.02)
    rules, run, listing, nodes = blocks(page)
    for line in played(rules, tmp_path).splitlines():
        assert f"# {line}" in text_of(page)
    last = re.search(r"# the last: 5 ([\d.]+)$", run, re.MULTILINE)
    assert last is not None
    cycle, reached = played(run, tmp_path).splitlines()[-1].split()
    assert cycle == "5"
    assert float(reached) == pytest.approx(float(last[1]), abs=0.02)
    path = re.search(r'"(examples/.*)"', listing)
    assert path is not None
    assert "def msmw" in (ROOT / path[1]).read_text()
    assert "{7100 + place}" in nodes
    ports = [free_port() for _ in range(5)]
    name, accuracy = played(nodes.replace("7100 + place", f"{ports}[place]"), tmp_path).split()
    assert name == "server"
    assert float(accuracy) > 0.4


@contextmanager
def orchestrator(words: str, folder: Path) -> Iterator[tuple[str, str]]:
    """`axon orchestrate` at some free port: what it says, and its address."""
    with forks.command(f"{words} --port 0", folder) as running:
        told = running.line()
        assert "takes tasks at" in told
        yield told, told.partition("http://")[2].partition(",")[0].strip()


def test_the_guide_to_many_tasks(tmp_path: Path) -> None:
    page = "docs/med.md"
    text = text_of(page)
    words = re.findall(r"^axon ([^#\n]*)", blocks(page, "")[0], re.MULTILINE)
    opening, *asked, refused = words + re.findall(r"`axon (submit [^`]*)`", text)
    assert [each.split()[0] for each in asked] == ["submit", "submit", "tasks", "cancel"]
    with orchestrator(opening, tmp_path) as (_, to):
        answers = [typed(each, tmp_path, AXON_TO=to) for each in asked[:3]]
        assert f"    {answers[0]}" in text
        assert "a cycle of all tasks may cost 60" in answers[2]
        wait_for_line("digits +done", tmp_path, to)
        with forks.command(f"{refused} --to {to}", tmp_path) as running:
            code, _, err = running.result()
    assert code == 2
    assert "hasty is refused: all learners together do task 'hasty' in" in err
    with orchestrator(opening, tmp_path) as (told, to):
        assert "goes on with 1 task" in told
        assert typed(asked[3], tmp_path, AXON_TO=to) == "wide is cancelled\n"
    (code_of_page,) = blocks(page)
    for line in played(code_of_page, tmp_path).splitlines():
        assert f"# {line}" in text
    assert all(picture.exists() for picture in pictures(page))


def wait_for_line(pattern: str, folder: Path, to: str) -> None:
    for _ in range(100):
        if re.search(pattern, told := typed("tasks", folder, AXON_TO=to)):
            return
    raise AssertionError(told)
