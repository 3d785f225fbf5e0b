"""What README and the guide tell people to type, typed."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from tests.rpc.scripts import listens

ROOT = Path(__file__).parents[1]
PORT = 8000

pytestmark = [
    pytest.mark.system,
    pytest.mark.skipif(listens(PORT), reason=f"port {PORT}, the default, is in use here"),
]


def blocks(page: str, language: str = "python") -> list[str]:
    """The code of a page, in order."""
    return re.findall(rf"```{language}\n(.*?)```", (ROOT / page).read_text(), re.DOTALL)


@contextmanager
def worker(code: str, folder: Path) -> Iterator[None]:
    process = subprocess.Popen([sys.executable, "-W", "error", "-c", code], cwd=folder)
    try:
        for _ in range(200):
            if listens(PORT) or process.poll() is not None:
                break
            time.sleep(0.05)
        assert process.poll() is None, "the worker did not start"
        yield
    finally:
        process.terminate()
        assert process.wait(20) == 0


def run(command: list[str], folder: Path, **environment: str) -> str:
    result = subprocess.run(
        command,
        cwd=folder,
        env=os.environ | environment,
        capture_output=True,
        text=True,
        timeout=30,
        check=False,
    )
    assert result.returncode == 0, result.stderr
    return result.stdout


def axon(*arguments: str) -> list[str]:
    return [sys.executable, "-m", "axon.cli", *arguments]


def test_the_taste_in_the_readme(tmp_path: Path) -> None:
    serve, call = (block for block in blocks("README.md") if "simple_hello" in block)
    with worker(serve, tmp_path):
        assert run([sys.executable, "-W", "error", "-c", call], tmp_path) == "Hello John!!\n"
        row = re.search(r"`(curl [^`]*)`", (ROOT / "README.md").read_text())
        assert row is not None
        if shutil.which("curl"):
            command = ["bash", "-c", row[1].replace("localhost", "127.0.0.1") + " -s"]
            assert run(command, tmp_path) == '"Hello John!!"'
        assert run(axon("call", "127.0.0.1/rpc/simple_hello", "Ada"), tmp_path) == "'Hello Ada!!'\n"


def test_two_machines(tmp_path: Path) -> None:
    run(axon("keys", "new", "my-keys", "--host", "127.0.0.1"), tmp_path)
    serve, call = blocks("docs/two-machines.md")[:2]
    with worker(serve.replace("0.0.0.0", "127.0.0.1"), tmp_path):
        here = call.replace("pi.local", "127.0.0.1")
        assert run([sys.executable, "-W", "error", "-c", here], tmp_path) == "Hello John!!\n"
        keys = {"AXON_KEY": "my-keys/axon.key", "AXON_TLS": "my-keys"}
        told = run(axon("call", "127.0.0.1/rpc/simple_hello", "John"), tmp_path, **keys)
        assert told == "'Hello John!!'\n"
        listed = run(
            axon("devices", "--wait", "0.1", "--host", "https://127.0.0.1"), tmp_path, **keys
        )
        assert "rpc/simple_hello" in listed
        refused = subprocess.run(
            axon("call", "127.0.0.1/rpc/simple_hello", "John", "--tls", "my-keys"),
            cwd=tmp_path,
            capture_output=True,
            text=True,
            timeout=30,
            check=False,
        )
        assert refused.returncode == 5
        assert refused.stderr.count("\n") == 1
        assert "key" in refused.stderr


def test_the_taste_of_training_in_the_readme_is_the_guides(tmp_path: Path) -> None:
    taste = blocks("README.md")[0]
    assert taste in blocks("docs/learning.md")
    lines = run([sys.executable, "-W", "error", "-c", taste], tmp_path).splitlines()
    assert [line.split()[0] for line in lines] == ["1", "2", "3", "4", "5"]
    assert lines[-1].count("'used'") == 4


@pytest.mark.timeout(180)
def test_the_guide_to_training(tmp_path: Path) -> None:
    (tmp_path / "examples").symlink_to(ROOT / "examples")
    (tmp_path / "fleet.toml").write_text(blocks("docs/learning.md", "toml")[0])
    text = (ROOT / "docs/learning.md").read_text()
    typed = re.findall(r"^(axon [^#\n]*)", "".join(blocks("docs/learning.md", "")), re.MULTILINE)
    typed += re.findall(r"`(axon train --task [^`]*)`", text)
    typed += ["axon run fleet.toml", "axon bench"]
    # Those for several machines are typed in other tests, with hosts that exist.
    here = [words.split() for words in typed if not re.search("--host|keys|--discover", words)]
    assert len(here) == 9
    for words in here:
        run(axon(*words[1:]), tmp_path, OMP_NUM_THREADS="1")
    assert (tmp_path / "runs/a/records.jsonl").read_text().count("\n") == 20
    loading = next(block for block in blocks("docs/learning.md") if "model.npz" in block)
    run([sys.executable, "-W", "error", "-c", loading], tmp_path)


@pytest.mark.timeout(180)
def test_the_guide_to_staleness(tmp_path: Path) -> None:
    page = "docs/staleness.md"
    typed = re.findall(r"^axon ([^#\n]*)", "".join(blocks(page, "")), re.MULTILINE)
    assert len(typed) == 5
    told = [run(axon(*words.split()), tmp_path, OMP_NUM_THREADS="1") for words in typed]
    assert "keeps its capability to itself" in told[1]
    assert (tmp_path / "reproduced/staleness.json").exists()
    plans, rounds = (
        run([sys.executable, "-W", "error", "-c", code], tmp_path) for code in blocks(page)
    )
    # What the page says that they print stands behind the lines that print it.
    for line in plans.splitlines():
        assert f"# {line}" in (ROOT / page).read_text()
    assert rounds.count("('pi-1', 'declined', 0, 0)") == 2
    for picture in re.findall(r"\]\((figures/[^)]*)\)", (ROOT / page).read_text()):
        assert (ROOT / "docs" / picture).exists()


@pytest.mark.timeout(180)
@pytest.mark.parametrize(
    ("page", "commands", "expected"),
    [
        ("docs/subset-benchmarking.md", 5, ["20.0 s, 9.4 to 30.6"]),
        ("docs/dab.md", 5, ["2\n", "1 3.65 s [('jetson-nano', 60), ('pi-1', 25)"]),
    ],
)
def test_the_guide_to_a_scheme(
    page: str, commands: int, expected: list[str], tmp_path: Path
) -> None:
    text = (ROOT / page).read_text()
    typed = re.findall(r"^axon ([^#\n]*)", "".join(blocks(page, "")), re.MULTILINE)
    assert len(typed) == commands
    for words in typed:
        run(axon(*words.split()), tmp_path, OMP_NUM_THREADS="1")
    codes = blocks(page)
    assert len(codes) == len(expected)
    for code, words in zip(codes, expected, strict=True):
        told = run([sys.executable, "-W", "error", "-c", code], tmp_path)
        assert told.startswith(words)
    pictures = re.findall(r"\]\((figures/[^)]*)\)", text)
    assert pictures
    assert all((ROOT / "docs" / picture).exists() for picture in pictures)


def test_the_dab_example() -> None:
    command = [sys.executable, "-W", "error", "examples/dab/main.py", "--cycles", "2"]
    told = run(command, ROOT, OMP_NUM_THREADS="1")
    assert told.count("8/8") == 3
    assert "6/8" in told


@contextmanager
def orchestrator(words: list[str], folder: Path) -> Iterator[str]:
    """`axon orchestrate` at some free port, and its address."""
    process = subprocess.Popen(
        [*axon(*words), "--port", "0"],
        cwd=folder,
        env=os.environ | {"OMP_NUM_THREADS": "1"},
        stdout=subprocess.PIPE,
        text=True,
    )
    assert process.stdout is not None
    with process.stdout:
        try:
            told = process.stdout.readline()
            assert "takes tasks at" in told
            yield told
        finally:
            process.kill()
            process.wait(20)


def reached(told: str) -> str:
    return told.partition("http://")[2].partition(",")[0].strip()


@pytest.mark.timeout(180)
def test_the_guide_to_many_tasks(tmp_path: Path) -> None:
    page = "docs/med.md"
    text = (ROOT / page).read_text()
    commands = re.findall(r"^axon ([^#\n]*)", blocks(page, "")[0], re.MULTILINE)
    commands += re.findall(r"`axon (submit [^`]*)`", text)
    opening, *typed, refused = [words.split() for words in commands]
    assert [words[0] for words in typed] == ["submit", "submit", "tasks", "cancel"]
    with orchestrator(opening, tmp_path) as told:
        answers = [run(axon(*words), tmp_path, AXON_TO=reached(told)) for words in typed[:3]]
        assert f"    {answers[0]}" in text
        assert "a cycle of all tasks may cost 60" in answers[2]
        wait_for_line("digits +done", tmp_path, reached(told))
        asked = subprocess.run(
            [*axon(*refused), "--to", reached(told)],
            cwd=tmp_path,
            capture_output=True,
            text=True,
            timeout=30,
            check=False,
        )
    assert asked.returncode == 2
    assert "hasty is refused: all learners together do task 'hasty' in" in asked.stderr
    with orchestrator(opening, tmp_path) as told:
        assert "goes on with 1 task" in told
        told_last = run(axon(*typed[3]), tmp_path, AXON_TO=reached(told))
        assert told_last == "wide is cancelled\n"
    (code,) = blocks(page)
    for line in run([sys.executable, "-W", "error", "-c", code], tmp_path).splitlines():
        assert f"# {line}" in text
    for picture in re.findall(r"\]\((figures/[^)]*)\)", text):
        assert (ROOT / "docs" / picture).exists()


def wait_for_line(pattern: str, folder: Path, to: str) -> None:
    for _ in range(20):
        if re.search(pattern, told := run(axon("tasks"), folder, AXON_TO=to)):
            return
    raise AssertionError(told)


def test_pages_lead_to_pages_that_are_there() -> None:
    pages = [ROOT / "README.md", *(ROOT / "docs").glob("*.md")]
    for page in pages:
        for link in re.findall(r"\]\((?!http|#)([^)#]*)", page.read_text()):
            assert (page.parent / link).exists(), f"{page.name} leads to {link}"


def test_the_deadline_example() -> None:
    command = [sys.executable, "-W", "error", "examples/deadline/main.py", "--cycles", "3"]
    told = run(command, ROOT, AXON_LOG="off", OMP_NUM_THREADS="1")
    equal, by_deadline = re.findall(r"cycle  3 .* (\d+) batches", told)
    assert int(by_deadline) > 1.5 * int(equal)
    assert told.count("by deadline") == 2


def test_the_own_example() -> None:
    told = run([sys.executable, "-W", "error", "examples/own/main.py"], ROOT)
    assert told.count("jetson-nano 20") == 12


def test_the_hello_example() -> None:
    told = run([sys.executable, "-W", "error", "examples/hello/main.py"], ROOT, AXON_LOG="off")
    assert "Hello the loop!!" in told
    assert "final loss 0.343" in told
    assert "GB/s" in told


def test_the_fleet_example() -> None:
    told = run([sys.executable, "-W", "error", "examples/fleet/main.py"], ROOT, AXON_LOG="off")
    assert told.count("round 1, done by") == 3
    assert "round 1, done by laptop" in told
    assert told.count("not needed") == 2
    assert told.count("round 2, done by") == 3
    assert "ConnectionLost" in told
    assert "deadline" in told
