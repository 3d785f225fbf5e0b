"""Nothing that people are told to type escapes the tests: it is typed, or excused in one place."""

from __future__ import annotations

import ast
import pkgutil
import re
import shlex
from collections.abc import Mapping
from contextlib import suppress
from functools import cache
from pathlib import Path
from typing import Any

import pytest
import typer
import typer.main
from typer.core import TyperGroup

from axon.cli.main import app, fill_dashboard
from tests.docs import ledger
from tests.docs.found import (
    NO_TEST,
    ROOT,
    Block,
    blocks,
    command_of,
    commands,
    every_command,
    pages,
)

EXCUSED = ledger.ELSEWHERE | ledger.NOWHERE


@cache
def command_line() -> TyperGroup:
    group = typer.main.get_command(app)
    assert isinstance(group, TyperGroup)
    return group


@cache
def functions(file: str) -> Mapping[str, ast.AST]:
    tree = ast.parse((ROOT / file).read_text())
    kinds = (ast.FunctionDef, ast.AsyncFunctionDef)
    return {node.name: node for node in ast.walk(tree) if isinstance(node, kinds)}


def texts_in(test: str) -> list[str]:
    """What may be the words of one command in a test: all its texts together, and each command in
    the blocks of a page that it types.
    """
    file, _, name = test.partition("::")
    inner = ast.walk(functions(file)[name])
    own = [node.value for node in inner if isinstance(node, ast.Constant)]
    typed = [page for page, guide in ledger.GUIDES.items() if guide == test]
    told = [each.text for page in typed for each in commands(page) if each.place == "block"]
    return [" ".join(text for text in own if isinstance(text, str)), *told]


def words_of(command: str) -> list[str]:
    """What of a command cannot be other in a test: subcommands, options, and names of variables."""
    program, *rest = command.replace("[", "").replace("]", "").split()
    if program == "export":
        return [word.partition("=")[0] for word in rest]
    if program == "python":
        # Tests join the parts of a path as they like.
        rest = [*Path(rest[0]).parts[-2:], *rest[1:]]
    options = [word for word in rest if word.startswith("--")]
    if program == "axon":
        group = command_line().commands[rest[0]]
        return [*rest[: 2 if isinstance(group, TyperGroup) else 1], *options]
    return [program, *options] if program != "python" else [*rest[:2], *options]


def is_typed(command: str, test: str) -> bool:
    """Whether the test has the words of the command; `--host` may be part of no longer word."""
    words = [rf"(?<![\w-]){re.escape(word)}(?![\w-])" for word in words_of(command)]
    return any(all(re.search(word, text) for word in words) for text in texts_in(test))


def parse(words: list[str]) -> None:
    """Let the command line read the words, and do nothing; it raises if it cannot."""
    inner: Any = command_line()
    words = fill_dashboard(words)
    while isinstance(inner, TyperGroup) and words:
        name, *words = words
        inner = inner.commands[name]
    inner.make_context(inner.name, words)


def test_no_excuse_outlives_its_command() -> None:
    told = {command.text for command in every_command()}
    assert sorted((EXCUSED.keys() | ledger.SHORTER.keys()) - told) == []
    assert not ledger.ELSEWHERE.keys() & ledger.NOWHERE.keys()


def test_tests_that_are_named_exist() -> None:
    named = [*ledger.GUIDES.values(), *ledger.ELSEWHERE.values(), *ledger.CODE_ELSEWHERE.values()]
    for each in named:
        file, _, function = each.partition("::")
        assert function in functions(file), each


def test_tests_that_are_said_to_type_a_command_have_its_words() -> None:
    untyped = [command for command, test in ledger.TYPED.items() if not is_typed(command, test)]
    assert untyped == []
    typed = [command for command, each in ledger.CALLED.items() if is_typed(command, each.test)]
    assert typed == [], "what is typed needs no reason for not being typed"
    assert not ledger.TYPED.keys() & ledger.CALLED.keys()


def test_words_that_stand_apart_or_in_others_do_not_count() -> None:
    assert words_of("axon keys new my-keys --host pi.local") == ["keys", "new", "--host"]
    assert words_of("python examples/med/main.py [--cycles N]") == ["med", "main.py", "--cycles"]
    liar = ledger.TYPED["axon worker --attack reversed"]
    assert is_typed("axon worker --attack reversed", liar)
    assert not is_typed("axon worker --att reversed", liar)
    assert not is_typed("axon standby runs.sqlite", liar)


@pytest.mark.slow
def test_every_command_of_axon_is_one_that_it_understands() -> None:
    for command in every_command():
        first, *words = shlex.split(command.text)
        if first != "axon" or ledger.NOWHERE.get(command.text) == ledger._BYTES:
            continue
        if len(words) == 1:
            assert words[0] in command_line().commands, str(command)
            continue
        try:
            with suppress(typer.Exit):  # From options that ask, such as --list.
                parse(words)
        except Exception as error:
            error.add_note(str(command))
            raise


def test_every_option_in_the_prose_exists() -> None:
    known = {
        option
        for command in walk(command_line())
        for parameter in command.params
        for option in (*parameter.opts, *parameter.secondary_opts)
    }
    for file in [*ROOT.glob("benchmarks/*.py"), *ROOT.glob("examples/*/*.py")]:
        known.update(re.findall(r'"(--[a-z-]+)"', file.read_text()))
    for page in pages():
        text = re.sub(r"```.*?```", "", (ROOT / page).read_text(), flags=re.DOTALL)
        for code in re.findall(r"`(--[^`]*)`", text):
            option = re.split(r"[ =]", code)[0]
            assert option in known, f"{page}: no command has {option}"


@pytest.mark.slow
def test_every_name_of_the_package_exists() -> None:
    for page in pages():
        for name in sorted(set(re.findall(r"\baxon(?:\.[A-Za-z_]\w*)+", inline_of(page)))):
            assert resolves(name), f"{page}: there is no {name}"


def inline_of(page: str) -> str:
    """What stands between backticks or in Python on a page."""
    text = (ROOT / page).read_text()
    prose = re.sub(r"```.*?```", "", text, flags=re.DOTALL)
    codes = [block.text for block in blocks(page) if block.language == "python"]
    return "\n".join([*re.findall(r"`([^`]+)`", prose), *codes])


def resolves(name: str) -> bool:
    if name.endswith((".key", ".cli")):
        return True  # A file of that name, and the module behind `python -m`.
    try:
        pkgutil.resolve_name(name)
    except (ImportError, AttributeError):
        return False
    return True


def test_every_file_that_is_named_exists() -> None:
    for page in pages():
        text = (ROOT / page).read_text()
        for path in re.findall(r"`((?:src|tests|benchmarks|examples|docs)/[\w./-]+)`", text):
            assert (ROOT / path).exists(), f"{page}: there is no {path}"


def test_every_example_has_a_test() -> None:
    tests = "".join(file.read_text() for file in ROOT.glob("tests/**/test_*.py"))
    typed = {each.page for each in every_command() if each.text not in EXCUSED}
    for main in sorted(ROOT.glob("examples/*/main.py")):
        path = str(main.relative_to(ROOT))
        said = path in tests or f'"{main.parent.name}" / "main.py"' in tests
        assert said or path in typed, f"no test runs {path}"


def walk(command: Any) -> list[Any]:
    inner = command.commands.values() if isinstance(command, TyperGroup) else ()
    return [command, *(each for one in inner for each in walk(one))]


@pytest.mark.parametrize("page", pages())
def test_what_nobody_has_run_says_so(page: str) -> None:
    for block in blocks(page):
        reasons = [ledger.NOWHERE.get(command_of(line)) for line in block.text.splitlines()]
        if NO_TEST in block.title:
            assert all(reasons), f"{page}:{block.line}: not everything in it is excused"
        elif block.language in {"", "sh"}:
            unsaid = [reason for reason in reasons if reason in ledger.MUST_SAY_SO]
            assert not unsaid, f'{page}:{block.line}: its title must say "{NO_TEST}"'


def test_languages_are_those_that_tests_know() -> None:
    known = {"", "sh", "text", "python", "toml", "ini"}
    unknown: list[Block] = [
        block for page in pages() for block in blocks(page) if block.language not in known
    ]
    assert unknown == []
