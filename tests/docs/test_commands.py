"""What pages tell people to type and no other test does, typed as it stands."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from tests.docs import ledger
from tests.docs.found import ROOT, Block, Command, blocks, every_command, pages
from tests.pages import played, typed

pytestmark = [pytest.mark.system, pytest.mark.timeout(180)]


def left() -> dict[str, list[str]]:
    """By page, the commands that nobody else types, each once and in order."""
    guided = {each.text for each in every_command() if is_guided(each)}
    done = guided | ledger.ELSEWHERE.keys() | ledger.NOWHERE.keys()
    found: dict[str, list[str]] = {}
    for command in every_command():
        if command.text not in done and not is_name(command):
            found.setdefault(command.page, []).append(command.text)
            done.add(command.text)
    return found


def is_guided(command: Command) -> bool:
    return command.place == "block" and command.page in ledger.GUIDES


def is_name(command: Command) -> bool:
    """Whether the prose means the command as such: `axon submit`, without anything to do."""
    return command.place == "inline" and len(command.text.split()) == 2


def codes(page: str) -> list[Block]:
    """The Python of a page that nobody else runs."""
    excused = [text for name, text in ledger.CODE_ELSEWHERE if name == page]
    here = [block for block in blocks(page) if block.language == "python"]
    return [block for block in here if not any(text in block.text for text in excused)]


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    for name in ("examples", "docs", "mkdocs.yml"):
        (tmp_path / name).symlink_to(ROOT / name)
    return tmp_path


@pytest.mark.parametrize("page", left())
def test_commands_of_a_page(page: str, folder: Path) -> None:
    for text in left()[page]:
        # What stands in brackets may be left out.
        here = ledger.SHORTER.get(text, re.sub(r" \[[^]]*\]", "", text))
        program, _, words = here.partition(" ")
        if program == "python" and words.startswith("examples/"):
            played(as_program(words.split()), ROOT)
            continue
        assert program == "axon", (
            f"{page}: {text!r} needs a test, or an excuse in tests/docs/ledger.py"
        )
        typed(words, folder)


def as_program(words: list[str]) -> str:
    """Code that runs the file of an example as `python` does."""
    path = str(Path(words[0]).parent)
    return (
        f"import runpy, sys\nsys.argv = {words!r}\nsys.path.insert(0, {path!r})\n"
        f"runpy.run_path({words[0]!r}, run_name='__main__')"
    )


@pytest.mark.parametrize("page", [page for page in pages() if codes(page)])
def test_code_of_a_page(page: str, folder: Path) -> None:
    assert played("\n".join(block.text for block in codes(page)), folder)


def test_no_excuse_outlives_its_code() -> None:
    for page, text in ledger.CODE_ELSEWHERE:
        here = [block for block in blocks(page) if block.language == "python"]
        assert any(text in block.text for block in here), f"{page}: no code with {text!r}"
