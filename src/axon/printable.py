"""Texts that others wrote, without anything that a terminal obeys."""

from __future__ import annotations


def blanked(text: str) -> str:
    """As long as it was, with a blank for each character that is not printable."""
    return "".join(character if character.isprintable() else " " for character in text)


def printable(text: str, *, limit: int = 200) -> str:
    """On one line of at most `limit` characters; what is cut ends in an ellipsis."""
    joined = " ".join(blanked(text).split())
    return joined if len(joined) <= limit else f"{joined[: limit - 1].rstrip()}…"
