"""What README tells people to type, typed; pages that lead somewhere; examples that run."""

from __future__ import annotations

import re
import shutil
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from tests.pages import ROOT, axon, blocks, played, run, text_of
from tests.rpc.scripts import listens

PORT = 8000

pytestmark = [pytest.mark.system, pytest.mark.timeout(120)]


@pytest.fixture
def default_port() -> None:
    if listens(PORT):
        pytest.skip(f"port {PORT}, the default, is in use here")


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


@pytest.mark.alone
@pytest.mark.usefixtures("default_port")
def test_the_taste_in_the_readme(tmp_path: Path) -> None:
    serve, call = (block for block in blocks("README.md") if "simple_hello" in block)
    with worker(serve, tmp_path):
        assert run([sys.executable, "-W", "error", "-c", call], tmp_path) == "Hello John!!\n"
        row = re.search(r"`(curl [^`]*)`", text_of("README.md"))
        assert row is not None
        if shutil.which("curl"):
            command = ["bash", "-c", row[1].replace("localhost", "127.0.0.1") + " -s"]
            assert run(command, tmp_path) == '"Hello John!!"'
        assert run(axon("call", "127.0.0.1/rpc/simple_hello", "Ada"), tmp_path) == "'Hello Ada!!'\n"


@pytest.mark.alone
@pytest.mark.usefixtures("default_port")
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
    lines = played(taste, tmp_path).splitlines()
    assert [line.split()[0] for line in lines] == ["1", "2", "3", "4", "5"]
    assert lines[-1].count("'used'") == 4


def test_pages_lead_to_pages_that_are_there() -> None:
    pages = [ROOT / "README.md", *(ROOT / "docs").glob("*.md")]
    for page in pages:
        for link in re.findall(r"\]\((?!http|#)([^)#]*)", page.read_text()):
            assert (page.parent / link).exists(), f"{page.name} leads to {link}"


@pytest.mark.alone
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
