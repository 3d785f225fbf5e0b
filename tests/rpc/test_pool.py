"""Connections to a worker: every place accounted for, whoever fails, waits, leaves or closes."""

from __future__ import annotations

import asyncio
import gc
import socket
import ssl
import time
import warnings
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

import pytest

from axon.errors import AxonError, ConnectFailed
from axon.rpc.address import Address
from axon.rpc.http import pool as pool_module
from axon.rpc.http import transport as transport_module
from axon.rpc.http.client import ClientConnection
from axon.rpc.http.transport import HttpTransport
from axon.rpc.messages import Response
from axon.rpc.security.tls import client_context, make_material, worker_context
from tests.rpc.rogues import ASK, OK, Rogue, rogue, says, with_rogue
from tests.rpc.worlds import every_loop, run


async def _unhurried(_: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    await asyncio.sleep(0.1)
    writer.write(OK)


async def _mute(reader: asyncio.StreamReader, _: asyncio.StreamWriter) -> None:
    await reader.read()


class Flaky(HttpTransport):
    """Its first so many connections fail, after a while."""

    def __init__(self, failures: int) -> None:
        super().__init__()
        self._failures = failures

    async def _connect(self, address: Address) -> ClientConnection:
        if self._failures > 0:
            self._failures -= 1
            await asyncio.sleep(0.02)
            raise ConnectFailed("down for the moment")
        return await super()._connect(address)


@every_loop
def test_a_pool_is_not_forgotten_under_those_who_were_woken(
    loop: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(pool_module, "MOST_CONNECTIONS", 2)

    async def main() -> None:
        async with rogue(_unhurried) as server:
            transport = Flaky(failures=2)
            calls = [transport.exchange(server.address, ASK) for _ in range(4)]
            done = await asyncio.gather(*calls, return_exceptions=True)
            kinds = [type(outcome) for outcome in done]
            assert kinds == [ConnectFailed, ConnectFailed, Response, Response]
            (pool,) = transport._pools.values()
            assert (pool.count, len(pool.free), len(transport._open)) == (2, 2, 2)
            await transport.close()
            assert (transport._pools, transport._open) == ({}, set())

    run(main, loop=loop)


@every_loop
def test_workers_without_connections_are_forgotten(
    loop: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    parting = OK.replace(b"\r\n", b"\r\nconnection: close\r\n", 1)

    @with_rogue(says(parting), loop)
    async def never_reusable(transport: HttpTransport, server: Rogue) -> None:
        for _ in range(3):
            await transport.exchange(server.address, ASK)
            assert transport._pools == {}

    @with_rogue(_mute, loop)
    async def not_reopened(transport: HttpTransport, server: Rogue) -> None:
        call = asyncio.create_task(transport.exchange(server.address, ASK))
        await asyncio.sleep(0.05)
        (pool,) = transport._pools.values()

        async def fail(_: Address) -> ClientConnection:
            raise ConnectFailed("gone")

        monkeypatch.setattr(transport, "_connect", fail)
        call.cancel()
        await asyncio.wait([call])
        await asyncio.sleep(0.05)
        assert (transport._pools, pool.count) == ({}, 0)


@every_loop
def test_closing_before_a_replacement_has_begun_gives_its_place_up(loop: str) -> None:
    @with_rogue(_mute, loop)
    async def main(transport: HttpTransport, server: Rogue) -> None:
        call = asyncio.create_task(transport.exchange(server.address, ASK))
        await asyncio.sleep(0.05)
        (pool,) = transport._pools.values()
        assert await pool.claim() is None
        assert pool.count == 2
        transport._replace(pool, server.address)
        await transport.close()  # Cancels a task that has not made its first step.
        assert pool.count == 1
        call.cancel()
        with pytest.raises(asyncio.CancelledError):
            await call
        assert (pool.count, transport._pools, server.opened) == (0, {}, 1)


@every_loop
def test_a_call_that_outlives_its_transport_leaves_nothing_behind(loop: str) -> None:
    @with_rogue(_unhurried, loop)
    async def main(transport: HttpTransport, server: Rogue) -> None:
        call = asyncio.create_task(transport.exchange(server.address, ASK))
        await asyncio.sleep(0.05)
        await transport.close()
        assert (await call).status == 200
        assert (await transport.exchange(server.address, ASK)).status == 200
        await asyncio.sleep(0.05)
        assert (transport._pools, transport._open, transport._sweeper) == ({}, set(), None)


@every_loop
def test_a_place_given_to_one_who_just_left_goes_to_the_next(
    loop: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(pool_module, "MOST_CONNECTIONS", 1)

    @with_rogue(says(OK), loop)
    async def main(transport: HttpTransport, server: Rogue) -> None:
        await transport.exchange(server.address, ASK)
        (pool,) = transport._pools.values()
        for with_connection in (True, False):
            held = pool.take()
            assert held is not None
            waiting = [asyncio.create_task(pool.claim()) for _ in range(3)]
            await asyncio.sleep(0)
            if with_connection:
                pool.release(held)
            else:
                held.abort()
                pool.vacate()
            waiting[0].cancel()  # In the same turn as it was given the place.
            expected = held if with_connection else None
            assert await asyncio.wait_for(waiting[1], 5) is expected
            assert (pool.count, pool.free, waiting[2].done()) == (1, [], False)
            waiting[2].cancel()
            await asyncio.wait(waiting)
            if with_connection:
                pool.release(held)
        pool.vacate()
        assert transport._pools == {}


@every_loop
def test_many_calls_of_every_fate_leave_the_account_balanced(
    loop: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(pool_module, "MOST_CONNECTIONS", 3)
    fates = [says(OK), _unhurried, says(close=True), says(b"nothing of HTTP\r\n\r\n"), says(OK)]
    number = 0

    async def talk(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        nonlocal number
        number += 1
        await fates[number % len(fates)](reader, writer)

    async def call(transport: HttpTransport, address: Address, patience_s: float) -> None:
        try:
            async with asyncio.timeout(patience_s):
                await transport.exchange(address, ASK)
        except (AxonError, TimeoutError):
            return

    @with_rogue(talk, loop)
    async def main(transport: HttpTransport, server: Rogue) -> None:
        patiences = [(0.001, 0.03, 10.0)[index % 3] for index in range(150)]
        await asyncio.gather(*[call(transport, server.address, p) for p in patiences])
        await asyncio.sleep(0.1)
        for pool in transport._pools.values():
            assert pool.count == len(pool.free) <= 3
        await transport.close()
        assert (transport._pools, transport._open) == ({}, set())


# Parting


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    made = tmp_path_factory.mktemp("tls")
    make_material(made, hosts=[])
    return made


def _over_tls(
    folder: Path, talk: Callable[..., Awaitable[None]], loop: str
) -> tuple[float, set[ClientConnection]]:
    """One exchange; how long closing took, and the connections it left."""

    async def main() -> tuple[float, set[ClientConnection]]:
        server = Rogue(talk)
        context: ssl.SSLContext = worker_context(folder, mutual=False)
        listening = await asyncio.start_server(server.serve, "127.0.0.1", 0, ssl=context)
        port = listening.sockets[0].getsockname()[1]
        transport = HttpTransport(client_tls=client_context(folder))
        response = await transport.exchange(Address("127.0.0.1", port, "https"), ASK)
        assert response.status == 200
        begun = time.monotonic()
        await transport.close()
        took_s = time.monotonic() - begun
        left = set(transport._open)
        listening.close()
        await asyncio.sleep(0.05)
        return took_s, left

    result: tuple[float, set[ClientConnection]] = run(main, loop=loop)
    return result


@every_loop
def test_closing_waits_for_tls_to_part(folder: Path, loop: str) -> None:
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        took_s, left = _over_tls(folder, says(OK), loop)
        gc.collect()
    assert left == set()
    assert took_s < 0.9  # The peer did its part; nobody had to be cut off.
    assert [str(item.message) for item in caught if item.category is ResourceWarning] == []


@every_loop
def test_closing_does_not_wait_for_ever(
    folder: Path, loop: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(transport_module, "_PARTING_S", 0.2)

    async def deaf(_: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        writer.write(OK)
        writer.transport.pause_reading()  # type: ignore[attr-defined]  # a socket's can be paused
        await asyncio.sleep(0.6)

    took_s, left = _over_tls(folder, deaf, loop)
    assert left == set()
    assert took_s < 0.55


# Where a worker sees us


def test_a_name_is_looked_up_without_holding_the_loop(monkeypatch: pytest.MonkeyPatch) -> None:
    turns: list[int] = []

    async def look_up(host: str, port: int, **_: Any) -> list[tuple[Any, ...]]:
        assert (host, port) == ("pi.local", 80)
        for turn in range(3):
            await asyncio.sleep(0)
            turns.append(turn)
        kind = (socket.SOCK_DGRAM, 17, "")
        return [
            (socket.AF_INET6, *kind, ("::1", port, 0, 0)),
            (socket.AF_INET, *kind, ("127.0.0.1", port)),
        ]

    async def main() -> None:
        monkeypatch.setattr(asyncio.get_running_loop(), "getaddrinfo", look_up)
        # IPv4 though it came second: that is where workers listen.
        assert await HttpTransport().host_towards(Address("pi.local", 80)) == "127.0.0.1"
        assert turns == [0, 1, 2]
        # An address needs no looking up, which would have failed here.
        assert await HttpTransport().host_towards(Address("127.0.0.2", 81)) in {
            "127.0.0.1",
            "127.0.0.2",
        }

    run(main, loop="asyncio")


@every_loop
def test_a_name_that_leads_nowhere_means_this_machine(loop: str) -> None:
    async def main() -> None:
        for name in ("a..b", "x" * 300):
            assert await HttpTransport().host_towards(Address(name, 80)) == "127.0.0.1"
        assert await HttpTransport().host_towards(Address("localhost", 80)) == "127.0.0.1"

    run(main, loop=loop)
