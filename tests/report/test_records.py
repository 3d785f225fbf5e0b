"""Records as lines: what is written, what comes back, and what a killed writer leaves."""

from __future__ import annotations

import dataclasses
import hashlib
import math
import resource
from pathlib import Path
from typing import get_args

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from axon.errors import ConfigurationError
from axon.report.records import (
    RecordFile,
    digest,
    from_line,
    read,
    to_json,
    to_line,
    write_whole,
)
from axon.values import DeviceRecord, RoundRecord, Status, Timings

RECORD = RoundRecord(
    run="möbius",
    cycle=2,
    started_s=1e16,
    ended_s=1e-05,
    deadline_s=0.1,
    devices=(
        DeviceRecord(
            device="pi-1", status="used", shards=3, timings=Timings(download_s=0.5, train_s=2.0)
        ),
        DeviceRecord(device="pi-2", status="failed", reason='"no route"\n'),
    ),
    batches=12,
    accuracy=0.75,
    digest="ab",
)
LINE = (
    '{"run":"m\\u00f6bius","cycle":2,"started_s":1e+16,"ended_s":1e-05,"deadline_s":0.1,"devices":['
    '{"device":"pi-1","status":"used","reason":"","planned_shards":null,"shards":3,"batches":0,'
    '"samples":0,"halted":false,"loss":null,"fetched_s":null,"answered_s":null,'
    '"timings":{"download_s":0.5,"train_s":2.0}},'
    '{"device":"pi-2","status":"failed","reason":"\\"no route\\"\\n","planned_shards":null,'
    '"shards":0,"batches":0,"samples":0,"halted":false,"loss":null,"fetched_s":null,'
    '"answered_s":null,"timings":null}],"batches":12,"accuracy":0.75,"loss":null,"digest":"ab"}'
)

numbers = st.floats(allow_nan=False, allow_infinity=False)
counts = st.integers(0, 2**62)
devices = st.builds(
    DeviceRecord,
    device=st.text(),
    status=st.sampled_from(get_args(Status)),
    reason=st.text(st.characters(exclude_categories=())),
    planned_shards=st.none() | counts,
    shards=counts,
    halted=st.booleans(),
    loss=st.none() | numbers,
    timings=st.none() | st.builds(Timings, download_s=numbers, train_s=numbers),
)
records = st.builds(
    RoundRecord,
    run=st.text(),
    cycle=counts,
    started_s=numbers,
    ended_s=numbers,
    deadline_s=numbers,
    devices=st.lists(devices, max_size=3).map(tuple),
    batches=counts,
    accuracy=st.none() | numbers,
)


def test_a_record_is_this_line() -> None:
    assert to_line(RECORD) == LINE
    assert from_line(LINE) == RECORD


@given(records)
@settings(max_examples=50, deadline=None)
def test_what_is_read_is_what_was_written(record: RoundRecord) -> None:
    line = to_line(record)
    assert from_line(line) == record
    assert to_line(from_line(line)) == line
    assert line.isascii()
    assert "\n" not in line


def test_nan_and_infinity_become_null_and_come_back_as_the_type_allows() -> None:
    timings = Timings(download_s=math.nan, train_s=1.0)
    device = DeviceRecord(device="a", status="used", loss=math.nan, timings=timings)
    odd = dataclasses.replace(RECORD, deadline_s=math.inf, loss=-math.inf, devices=(device,))
    line = to_line(odd)
    assert '"deadline_s":null' in line
    back = from_line(line)
    assert math.isnan(back.deadline_s)
    assert back.loss is None
    assert back.devices[0].loss is None
    assert back.devices[0].timings is not None
    assert math.isnan(back.devices[0].timings.download_s)
    assert back.devices[0].timings.train_s == 1.0
    assert to_line(back) == line


def test_numbers_from_numpy_are_numbers() -> None:
    batches: int = np.int64(12)  # type: ignore[assignment]
    given = dataclasses.replace(RECORD, accuracy=np.float64(0.75), batches=batches)
    assert to_line(given) == LINE
    with pytest.raises(TypeError, match="cannot hold ndarray"):
        to_line(dataclasses.replace(RECORD, accuracy=np.zeros(2)))  # type: ignore[arg-type]


@pytest.mark.parametrize(
    "line",
    [
        "",
        "{",
        "[]",
        "null",
        "{}",
        LINE.replace('"used"', '"lost"'),
        LINE[:-1],
        LINE + "x",
        "[" * 9999,
    ],
)
def test_a_line_that_is_no_record_is_refused(line: str) -> None:
    with pytest.raises(ConfigurationError, match="not a round record"):
        from_line(line)


def test_a_file_is_appended_to_and_read(tmp_path: Path) -> None:
    file = RecordFile(tmp_path / "run.jsonl")
    later = dataclasses.replace(RECORD, cycle=3)
    file.append(RECORD)
    file.append(later)
    assert file.path.read_bytes() == f"{LINE}\n{to_line(later)}\n".encode()
    assert read(file.path) == [RECORD, later]


@pytest.mark.parametrize("kept", [0, 1, len(LINE) // 2, len(LINE)])
def test_a_torn_last_line_is_ignored_and_written_over(tmp_path: Path, kept: int) -> None:
    file = RecordFile(tmp_path / "run.jsonl")
    for before in ("", f"{LINE}\n"):
        file.path.write_text(before + LINE[:kept])
        assert len(read(file.path)) == before.count("\n")
        file.append(RECORD)
        assert file.path.read_text() == before + LINE + "\n"


def test_a_record_that_does_not_fit_leaves_no_part_of_itself(tmp_path: Path) -> None:
    file = RecordFile(tmp_path / "run.jsonl")
    file.append(RECORD)
    limits = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (len(LINE) + 10, limits[1]))
    try:
        with pytest.raises(OSError, match=f"no room for a record of {len(LINE) + 1} bytes"):
            file.append(RECORD)
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, limits)
    assert file.path.read_text() == LINE + "\n"


@pytest.mark.parametrize("broken", [b"{", b"", b"\xff"])
def test_a_broken_line_elsewhere_is_an_error_with_its_number(tmp_path: Path, broken: bytes) -> None:
    path = tmp_path / "run.jsonl"
    path.write_bytes(LINE.encode() + b"\n" + broken + b"\n" + LINE.encode() + b"\n")
    with pytest.raises(ConfigurationError, match=r"run\.jsonl, line 2: ") as caught:
        read(path)
    assert "rewrite" in str(caught.value)


def test_rewriting_replaces_the_file_and_leaves_nothing_beside_it(tmp_path: Path) -> None:
    file = RecordFile(tmp_path / "run.jsonl")
    file.path.write_text("something else")
    with open(file.path) as reader:
        file.rewrite([RECORD])
        assert reader.read() == "something else"  # an open reader keeps the old file whole
    assert file.path.read_text() == LINE + "\n"
    file.rewrite([])
    assert file.path.read_bytes() == b""
    assert list(tmp_path.iterdir()) == [file.path]


def test_a_rewrite_that_fails_leaves_the_old_file(tmp_path: Path) -> None:
    target = tmp_path / "run.jsonl"
    target.mkdir()  # a folder cannot be replaced by a file
    with pytest.raises(OSError, match=r"run\.jsonl"):
        RecordFile(target).rewrite([RECORD])
    assert list(tmp_path.iterdir()) == [target]


def test_a_file_is_written_whole_whatever_lies_beside_it(tmp_path: Path) -> None:
    elsewhere = tmp_path / "elsewhere"
    elsewhere.write_text("untouched")
    path = tmp_path / "model"
    path.symlink_to(elsewhere)
    write_whole(path, b"new")
    assert (path.read_bytes(), path.is_symlink()) == (b"new", False)
    assert elsewhere.read_text() == "untouched"
    assert path.stat().st_mode & 0o777 == 0o644
    write_whole(tmp_path / ("n" * 255), b"")  # as long as a name may be


def test_parts_of_a_record_are_written_as_records_are() -> None:
    text = to_json({"got": 1, "loss": math.nan, "devices": RECORD.devices})
    assert text.startswith('{"got":1,"loss":null,"devices":[{"device":')
    assert text[text.index("[") : -1] in LINE


def in_pieces(pieces: list[bytes]) -> str:
    digests = b"".join(hashlib.sha256(piece).digest() for piece in pieces)
    return hashlib.sha256(digests).hexdigest()[:32]


def test_the_digest_of_a_large_vector_is_of_its_pieces() -> None:
    vector = np.arange(5_000_000, dtype=np.float32)
    data, size = vector.astype("<f4").tobytes(), 8 << 20
    assert digest(vector) == in_pieces([data[:size], data[size : 2 * size], data[2 * size :]])


def test_the_digest_is_of_the_little_endian_bytes() -> None:
    # 1.0 is 0x3f800000.
    wanted = in_pieces([b"\x00\x00\x80\x3f"])
    assert digest(np.array([1.0], np.float32)) == wanted
    assert digest(np.array([1.0], ">f4")) == wanted
    assert digest(np.array([1.0, 9.0], np.float32)[::2]) == wanted
    assert digest(np.array([-0.0], np.float32)) != digest(np.array([0.0], np.float32))
    assert len(wanted) == 32
