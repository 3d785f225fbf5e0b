"""Values as a notebook shows them: small tables in HTML, in which every text is escaped.

A device, a run and a reason are named by others, and a page that shows them must not obey them.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import fields, is_dataclass
from html import escape
from types import FunctionType
from typing import Any

MOST_ROWS = 50
MOST_LETTERS = 200


class Shown:
    """A dataclass that a notebook shows as a table of its fields."""

    __slots__ = ()

    def _repr_html_(self) -> str:
        return table([("", type(self).__name__), *pairs(self)])


def pairs(value: Shown) -> list[tuple[str, object]]:
    """The fields of a value by name."""
    assert is_dataclass(value), f"{type(value).__name__} has no fields to show"
    return [(each.name, getattr(value, each.name)) for each in fields(value)]


def table(rows: Iterable[Sequence[object]]) -> str:
    """Rows of cells, the first of them headings; those beyond `MOST_ROWS` are counted."""
    heading, *body = rows
    lines = [_line(heading, "th"), *(_line(row, "td") for row in body[:MOST_ROWS])]
    if len(body) > MOST_ROWS:
        lines.append(_line([f"and {len(body) - MOST_ROWS} more"], "td"))
    return f"<table>{''.join(lines)}</table>"


def parts_table(named: Mapping[Any, Shown]) -> str:
    """Values of one kind under one another, each behind its name."""
    parts = {name: pairs(each) for name, each in named.items()}
    heading = ["", *(field for field, _ in next(iter(parts.values()), ()))]
    return table([heading, *([name, *(cell for _, cell in each)] for name, each in parts.items())])


def _line(cells: Sequence[object], tag: str) -> str:
    return "<tr>" + "".join(f"<{tag}>{_cell(cell)}</{tag}>" for cell in cells) + "</tr>"


def _cell(value: object) -> str:
    """A cell: what has parts as a table within it, everything else as escaped text."""
    if isinstance(value, Shown):
        return table([("", ""), *pairs(value)])
    named = dict(enumerate(value, start=1)) if isinstance(value, tuple) else value
    if isinstance(named, Mapping) and named and all(isinstance(n, Shown) for n in named.values()):
        return parts_table(named)
    return escape(_text(value))


def _text(value: object) -> str:
    if value is None:
        return ""
    if isinstance(value, float):
        return f"{value:.4g}"
    if isinstance(value, FunctionType):
        return value.__qualname__
    text = value if isinstance(value, str) else repr(value)
    return text if len(text) <= MOST_LETTERS else f"{text[:MOST_LETTERS]}…"
