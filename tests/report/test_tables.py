"""Tables: what a cell looks like, and that columns stand straight."""

from __future__ import annotations

import math
from html.parser import HTMLParser

import pytest

from axon.intervals import Interval
from axon.report.tables import Cell, aligned, headings, html_table, shown, text_table

ROWS: list[dict[str, Cell]] = [
    {"scheme": "exact", "K": 2, "error": Interval(12.34, 11.94, 12.74)},
    {"scheme": "<ETA>", "K": 20, "error": None, "note": "infeasible"},
]


@pytest.mark.parametrize(
    ("cell", "text"),
    [
        ("as it is", "as it is"),
        (None, "-"),
        (True, "yes"),
        (60_000, "60,000"),
        (0.0, "0"),
        (7.5, "7.5"),
        (0.012345, "0.01235"),
        (1234.56, "1,235"),
        (100.0, "100"),
        (99_999.9, "100,000"),
        (-3.25, "-3.25"),
        (1.5e-7, "1.500e-07"),
        (2.5e9, "2.500e+09"),
        (math.nan, "-"),
        (math.inf, "-"),
        (Interval(12.34, 11.94, 12.74), "12.34 ± 0.40"),
        (Interval(1234.5, 1200.0, 1269.0), "1,234 ± 34"),
        (Interval(0.51234, 0.51134, 0.51334), "0.5123 ± 0.0010"),
        (Interval(2.0, 2.0, 2.0), "2"),
        (Interval(2.5, 2.5 - 1e-15, 2.5 + 1e-15), "2.5"),
        (Interval(0.0, -0.25, 0.25), "0.00 ± 0.25"),
        (Interval(2.0, -math.inf, math.inf), "2"),
        (Interval(1e-9, 0.9e-9, 1.1e-9), "1.000e-09 ± 1.0e-10"),
    ],
)
def test_a_cell_has_the_digits_that_tell_something(cell: Cell, text: str) -> None:
    assert shown(cell) == text


def test_numbers_end_and_words_begin_under_one_another() -> None:
    assert text_table(ROWS).splitlines() == [
        "scheme   K         error  note",
        "exact    2  12.34 ± 0.40  -",
        "<ETA>   20             -  infeasible",
    ]


def test_headings_are_in_the_order_of_their_first_row() -> None:
    assert headings(ROWS) == ["scheme", "K", "error", "note"]
    assert headings([]) == []


def test_rows_of_text_are_lines() -> None:
    assert aligned([("a", "bb"), ("ccc", "d")]) == "a    bb\nccc  d"
    assert aligned([("a", "bb"), ("ccc", "d")], right=[0, 1]) == "  a  bb\nccc   d"


def test_html_says_the_same_and_obeys_nothing_in_it() -> None:
    cells: list[str] = []

    class Reader(HTMLParser):
        def handle_data(self, data: str) -> None:
            cells.extend([data] if data.strip() else [])

    table = html_table(ROWS)
    Reader().feed(table)
    assert cells[:4] == headings(ROWS)
    assert cells[4:8] == ["exact", "2", "12.34 ± 0.40", "-"]
    assert "&lt;ETA&gt;" in table
    assert table.count('class="number"') == 2 * 3
