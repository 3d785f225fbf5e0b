"""Certificates between a real worker and real clients, and what an open port needs."""

from __future__ import annotations

import asyncio
import shutil
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from axon import client
from axon.errors import (
    ConfigurationError,
    ConnectFailed,
    ConnectionLost,
    ProtocolError,
    Unauthorised,
)
from axon.rpc.address import Address
from axon.rpc.security.keys import Key
from axon.rpc.security.tls import make_material
from axon.worker import Worker
from tests.rpc.guarded import KEY, Scene, make_worker, scene


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    place = tmp_path_factory.mktemp("tls")
    make_material(place, hosts=[])
    return place


@pytest.fixture(scope="module")
def stranger(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Certificates of another authority."""
    place = tmp_path_factory.mktemp("stranger")
    make_material(place, hosts=[])
    return place


@pytest.fixture(scope="module")
def nameless(folder: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A client's folder with the authority alone."""
    place = tmp_path_factory.mktemp("nameless")
    shutil.copy(folder / "ca.pem", place)
    return place


@pytest.mark.parametrize("key", [None, KEY])
def test_everything_works_over_tls(folder: Path, key: Key | None) -> None:
    async def main(scene: Scene) -> None:
        assert scene.address.scheme == "https"
        stub = await scene.stub(tls=folder, key=key)
        assert await stub.note(1) == 1
        large = np.random.default_rng(1).random(500_000)
        assert np.array_equal(await stub.later(large), large)
        assert [len(item) async for item in stub.count(20)] == [100 * n for n in range(20)]
        seen: list[int] = []
        assert await stub.steps.options(progress=seen.append)(3) == "all"
        assert seen == [0, 1, 2]
        duplex = await scene.stub(tls=folder, key=key, duplex=True)
        # The worker has no way to us under TLS, so the result is asked for.
        assert await asyncio.wait_for(duplex.later(2), 5) == 2
        assert await duplex.later.options(compress=True)("y" * 9000) == "y" * 9000
        answers = await client.gather([stub.later(number) for number in range(20)])
        assert list(answers) == list(range(20))

    scene(main, tls=folder, key=key)


def test_a_key_is_needed_under_tls_too(folder: Path) -> None:
    async def main(scene: Scene) -> None:
        with pytest.raises(Unauthorised, match="key="):
            await scene.stub(tls=folder)
        assert scene.ran == []

    scene(main, tls=folder, key=KEY)


def test_a_worker_of_another_authority_is_not_spoken_to(folder: Path, stranger: Path) -> None:
    async def main(scene: Scene) -> None:
        with pytest.raises(ConnectFailed, match="no TLS with https://") as caught:
            await scene.stub(tls=stranger)
        assert "axon keys new" in str(caught.value)
        with pytest.raises(ConfigurationError, match="tls="):
            await scene.stub()

    scene(main, tls=folder)


def test_plain_and_tls_do_not_mix(folder: Path) -> None:
    async def plain_client(scene: Scene) -> None:
        plain = Address("127.0.0.1", scene.address.port)
        with pytest.raises((ConnectionLost, ProtocolError)):
            await asyncio.wait_for(scene.stub(plain), 5)

    async def plain_worker(scene: Scene) -> None:
        secure = Address("127.0.0.1", scene.address.port, "https")
        with pytest.raises(ConnectFailed, match="no TLS"):
            await asyncio.wait_for(scene.stub(secure, tls=folder), 5)

    scene(plain_client, tls=folder)
    scene(plain_worker)


@pytest.mark.parametrize("key", [None, KEY])
def test_mutual_tls_lets_in_certified_clients_alone(
    folder: Path, stranger: Path, nameless: Path, tmp_path: Path, key: Key | None
) -> None:
    async def main(scene: Scene) -> None:
        stub = await scene.stub(tls=folder, key=key)
        assert await stub.note(1) == 1
        mixed = tmp_path / "mixed"  # Trusts the worker, shows a stranger's certificate.
        shutil.copytree(stranger, mixed)
        shutil.copy(folder / "ca.pem", mixed)
        for place in (nameless, mixed):
            with pytest.raises((ConnectFailed, ConnectionLost)):
                await asyncio.wait_for(scene.stub(tls=place, key=key), 5)
        assert scene.ran == [1]

    scene(main, tls=folder, mutual=True, key=key)


def test_a_client_without_certificate_is_welcome_unless_mutual(
    nameless: Path, folder: Path
) -> None:
    async def main(scene: Scene) -> None:
        assert await (await scene.stub(tls=nameless)).note(1) == 1

    scene(main, tls=folder)


def test_blocking_stubs_over_tls_with_a_key(folder: Path) -> None:
    ran: list[Any] = []
    running = make_worker(ran).start(port=0, tls=folder, key=KEY)
    try:
        stub = client.get_stub(str(running.address), tls=folder, key=KEY, stub_type="sync")
        assert stub.note(1) == 1
        assert client.call(f"{running.address}/rpc/note", 2, tls=folder, key=KEY) == 2
        assert sum(len(item) for item in stub.count(4)) == 600
    finally:
        running.shutdown()


# Open ports


@pytest.fixture
def silent() -> dict[str, Any]:
    """Nothing is announced to the network from a test."""
    return {"announce": False, "port": 0}


@pytest.mark.parametrize("host", ["0.0.0.0", "::", "192.0.2.1", "example.org"])
def test_an_open_port_without_a_key_does_not_start(host: str, silent: dict[str, Any]) -> None:
    with pytest.raises(ConfigurationError, match="has no key") as caught:
        Worker("open").start(host=host, **silent)
    assert "insecure=True" in caught.value.hint
    assert "axon keys new" in caught.value.hint


@pytest.mark.parametrize("lock", ["insecure", "key", "mutual"])
def test_an_open_port_with_a_lock_or_on_purpose_starts(
    lock: str, folder: Path, silent: dict[str, Any]
) -> None:
    locks: dict[str, dict[str, Any]] = {
        "insecure": {"insecure": True},
        "key": {"key": KEY},
        "mutual": {"tls": folder, "mutual": True},
    }
    running = Worker("open").start(host="0.0.0.0", **silent, **locks[lock])
    try:
        assert running.address.host == "0.0.0.0"
        assert running.address.port > 0
    finally:
        running.shutdown()


def test_tls_alone_is_no_lock(folder: Path, silent: dict[str, Any]) -> None:
    with pytest.raises(ConfigurationError, match="has no key"):
        Worker("open").start(host="0.0.0.0", tls=folder, **silent)
    with pytest.raises(ConfigurationError, match="tls="):
        Worker("open").start(mutual=True, **silent)
