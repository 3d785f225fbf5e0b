"""Figures as values, and how they are drawn: the same bytes of SVG for the same value.

points = (Point(1, 2.0, 1.8, 2.2), Point(2, 3.0, 2.9, 3.1))
draw(Figure("One line", (Panel("", "shards", "seconds", (Series("SB", points),)),)))
"""

from __future__ import annotations

import io
import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal, NamedTuple, TypeAlias

from axon.errors import ConfigurationError


class Point(NamedTuple):
    """A place in a figure, with the bounds of its 95 % interval where they are known."""

    x: float | str
    """A name instead of a number makes the axis one of names; for bars."""
    y: float
    low: float | None = None
    high: float | None = None


Style: TypeAlias = Literal["line", "dashed", "scatter", "bar"]


@dataclass(frozen=True, slots=True)
class Series:
    """Points that belong together, and how they are shown.

    Intervals are a band along a line and whiskers otherwise; `dashed` is for what is not measured:
    a deadline, the line of perfect predictions.
    """

    label: str
    points: tuple[Point, ...]
    style: Style = "line"


@dataclass(frozen=True, slots=True)
class Panel:
    """One pair of axes."""

    title: str
    x_label: str
    y_label: str
    series: tuple[Series, ...]
    logarithmic: Literal["", "x", "y", "both"] = ""
    heights: tuple[float, float] | None = None
    """From where to where the axis of y goes; as far as the points do if left out."""


@dataclass(frozen=True, slots=True)
class Figure:
    """Panels side by side under one title; a label has the same colour in each of them."""

    title: str
    panels: tuple[Panel, ...]


# Okabe and Ito's colours, which people who see few colours tell apart too; without the yellow,
# which is too light for a line. Markers differ as well, for print without colour.
COLOURS = ("#0072B2", "#D55E00", "#009E73", "#CC79A7", "#56B4E9", "#E69F00", "#4D4D4D")
MARKERS = ("o", "s", "^", "D", "v", "P", "X")
PANEL_INCHES = {1: (5.4, 3.4), 2: (3.6, 3.0), 3: (2.6, 2.7)}
"""The size of a panel with so many of them in a row: together they are read at 700 pixels."""
DOTS = 150
"""Of a picture, per inch."""
BAR_ROOM = 0.8
"""How much of the room between two names their bars fill."""
_SETTINGS: Any = {
    # Text stays text, and a machine without the first font takes its own.
    "svg.fonttype": "none",
    "font.family": "sans-serif",
    "font.sans-serif": ["DejaVu Sans", "Verdana", "Arial"],
    "font.size": 9,
    "axes.titlesize": 9.5,
    "axes.spines.top": False,
    "axes.spines.right": False,
    "axes.grid": True,
    "axes.axisbelow": True,
    "grid.color": "#DDDDDD",
    "grid.linewidth": 0.6,
    "legend.frameon": False,
    # What names the parts of the drawing is drawn by chance otherwise.
    "svg.hashsalt": "axon",
}


def draw(figure: Figure) -> str:
    """The figure as SVG; `ConfigurationError` without matplotlib."""
    # Without the date, two drawings of one value are the same bytes.
    return _drawn(figure, "svg", {"Date": None, "Creator": None}).decode()


def picture(figure: Figure) -> bytes:
    """The figure as PNG; `ConfigurationError` without matplotlib."""
    return _drawn(figure, "png", {"Software": None})


def _drawn(figure: Figure, form: str, metadata: Mapping[str, None]) -> bytes:
    columns = _columns(len(figure.panels))
    rows = math.ceil(len(figure.panels) / columns)
    width, height = PANEL_INCHES[columns]

    def paint(canvas: Any) -> None:
        places = _places(figure)
        for at, panel in enumerate(figure.panels):
            _draw_panel(canvas.add_subplot(rows, columns, at + 1), panel, places)
        draw_legend(canvas)

    return painted(figure.title, (width * columns, height * rows + 0.5), paint, form, metadata)


def painted(
    title: str,
    inches: tuple[float, float],
    paint: Callable[[Any], None],
    form: str,
    metadata: Mapping[str, None],
) -> bytes:
    """What `paint` puts on a canvas of so many inches under the title, in our style."""
    try:
        # Late, because it takes a second to import and not every installation has it.
        import matplotlib as mpl
        from matplotlib.figure import Figure as Canvas
    except ImportError as error:
        raise ConfigurationError(
            "drawing a figure needs matplotlib", hint="pip install 'axon-edge[figures]'"
        ) from error
    with mpl.rc_context():
        # What a person has set for their own figures would change ours.
        mpl.rcdefaults()
        mpl.rcParams.update(_SETTINGS)
        canvas = Canvas(figsize=inches, layout="constrained")
        canvas.suptitle(title, fontsize=11)
        paint(canvas)
        out = io.BytesIO()
        canvas.savefig(
            out, format=form, metadata=dict(metadata), dpi=DOTS if form == "png" else "figure"
        )
    return out.getvalue()


def _columns(panels: int) -> int:
    """At most three in a row, and four as a square."""
    if not panels:
        raise ConfigurationError("a figure needs at least 1 panel, got 0")
    return 2 if panels == 4 else min(panels, 3)


def _places(figure: Figure) -> dict[str, int]:
    """Each label's place among the colours, the same in all panels."""
    labels = dict.fromkeys(series.label for panel in figure.panels for series in panel.series)
    return {label: place for place, label in enumerate(labels)}


def _draw_panel(axes: Any, panel: Panel, places: Mapping[str, int]) -> None:
    axes.set_title(panel.title)
    axes.set_xlabel(panel.x_label)
    axes.set_ylabel(panel.y_label)
    if panel.heights is not None:
        axes.set_ylim(*panel.heights)
    if panel.logarithmic in ("y", "both"):
        axes.set_yscale("log")
    if panel.logarithmic in ("x", "both"):
        axes.set_xscale("log")
    elif all(isinstance(point.x, int) for series in panel.series for point in series.points):
        # Half a learner or half a shard is no place on an axis of counts.
        axes.xaxis.get_major_locator().set_params(integer=True)
    _draw_bars(axes, [series for series in panel.series if series.style == "bar"], places)
    others = [series for series in panel.series if series.style != "bar"]
    for at, series in enumerate(others):
        # Lines that lie on one another are all seen when each is thinner than the one below.
        _draw_series(axes, series, places[series.label], extra=1 - (at + 1) / len(others))


def _draw_series(axes: Any, series: Series, place: int, *, extra: float) -> None:
    colour, marker = COLOURS[place % len(COLOURS)], MARKERS[place % len(MARKERS)]
    across, up = [point.x for point in series.points], [point.y for point in series.points]
    if series.style == "dashed":
        axes.plot(across, up, color=colour, linestyle="--", linewidth=1.2, label=series.label)
        return
    sizes = {"markersize": 4 + 6 * extra, "linewidth": 1.2 + 4 * extra}
    joined = "-" if series.style == "line" else "none"
    axes.plot(
        across, up, color=colour, marker=marker, linestyle=joined, label=series.label, **sizes
    )
    if series.style == "scatter":
        _draw_whiskers(axes, across, series.points, colour)
        return
    lows = [point.y if point.low is None else point.low for point in series.points]
    highs = [point.y if point.high is None else point.high for point in series.points]
    if lows != up or highs != up:
        axes.fill_between(across, lows, highs, color=colour, alpha=0.18, linewidth=0)


def _draw_bars(axes: Any, bars: Sequence[Series], places: Mapping[str, int]) -> None:
    if not bars:
        return
    names = list(dict.fromkeys(point.x for series in bars for point in series.points))
    width = BAR_ROOM / len(bars)
    for at, series in enumerate(bars):
        shift = (at - (len(bars) - 1) / 2) * width
        across = [names.index(point.x) + shift for point in series.points]
        colour = COLOURS[places[series.label] % len(COLOURS)]
        heights = [point.y for point in series.points]
        axes.bar(across, heights, width=width * 0.92, color=colour, label=series.label)
        _draw_whiskers(axes, across, series.points, "#222222")
    axes.set_xticks(range(len(names)), [str(name) for name in names])
    axes.grid(visible=False, axis="x")


def _draw_whiskers(
    axes: Any, across: Sequence[float | str], points: Sequence[Point], colour: str
) -> None:
    for place, point in zip(across, points, strict=True):
        if point.low is not None and point.high is not None:
            down, above = max(0.0, point.y - point.low), max(0.0, point.high - point.y)
            axes.errorbar(
                [place], [point.y], yerr=[[down], [above]], color=colour, capsize=2.5, linewidth=1
            )


def draw_legend(canvas: Any) -> None:
    """One for all panels, beside the axes and never over them."""
    handles: dict[str, Any] = {}
    for axes in canvas.axes:
        for handle, label in zip(*axes.get_legend_handles_labels(), strict=True):
            handles.setdefault(label, handle)
    if len(handles) > 1:
        columns = len(handles) if len(handles) <= 4 else math.ceil(len(handles) / 2)
        canvas.legend(handles.values(), handles, loc="outside lower center", ncols=columns)
