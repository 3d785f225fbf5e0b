"""Stores for the tests of this folder."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import pytest

from axon.rounds.checkpoint import Store, open_store
from tests.rounds.stores import Server, running_server


@pytest.fixture(scope="session")
def server() -> Iterator[Server]:
    with running_server() as server:
        yield server


@pytest.fixture(params=["sqlite", pytest.param("postgres", marks=pytest.mark.system)])
def where(request: pytest.FixtureRequest, tmp_path: Path) -> str:
    if request.param == "sqlite":
        return str(tmp_path / "runs.db")
    server: Server = request.getfixturevalue("server")
    return server.address(server.database())


@pytest.fixture
def store(where: str) -> Iterator[Store]:
    with closing(open_store(where)) as store:
        yield store
