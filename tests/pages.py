"""What the pages hold for people to type, and ways to type it."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

from tests import forks

ROOT = Path(__file__).parents[1]


def text_of(page: str) -> str:
    """All of a page."""
    return (ROOT / page).read_text()


def blocks(page: str, language: str = "python") -> list[str]:
    """The code of a page, in order."""
    # All of them are found, since what ends one would be taken for the beginning of another.
    found = re.findall(r"^```(\w*)[^\n`]*\n(.*?)^```$", text_of(page), re.DOTALL | re.MULTILINE)
    return [code for named, code in found if named == language]


def commands(page: str) -> list[str]:
    """The words after `axon` of each command in the blocks of a page, in order."""
    return re.findall(r"^axon ([^#\n]*)", "".join(blocks(page, "")), re.MULTILINE)


def pictures(page: str) -> list[Path]:
    """The files of the figures that a page shows."""
    return [ROOT / "docs" / name for name in re.findall(r"\]\((figures/[^)]*)\)", text_of(page))]


def typed(words: str, folder: Path, **environment: str) -> str:
    """What `axon` prints when it is given these words."""
    with forks.command(words, folder, **environment) as running:
        return _printed(*running.result())


def played(code: str, folder: Path) -> str:
    """What a script prints."""
    with forks.program(code, folder) as running:
        return _printed(*running.result())


def run(command: list[str], folder: Path, **environment: str) -> str:
    """What a command prints that shares nothing with this process."""
    result = subprocess.run(
        command,
        cwd=folder,
        env=os.environ | environment,
        capture_output=True,
        text=True,
        timeout=90,
        check=False,
    )
    return _printed(result.returncode, result.stdout, result.stderr)


def axon(*words: str) -> list[str]:
    """The command line of `axon` with these words, for `run`."""
    return [sys.executable, "-m", "axon.cli", *words]


def _printed(code: int, out: str, err: str) -> str:
    assert code == 0, err
    return out
