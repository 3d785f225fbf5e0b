"""How a run shows itself: a view that is redrawn, a line a cycle, or records as JSON.

What devices say, their names and their reasons, is as little to be trusted here as elsewhere: it is
shown as text, on one line, without anything that a terminal obeys.
"""

from __future__ import annotations

import re
import sys
import time
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING

import typer

from axon.printable import printable
from axon.report.records import to_line
from axon.report.tables import aligned
from axon.rounds.events import (
    CycleBegan,
    CycleEnded,
    Event,
    LearnerProgress,
    LearnerSettled,
    StandsBy,
    StoreLost,
    SurveyBegan,
    SurveyEnded,
    TookOver,
)
from axon.values import DeviceRecord, RoundRecord

# Only the view on a terminal needs it.
if TYPE_CHECKING:
    from rich.console import RenderableType

REDRAW_S = 0.1
"""The least time between two pictures: virtual time may run thousands of cycles a second."""

MOST_ROWS = 20
MOST_TROUBLES = 3
"""How many learners are named, of many."""

HEADINGS = ("DEVICE", "USED", "BATCHES", "LATE", "DECLINED", "REFUSED", "FAILED")

Listen = Callable[[Event], None]
_NUMBER = re.compile(r"([0-9]{1,9})")


@contextmanager
def showing(cycles: int, *, as_json: bool) -> Iterator[Listen]:
    """Show a run of that many cycles for the length of the block, as fits where it is shown."""
    if as_json or not sys.stdout.isatty():
        render = to_line if as_json else (lambda record: cycle_line(record, cycles))
        yield _each_cycle(lambda record: typer.echo(render(record)))
        return
    # Late, because a pipe needs none of it.
    from rich.live import Live
    from rich.text import Text

    view = View(cycles)
    with Live(view.picture(), auto_refresh=False) as live:
        clock = Paced(lambda: live.update(view.picture(), refresh=True))

        def hear(event: Event) -> None:
            view.hear(event)
            if isinstance(event, CycleEnded):
                # Above the picture, where it stays: a run is read by its course.
                live.console.print(Text(cycle_line(event.record, cycles)))
            elif line := leader_line(event):
                live.console.print(Text(line))
            clock.tick()

        try:
            yield hear
        finally:
            live.update(view.picture(), refresh=True)


def cycle_line(record: RoundRecord, cycles: int) -> str:
    """A cycle in one line: how good the model is, what it took, and with whom it went wrong."""
    parts = [f"cycle {record.cycle}/{cycles}", *_scores(record), f"{record.batches} batches"]
    parts.append(f"{record.duration_s:.2f} s of {record.deadline_s:g} s")
    troubles = record.with_status("late", "declined", "refused", "failed")
    parts += [f"{_shown(each.device)} {state_of(each)}" for each in troubles[:MOST_TROUBLES]]
    if len(troubles) > MOST_TROUBLES:
        parts.append(f"and {len(troubles) - MOST_TROUBLES} more")
    return "  ".join(parts)


def leader_line(event: Event) -> str:
    """Who leads the run, in one line, where the event tells; else nothing."""
    if isinstance(event, StandsBy):
        led = event.leadership
        who = (
            f"{_shown(led.holder)} leads as epoch {led.epoch}" if led.epoch else "nobody leads yet"
        )
        return f"standing by: {who}"
    if isinstance(event, TookOver):
        verb = "leading" if event.epoch == 1 else "taking over"
        return f"{verb} as epoch {event.epoch}, {_shown(event.holder)}, after cycle {event.cycles}"
    if isinstance(event, StoreLost):
        return f"the store is silent, and is asked on: {_shown(event.reason)}"
    return ""


def state_of(record: DeviceRecord) -> str:
    """What became of a learner, and why."""
    if record.status in ("used", "not needed"):
        return record.status
    return f"{record.status}: {_shown(record.reason)}" if record.reason else record.status


def summary(records: Sequence[RoundRecord]) -> str:
    """What became of each learner over all cycles, as a small table."""
    batches: Counter[str] = Counter()
    ended: Counter[tuple[str, str]] = Counter()
    for cycle in records:
        for each in cycle.devices:
            ended[each.device, each.status] += 1
            batches[each.device] += each.batches if each.status == "used" else 0
    rows = [
        [
            _shown(name),
            str(ended[name, "used"]),
            str(batches[name]),
            *(str(ended[name, status]) for status in ("late", "declined", "refused", "failed")),
        ]
        for name in sorted(batches, key=_natural)
    ]
    table = aligned([HEADINGS, *rows[:MOST_ROWS]])
    return table if len(rows) <= MOST_ROWS else f"{table}\nand {len(rows) - MOST_ROWS} more"


def _natural(name: str) -> list[tuple[int, str]]:
    """Orders pi-9 before pi-10."""
    return [(int(part), "") if part.isdecimal() else (-1, part) for part in _NUMBER.split(name)]


def result_line(records: Sequence[RoundRecord], world: str, kept: str) -> str:
    """What a run came to: accuracy, cycles, time on its world's clock, and where it is kept."""
    last = records[-1]
    score = "not tested" if last.accuracy is None else f"accuracy {last.accuracy:.3f}"
    cycles = "1 cycle" if last.cycle == 1 else f"{last.cycle} cycles"
    return f"{score} after {cycles}, {last.ended_s:.2f} s in the {world} world; {kept}"


class Paced:
    """Does something at most so often."""

    def __init__(
        self, action: Callable[[], None], clock: Callable[[], float] = time.monotonic
    ) -> None:
        self._action = action
        self._clock = clock
        self._next_s = clock()

    def tick(self) -> None:
        """Do it, if it is time again."""
        now_s = self._clock()
        if now_s >= self._next_s:
            self._action()
            self._next_s = self._clock() + REDRAW_S


@dataclass(slots=True)
class Row:
    """One learner in the cycle under way."""

    state: str = "waiting"
    """So it stays until its end if it keeps to itself how quick it is, and so how far."""
    done: int = 0
    total: int = 0


class View:
    """What is known of a run by now, and its picture for a terminal."""

    def __init__(self, cycles: int) -> None:
        self._cycles = cycles
        self._cycle = 0
        self._deadline_s = 0.0
        self._scores: list[str] = []
        self._rows: dict[str, Row] = {}

    def hear(self, event: Event) -> None:
        """Take in what happened."""
        if isinstance(event, SurveyBegan):
            self._rows |= {name: Row("benchmarking itself") for name in event.devices}
        elif isinstance(event, SurveyEnded):
            for name, finding in event.findings.items():
                reason = f": {_shown(finding.reason)}" if finding.reason else ""
                self._rows[name] = Row(f"{finding.status}{reason}")
        elif isinstance(event, CycleBegan):
            self._cycle, self._deadline_s = event.plan.cycle, event.plan.deadline_s
            self._rows = {name: Row() for name in event.plan.shares}
        elif isinstance(event, LearnerProgress):
            row = self._rows.get(event.device)
            # One that was given up may still say how far it is.
            if row is not None and row.state in ("waiting", "training"):
                row.state, row.done, row.total = "training", event.done, event.total
        elif isinstance(event, LearnerSettled):
            # One that got no share is in no plan.
            row = self._rows.setdefault(event.record.device, Row())
            row.state = state_of(event.record)
            if event.record.status == "used":
                row.done = row.total = event.record.batches
        elif isinstance(event, CycleEnded):
            self._scores = _scores(event.record) or self._scores

    def picture(self) -> RenderableType:
        """One line for the run and one for each learner."""
        from rich.console import Group
        from rich.progress_bar import ProgressBar
        from rich.table import Table
        from rich.text import Text

        head = [f"cycle {self._cycle} of {self._cycles}", f"deadline {self._deadline_s:g} s"]
        if self._cycle == 0:
            head = ["getting ready"]
        table = Table.grid(padding=(0, 2))
        names = sorted(self._rows, key=_natural)[:MOST_ROWS]
        for name, row in [(name, self._rows[name]) for name in names]:
            state = f"training {row.done}/{row.total}" if row.state == "training" else row.state
            bar = ProgressBar(max(1, row.total), row.done, 30, finished_style="green")
            # As Text, because a plain string could bring markup of its own.
            table.add_row(Text(_shown(name)), bar, Text(state))
        hidden = len(self._rows) - MOST_ROWS
        more = [Text(f"and {hidden} more")] if hidden > 0 else []
        return Group(Text("  ".join([*head, *self._scores])), table, *more)


def _each_cycle(show: Callable[[RoundRecord], None]) -> Listen:
    def hear(event: Event) -> None:
        if isinstance(event, CycleEnded):
            show(event.record)
            sys.stdout.flush()
        elif line := leader_line(event):
            # Beside the records, which are the output.
            typer.echo(f"axon: {line}", err=True)

    return hear


def _scores(record: RoundRecord) -> list[str]:
    """Accuracy and loss, where the model was tested."""
    if record.accuracy is None or record.loss is None:
        return []
    return [f"acc {record.accuracy:.3f}", f"loss {record.loss:.3g}"]


def _shown(text: str) -> str:
    return printable(text, limit=80) or "?"
