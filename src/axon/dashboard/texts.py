"""Texts that others wrote, made fit to be shown: what nobody sees, or what turns others round, is
made visible, and what runs from right to left keeps to its own place.
"""

from __future__ import annotations

import unicodedata
from typing import Any

_UNSEEN = {"Cc", "Cf", "Cs", "Zl", "Zp"}
"""Controls, formats (those of direction among them), halves of letters, ends of lines."""
_FIRST_STRONG, _POP = "\u2068", "\u2069"


def visible(text: str) -> str:
    """The same, with a picture or the number of every character that has no look of its own."""
    if text.isascii() and text.isprintable():
        return text
    return "".join(_seen(letter) for letter in text)


def isolated(text: str) -> str:
    """The same for the middle of a line, whose order it cannot change."""
    shown = visible(text)
    return shown if shown.isascii() else f"{_FIRST_STRONG}{shown}{_POP}"


def all_visible(value: Any) -> Any:
    """Plain values with every text in them made visible, names of fields too."""
    if isinstance(value, str):
        return visible(value)
    if isinstance(value, dict):
        return {all_visible(key): all_visible(item) for key, item in value.items()}
    if isinstance(value, (list, tuple)):
        return [all_visible(item) for item in value]
    return value


def _seen(letter: str) -> str:
    code = ord(letter)
    if code < 0x20:
        return chr(0x2400 + code)
    if unicodedata.category(letter) in _UNSEEN:
        return f"⟨U+{code:04X}⟩"
    return letter
