"""The same facts as CSV, and as pictures."""

from __future__ import annotations

import csv
import io
import math
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from axon.dashboard.comparison import compared
from axon.dashboard.course import Course
from axon.dashboard.feed import Feed
from axon.dashboard.timelines import plain, timeline_of
from axon.report.figures import Figure, Panel, Point, Series, picture
from axon.report.records import write_whole
from axon.report.timelines import timeline_picture

_COLUMNS = ("cycle", "started", "ended", "deadline", "accuracy", "loss", "batches", "asked", "used",
            "late", "missing", "other")  # fmt: skip
_OBEYED = ("=", "+", "-", "@", "\t", "\r")


def write_csv(feed: Feed, folder: Path) -> list[Path]:
    """Cycles, devices, failures and the comparison, a file each."""
    folder.mkdir(parents=True, exist_ok=True)
    sheets = {
        "cycles.csv": _cycles(feed),
        "devices.csv": [
            _device(course, number)
            for course in feed.courses
            for number in range(len(course.members))
        ],
        "comparison.csv": [_flat(row) for row in compared(feed.courses)],
    }
    written = []
    for name, rows in sheets.items():
        if rows:
            write_whole(folder / name, _csv(rows).encode())
            written.append(folder / name)
    return written


def write_png(feed: Feed, folder: Path) -> list[Path]:
    """The curves of all runs, and the timeline of each; `ConfigurationError` without matplotlib."""
    folder.mkdir(parents=True, exist_ok=True)
    figures = {
        "accuracy.png": _figure(feed, "Accuracy", "learning", "accuracy"),
        "loss.png": _figure(feed, "Loss", "learning", "loss"),
        "duration.png": _with_deadlines(
            feed, _figure(feed, "Seconds per cycle", "timing", "duration")
        ),
        "truancy.png": _truancy(feed),
    }
    pictures = {name: picture(figure) for name, figure in figures.items() if figure is not None}
    for number, course in enumerate(feed.courses, start=1):
        timeline = timeline_of(course)
        if timeline is not None:
            name = "timeline.png" if len(feed.courses) == 1 else f"timeline-{number}.png"
            pictures[name] = timeline_picture(timeline)
    for name, drawn in pictures.items():
        write_whole(folder / name, drawn)
    return [folder / name for name in pictures]


def _figure(feed: Feed, title: str, table: str, column: str) -> Figure | None:
    """One curve of each run, over cycles and over seconds; None where nobody has a point."""
    panels = []
    for across, label in (("cycle", "cycle"), ("ended", "seconds")):
        series = tuple(_series(feed, number, table, column, across)
                       for number in range(len(feed.courses)))  # fmt: skip
        panels.append(Panel("", label, title.lower(), tuple(one for one in series if one.points)))
    return Figure(title, tuple(panels)) if panels[0].series else None


def _truancy(feed: Feed) -> Figure | None:
    """The shares of learners that were late and missing, over cycles."""
    panels = []
    for column in ("late", "missing"):
        found = [_series(feed, number, "timing", column, "cycle")
                 for number in range(len(feed.courses))]  # fmt: skip
        known = tuple(one for one in found if one.points)
        label = f"share of learners {column}"
        panels.append(Panel("", "cycle", label, known, heights=(-0.02, 1.02)))
    return Figure("Late or missing", tuple(panels)) if panels[0].series else None


def _with_deadlines(feed: Feed, figure: Figure | None) -> Figure | None:
    """The same with the deadlines, dashed; one that all runs have is drawn once."""
    if figure is None:
        return None
    panels = []
    for panel, across in zip(figure.panels, ("cycle", "ended"), strict=True):
        found = [_series(feed, number, "timing", "deadline", across)
                 for number in range(len(feed.courses))]  # fmt: skip
        lines = [one for one in found if one.points]
        if len({point.y for one in lines for point in one.points}) == 1:
            longest = max(lines, key=lambda one: one.points[-1].x)
            shown = [Series("deadline", longest.points, "dashed")]
        else:
            shown = [Series(f"deadline of {one.label}", one.points, "dashed") for one in lines]
        panels.append(replace(panel, series=(*panel.series, *shown)))
    return replace(figure, panels=tuple(panels))


def _series(feed: Feed, number: int, table: str, column: str, across: str) -> Series:
    course = feed.courses[number]
    curves: Mapping[str, list[float]] = getattr(course.curves, table)()
    pairs = zip(curves[across], curves[column], strict=True)
    known = [(x, y) for x, y in pairs if math.isfinite(x) and math.isfinite(y)]
    # A cycle is a whole number, and so is every mark on an axis of them.
    points = tuple(Point(int(x) if across == "cycle" else x, y) for x, y in known)
    return Series(plain(course.about.label), points, "line")


def _cycles(feed: Feed) -> list[dict[str, Any]]:
    rows = []
    for course in feed.courses:
        for at in range(len(course.curves)):
            row = course.curves.row(at)
            rows.append({"run": course.about.label, **{name: row[name] for name in _COLUMNS}})
    return rows


def _device(course: Course, number: int) -> dict[str, Any]:
    """One device, its name first; numbers without the noise of how they are kept."""
    row = course.device(number)
    told = {"device": row.pop("name"), "run": course.about.label, **row}
    return {key: _tidied(key, value) for key, value in told.items()}


def _tidied(key: str, value: Any) -> Any:
    if not isinstance(value, float) or not math.isfinite(value):
        return value
    return float(f"{value:.6g}") if key.endswith("per_s") else round(value, 4)


def _flat(row: Mapping[str, Any]) -> dict[str, Any]:
    flat: dict[str, Any] = {"group": row["group"], "runs": len(row["runs"])}
    for name, found in row["measures"].items():
        mean, half = _as_shown(found["mean"], found["half"])
        flat |= {name: mean, f"{name} ±": half}
    return flat


def _as_shown(mean: float | None, half: float | None) -> tuple[float | None, float | None]:
    """As many digits as the page shows: four figures, or as many places as the margin's first two.

    Before the point all of them stand.
    """
    if mean is None or not half:
        return _rounded(mean, 3, mean), half
    return _rounded(mean, 1, half), _rounded(half, 1, half)


def _rounded(value: float | None, more: int, size: float | None) -> float | None:
    """To the place of the first figure of `size`, and some more."""
    if not value or not size:
        return value
    return round(value, max(0, more - math.floor(math.log10(abs(size)))))


def _csv(rows: Sequence[Mapping[str, Any]]) -> str:
    out = io.StringIO()
    writer = csv.DictWriter(out, list(rows[0]), lineterminator="\n")
    writer.writeheader()
    writer.writerows({key: _cell(value) for key, value in row.items()} for row in rows)
    return out.getvalue()


def _cell(value: Any) -> Any:
    """A number, or a text that no spreadsheet takes for a formula: names come from devices."""
    if isinstance(value, float):
        return "" if not math.isfinite(value) else int(value) if value.is_integer() else value
    if isinstance(value, str) and value.startswith(_OBEYED):
        return f"'{value}"
    return "" if value is None else value
