"""Stores for the tests of this folder."""

from __future__ import annotations

import os
import shutil
import tempfile
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import pytest

from axon.rounds.checkpoint import Store, open_store
from tests.rounds.stores import FOLDERS, Server


@pytest.fixture(scope="session")
def server() -> Iterator[Server]:
    if not all(shutil.which(name, path=os.pathsep.join(FOLDERS)) for name in ("initdb", "pg_ctl")):
        pytest.skip("no PostgreSQL server is installed: initdb and pg_ctl were not found")
    # Not pytest's folder: its path may be too long for a socket, and is closed to other users.
    with tempfile.TemporaryDirectory(prefix="axon") as folder:
        server = Server(Path(folder))
        yield server
        server.stop()


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
