"""The last cycles of a run as bars, no more of them than can be read."""

from __future__ import annotations

import pytest

from axon.dashboard.course import About
from axon.dashboard.feed import Feed
from axon.dashboard.timelines import MOST_CYCLES, MOST_DEVICES, timeline_of
from axon.report.timelines import Bar
from tests.dashboard.scenes import crowd, device, record, small_feed


def test_an_update_has_three_bars_and_a_miss_one() -> None:
    feed = Feed()
    track = feed.open(About(name="run", label="$a"))
    late = device("late", "late", took_s=1.5)
    gone, idle = device("gone", "failed"), device("idle", "not needed")
    track.add(record(2, [device("good"), late, gone, idle]))
    timeline = timeline_of(track.course)
    assert timeline is not None
    assert timeline.rows == ("good", "late", "gone", "idle")
    assert timeline.title == r"\$a: cycles 2 to 2, 4 devices"
    assert timeline.deadlines == (2.0,)
    rounded = [
        Bar(bar.row, bar.kind, round(bar.start_s, 3), round(bar.end_s, 3)) for bar in timeline.bars
    ]
    assert rounded == [
        Bar(0, "download", 1.0, 1.1),
        Bar(0, "training", 1.1, 1.6),
        Bar(0, "upload", 1.6, 1.8),
        Bar(1, "late", 1.0, 2.5),
        Bar(2, "failed", 1.0, 1.9),
    ]


def test_of_many_the_last_cycles_of_those_who_missed_most() -> None:
    course = crowd(200, 40).courses[0]
    timeline = timeline_of(course)
    assert timeline is not None
    assert timeline.title == "crowd: cycles 33 to 40, 30 of 200 devices"
    assert (len(timeline.rows), len(timeline.deadlines)) == (MOST_DEVICES, MOST_CYCLES)
    missed = [row["late"] + row["failed"] for row in map(course.device, range(200))]
    shown = [
        missed[number] for number in range(200) if course.device(number)["name"] in timeline.rows
    ]
    assert sorted(shown) == sorted(missed)[-MOST_DEVICES:]


def test_two_names_that_are_cut_alike_are_two_rows() -> None:
    timeline = timeline_of(small_feed(names=["x" * 30 + "1", "x" * 30 + "2"]).courses[0])
    assert timeline is not None
    assert timeline.rows == ("x" * 23 + "…",) * 2
    assert {bar.row for bar in timeline.bars} == {0, 1}


@pytest.mark.parametrize("started_s", [None, float("nan")])
def test_nothing_known_is_no_picture(started_s: float | None) -> None:
    track = (feed := Feed()).open(About(name="run", label="run"))
    if started_s is not None:
        track.add(record(1, [device("a")], started_s=started_s))
    assert timeline_of(feed.courses[0]) is None
