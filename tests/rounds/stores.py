"""What tests of stores share: a cycle to save, a PostgreSQL server, a way behind their backs."""

from __future__ import annotations

import os
import shutil
import sqlite3
import subprocess
import tempfile
from collections.abc import Iterator
from contextlib import closing, contextmanager
from itertools import count
from pathlib import Path

import numpy as np
import pytest

from axon.report.records import digest
from axon.rounds.checkpoint import Checkpoint
from axon.rounds.survey import Finding
from axon.values import Capability, DeviceRecord, RoundRecord

FOLDERS = [os.environ.get("PATH", ""), *map(str, Path("/usr/lib/postgresql").glob("*/bin"))]


def made(cycle: int, *, size: int = 3, run: str = "run") -> tuple[Checkpoint, RoundRecord]:
    """What a cycle ends with; the parameters all say which cycle it was."""
    parameters = np.full(size, cycle, np.float32)
    checkpoint = Checkpoint(
        run=run,
        cycle=cycle,
        parameters=parameters,
        step_state={"velocity": -parameters[:2], "age": parameters[:0]},
        clock_s=0.1 * cycle,
        members=("pi-1", "pi-ü"),
        seed=2**70,
        previous_s={"pi-1": 0.3},
        findings={
            "pi-1": Finding(
                status="told",
                capability=Capability(shards_per_s=0.1, bytes_per_s=3e5),
                cycle=1,
            ),
            "pi-ü": Finding(status="failed", reason="\ud800", cycle=2, times=2),
        },
        fleet="[1]",
    )
    record = RoundRecord(
        run=run,
        cycle=cycle,
        started_s=0.0,
        ended_s=0.1 * cycle,
        deadline_s=1.0,
        devices=(DeviceRecord(device="pi-ü", status="failed", reason="\0\ud800"),),
        batches=cycle,
        digest=digest(parameters),
    )
    return checkpoint, record


class Server:
    """A server in a temporary folder that listens on a unix socket only."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        # The server refuses to run as root.
        user = next((name for name in ("postgres", "nobody") if _is_user(name)), "nobody")
        self._prefix = ["runuser", "-u", user, "--"] if os.geteuid() == 0 else []
        if self._prefix:
            shutil.chown(folder, user)
        self._control("initdb", "-U", "axon", "-A", "trust", "-N", "-E", "UTF8", "--no-locale")
        options = f"-k {folder} -c listen_addresses='' -F"
        self._control("pg_ctl", "-w", "-l", str(folder / "log"), "-o", options, "start")
        self._numbers = count()

    def _control(self, program: str, *arguments: str) -> None:
        found = shutil.which(program, path=os.pathsep.join(FOLDERS))
        assert found
        # Nothing is captured: the server would keep the pipe open for as long as it lives.
        subprocess.run(
            [*self._prefix, found, "-D", str(self.folder / "data"), *arguments],
            check=True,
            cwd=self.folder,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
        )

    def address(self, database: str = "postgres", folder: Path | None = None) -> str:
        return f"postgresql:///{database}?user=axon&host={folder or self.folder}"

    def database(self) -> str:
        """A new, empty one."""
        name = f"test{next(self._numbers)}"
        execute(self.address(), f"CREATE DATABASE {name}")
        return name

    def stop(self) -> None:
        self._control("pg_ctl", "-m", "immediate", "-w", "stop")


def _is_user(name: str) -> bool:
    return any(line.startswith(f"{name}:") for line in Path("/etc/passwd").read_text().splitlines())


def execute(where: str, statement: str) -> None:
    """Do something behind the store's back."""
    if where.startswith("postgresql:"):
        import psycopg

        with psycopg.connect(where, autocommit=True) as connection:
            connection.execute(statement)
    else:
        with closing(sqlite3.connect(where)) as file, file:
            file.execute(statement.replace("axon_", ""))


@contextmanager
def running_server() -> Iterator[Server]:
    """A PostgreSQL server for as long as the block lasts; skips the test where there is none."""
    if not all(shutil.which(name, path=os.pathsep.join(FOLDERS)) for name in ("initdb", "pg_ctl")):
        pytest.skip("no PostgreSQL server is installed: initdb and pg_ctl were not found")
    # Not pytest's folder: its path may be too long for a socket, and is closed to other users.
    with tempfile.TemporaryDirectory(prefix="axon") as folder:
        server = Server(Path(folder))
        yield server
        server.stop()
