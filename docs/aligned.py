"""Docstrings of packages list their modules in columns, which Markdown would run together."""

from __future__ import annotations

import re
from typing import Any

from griffe import Extension, Module

_ROW = re.compile(r"^(\S.*? {2,}\S| {4,}\S)")
_FIRST = re.compile(r"^\w[\w, ]*? {2,}\S")


class Aligned(Extension):
    """Makes code of every paragraph of a module's docstring that stands in columns."""

    def on_module(self, *, mod: Module, **_: Any) -> None:
        if mod.docstring is not None:
            paragraphs = mod.docstring.value.split("\n\n")
            mod.docstring.value = "\n\n".join(map(_as_code, paragraphs))


def _as_code(paragraph: str) -> str:
    lines = paragraph.splitlines()
    if not lines or not _FIRST.match(lines[0]) or not all(map(_ROW.match, lines)):
        return paragraph
    return "\n".join(f"    {line}" for line in lines)
