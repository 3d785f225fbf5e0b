"""Records as cells: the same numbers, whichever way they come."""

from __future__ import annotations

import dataclasses
import math

import msgspec
import numpy as np
import pytest

from axon.dashboard.facts import CELL, Line, Part, Parts, Roll, Rolls, facts_of, line_of, spans
from axon.errors import ConfigurationError
from axon.report.records import to_line
from axon.values import DeviceRecord, RoundRecord, Timings
from tests.dashboard.scenes import device, record


@pytest.mark.parametrize(
    ("mirror", "value"), [(Line, RoundRecord), (Part, DeviceRecord), (Parts, Timings)]
)
def test_lines_have_the_fields_of_records(
    mirror: type[msgspec.Struct], value: type[RoundRecord | DeviceRecord | Timings]
) -> None:
    assert list(mirror.__struct_fields__) == [item.name for item in dataclasses.fields(value)]


def test_a_record_and_its_line_are_the_same_facts() -> None:
    whole = record(4, [device("a", took_s=math.inf), device("b", "failed", reason="gone")])
    rolls = Rolls()
    told, read = facts_of(whole, rolls), facts_of(line_of(to_line(whole).encode()), rolls)
    assert (told.cycle, told.batches, told.accuracy) == (4, 20, 0.2)
    assert read.duration_s == pytest.approx(0.9)
    # A line has no infinity: what was infinite is not known.
    told.cells["answered"][0] = math.nan
    assert told.cells.tobytes() == read.cells.tobytes()
    assert rolls.devices.texts == ["a", "b"]
    assert rolls.reasons.texts == ["", "gone"]


def test_numbers_of_any_size_are_taken() -> None:
    huge = dataclasses.replace(device("a"), samples=10**30, fetched_s=1e300)
    cells = facts_of(line_of(to_line(record(1, [huge])).encode()), Rolls()).cells
    assert cells["samples"][0] == 2**53
    assert cells["fetched"][0] == np.inf


@pytest.mark.parametrize("line", [b"", b"{}", b"[]", b"\xff", b'{"run": 1}'])
def test_what_is_no_record_is_refused(line: bytes) -> None:
    with pytest.raises(ConfigurationError, match="not a round record"):
        line_of(line)


def test_a_roll_keeps_so_many_texts() -> None:
    roll = Roll(3, "rest")
    assert [roll.number(text) for text in ("a", "b", "c", "d", "a", "c")] == [0, 1, 2, 2, 0, 2]
    assert roll.texts == ["a", "b", "rest"]


def test_spans_are_the_devices_own_or_what_is_seen_from_outside() -> None:
    cells = np.zeros(3, dtype=CELL)
    cells["fetched"], cells["answered"] = [0.2, 0.2, np.nan], [0.9, 0.9, 0.5]
    cells["download"], cells["train"] = [0.1, np.nan, 0.3], [0.5, np.nan, 0.4]
    fetched, trained = spans(cells)
    np.testing.assert_allclose(fetched, [0.1, 0.2, 0.3], rtol=1e-6)
    # Without its own times training lasts until the answer; no part ends after it.
    np.testing.assert_allclose(trained, [0.6, 0.9, 0.5], rtol=1e-6)
