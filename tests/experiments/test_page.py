"""The page: well formed, in need of nothing else, and without anything lost or obeyed."""

from __future__ import annotations

from collections import Counter
from html.parser import HTMLParser

import pytest

from axon.experiments.page import Section, page
from axon.experiments.settings import Settings
from tests.experiments import scenes

EMPTY = {"meta", "img", "br"}
DRAWING = '<svg xmlns="http://www.w3.org/2000/svg"/>'


class Reader(HTMLParser):
    """Collects text, attributes and identifiers, and insists that elements close in order."""

    def __init__(self) -> None:
        super().__init__()
        self.open: list[str] = []
        self.words: list[str] = []
        self.links: list[str] = []
        self.names: Counter[str] = Counter()

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        if tag not in EMPTY:
            self.open.append(tag)
        given = dict(attrs)
        self.links += [given[key] or "" for key in ("src", "href") if key in given]
        self.names.update(given[key] or "" for key in ("id",) if key in given)

    def handle_endtag(self, tag: str) -> None:
        assert self.open.pop() == tag

    def handle_data(self, data: str) -> None:
        self.words += [data] if data.strip() else []


@pytest.fixture
def reader(monkeypatch: pytest.MonkeyPatch) -> Reader:
    names = ("tiny", "other")
    scenes.install(monkeypatch, lambda settings: scenes.result(), *names)
    sections = [Section(scenes.result("tiny"), DRAWING), Section(scenes.result("other"), None)]
    found = Reader()
    found.feed(page(sections, Settings(seed=4)))
    return found


def test_it_is_well_formed_and_no_name_stands_twice(reader: Reader) -> None:
    assert reader.open == []
    assert reader.names == Counter(["tiny", "other"])


def test_it_needs_nothing_from_elsewhere(reader: Reader) -> None:
    assert {link.partition(",")[0] for link in reader.links} == {
        "#tiny",
        "#other",
        "data:image/svg+xml;base64",
    }
    assert not [word for word in reader.words if "url(" in word or "@import" in word]


def test_claims_verdicts_and_reasons_are_in_it(reader: Reader) -> None:
    text = " ".join(reader.words)
    for part in ("it is 2 & more", "it is <small>", "it grew", "2.5 s (2.25 to 2.75)"):
        assert text.count(part) == 2, part
    assert reader.words.count("holds") == reader.words.count("does not hold") == 2
    assert "2 of 4 claims hold" in text
    assert "axon reproduce tiny --seed 4 --repeats 3" in text
    assert "A paper, Fig. 1" in text
    assert "Assumed: nothing." in text


def test_it_is_readable_in_the_dark(reader: Reader) -> None:
    assert any("prefers-color-scheme: dark" in word for word in reader.words)
