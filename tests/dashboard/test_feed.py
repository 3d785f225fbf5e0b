"""What has changed since when, and what is kept of it."""

from __future__ import annotations

import threading

from axon.dashboard.board import Board
from axon.dashboard.course import About
from axon.dashboard.feed import MOST_ENTRIES, Feed, Track
from axon.dashboard.views import run_view, runs_view, timeline_view
from axon.rounds.events import SurveyEnded, TookOver
from axon.rounds.survey import Finding
from tests.dashboard.scenes import device, record, small_feed


def test_what_is_new_is_told_once() -> None:
    feed = small_feed(3)
    track = feed.courses[0]
    first = run_view(feed, 0)
    assert first is not None
    assert first["whole"]
    assert first["learning"]["cycle"] == [1, 2, 3]
    assert [row["name"] for row in first["devices"]] == ["pi-1", "pi-2"]
    assert first["failures"][0]["reason"] == "cannot be reached"
    again = run_view(feed, 0, first["sequence"])
    assert again is not None
    assert not again["whole"]
    assert not again["devices"] + again["failures"] + again["log"] + again["learning"]["cycle"]
    with feed.changing() as stamp:
        track.add(record(4, [device("pi-2")]), stamp)
    new = run_view(feed, 0, again["sequence"])
    assert new is not None
    assert [row["name"] for row in new["devices"]] == ["pi-2"]
    assert new["learning"]["cycle"] == new["timing"]["cycle"] == [4]
    assert runs_view(feed)["runs"][0]["stamp"] > again["sequence"]


def test_a_run_that_begins_anew_is_told_from_its_beginning() -> None:
    feed = Feed()
    track = feed.open(About(name="run", label="run"))
    track.add(record(1, [device("old")]))
    seen = feed.sequence
    track.begin_anew(About(name="run", label="run", cycles=9))
    track.add(record(1, [device("new")]))
    view = run_view(feed, 0, seen)
    assert view is not None
    assert view["whole"]
    assert view["summary"]["wanted"] == 9
    assert [row["name"] for row in view["devices"]] == ["new"]


def test_after_many_new_cycles_the_curves_are_told_whole() -> None:
    feed = Feed()
    track = feed.open(About(name="run", label="run"))
    track.add(record(1, [device("a")]))
    seen = feed.sequence
    track.add(*(record(cycle, [device("a")]) for cycle in range(2, 1002)))
    view = run_view(feed, 0, seen)
    assert view is not None
    assert view["whole_curves"]
    assert not view["whole"]
    assert len(view["timing"]["cycle"]) == 400


def test_the_log_is_bounded_and_names_few_of_many() -> None:
    feed = Feed()
    track = feed.open(About(name="run", label="run"))
    lost = [device(f"d{number}", "failed", reason="gone") for number in range(9)]
    track.add(record(1, lost))
    texts = [entry.text for entry in feed.log]
    assert texts[0].startswith("cycle 1 ended after 0.9 s of 1 s, accuracy 0.0500")
    assert texts[1] == "cycle 1: d0 failed: gone"
    assert texts[-1] == "cycle 1: and 6 more devices"
    for number in range(2 * MOST_ENTRIES):
        feed.note("state", str(number))
    assert len(feed.log) == MOST_ENTRIES


def test_what_else_an_orchestrator_tells_is_in_the_log() -> None:
    feed = Feed()
    track = feed.open(About(name="run", label="run"))
    track.hear(TookOver(epoch=2, holder="standby", cycles=3))
    track.hear(SurveyEnded({"a": Finding(status="declined", reason="busy", cycle=1)}))
    assert [entry.text for entry in feed.log] == [
        "standby leads the run, from cycle 4 on",
        "a declined: busy",
    ]


def test_names_keep_to_their_place_in_the_log() -> None:
    feed = Feed()
    track = feed.open(About(name="run", label="run"))
    track.add(record(1, [device("a\u202eb", "failed", reason="קר")]))
    assert feed.log[-1].text == "cycle 1: \u2068a⟨U+202E⟩b\u2069 failed: \u2068קר\u2069"
    track.stand("failed", "x\ny")
    assert feed.courses[0].reason == "x␊y"
    view = run_view(feed, 0)
    assert view is not None
    assert view["devices"][0]["name"] == "a⟨U+202E⟩b"


def test_nobody_works_for_a_run_that_has_ended() -> None:
    feed = small_feed()
    course = feed.courses[0]
    course.members.say(0, "training", feed.sequence)
    feed.courses[0].state = "running"
    seen = feed.sequence
    Track(feed, 0).stand("failed", "too few answers")
    assert course.device(0)["state"] == "used"
    assert course.members.changed(seen) == [0]


def test_the_timeline_is_told_in_pieces() -> None:
    feed = small_feed(5)
    view = timeline_view(feed, 0, 1, 2, [0])
    assert view is not None
    assert (view["first"], view["total"]) == (1, 5)
    assert [cycle["cycle"] for cycle in view["cycles"]] == [2, 3]
    (lost,) = view["cycles"][0]["cells"]
    assert lost[:2] == [0, 4]
    assert view["reasons"][lost[-1]] == "cannot be reached"
    (used,) = view["cycles"][1]["cells"]
    assert used == [0, 0, 0.1, 0.6, 0.8, 1, 10, 10, 0]
    past = timeline_view(feed, 0, 10**9, 10**9, [0, 99])
    assert past is not None
    assert past["cycles"] == []
    assert timeline_view(feed, 1, 0, 1, []) is None
    assert run_view(feed, -1) is None


def test_threads_may_tell_at_once() -> None:
    feed = Feed()
    tracks = [feed.open(About(name=name, label=name)) for name in "ab"]

    def tell(number: int) -> None:
        for cycle in range(1, 51):
            tracks[number].add(record(cycle, [device("x")]))

    threads = [threading.Thread(target=tell, args=(number,)) for number in (0, 1)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert [len(course.curves) for course in feed.courses] == [50, 50]
    stamps = [entry.stamp for entry in feed.log]
    assert len(set(stamps)) == len(stamps)


def test_a_board_that_is_the_same_changes_nothing() -> None:
    feed = Feed()
    board = Board(place="here", tasks=(), spent="0", budget="10")
    feed.show(board)
    seen = feed.sequence
    feed.show(Board(place="here", tasks=(), spent="0", budget="10"))
    assert feed.sequence == seen
    assert runs_view(feed)["board"]["budget"] == "10"
