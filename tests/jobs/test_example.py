"""The example of several tasks, with too little money and with none that is a number."""

from __future__ import annotations

import runpy
import sys
from pathlib import Path

import pytest

MAIN = Path(__file__).parents[2] / "examples" / "med" / "main.py"


def run(monkeypatch: pytest.MonkeyPatch, *words: str) -> None:
    monkeypatch.setattr(sys, "argv", [MAIN.name, *words])
    runpy.run_path(str(MAIN), run_name="__main__")


@pytest.mark.slow
def test_what_was_never_tested_has_no_accuracy(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    run(monkeypatch, "--budget", "5", "--cycles", "1")
    lines = capsys.readouterr().out.splitlines()
    assert [line.split()[:3] for line in lines[-4:-1]] == [
        [name, "failed", "-"] for name in ("wide", "conv", "late")
    ]


def test_what_is_no_amount_is_one_sentence(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    with pytest.raises(SystemExit):
        run(monkeypatch, "--budget", "nan")
    assert "argument --budget: invalid amount value: 'nan'\n" in capsys.readouterr().err
