"""Everything that pages and examples tell people to type, wherever it stands."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Literal, TypeAlias

ROOT = Path(__file__).parents[2]

# fmt: off
PROGRAMS = {
    "axon", "make", "pip", "python", "python3", "curl", "export", ".", "cd", "bash", "git", "uv",
    "mkdocs", "pytest", "ruff", "mypy", "docker", "podman",
    "sudo", "ssh", "scp", "apt", "ufw", "systemctl", "journalctl",
    "nvpmodel", "jetson_clocks", "vcgencmd",
}
# fmt: on
"""What a command begins with. A block is one of commands when one of its lines begins so."""

Place: TypeAlias = Literal["block", "indented", "inline", "docstring"]
NO_TEST = "no test types this"
"""What the title of a block says when nothing in it is run."""


@dataclass(frozen=True)
class Command:
    """One command, without its comment, and where it stands."""

    text: str
    page: str
    line: int
    place: Place
    title: str = ""

    def __str__(self) -> str:
        return f"{self.page}:{self.line}: {self.text}"


@dataclass(frozen=True)
class Block:
    """A fenced block of a page."""

    page: str
    line: int
    language: str
    title: str
    text: str


def pages() -> list[str]:
    """The pages of people, in a fixed order."""
    found = [ROOT / "README.md", ROOT / "CONTRIBUTING.md"]
    found += [*sorted((ROOT / "docs").rglob("*.md")), *sorted((ROOT / "examples").rglob("*.md"))]
    return [str(page.relative_to(ROOT)) for page in found]


@cache
def lines_of(page: str) -> tuple[tuple[int, str, Block | None], ...]:
    """The lines of a page with their numbers, and for the first line of a block the block."""
    text = (ROOT / page).read_text().splitlines()
    found: list[tuple[int, str, Block | None]] = []
    fence: tuple[int, str] | None = None
    inner: list[str] = []
    for number, line in enumerate(text, start=1):
        if fence is None and line.lstrip().startswith("```"):
            fence, inner = (number, line.strip()[3:]), []
        elif fence is not None and line.strip() == "```":
            language, _, title = fence[1].partition(" ")
            block = Block(page, fence[0], language, title, "\n".join(inner))
            found.append((fence[0], "", block))
            fence = None
        elif fence is not None:
            inner.append(line)
        else:
            found.append((number, line, None))
    assert fence is None, f"{page}:{fence}: a block that does not end"
    return tuple(found)


def blocks(page: str) -> list[Block]:
    """The fenced blocks of a page."""
    return [block for _, _, block in lines_of(page) if block is not None]


def commands(page: str) -> Iterator[Command]:
    """All commands of a page: in blocks, indented, between backticks, in tables too."""
    for number, line, block in lines_of(page):
        if block is not None:
            yield from _in_block(block)
        elif line.startswith("    ") and (text := command_of(line)):
            yield Command(text, page, number, "indented")
        else:
            for code in re.findall(r"`([^`]+)`", line):
                if text := command_of(code):
                    yield Command(text, page, number, "inline")


def _in_block(block: Block) -> Iterator[Command]:
    if block.language not in {"", "sh", "bash", "console"}:
        return
    lines = block.text.splitlines()
    if not any(command_of(line) for line in lines):
        return
    for number, line in enumerate(lines, start=block.line + 1):
        text = command_of(line)
        assert text or not line.strip() or line.startswith("#"), (
            f"{block.page}:{number}: {line!r} stands among commands and begins with no known "
            "program: add it to PROGRAMS, or label the block `text`"
        )
        if text:
            yield Command(text, block.page, number, "block", block.title)


def command_of(line: str) -> str:
    """The command that a line is, without its comment; empty where it is none."""
    words = re.sub(r"\s+#.*", "", line).split()
    known = len(words) > 1 and (words[0] in PROGRAMS or Path(words[0]).name in PROGRAMS)
    return " ".join(words) if known else ""


def docstring_commands() -> Iterator[Command]:
    """The commands in what the programs under examples say of themselves."""
    for file in sorted((ROOT / "examples").rglob("*.py")):
        told = re.match(r'"""(.*?)"""', file.read_text(), re.DOTALL)
        for number, line in enumerate(told[1].splitlines() if told else (), start=1):
            if text := command_of(line):
                yield Command(text, str(file.relative_to(ROOT)), number, "docstring")


@cache
def every_command() -> tuple[Command, ...]:
    """All commands of all pages and examples."""
    return (*(each for page in pages() for each in commands(page)), *docstring_commands())
