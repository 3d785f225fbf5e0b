"""One run: its curves, its devices, its failures, and its latest cycles in every detail.

Memory is bounded: a hundred bytes for a cycle, a few hundred for a device, and `MOST_CELLS` cells
of detail. What was let go is read again where the run is kept in a file.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any, TypeAlias

import numpy as np
from numpy.typing import NDArray

from axon.dashboard.curves import Curves
from axon.dashboard.facts import STATUSES, Facts, Line, Rolls, facts_of
from axon.dashboard.members import MISSED, Members
from axon.rounds.events import (
    CycleBegan,
    CycleEnded,
    Event,
    LearnerProgress,
    LearnerSettled,
    SurveyBegan,
    SurveyEnded,
)
from axon.values import RoundRecord

MOST_CELLS = 1_000_000
"""Of detail, about 60 MB: a thousand cycles of a thousand devices."""
MOST_FAILURES = 2_000
"""Kinds of failure, each of one device for one reason."""
AT_WORK = "at work"
"""Of a learner that has its orders; one that reports how far it is, is training."""

Refetch: TypeAlias = Callable[[int], Line | None]
"""A cycle's record by its place among all, from wherever it is kept."""


@dataclass(frozen=True, slots=True, kw_only=True)
class About:
    """What a run is, apart from what happens in it."""

    name: str
    label: str
    """What tells it from other runs of the same name."""
    place: str = ""
    """Where it was found."""
    cycles: int | None = None
    """How many there will be; None if nobody knows."""
    seed: int | None = None
    settings: Mapping[str, Any] = field(default_factory=dict)
    versions: Mapping[str, str] = field(default_factory=dict)


@dataclass(slots=True)
class Failures:
    """How often one device came to nothing for one reason."""

    count: int
    first: int
    last: int
    stamp: int


class Course:
    """What is known of one run by now."""

    def __init__(self, about: About, most_cells: int = MOST_CELLS) -> None:
        self.about = about
        self.state = "waiting"
        self.reason = ""
        self.refetch: Refetch | None = None
        self._most_cells = most_cells
        self.clear(0)

    def clear(self, stamp: int) -> None:
        """Forget all cycles: the file they came from was written anew."""
        self.rolls = Rolls()
        self.curves = Curves()
        self.members = Members()
        self.failures: dict[tuple[int, int, int], Failures] = {}
        self.other_failures = 0
        self.current: tuple[int, float] | None = None
        self.begun = self.stamp = stamp
        self._cells: dict[int, NDArray[np.void]] = {}
        self._held = 0

    def add(self, record: RoundRecord | Line, stamp: int) -> Facts:
        """Enter a cycle that has ended."""
        facts = facts_of(record, self.rolls)
        self.take(facts, stamp)
        return facts

    def take(self, facts: Facts, stamp: int) -> None:
        """Enter a cycle whose names and reasons are in the rolls already."""
        self.stamp = stamp
        at = len(self.curves)
        self.curves.add(facts, stamp)
        self.members.take(facts, stamp)
        self._note_failures(facts, stamp)
        self._cells[at] = facts.cells
        self._held += len(facts.cells)
        self.bound(self._most_cells)
        self.current = None

    def bound(self, most_cells: int) -> None:
        """Keep no more detail than that, and at least the newest cycle."""
        self._most_cells = most_cells
        while self._held > most_cells and len(self._cells) > 1:
            self._held -= len(self._cells.pop(next(iter(self._cells))))

    def hear(self, event: Event, stamp: int) -> None:
        """Take in what an orchestrator tells while a cycle is under way."""
        self.stamp = stamp
        if isinstance(event, CycleEnded):
            self.add(event.record, stamp)
        elif isinstance(event, CycleBegan):
            self.current = (event.plan.cycle, event.plan.deadline_s)
            for name in event.plan.shares:
                self.members.say(self.rolls.devices.number(name), AT_WORK, stamp)
        elif isinstance(event, LearnerProgress):
            number = self.rolls.devices.number(event.device)
            # One that was given up may still say how far it is.
            if self.members.now(number) in (AT_WORK, "training"):
                self.members.say(number, "training", stamp, event.done, event.total)
        elif isinstance(event, LearnerSettled):
            record = event.record
            number = self.rolls.devices.number(record.device)
            reason = self.rolls.reasons.number(record.reason)
            cycle = self.current[0] if self.current and record.answered_s is not None else None
            self.members.settle(number, STATUSES.index(record.status), reason, stamp, cycle)
        elif isinstance(event, SurveyBegan | SurveyEnded):
            self._hear_survey(event, stamp)

    def _hear_survey(self, event: SurveyBegan | SurveyEnded, stamp: int) -> None:
        if isinstance(event, SurveyBegan):
            for name in event.devices:
                self.members.say(self.rolls.devices.number(name), "benchmarking", stamp)
            return
        for name, finding in event.findings.items():
            number = self.rolls.devices.number(name)
            if finding.capability is not None:
                self.members.tell(number, finding.capability.bytes_per_s)
            self.members.say(number, "ready" if not finding.reason else finding.status, stamp)

    def cells(self, at: int) -> NDArray[np.void] | None:
        """A cycle's cells by its place among all; None where they are kept no longer."""
        if at in self._cells:
            return self._cells[at]
        line = None if self.refetch is None else self.refetch(at)
        return None if line is None else facts_of(line, self.rolls).cells

    def summary(self) -> dict[str, Any]:
        """The run in a few numbers."""
        about = self.about
        cycle, deadline_s = self.current or (None, None)
        return {
            "name": about.name,
            "label": about.label,
            "place": about.place,
            "wanted": about.cycles,
            "seed": about.seed,
            "state": self.state,
            "reason": self.reason,
            "stamp": self.stamp,
            "devices": len(self.members),
            "current": cycle,
            "current_deadline_s": deadline_s,
            **self.curves.totals(),
        }

    def device(self, number: int) -> dict[str, Any]:
        """One device's row, with its name and what was said of it."""
        row = self.members.row(number)
        reason = row.pop("reason_id")
        texts = self.rolls.reasons.texts
        row["name"] = self.rolls.devices.texts[number]
        row["reason"] = texts[reason] if reason is not None and reason < len(texts) else ""
        return row

    def _note_failures(self, facts: Facts, stamp: int) -> None:
        cells = facts.cells
        for cell in cells[np.isin(cells["status"], MISSED)]:
            key = (int(cell["device"]), int(cell["status"]), int(cell["reason"]))
            known = self.failures.get(key)
            if known is not None:
                known.count += 1
                known.last, known.stamp = facts.cycle, stamp
            elif len(self.failures) < MOST_FAILURES:
                self.failures[key] = Failures(1, facts.cycle, facts.cycle, stamp)
            else:
                self.other_failures += 1
