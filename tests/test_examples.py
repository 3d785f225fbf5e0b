"""Examples that run without a second process, run."""

from __future__ import annotations

import re
import runpy
import sys
from decimal import Decimal
from pathlib import Path

import pytest

EXAMPLES = Path(__file__).parents[1] / "examples"


@pytest.mark.slow
def test_the_schemes_of_dab_are_compared(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(sys, "argv", ["main.py", "--cycles", "2", "--deadline", "4"])
    runpy.run_path(str(EXAMPLES / "dab" / "main.py"), run_name="__main__")
    lines = capsys.readouterr().out.splitlines()
    rows = {cells[1].strip(): cells[2:-1] for line in lines if len(cells := line.split("│")) == 10}
    assert list(rows) == ["DAB", "DAB, busy", "dynamic, busy", "CSA, one silent"]
    for seconds, *_ in rows.values():
        assert float(seconds.split("(")[1].strip(" )")) <= 4.0
    # pi-2, which does not tell, has no shards; pi-1, which is as slow as it is, has some.
    used, _, slowest, silent, *_ = (cell.strip() for cell in rows["CSA, one silent"][1:])
    assert (used, silent) == ("6/8", "0")
    assert [cells[1].strip() for cells in rows.values()] == ["8/8", "8/8", "8/8", "6/8"]
    assert int(slowest) > 0


@pytest.mark.slow
def test_three_tasks_share_six_devices_and_a_budget(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(sys, "argv", ["main.py", "--cycles", "5", "--budget", "70"])
    runpy.run_path(str(EXAMPLES / "med" / "main.py"), run_name="__main__")
    told = capsys.readouterr().out
    lines = [line.split() for line in told.splitlines()]
    rows = {words[0]: words[1:] for words in lines[lines.index([]) + 2 : -1]}
    assert list(rows) == ["wide", "conv", "late"]
    for state, accuracy, reserved, paid, released in rows.values():
        assert state == "done"
        assert float(accuracy) > 0.2, "digits are ten, and a guess is right in a tenth"
        assert Decimal(reserved) == Decimal(paid) + Decimal(released)
    assert f"spent {sum(Decimal(paid) for *_, paid, _ in rows.values())};" in told
    planned = re.findall(r"^ *[\d.]+ s {2}(\w+) +\d+: (.+)$", told, re.MULTILINE)
    begun = dict(reversed(planned))
    dealt = {task: sum(map(int, re.findall(r" (\d+)", begun[task]))) for task in rows}
    assert dealt == {"wide": 45, "conv": 40, "late": 30}
