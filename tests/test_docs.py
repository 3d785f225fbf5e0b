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
    serve, call = blocks("README.md")[:2]
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
