"""Fixtures of the command line's tests."""

from __future__ import annotations

import pytest

from tests.cli import scenes


@pytest.fixture
def shell(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> scenes.Shell:
    """Runs the command line with the words it is given."""
    return scenes.shell(monkeypatch, capsys)
