"""`axon devices`: what it makes of a list of workers; finding them is tested elsewhere."""

from __future__ import annotations

import io
import json
from collections.abc import Sequence

import pytest
from hypothesis import given
from hypothesis import strategies as st
from rich.console import Console
from typer.testing import CliRunner

from axon import client
from axon.cli.devices import render_devices, render_json, table_of
from axon.cli.main import app
from axon.learning.service import SERVICE
from axon.rpc.address import Address
from axon.rpc.discovery.mdns import Announcement


def announcement(
    name: str, host: str = "10.0.0.1", functions: Sequence[str] = ("rpc/add", "rpc/echo")
) -> Announcement:
    return Announcement(
        name=name, address=Address(host), functions=tuple(functions), version="0.1.0", scheme="http"
    )


FOUND = (announcement("nano", "10.0.0.12"), announcement("a long name", functions=()))


def test_lines_are_aligned_under_their_headings() -> None:
    assert render_devices(FOUND) == (
        "NAME         ADDRESS                VERSION  LEARNS  FUNCTIONS\n"
        "nano         http://10.0.0.12:8000  0.1.0    no      rpc/add, rpc/echo\n"
        "a long name  http://10.0.0.1:8000   0.1.0    no"
    )


@given(st.lists(st.text(max_size=70), max_size=5))
def test_there_is_a_line_for_each_worker_whatever_its_name(names: list[str]) -> None:
    lines = render_devices([announcement(name) for name in names]).split("\n")
    assert len(lines) == 1 + len(names)
    assert len({line.index("http://") for line in lines[1:]}) <= 1


def test_json_has_the_same_on_one_line() -> None:
    text = render_json(FOUND)
    assert "\n" not in text
    assert json.loads(text)[0] == {
        "name": "nano",
        "address": "http://10.0.0.12:8000",
        "version": "0.1.0",
        "learns": False,
        "functions": ["rpc/add", "rpc/echo"],
    }
    assert render_json(()) == "[]"


def test_a_worker_that_can_be_trained_on_is_marked() -> None:
    found = announcement("pi", functions=(f"{SERVICE}/describe", f"{SERVICE}/train"))
    assert render_devices([found]).splitlines()[1].split()[3] == "yes"
    assert json.loads(render_json([found]))[0]["learns"] is True


def test_the_table_shows_markup_in_a_name_as_text() -> None:
    screen = io.StringIO()
    Console(file=screen, width=120).print(table_of([announcement("[bold]pi[/bold] [red")]))
    assert "[bold]pi[/bold] [red" in screen.getvalue()
    assert "http://10.0.0.1:8000" in screen.getvalue()


Looks = list[tuple[float, Sequence[str], str | None]]


def looking(monkeypatch: pytest.MonkeyPatch, *results: tuple[Announcement, ...]) -> Looks:
    """Let each look find the next result, and Ctrl-C follow the last; gives what was asked."""
    asked: Looks = []
    remaining = iter(results)

    def discover(
        *, wait_s: float, static: Sequence[str], access: client.Access
    ) -> tuple[Announcement, ...]:
        asked.append((wait_s, static, access.tls))
        found = next(remaining, None)
        if found is None:
            raise KeyboardInterrupt
        return found

    monkeypatch.setattr(client, "discover", discover)
    return asked


def test_the_command_prints_lines_to_a_pipe(monkeypatch: pytest.MonkeyPatch) -> None:
    asked = looking(monkeypatch, FOUND)
    options = ["--wait", "0.5", "--host", "a", "--host", "b", "--tls", "certificates"]
    result = CliRunner().invoke(app, ["devices", *options])
    assert (result.exit_code, result.stdout) == (0, render_devices(FOUND) + "\n")
    assert asked == [(0.5, ("a", "b"), "certificates")]


def test_nobody_there_is_said_beside_the_output(monkeypatch: pytest.MonkeyPatch) -> None:
    looking(monkeypatch, (), ())
    result = CliRunner().invoke(app, ["devices"])
    assert (result.exit_code, result.stdout) == (0, "")
    assert "no worker answered" in result.stderr
    assert CliRunner().invoke(app, ["devices", "--json"]).stdout == "[]\n"


def test_watching_prints_once_for_each_change(monkeypatch: pytest.MonkeyPatch) -> None:
    one, two = FOUND[:1], FOUND
    looking(monkeypatch, one, one, two, two, one)
    result = CliRunner().invoke(app, ["devices", "--watch", "--json"])
    assert result.exit_code == 130
    assert result.stdout.splitlines() == [render_json(one), render_json(two), render_json(one)]
