"""The command line run in this process, the way a shell would run it."""

from __future__ import annotations

import sys
from collections.abc import Callable
from dataclasses import dataclass

import pytest

from axon.cli import main as command_line

SMALL = ("--devices", "pair", "--allocator", "equal:2", "--cycles", "2")
"""A run that takes milliseconds: two learners, a shard each, two cycles."""


@dataclass(frozen=True)
class Ended:
    """What a command printed where, and its exit code."""

    code: int
    out: str
    err: str


Shell = Callable[..., Ended]


def shell(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Shell:
    """Runs the command line with the words it is given."""

    def run(*words: object) -> Ended:
        monkeypatch.setattr(sys, "argv", ["axon", *map(str, words)])
        with pytest.raises(SystemExit) as ended:
            command_line.main()
        printed = capsys.readouterr()
        code = ended.value.code
        return Ended(code if isinstance(code, int) else 0, printed.out, printed.err)

    return run
