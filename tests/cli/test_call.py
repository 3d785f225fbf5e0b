"""`axon call`: what the words on the command line mean, and how a result is printed."""

from __future__ import annotations

import json
import math
from pathlib import Path

import numpy
import pytest
from hypothesis import given
from hypothesis import strategies as st
from typer.testing import CliRunner

from axon import client
from axon.cli.call import parse_arguments, parse_value, render_result
from axon.cli.main import app
from axon.errors import CannotTravel, ConfigurationError

json_values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(), inner, max_size=3),
    max_leaves=8,
)


@given(json_values)
def test_what_is_json_is_read_as_json_and_printed_back(value: object) -> None:
    text = json.dumps(value)
    assert parse_value(text) == value
    assert parse_arguments([text, f"name={text}"]) == ([value], {"name": value})
    assert json.loads(render_result(value, as_json=True)) == value


@pytest.mark.parametrize("text", ["hello", "", "NaN", "-Infinity", "[1, 2", "1 2", "pi.local"])
def test_what_is_not_json_is_text(text: str) -> None:
    assert parse_value(text) == text


def test_words_become_positional_and_keyword_arguments() -> None:
    positional, keywords = parse_arguments(
        ["2", "-5", "a b", '"x=1"', "scale=1.5", "label=red=green", "empty=", "1=2"]
    )
    assert positional == [2, -5, "a b", "x=1", "1=2"]
    assert keywords == {"scale": 1.5, "label": "red=green", "empty": ""}


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["--dedline", "3"], "no such option: --dedline"),
        (["x=1", "x=2"], "'x' is given twice"),
        (["key=1"], "'key' belongs to the client"),
        (["[" * 100_000], "of 100,000 characters is nested too deeply"),
    ],
)
def test_what_cannot_be_meant_is_refused(words: list[str], message: str) -> None:
    with pytest.raises(ConfigurationError, match=message):
        parse_arguments(words)


def test_arrays_are_printed_as_lists() -> None:
    result = {"sum": numpy.float32(0.5), "rows": numpy.arange(4).reshape(2, 2)}
    assert json.loads(render_result(result, as_json=True)) == {"sum": 0.5, "rows": [[0, 1], [2, 3]]}


@pytest.mark.parametrize("result", [b"bytes", math.nan, {1, 2}, {(1, 2): 3}])
def test_a_result_without_a_form_in_json_says_so(result: object) -> None:
    with pytest.raises(CannotTravel, match="no form in JSON"):
        render_result(result, as_json=True)
    assert render_result(result, as_json=False) == repr(result)


@pytest.mark.parametrize(
    ("options", "printed", "chosen"),
    [
        ([], "'\\x1b[1m5'\n", {"key": None, "tls": None}),
        (["--json"], '"\\u001b[1m5"\n', {"key": None, "tls": None}),
        (["--deadline", "1.5"], "'\\x1b[1m5'\n", {"key": None, "tls": None, "deadline_s": 1.5}),
        (["--key", "a.key"], "'\\x1b[1m5'\n", {"key": Path("a.key"), "tls": None}),
        (["--tls", "t"], "'\\x1b[1m5'\n", {"key": None, "tls": Path("t")}),
    ],
)
def test_the_command_hands_everything_to_the_client(
    options: list[str], printed: str, chosen: dict[str, object], monkeypatch: pytest.MonkeyPatch
) -> None:
    calls: list[tuple[object, ...]] = []

    def call(*arguments: object, **keywords: object) -> str:
        calls.append((arguments, keywords))
        return "\x1b[1m5"

    monkeypatch.setattr(client, "call", call)
    result = CliRunner().invoke(app, ["call", "pi/rpc/add", "2", "-5", "by=3", *options])
    assert (result.exit_code, result.stdout) == (0, printed)
    assert calls == [(("pi/rpc/add", 2, -5), {"by": 3, **chosen})]
