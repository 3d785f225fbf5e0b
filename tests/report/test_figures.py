"""Figures: the same bytes for the same value, everything in them, and the error without a tool."""

from __future__ import annotations

import sys
from xml.etree import ElementTree

import pytest

from axon.errors import ConfigurationError
from axon.report.figures import COLOURS, Figure, Panel, Point, Series, draw

pytest.importorskip("matplotlib")


def line(label: str, *heights: float) -> Series:
    return Series(label, tuple(Point(at, y, y - 1, y + 1) for at, y in enumerate(heights)))


LINES = Panel("left <panel>", "learners K", "staleness", (line("exact", 1, 2), line("ETA", 2, 4)))
BARS = Panel(
    "right panel",
    "device",
    "error [%]",
    (
        Series("ETA", (Point("pi-1", 3.0, 2.0, 4.0), Point("nano", 5.0)), "bar"),
        Series("new", (Point("pi-1", 30.0), Point("nano", 2.0)), "bar"),
    ),
)
POINTS = Panel(
    "",
    "predicted",
    "measured",
    (
        Series("runs", (Point(1.0, 1.2, 1.0, 1.5), Point(10.0, 9.0)), "scatter"),
        Series("perfect", (Point(1.0, 1.0), Point(10.0, 10.0)), "dashed"),
    ),
    logarithmic="both",
)


@pytest.fixture(scope="module")
def drawing() -> str:
    return draw(Figure("Both & more", (LINES, BARS)))


def words(svg: str) -> list[str]:
    root = ElementTree.fromstring(svg)
    return ["".join(each.itertext()) for each in root.iter("{http://www.w3.org/2000/svg}text")]


def test_the_same_value_is_the_same_bytes(drawing: str) -> None:
    assert draw(Figure("Both & more", (LINES, BARS))) == drawing
    assert draw(Figure("Both & less", (LINES, BARS))) != drawing


def test_everything_that_has_a_name_is_text_in_it(drawing: str) -> None:
    found = words(drawing)
    for text in ("Both & more", "left <panel>", "learners K", "error [%]", "pi-1", "nano"):
        assert found.count(text) == 1, text
    assert [word for word in found if word in ("exact", "ETA", "new")] == ["exact", "ETA", "new"]
    assert "sans-serif" in drawing
    assert "<dc:date>" not in drawing


def test_a_label_keeps_its_colour_in_every_panel(drawing: str) -> None:
    alone = draw(Figure("", (Panel("", "", "", (line("ETA", 2, 4),)),)))
    # First by itself; second beside `exact`, in the lines as in the bars.
    assert COLOURS[0].lower() in alone
    assert COLOURS[1].lower() not in alone
    assert f"fill: {COLOURS[1].lower()}" in drawing
    assert f"stroke: {COLOURS[1].lower()}" in drawing


def test_points_dashes_and_scales_by_powers() -> None:
    svg = draw(Figure("", (POINTS,)))
    assert "stroke-dasharray" in svg
    assert {"runs", "perfect"} <= set(words(svg))


def test_counts_may_stand_on_a_scale_by_powers() -> None:
    counts = Series("runs", (Point(1, 2.0), Point(100, 3.0)))
    drawn = draw(Figure("counts", (Panel("", "parameters", "seconds", (counts,), "x"),)))
    assert "parameters" in drawn


def test_a_band_shows_the_interval_only_where_there_is_one() -> None:
    sure = Series("exact", tuple(Point(at, 1.0) for at in range(3)))
    known, unknown = (
        draw(Figure("", (Panel("", "", "", (series,)),))) for series in (line("exact", 1, 1), sure)
    )
    assert "FillBetween" in known
    assert "FillBetween" not in unknown


def test_a_figure_without_panels_is_refused() -> None:
    with pytest.raises(ConfigurationError, match="at least 1 panel, got 0"):
        draw(Figure("empty", ()))


def test_without_matplotlib_it_says_what_to_install(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "matplotlib", None)
    with pytest.raises(ConfigurationError, match=r"pip install 'axon-edge\[figures\]'"):
        draw(Figure("", (LINES,)))
