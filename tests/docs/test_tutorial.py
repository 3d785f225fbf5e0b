"""The tutorial typed from its first line to its last, with a process for each machine."""

from __future__ import annotations

import re
import shutil
from contextlib import ExitStack
from pathlib import Path

import pytest

from axon.report.records import read
from tests import forks
from tests.docs import found, ledger
from tests.pages import blocks, played, text_of, typed

pytestmark = [pytest.mark.system, pytest.mark.timeout(120)]
PAGE = "docs/tutorial.md"


def commands() -> list[str]:
    """What follows `axon` in each command of the page's blocks that is to be typed."""
    every = [each for each in found.commands(PAGE) if each.place == "block"]
    here = [each.text for each in every if each.text not in ledger.NOWHERE]
    assert all(text.startswith("axon ") for text in here)
    return [text.removeprefix("axon ") for text in here]


class Machines:
    """A process in place of each machine that lends itself."""

    def __init__(self, folder: Path, stack: ExitStack) -> None:
        self._folder = folder
        self._stack = stack
        self._plugs: dict[str, ExitStack] = {}
        self._addresses: dict[str, str] = {}

    def lend(self, words: str) -> None:
        """Start a worker at a free port of this machine, whatever host it was to listen at."""
        here = words.replace("--host 0.0.0.0", "--port 0 --no-announce")
        name = here.rpartition("--name ")[2]
        self._plugs[name] = self._stack.enter_context(ExitStack())
        told = self._plugs[name].enter_context(forks.command(here, self._folder)).line()
        assert told.startswith(f"{name} can be trained on at http://127.0.0.1:")
        self._addresses[name] = told.rpartition("http://")[2]

    def typed(self, words: str) -> str:
        """What a command prints when hosts are where the workers are."""
        for name, address in self._addresses.items():
            words = words.replace(f"{name}.local", address)
        return typed(words, self._folder)

    def pull_the_plug(self, name: str) -> None:
        self._plugs[name].close()


def test_the_tutorial(tmp_path: Path) -> None:
    alone, keys, pi, laptop, devices, bench, train, resume = commands()
    printed = typed(alone, tmp_path).splitlines()[-1]
    told = re.search(r"^accuracy ([\d.]+) (after .*)$", text_of(PAGE), re.MULTILINE)
    assert told is not None
    assert told[2] in printed
    # Another processor's sums may differ in their last bits, and one sample of 297 with them.
    assert float(printed.split()[1]) == pytest.approx(float(told[1]), abs=0.02)
    typed(keys, tmp_path)
    shutil.copy(tmp_path / "my-keys/axon.key", tmp_path)  # In place of scp.
    with ExitStack() as stack:
        machines = Machines(tmp_path, stack)
        machines.lend(pi)
        machines.lend(laptop)
        assert re.search(r"^pi .* yes ", machines.typed(devices), re.MULTILINE)
        assert "link" in machines.typed(bench)
        lines = machines.typed(train).splitlines()
        assert [line.split()[:2] for line in lines[-3:-1]] == [["laptop", "10"], ["pi", "10"]]
        machines.pull_the_plug("pi")
        machines.typed(resume)
    (code,) = blocks(PAGE)
    assert played(code, tmp_path).count("\n") == 15
    gone, laptop_s = read(tmp_path / "runs/first/records.jsonl")[-1].devices
    assert (gone.status, laptop_s.status) == ("failed", "used")
    assert "Connection refused" in gone.reason
    assert laptop_s.device == "laptop"
