"""What a page is told, as plain values for JSON: the same for one that is served and one in a file.

Numbers that are not finite travel as null.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import asdict
from typing import Any

import numpy as np

from axon.dashboard.comparison import compared, left_out
from axon.dashboard.course import Course
from axon.dashboard.curves import POINTS
from axon.dashboard.facts import STATUSES, spans
from axon.dashboard.feed import Feed
from axon.dashboard.texts import all_visible, visible
from axon.version import __version__

MOST_CYCLES = 60
"""Of the timeline in one answer."""
MOST_DEVICES = 200
NEW_POINTS = 100
"""As many new cycles are told one by one; of more the whole curve is thinned anew."""

Answer = dict[str, Any]


def runs_view(feed: Feed) -> Answer:
    """All runs in a few numbers each, their comparison, the tasks, and what cannot be reached."""
    with feed.reading():
        summaries = [
            {"id": number, **course.summary()} for number, course in enumerate(feed.courses)
        ]
        return {
            "sequence": feed.sequence,
            "version": __version__,
            "runs": summaries,
            "comparison": compared(feed.courses),
            "left_out": [{"run": run, "why": why} for run, why in left_out(feed.courses).items()],
            "board": None if feed.board is None else all_visible(asdict(feed.board)),
            "problems": [problem for problem in feed.problems.values() if problem],
        }


def run_view(feed: Feed, number: int, since: int = 0) -> Answer | None:
    """What is new of one run: points of its curves, devices, failures, lines of the log.

    `whole` says that the curves are told from their beginning. None where there is no such run.
    """
    with feed.reading():
        if not 0 <= number < len(feed.courses):
            return None
        course = feed.courses[number]
        since = 0 if since < course.begun else since
        first = course.curves.after(since) if since else 0
        if len(course.curves) - first > NEW_POINTS:
            first = 0
        about = course.about
        return {
            "id": number,
            "sequence": feed.sequence,
            "whole": not since,
            "whole_curves": first == 0,
            "summary": {"id": number, **course.summary()},
            "learning": course.curves.learning(first, POINTS),
            "timing": course.curves.timing(first, POINTS),
            "devices": [course.device(one) for one in course.members.changed(since)],
            "failures": _failures(course, since),
            "other_failures": course.other_failures,
            "log": [
                asdict(entry)
                for entry in feed.log
                if _concerns(entry.run, number) and entry.stamp > since
            ],
            "settings": None if since else _told(about.settings),
            "versions": None if since else dict(about.versions),
        }


def timeline_view(
    feed: Feed, number: int, first: int, count: int, devices: Sequence[int]
) -> Answer | None:
    """Some cycles, by their place among all, of some devices in every detail."""
    with feed.reading():
        if not 0 <= number < len(feed.courses):
            return None
        course = feed.courses[number]
        first = max(0, min(first, len(course.curves)))
        last = min(first + max(0, min(count, MOST_CYCLES)), len(course.curves))
        wanted = list(devices)[:MOST_DEVICES]
        return {
            "id": number,
            "first": first,
            "total": len(course.curves),
            "cycles": (cycles := [cycle_view(course, at, wanted) for at in range(first, last)]),
            "reasons": reasons_in(course, cycles),
        }


def cycle_view(course: Course, at: int, devices: Sequence[int] | None = None) -> Answer:
    """One cycle, with a list for each device: see `CELL_FIELDS`; null where none are kept."""
    row = course.curves.row(at)
    told = {name: row[name] for name in ("cycle", "started", "ended", "deadline")}
    cells = course.cells(at)
    if cells is None:
        return {"at": at, **told, "cells": None}
    if devices is not None:
        cells = cells[np.isin(cells["device"], np.array(devices, dtype=np.uint32))]
    fetched, trained = spans(cells)
    columns = (
        cells["device"].tolist(),
        cells["status"].tolist(),
        _rounded(fetched),
        _rounded(trained),
        _rounded(cells["answered"]),
        np.isfinite(cells["train"]).astype(int).tolist(),
        cells["planned"].tolist(),
        cells["shards"].tolist(),
        cells["reason"].tolist(),
    )
    return {"at": at, **told, "cells": [list(cell) for cell in zip(*columns, strict=True)]}


def reasons_in(course: Course, cycles: Sequence[Answer]) -> dict[int, str]:
    """The texts of the reasons that the cells of these cycles tell by number."""
    numbers = {cell[-1] for cycle in cycles for cell in cycle["cells"] or ()}
    return {number: course.rolls.reasons.texts[number] for number in sorted(numbers)}


CELL_FIELDS = ("device", "status", "fetched", "trained", "answered", "told", "planned", "shards",
               "reason")  # fmt: skip
"""Of a cell in a cycle's list; `told` is 1 where the times are the device's own."""


def fixed_view() -> Answer:
    """What never changes."""
    return {"statuses": list(STATUSES), "cell": list(CELL_FIELDS)}


def _concerns(run: int, number: int) -> bool:
    return run in (number, -1)


def _failures(course: Course, since: int) -> list[Answer]:
    devices, reasons = course.rolls.devices.texts, course.rolls.reasons.texts
    return [
        {
            "key": f"{device}-{status}-{reason}",
            "device": devices[device],
            "status": STATUSES[status],
            "reason": reasons[reason],
            "count": known.count,
            "first": known.first,
            "last": known.last,
        }
        for (device, status, reason), known in course.failures.items()
        if known.stamp > since
    ]


def _told(settings: Mapping[str, Any]) -> dict[str, str]:
    return {visible(str(name)): visible(_text(value)) for name, value in settings.items()}


def _text(value: Any) -> str:
    if isinstance(value, bool):
        return "yes" if value else "no"
    if isinstance(value, (list, tuple)):
        return ", ".join(map(_text, value)) or "none"
    return str(value)


def _rounded(values: Any) -> list[float | None]:
    """To a tenth of a millisecond: beyond it a file only grows."""
    return [None if math.isnan(value) else round(value, 4) for value in values.tolist()]
