"""What others wrote, made fit to be shown."""

from __future__ import annotations

import pytest

from axon.dashboard.texts import all_visible, isolated, visible


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("pi-1", "pi-1"),
        ("pi\u202e1-", "pi⟨U+202E⟩1-"),
        ("\u2066a\u2069", "⟨U+2066⟩a⟨U+2069⟩"),
        ("a\u200bb\ufeff", "a⟨U+200B⟩b⟨U+FEFF⟩"),
        ("\x1b[31m\n", "␛[31m␊"),
        ("\x7f\x9b", "⟨U+007F⟩⟨U+009B⟩"),
        ("\u2028", "⟨U+2028⟩"),
        ("\ud800", "⟨U+D800⟩"),
        ("שמש é 日本", "שמש é 日本"),
    ],
)
def test_nothing_stays_unseen(text: str, shown: str) -> None:
    assert visible(text) == shown
    assert visible(shown) == shown


def test_what_runs_the_other_way_keeps_to_its_place() -> None:
    assert isolated("pi-1") == "pi-1"
    assert isolated("שמש") == "\u2068שמש\u2069"


def test_texts_within_values() -> None:
    told = {"a\n": ["\u202e", 1, None, ("\t",)]}
    assert all_visible(told) == {"a␊": ["⟨U+202E⟩", 1, None, ["␉"]]}
