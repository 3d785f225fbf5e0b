"""The last cycles of a run as a picture: what the page's timeline shows, as far as paper goes."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping

from axon.dashboard.course import Course
from axon.dashboard.facts import STATUSES, USED
from axon.dashboard.members import MISSED
from axon.dashboard.views import CELL_FIELDS, Answer, cycle_view
from axon.report.timelines import Bar, Timeline

MOST_DEVICES = 30
"""More rows are not read on one page; those that missed most come first."""
MOST_CYCLES = 8
_PARTS = ("download", "training", "upload")


def timeline_of(course: Course) -> Timeline | None:
    """The last cycles of the devices that missed most; None where nothing is known of any."""
    total, count = len(course.curves), len(course.members)
    first = max(0, total - MOST_CYCLES)
    devices = sorted(_worst(course)[:MOST_DEVICES])
    found = [cycle_view(course, at, devices) for at in range(first, total)]
    cycles = [cycle for cycle in found if math.isfinite(cycle["started"] + cycle["ended"])]
    rows = {number: row for row, number in enumerate(devices)}
    bars = tuple(bar for cycle in cycles for bar in _bars(cycle, rows))
    if not bars:
        return None
    said = f"cycles {cycles[0]['cycle']:g} to {cycles[-1]['cycle']:g}"
    shown = f"{len(rows)} of {count} devices" if len(rows) < count else f"{count} devices"
    return Timeline(
        plain(f"{course.about.label}: {said}, {shown}"),
        tuple(_name(course, number) for number in devices),
        bars,
        tuple(
            end for cycle in cycles if math.isfinite(end := cycle["started"] + cycle["deadline"])
        ),
    )


def plain(text: str) -> str:
    """The same for a figure, in which a dollar sign would begin a formula."""
    return text.replace("$", r"\$")


def _worst(course: Course) -> list[int]:
    def missed(number: int) -> int:
        row = course.members.row(number)
        return int(row["late"] + row["failed"] + row["refused"])

    return sorted(range(len(course.members)), key=lambda number: -missed(number))


def _name(course: Course, number: int) -> str:
    name = course.rolls.devices.texts[number]
    return plain(name if len(name) <= 24 else f"{name[:23]}…")


def _bars(cycle: Answer, rows: Mapping[int, int]) -> Iterator[Bar]:
    """Download, training and upload of an update that was used, or one bar for what was missed.

    Who sat out, or was not needed, did nothing that could be drawn.
    """
    for cell in cycle["cells"] or ():
        told = dict(zip(CELL_FIELDS, cell, strict=True))
        begun, row, start = cycle["started"], rows[told["device"]], 0.0
        if told["status"] in MISSED:
            end = told["answered"]
            end_s = cycle["ended"] if end is None else begun + end
            yield Bar(row, STATUSES[told["status"]], begun, end_s)
        if told["status"] != USED:
            continue
        for part, name in zip(_PARTS, ("fetched", "trained", "answered"), strict=True):
            end = told[name]
            if end is not None and end > start:
                yield Bar(row, part, begun + start, begun + end)
                start = end
