"""Tables for a person: aligned lines for a terminal, a pipe or a file, and HTML for a page.

Numbers have as many digits as tell something: `12.3 ± 0.4` where an interval is known, four
figures otherwise.
"""

from __future__ import annotations

import html
import math
from collections.abc import Mapping, Sequence
from typing import TypeAlias

from axon.intervals import Interval

Cell: TypeAlias = str | int | float | Interval | None
"""None is a number that is not there."""

MISSING = "-"


def aligned(rows: Sequence[Sequence[str]], right: Sequence[int] = ()) -> str:
    """Rows of cells as lines, the cells of a column under one another.

    The columns numbered in `right` end under one another, the others begin so.
    """
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    return "\n".join(
        "  ".join(
            cell.rjust(width) if column in right else cell.ljust(width)
            for column, (cell, width) in enumerate(zip(row, widths, strict=True))
        ).rstrip()
        for row in rows
    )


def text_table(rows: Sequence[Mapping[str, Cell]]) -> str:
    """Rows under their headings; a key that a row lacks is a missing number."""
    keys = headings(rows)
    lines = [keys, *([shown(row.get(key)) for key in keys] for row in rows)]
    return aligned(lines, right=[at for at, key in enumerate(keys) if _numeric(rows, key)])


def html_table(rows: Sequence[Mapping[str, Cell]]) -> str:
    """The same as a `<table>`, without any style but the class `number`."""
    keys = headings(rows)
    marks = {key: ' class="number"' if _numeric(rows, key) else "" for key in keys}
    head = "".join(f"<th{marks[key]}>{html.escape(key)}</th>" for key in keys)
    body = "\n".join(
        "<tr>"
        + "".join(f"<td{marks[key]}>{html.escape(shown(row.get(key)))}</td>" for key in keys)
        + "</tr>"
        for row in rows
    )
    return f"<table>\n<thead><tr>{head}</tr></thead>\n<tbody>\n{body}\n</tbody>\n</table>"


def headings(rows: Sequence[Mapping[str, Cell]]) -> list[str]:
    """Every key of the rows, in the order in which they first stand."""
    return list(dict.fromkeys(key for row in rows for key in row))


def shown(cell: Cell) -> str:
    """One cell as text."""
    if cell is None:
        return MISSING
    if isinstance(cell, bool):
        return "yes" if cell else "no"
    if isinstance(cell, Interval):
        return _with_margin(cell)
    if isinstance(cell, float):
        return _number(cell)
    return f"{cell:,}" if isinstance(cell, int) else cell


def _number(value: float) -> str:
    if not math.isfinite(value):
        return MISSING
    if value == 0 or 1e-3 <= abs(value) < 1e6:
        # Four figures, but all of them before the point.
        places = 3 - math.floor(math.log10(abs(value))) if value else 0
        whole = f"{value:,.{max(0, places)}f}"
        return whole.rstrip("0").rstrip(".") if "." in whole else whole
    return f"{value:.3e}"


def _with_margin(found: Interval) -> str:
    """The margin with two figures, the value with as many places; no margin where there is none."""
    # Equal numbers may differ in the last bits of their mean.
    if not math.isfinite(found.half) or found.half <= 1e-12 * abs(found.value):
        return _number(found.value)
    places = 1 - math.floor(math.log10(found.half))
    if places > 6:
        return f"{found.value:.3e} ± {found.half:.1e}"
    places = max(0, places)
    return f"{found.value:,.{places}f} ± {found.half:,.{places}f}"


def _numeric(rows: Sequence[Mapping[str, Cell]], key: str) -> bool:
    """Whether a column holds numbers, as far as it holds anything."""
    cells = [row[key] for row in rows if row.get(key) is not None]
    return bool(cells) and not any(isinstance(cell, (str, bool)) for cell in cells)
