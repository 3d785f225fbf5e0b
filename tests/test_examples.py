"""Examples that run without a second process, run."""

from __future__ import annotations

import runpy
import sys
from pathlib import Path

import pytest

EXAMPLES = Path(__file__).parents[1] / "examples"


@pytest.mark.slow
def test_the_schemes_of_dab_are_compared(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(sys, "argv", ["main.py", "--cycles", "2"])
    runpy.run_path(str(EXAMPLES / "dab" / "main.py"), run_name="__main__")
    lines = capsys.readouterr().out.splitlines()
    rows = {cells[1].strip(): cells[2:-1] for line in lines if len(cells := line.split("│")) == 10}
    assert list(rows) == ["DAB", "DAB, busy", "dynamic, busy", "CSA, one silent"]
    for seconds, *_ in rows.values():
        assert float(seconds.split("(")[1].strip(" )")) <= 4.0
    # pi-2, which does not tell, has no shards; pi-1, which is as slow as it is, has some.
    used, _, slowest, silent, *_ = (cell.strip() for cell in rows["CSA, one silent"][1:])
    assert (used, silent) == ("6/8", "0")
    assert int(slowest) > 0
