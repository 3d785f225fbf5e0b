"""Where a worker listens: what it may take away, and what it must not."""

from __future__ import annotations

import asyncio
import stat
from pathlib import Path

import pytest

from axon import client
from axon.errors import ConfigurationError
from axon.worker import Worker
from tests.rpc.worlds import run


def worker() -> Worker:
    made = Worker("unix")

    @made.rpc()
    async def ping() -> str:
        return "pong"

    return made


def test_a_socket_file_left_behind_is_replaced(tmp_path: Path) -> None:
    path = tmp_path / "worker.sock"

    async def main() -> None:
        async with worker().serving(unix=str(path)) as serving:
            assert stat.S_IMODE(path.stat().st_mode) == 0o600
            left_behind = tmp_path / "left"
            path.rename(left_behind)  # As after a kill: a file, and in a moment nobody behind it.
        left_behind.rename(path)
        async with worker().serving(unix=str(path)) as serving:
            stub = await client.connect(serving.address)
            assert await stub.ping() == "pong"
        assert not path.exists()

    run(main)


@pytest.mark.parametrize("loop", ["uvloop", "asyncio"])
def test_files_made_meanwhile_keep_their_mode(tmp_path: Path, loop: str) -> None:
    made: list[Path] = []

    async def make_others() -> None:
        while True:
            made.append(tmp_path / f"other{len(made)}")
            made[-1].mkdir()
            await asyncio.sleep(0)

    async def main() -> None:
        usual = tmp_path / "usual"
        usual.mkdir()
        making = asyncio.create_task(make_others())
        async with worker().serving(unix=str(tmp_path / "worker.sock")):
            await asyncio.sleep(0)
        making.cancel()
        assert made
        assert {other.stat().st_mode for other in made} == {usual.stat().st_mode}

    run(main, loop=loop)


def test_a_path_that_cannot_be_bound_is_said(tmp_path: Path) -> None:
    async def main() -> None:
        with pytest.raises(ConfigurationError):
            async with worker().serving(unix=str(tmp_path / "no" / "such" / "folder")):
                pass

    run(main)


def test_a_live_workers_socket_is_left_alone(tmp_path: Path) -> None:
    path = tmp_path / "worker.sock"

    async def main() -> None:
        async with worker().serving(unix=str(path)) as serving:
            with pytest.raises(ConfigurationError, match="in use"):
                async with worker().serving(unix=str(path)):
                    pass
            assert await (await client.connect(serving.address)).ping() == "pong"

    run(main)


def test_another_file_is_left_alone(tmp_path: Path) -> None:
    path = tmp_path / "notes.txt"
    path.write_text("mine")

    async def main() -> None:
        with pytest.raises(ConfigurationError, match="something else"):
            async with worker().serving(unix=str(path)):
                pass

    run(main)
    assert path.read_text() == "mine"
