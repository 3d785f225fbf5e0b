"""Timelines drawn: the same bytes for the same value, other bytes for another."""

from __future__ import annotations

from dataclasses import replace

import pytest

from axon.report.timelines import Bar, Timeline, timeline_picture

pytest.importorskip("matplotlib")

TIMELINE = Timeline(
    "Two rows",
    ("pi", "pi"),
    (Bar(0, "download", 0.0, 0.2), Bar(0, "training", 0.2, 0.9), Bar(1, "failed", 0.0, 1.0)),
    deadlines=(1.0,),
)


@pytest.mark.slow
def test_a_timeline_is_a_picture_of_its_value() -> None:
    drawn = timeline_picture(TIMELINE)
    assert drawn.startswith(b"\x89PNG")
    assert timeline_picture(TIMELINE) == drawn
    assert timeline_picture(replace(TIMELINE, deadlines=())) != drawn
    assert timeline_picture(replace(TIMELINE, bars=TIMELINE.bars[:2])) != drawn
