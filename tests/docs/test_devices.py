"""The unit file that starts a worker with its device, and how the device is checked afterwards."""

from __future__ import annotations

import configparser
import shlex
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from tests import forks
from tests.docs import found, ledger
from tests.pages import ROOT, typed

pytestmark = [pytest.mark.system, pytest.mark.timeout(120)]
UNIT = ROOT / "docs/files/axon-worker.service"
INSTALLED = "/opt/axon/bin/axon"


def command_of_the_unit() -> list[str]:
    unit = configparser.ConfigParser(interpolation=None)
    unit.optionxform = str  # type: ignore[assignment,method-assign]
    unit.read_string(UNIT.read_text())
    first, *words = shlex.split(unit["Service"]["ExecStart"])
    assert first == INSTALLED
    return words


@pytest.mark.skipif(shutil.which("systemd-analyze") is None, reason="no systemd-analyze here")
@pytest.mark.parametrize("nice", ["Nice", "Nise"])
def test_systemd_understands_the_unit(nice: str, tmp_path: Path) -> None:
    # It wants to find the program, and the user is made on the device.
    here = UNIT.read_text().replace(INSTALLED, sys.executable).replace("User=axon\n", "")
    (tmp_path / UNIT.name).write_text(here.replace("Nice=", f"{nice}="))
    asked = subprocess.run(
        ["systemd-analyze", "verify", "--man=no", tmp_path / UNIT.name],
        capture_output=True,
        text=True,
        timeout=30,
        check=False,
    )
    ours = [line for line in asked.stderr.splitlines() if UNIT.name in line]
    assert [line for line in ours if "Unknown key 'Nise'" in line] == ours
    assert bool(ours) == (nice == "Nise")


def test_a_device_is_checked_from_elsewhere(tmp_path: Path) -> None:
    texts = [each.text for each in found.commands("docs/devices.md") if each.place == "block"]
    here = [text.removeprefix("axon ") for text in texts if text not in ledger.NOWHERE]
    keys, devices, bench, train = here
    typed(keys, tmp_path)
    words = " ".join(command_of_the_unit())
    words = words.replace("/etc/axon/axon.key", "my-keys/axon.key")
    words = words.replace("--host 0.0.0.0", "--port 0 --no-announce --name pi")
    with forks.command(words, tmp_path) as running:
        address = running.line().rpartition("http://")[2]
        told = [
            typed(each.replace("pi.local", address), tmp_path) for each in (devices, bench, train)
        ]
    assert "yes" in told[0]
    assert "link" in told[1]
    assert "after 3 cycles" in told[2]
