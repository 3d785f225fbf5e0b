"""Who did what when, as a value, and its picture: a row for each device, a bar for each stretch.

bars = (Bar(0, "download", 0.0, 0.2), Bar(0, "training", 0.2, 0.9))
timeline_picture(Timeline("One cycle", ("pi-1",), bars, deadlines=(1.0,)))
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from axon.report.figures import COLOURS, draw_legend, painted

WIDTH_INCHES = 8.0
ROW_INCHES = 0.26
FRAME_INCHES = 1.6
"""For the title, the axis and the legend, beside the rows."""


@dataclass(frozen=True, slots=True)
class Bar:
    """A stretch of time that one row spent on one kind of work."""

    row: int
    """From the top, the first one 0: names may be alike."""
    kind: str
    start_s: float
    end_s: float


@dataclass(frozen=True, slots=True)
class Timeline:
    """Bars in rows over one clock; a kind has one colour, in the order in which kinds are met."""

    title: str
    rows: tuple[str, ...]
    """Their names, from the top."""
    bars: tuple[Bar, ...]
    deadlines: tuple[float, ...] = ()
    """Seconds at which a line is drawn through all rows."""


def timeline_picture(timeline: Timeline) -> bytes:
    """The timeline as PNG; `ConfigurationError` without matplotlib."""
    inches = (WIDTH_INCHES, FRAME_INCHES + ROW_INCHES * len(timeline.rows))

    def paint(canvas: Any) -> None:
        _draw_rows(canvas.add_subplot(), timeline)
        draw_legend(canvas)

    return painted(timeline.title, inches, paint, "png", {"Software": None})


def _draw_rows(axes: Any, timeline: Timeline) -> None:
    for at, kind in enumerate(dict.fromkeys(bar.kind for bar in timeline.bars)):
        bars = [bar for bar in timeline.bars if bar.kind == kind]
        axes.barh(
            [bar.row for bar in bars],
            [bar.end_s - bar.start_s for bar in bars],
            left=[bar.start_s for bar in bars],
            height=0.7,
            # Two cycles that were missed are two bars.
            edgecolor="white",
            linewidth=0.6,
            color=COLOURS[at % len(COLOURS)],
            label=kind,
        )
    for number, deadline_s in enumerate(timeline.deadlines):
        named = {"label": "deadline"} if number == 0 else {}
        axes.axvline(deadline_s, color="#222222", linestyle="--", linewidth=0.9, **named)
    axes.set_yticks(range(len(timeline.rows)), timeline.rows)
    axes.set_ylim(len(timeline.rows) - 0.4, -0.6)
    axes.set_xlabel("seconds")
    axes.grid(visible=False, axis="y")
