"""One run as it is known by now."""

from __future__ import annotations

import pytest

from axon.dashboard import course as courses
from axon.dashboard.course import About, Course
from axon.dashboard.curves import Curves
from axon.dashboard.facts import Line, Rolls, facts_of, line_of
from axon.dashboard.feed import Feed
from axon.report.records import to_line
from axon.rounds.events import (
    CycleBegan,
    CycleEnded,
    LearnerProgress,
    LearnerSettled,
    SurveyBegan,
    SurveyEnded,
)
from axon.rounds.survey import Finding
from axon.values import Capability, Plan, Share
from tests.dashboard.scenes import device, record


@pytest.fixture
def course() -> Course:
    return Course(About(name="run", label="run", cycles=4))


def test_a_device_in_numbers(course: Course) -> None:
    course.add(record(1, [device("a"), device("b")]), 1)
    course.add(record(2, [device("a", shards=6), device("b", "failed", reason="gone")]), 2)
    course.add(record(3, [device("a", took_s=0.7), device("b", "late", reason="0.2 s late")]), 3)
    row = course.device(0)
    assert (row["name"], row["state"], row["wrong"]) == ("a", "used", False)
    assert row["samples_per_s"] == pytest.approx(1000)
    assert row["download_s"] == pytest.approx(0.1)
    assert row["upload_s"] == pytest.approx((0.2 + 0.2 + 0.1) / 3, rel=1e-5)
    assert row["seen_s"] == pytest.approx(2.7)
    assert (row["planned"], row["done_of_planned"]) == (30, 26)
    lost = course.device(1)
    assert (lost["state"], lost["wrong"], lost["reason"]) == ("late", True, "0.2 s late")
    assert (lost["used"], lost["failed"], lost["late"], lost["cycles"]) == (1, 1, 1, 3)
    # What came late was done for nothing.
    assert (lost["planned"], lost["done_of_planned"]) == (30, 10)


def test_a_cycle_under_way(course: Course) -> None:
    shares = {name: Share(shards=3) for name in ("a", "b")}
    course.hear(CycleBegan(Plan(cycle=1, deadline_s=2.0, shares=shares)), 1)
    assert course.summary()["current"] == 1
    assert course.device(0)["state"] == "at work", "it need not report how far it is"
    course.hear(LearnerProgress("a", 2, 5), 2)
    row = course.device(0)
    assert (row["state"], row["done"], row["total"]) == ("training", 2, 5)
    course.hear(LearnerSettled(device("b", "failed", reason="gone")), 3)
    assert course.device(1)["wrong"]
    course.hear(LearnerProgress("b", 3, 5), 4)
    assert course.device(1)["state"] == "failed", "one that was given up may still report"
    course.hear(CycleEnded(record(1, [device("a"), device("b", "failed", reason="gone")])), 5)
    assert course.device(0)["state"] == "used"
    assert course.summary()["current"] is None
    assert [course.device(number)["cycle"] for number in (0, 1)] == [1, 0]
    assert course.members.changed(4) == [0, 1]
    assert course.members.changed(5) == []


def test_last_seen_is_the_cycle_of_the_last_answer(course: Course) -> None:
    course.add(record(1, [device("a"), device("b", answered_s=None, timings=None)]), 1)
    assert course.device(1)["cycle"] == 1, "an update that was used came"
    shares = {name: Share(shards=3) for name in ("a", "b")}
    course.hear(CycleBegan(Plan(cycle=2, deadline_s=2.0, shares=shares)), 2)
    course.hear(LearnerSettled(device("a")), 3)
    course.hear(LearnerSettled(device("b", "failed", reason="gone")), 4)
    assert [course.device(number)["cycle"] for number in (0, 1)] == [2, 1]
    course.hear(CycleEnded(record(2, [device("a"), device("b", "failed")])), 5)
    assert [course.device(number)["cycle"] for number in (0, 1)] == [2, 1]
    assert course.device(0)["seen_s"] == pytest.approx(1.8)


def test_a_survey_tells_how_quick_a_link_is(course: Course) -> None:
    course.hear(SurveyBegan(("a", "b")), 1)
    assert course.device(1)["state"] == "benchmarking"
    told = Finding(status="told", capability=Capability(shards_per_s=2.0, bytes_per_s=5e6), cycle=1)
    course.hear(SurveyEnded({"a": told, "b": Finding(status="failed", reason="x", cycle=1)}), 2)
    assert course.device(0)["bytes_per_s"] == 5e6
    assert course.device(0)["state"] == "ready"
    assert course.device(1)["state"] == "failed"


def test_failures_are_counted_by_device_and_reason(
    course: Course, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(courses, "MOST_FAILURES", 2)
    for cycle in (1, 2, 3):
        failed = device("a", "failed", reason="gone")
        refused = device("b", "refused", reason=f"reason {cycle}")
        course.add(record(cycle, [failed, refused, device("c", "declined")]), cycle)
    kinds = {key: (one.count, one.first, one.last) for key, one in course.failures.items()}
    assert list(kinds.values()) == [(3, 1, 3), (1, 1, 1)]
    assert course.other_failures == 2


def test_detail_is_bounded_and_read_again_where_it_is_kept() -> None:
    course = Course(About(name="run", label="run"), most_cells=5)
    lines = [to_line(record(cycle, [device("a"), device("b")])) for cycle in range(1, 6)]
    for stamp, line in enumerate(lines, start=1):
        course.add(line_of(line.encode()), stamp)
    assert [course.cells(at) is None for at in range(5)] == [True, True, True, False, False]

    def refetch(at: int) -> Line:
        return line_of(lines[at].encode())

    course.refetch = refetch
    cells = course.cells(0)
    assert cells is not None
    assert cells["batches"].tolist() == [20, 20]


def test_runs_share_the_room_for_detail() -> None:
    feed = Feed(most_cells=4)
    tracks = [feed.open(About(name="first", label="first"))]
    tracks[0].add(*(record(cycle, [device("a")]) for cycle in range(1, 5)))
    tracks.append(feed.open(About(name="second", label="second")))
    assert [tracks[0].course.cells(at) is None for at in range(4)] == [True, True, False, False]


def test_curves_keep_every_peak_and_the_last_point() -> None:
    curves, rolls = Curves(), Rolls()
    for cycle in range(1, 1001):
        accuracy = 0.99 if cycle == 333 else 0.01 if cycle == 777 else cycle / 2000
        tested = accuracy if cycle % 3 == 0 else None
        devices = [device("a"), device("b", "late" if cycle % 2 else "used"), device("c", "failed"),
                   device("d", "not needed")]  # fmt: skip
        facts = facts_of(record(cycle, devices, accuracy=tested, loss=None), rolls)
        curves.add(facts, cycle)
    learning = curves.learning(most=60)
    assert len(learning["cycle"]) <= 60
    assert {333.0, 777.0, 999.0} <= set(learning["cycle"])
    timing = curves.timing(most=50)
    assert len(timing["cycle"]) == 50
    assert timing["cycle"][-1] == 1000
    assert timing["late"] == pytest.approx([1 / 6] * 50)
    assert timing["missing"] == pytest.approx([1 / 3] * 50)
    assert curves.learning(990)["cycle"] == [993, 996, 999]
    totals = curves.totals()
    assert (totals["cycles"], totals["best"], totals["loss"]) == (1000, 0.99, None)
    assert totals["held"] == 1.0
    assert totals["used"] == pytest.approx(0.5)
    assert curves.after(998) == 998


def test_a_run_without_a_cycle_has_no_numbers(course: Course) -> None:
    summary = course.summary()
    assert (summary["cycles"], summary["accuracy"], summary["held"]) == (0, None, None)
    assert course.curves.timing()["cycle"] == course.curves.learning()["cycle"] == []
