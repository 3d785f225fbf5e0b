"""All that is shown, in one place: a snapshot of any moment, and what has changed since another.

Whatever happens gets the next number of one sequence and leaves it, as a stamp, on what it changed.
What has changed since a number is then a question, not a queue: nobody's slowness costs memory, and
a page that was asleep asks from where it stopped.

    feed = Feed()
    track = feed.open(About(name="run", label="run"))
    track.hear(event)                     # from an orchestrator, on any thread
    track.add(record)                     # or from a file
"""

from __future__ import annotations

import math
import threading
from collections import deque
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass

from axon.dashboard.board import Board
from axon.dashboard.course import MOST_CELLS, About, Course
from axon.dashboard.facts import FAILED, LATE, REFUSED, Facts, Line
from axon.dashboard.texts import isolated, visible
from axon.rounds.events import CycleEnded, Event, StandsBy, StoreLost, SurveyEnded, TookOver
from axon.values import RoundRecord

MOST_ENTRIES = 1_000
"""Of the log."""
MOST_RUNS = 64
_NAMED = 3


@dataclass(frozen=True, slots=True, kw_only=True)
class Entry:
    """One line of the log."""

    stamp: int
    run: int
    """The number of the run, -1 for what concerns none."""
    kind: str
    """cycle, trouble or state"""
    text: str


class Feed:
    """Runs and tasks as they are known by now; every method may be called from any thread."""

    def __init__(self, most_cells: int = MOST_CELLS) -> None:
        """Keep so many cells of detail, of all runs together."""
        self._lock = threading.RLock()
        self._most_cells = most_cells
        self.sequence = 0
        self.courses: list[Course] = []
        self.log: deque[Entry] = deque(maxlen=MOST_ENTRIES)
        self.board: Board | None = None
        self.problems: dict[int, str] = {}
        """What keeps a source from being followed, by its number."""

    @contextmanager
    def reading(self) -> Iterator[None]:
        """Nothing changes while the block lasts."""
        with self._lock:
            yield

    @contextmanager
    def changing(self) -> Iterator[int]:
        """One change, with its number."""
        with self._lock:
            self.sequence += 1
            yield self.sequence

    def open(self, about: About) -> Track:
        """Show another run."""
        with self.changing():
            self.courses.append(Course(about))
            for course in self.courses:
                course.bound(self._most_cells // len(self.courses))
            return Track(self, len(self.courses) - 1)

    def show(self, board: Board) -> None:
        """Show tasks, as they are now."""
        with self._lock:
            if self.board != board:
                with self.changing():
                    self.board = board

    def suffer(self, source: int, problem: str) -> bool:
        """What is the matter with a source now, nothing perhaps; whether that is news."""
        with self._lock:
            if self.problems.get(source, "") == problem:
                return False
            with self.changing():
                self.problems[source] = problem
            return True

    def note(self, kind: str, text: str, run: int = -1) -> None:
        """Write a line of the log, in which the words of others are `isolated`."""
        with self.changing() as stamp:
            for course in self.courses[run:][:1] if run >= 0 else self.courses:
                course.stamp = stamp
            self.log.append(Entry(stamp=stamp, run=run, kind=kind, text=text))


class Track:
    """One run of a feed, for whoever knows what happens in it."""

    def __init__(self, feed: Feed, number: int) -> None:
        self._feed = feed
        self._number = number

    @property
    def course(self) -> Course:
        """What is known of it."""
        return self._feed.courses[self._number]

    def hear(self, event: Event) -> None:
        """What an orchestrator tells."""
        if isinstance(event, CycleEnded):
            self.add(event.record)
            return
        with self._feed.changing() as stamp:
            self.course.state = "running"
            self.course.hear(event, stamp)
        if isinstance(event, StandsBy | TookOver | StoreLost):
            self._note("state", _leading(event))
        if isinstance(event, SurveyEnded):
            for name, finding in event.findings.items():
                if finding.reason:
                    told = f"{isolated(name)} {finding.status}: {isolated(finding.reason)}"
                    self._note("trouble", told)

    def add(self, *records: RoundRecord | Line) -> None:
        """Cycles that have ended."""
        for record in records:
            with self._feed.changing() as stamp:
                facts = self.course.add(record, stamp)
            self._note("cycle", _told(facts))
            self._note_trouble(facts)

    def become(self, about: About) -> None:
        """More is known of what the run is."""
        with self._feed.changing() as stamp:
            self.course.about = about
            # Whoever has seen it before is told all of it again.
            self.course.begun = self.course.stamp = stamp

    def begin_anew(self, about: About) -> None:
        """The run is told from its beginning again, perhaps as another one."""
        with self._feed.changing() as stamp:
            self.course.about = about
            self.course.clear(stamp)

    def stand(self, state: str, reason: str = "") -> None:
        """How the run stands.

        It is waiting, running, finished, stopped, failed, of unknown length or unreadable.
        """
        course, reason = self.course, visible(reason)
        if (course.state, course.reason) == (state, reason):
            return
        with self._feed.changing() as stamp:
            course.state, course.reason, course.stamp = state, reason, stamp
            if state != "running":
                course.current = None
                course.members.rest(stamp)
        self._note("state", f"{state}: {reason}" if reason else state)

    def _note_trouble(self, facts: Facts) -> None:
        rolls = self.course.rolls
        wrong = [cell for cell in facts.cells if cell["status"] in (LATE, FAILED, REFUSED)]
        for cell in wrong[:_NAMED]:
            name = rolls.devices.texts[cell["device"]]
            reason = rolls.reasons.texts[cell["reason"]]
            what = {LATE: "late", FAILED: "failed", REFUSED: "refused"}[int(cell["status"])]
            told = f"{what}: {isolated(reason)}" if reason else what
            self._note("trouble", f"cycle {facts.cycle}: {isolated(name)} {told}")
        if len(wrong) > _NAMED:
            self._note("trouble", f"cycle {facts.cycle}: and {len(wrong) - _NAMED} more devices")

    def _note(self, kind: str, text: str) -> None:
        self._feed.note(kind, text, self._number)


def _leading(event: StandsBy | TookOver | StoreLost) -> str:
    if isinstance(event, StoreLost):
        return f"the store cannot be reached: {isolated(event.reason)}"
    if isinstance(event, TookOver):
        return f"{isolated(event.holder)} leads the run, from cycle {event.cycles + 1} on"
    led = event.leadership
    return f"stands by while {isolated(led.holder) if led.epoch else 'nobody'} leads"


def _told(facts: Facts) -> str:
    tested = "" if math.isnan(facts.accuracy) else f", accuracy {facts.accuracy:.4f}"
    return (
        f"cycle {facts.cycle} ended after {facts.duration_s:.3g} s of {facts.deadline_s:g} s"
        f"{tested}"
    )
