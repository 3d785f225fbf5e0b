"""Fixtures of the tests of HTTP; a module that wants them says so."""

from __future__ import annotations

import logging
from collections.abc import Iterator

import pytest

from axon.rpc.http import listener as listener_module


@pytest.fixture
def quick_sweeps(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(listener_module, "_SWEEP_S", 0.05)


@pytest.fixture
def no_errors_logged(caplog: pytest.LogCaptureFixture) -> Iterator[None]:
    """A peer's faults are not errors of ours; a test that expects one clears the log."""
    yield
    records = caplog.get_records("call")
    assert [r.getMessage() for r in records if r.levelno >= logging.ERROR] == []
