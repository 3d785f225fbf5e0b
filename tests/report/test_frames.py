"""Records as frames, and as a table in a notebook."""

from __future__ import annotations

import html
import math
import sys
from pathlib import Path

import pytest

from axon.errors import ConfigurationError
from axon.report.frames import Records, to_frame
from axon.report.records import RecordFile, read
from axon.values import DeviceRecord, RoundRecord, Timings

HOSTILE = "<script>alert('pi')</script>"


def record(cycle: int, accuracy: float | None = 0.5) -> RoundRecord:
    quick = DeviceRecord(
        device="jetson",
        status="used",
        shards=4,
        batches=8,
        loss=0.25,
        timings=Timings(download_s=0.1, train_s=0.6),
    )
    slow = DeviceRecord(device=HOSTILE, status="late", reason="1.2 s late")
    return RoundRecord(
        run="a",
        cycle=cycle,
        started_s=cycle - 1.0,
        ended_s=cycle - 0.25,
        deadline_s=1.0,
        devices=(quick, slow),
        batches=8,
        accuracy=accuracy,
    )


def test_a_frame_has_a_row_for_each_cycle() -> None:
    pytest.importorskip("pandas")
    frame = Records([record(1), record(2, accuracy=None)]).to_pandas()
    assert list(frame["cycle"]) == [1, 2]
    assert list(frame["duration_s"]) == [0.75, 0.75]
    assert (frame["used"][0], frame["asked"][0]) == (1, 2)
    assert frame["accuracy"][0] == 0.5
    assert math.isnan(frame["accuracy"][1])
    assert "devices" not in frame


def test_a_frame_has_a_row_for_each_device_in_each_cycle() -> None:
    pytest.importorskip("pandas")
    frame = to_frame([record(1), record(2)], each="device")
    assert list(frame["cycle"]) == [1, 1, 2, 2]
    assert list(frame["device"][:2]) == ["jetson", HOSTILE]
    assert list(frame.groupby("device")["batches"].sum()) == [0, 16]
    assert frame["train_s"][0] == 0.6
    assert math.isnan(frame["train_s"][1])
    assert "timings" not in frame


def test_no_records_are_an_empty_frame() -> None:
    pytest.importorskip("pandas")
    assert len(to_frame([])) == 0
    assert Records()._repr_html_().count("<tr>") == 1


def test_without_pandas_it_says_what_to_install(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "pandas", None)
    with pytest.raises(ConfigurationError, match=r"needs pandas.*axon-edge\[notebook\]"):
        to_frame([])


def test_a_frame_of_something_else_is_refused() -> None:
    with pytest.raises(ConfigurationError, match="'cycle' or 'device', got 'shard'"):
        to_frame([], each="shard")  # type: ignore[arg-type]


def test_a_notebook_shows_who_is_missing_and_obeys_nobody() -> None:
    shown = Records([record(1)])._repr_html_()
    assert "<td>1</td><td>0.75</td><td>8</td><td>0.5</td><td></td><td>1/2</td>" in shown
    assert f"<td>{html.escape(HOSTILE)} late</td>" in shown
    assert "<script" not in shown


def test_records_of_a_file_are_records(tmp_path: Path) -> None:
    RecordFile(tmp_path / "records.jsonl").rewrite([record(1), record(2)])
    records = read(tmp_path / "records.jsonl")
    assert isinstance(records, Records)
    assert records == [record(1), record(2)]
