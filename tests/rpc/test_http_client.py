"""The sending end of HTTP: its pool, and what it makes of servers that misbehave."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from axon import client
from axon.errors import (
    ConnectFailed,
    ConnectionLost,
    DeadlineExceeded,
    ProtocolError,
    RemoteError,
    TooLarge,
)
from axon.rpc.address import Address
from axon.rpc.calling.callers import caller_for
from axon.rpc.calling.spec import CallSpec
from axon.rpc.http import pool as pool_module
from axon.rpc.http import transport as transport_module
from axon.rpc.http.transport import HttpTransport
from axon.rpc.messages import Response
from axon.rpc.replies import restore_error
from tests.rpc.rogues import ASK, HEAD, OK, Rogue, Talk, connections, endlessly, says, with_rogue
from tests.rpc.worlds import every_loop, run

pytestmark = pytest.mark.usefixtures("no_errors_logged")

ROGUES: dict[str, tuple[Talk, type[Exception]]] = {
    "garbage": (says(b"\x16\x03\x01 nothing of HTTP\r\n\r\n"), ProtocolError),
    "another protocol": (says(b"SSH-2.0-OpenSSH_9.6\r\n"), ProtocolError),
    "switching protocols": (
        says(b"HTTP/1.1 101 Switching\r\nconnection: upgrade\r\nupgrade: x\r\n\r\nrest"),
        ProtocolError,
    ),
    "nothing at all": (says(close=True), ConnectionLost),
    "half a head": (says(HEAD + b"content-le", close=True), ConnectionLost),
    "half a body": (says(HEAD + b"content-length: 9\r\n\r\nhalf", close=True), ConnectionLost),
    "half a large body": (
        says(HEAD + b"content-length: 900000\r\n\r\n" + bytes(100_000), close=True),
        ConnectionLost,
    ),
    "huge length": (says(HEAD + b"content-length: %d\r\n\r\n" % 2**62), TooLarge),
    "length beyond 64 bits": (says(HEAD + b"content-length: %d\r\n\r\n" % 2**64), ProtocolError),
    "two lengths": (
        says(HEAD + b"content-length: 1\r\ncontent-length: 2\r\n\r\nab"),
        ProtocolError,
    ),
    "endless headers": (endlessly(HEAD, b"a: b\r\n" * 1000), TooLarge),
    "endless header": (endlessly(HEAD + b"a: ", b"b" * 10_000), TooLarge),
    "endless reason": (endlessly(b"HTTP/1.1 200 ", b"b" * 10_000), TooLarge),
    "endless body without a length": (endlessly(HEAD + b"\r\n", bytes(100_000)), TooLarge),
    "endless chunks": (
        endlessly(HEAD + b"transfer-encoding: chunked\r\n\r\n", b"ffff\r\n%b\r\n" % bytes(0xFFFF)),
        TooLarge,
    ),
}


@every_loop
@pytest.mark.parametrize("name", ROGUES)
def test_rogue_servers_make_clean_errors(loop: str, name: str) -> None:
    talk, error = ROGUES[name]

    @with_rogue(talk, loop, max_body_bytes=1 << 20)
    async def main(transport: HttpTransport, server: Rogue) -> None:
        for _ in range(2):
            with pytest.raises(error):
                async with asyncio.timeout(5):
                    await transport.exchange(server.address, ASK)
        assert server.opened == 2
        assert connections(transport) == 0


@every_loop
def test_answers_in_odd_but_lawful_forms(loop: str) -> None:
    odd = b"HTTP/1.1 100 Continue\r\n\r\n" * 3 + OK

    @with_rogue(says(*[bytes([byte]) for byte in odd]), loop)
    async def bytewise(transport: HttpTransport, server: Rogue) -> None:
        for _ in range(3):
            response = await transport.exchange(server.address, ASK)
            assert (response.status, bytes(response.body[0])) == (200, b"ok")
        assert server.opened == 1

    @with_rogue(says(b"HTTP/1.1 204 -\r\ncontent-length: 999999\r\n\r\n"), loop)
    async def bodiless(transport: HttpTransport, server: Rogue) -> None:
        assert (await transport.exchange(server.address, ASK)).body == ()


@every_loop
def test_an_answer_nobody_asked_for_is_not_the_next_calls(loop: str) -> None:
    stray = b"HTTP/1.1 200 OK\r\ncontent-length: 5\r\n\r\nstray"

    @with_rogue(says(OK + stray), loop)
    async def together(transport: HttpTransport, server: Rogue) -> None:
        for _ in range(3):
            assert bytes((await transport.exchange(server.address, ASK)).body[0]) == b"ok"
        assert server.opened == 3

    @with_rogue(says(OK, *[b""] * 50, stray), loop)
    async def later(transport: HttpTransport, server: Rogue) -> None:
        for _ in range(3):
            assert bytes((await transport.exchange(server.address, ASK)).body[0]) == b"ok"
            await asyncio.sleep(0.05)
        assert server.opened == 3


@every_loop
def test_connections_are_reused_until_the_server_closes_them(loop: str) -> None:
    @with_rogue(says(OK), loop)
    async def kept(transport: HttpTransport, server: Rogue) -> None:
        for _ in range(20):
            await transport.exchange(server.address, ASK)
        assert (server.opened, server.asked) == (1, 20)

    @with_rogue(says(OK, close=True), loop)
    async def closed(transport: HttpTransport, server: Rogue) -> None:
        for _ in range(5):
            await transport.exchange(server.address, ASK)
            await asyncio.sleep(0.05)
        assert server.opened == 5

    @with_rogue(says(OK.replace(b"\r\n", b"\r\nconnection: close\r\n", 1)), loop)
    async def told(transport: HttpTransport, server: Rogue) -> None:
        for _ in range(5):
            await transport.exchange(server.address, ASK)
        assert server.opened == 5
        assert connections(transport) == 0


def test_idle_connections_are_let_go(monkeypatch: pytest.MonkeyPatch) -> None:
    for module in (transport_module, pool_module):
        monkeypatch.setattr(module, "CLIENT_IDLE_S", 0.1)

    @with_rogue(says(OK))
    async def main(transport: HttpTransport, server: Rogue) -> None:
        await asyncio.gather(*[transport.exchange(server.address, ASK) for _ in range(5)])
        assert connections(transport) == 5
        await asyncio.sleep(0.4)
        assert transport._pools == {}
        assert (await transport.exchange(server.address, ASK)).status == 200
        assert server.opened == 6


@pytest.mark.slow
@every_loop
def test_more_calls_than_connections_take_turns(loop: str) -> None:
    async def talk(_: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await asyncio.sleep(0.02)
        writer.write(OK)

    @with_rogue(talk, loop)
    async def main(transport: HttpTransport, server: Rogue) -> None:
        most = pool_module.MOST_CONNECTIONS
        calls = [transport.exchange(server.address, ASK) for _ in range(3 * most)]
        responses = await asyncio.gather(*calls)
        assert {response.status for response in responses} == {200}
        assert server.opened == connections(transport) == most


@every_loop
def test_a_cancelled_wait_does_not_lose_a_connection(
    loop: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(pool_module, "MOST_CONNECTIONS", 2)
    free = asyncio.Event()

    async def talk(_: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await free.wait()
        writer.write(OK)

    @with_rogue(talk, loop)
    async def main(transport: HttpTransport, server: Rogue) -> None:
        def start() -> asyncio.Task[Response]:
            return asyncio.create_task(transport.exchange(server.address, ASK))

        tasks = [start() for _ in range(8)]
        await asyncio.sleep(0.1)
        for task in (tasks[0], *tasks[3:6]):  # One that holds a connection, three that wait.
            task.cancel()
        await asyncio.sleep(0.05)
        free.set()
        done = await asyncio.gather(*tasks, return_exceptions=True)
        assert [isinstance(d, asyncio.CancelledError) for d in done] == [
            True, False, False, True, True, True, False, False,
        ]  # fmt: skip
        assert connections(transport) <= 2
        again = await asyncio.gather(*[start() for _ in range(10)])
        assert [response.status for response in again] == [200] * 10
        assert connections(transport) == 2


def test_connecting_to_nobody_leaves_nothing_behind() -> None:
    async def main() -> None:
        transport = HttpTransport()
        for where in (Address("127.0.0.1", 1), Address("a..b", 80), Address("x" * 300, 80)):
            with pytest.raises(ConnectFailed):
                await transport.exchange(where, ASK)
        assert transport._pools == {}
        await transport.close()

    run(main)


async def _no_answer(reader: asyncio.StreamReader, _: asyncio.StreamWriter) -> None:
    await reader.read()  # Until the client has had enough.


@every_loop
def test_a_server_that_never_answers_meets_the_deadline(loop: str) -> None:
    @with_rogue(_no_answer, loop)
    async def main(transport: HttpTransport, server: Rogue) -> None:
        stub = client.access(transport=transport)
        caller = await caller_for(stub)
        options = client.CallOptions(deadline_s=0.2)
        with pytest.raises(DeadlineExceeded, match=r"0\.2 s"):
            await caller.call(CallSpec(stub, server.address, "echo", (1,), {}, options))
        await asyncio.sleep(0.05)
        assert connections(transport) == 1  # A fresh one, in place of that of the cancelled call.


def test_every_builtin_error_can_be_restored() -> None:
    import builtins

    for name in dir(builtins):
        described = {"code": "remote", "type": name, "module": "builtins", "message": "m"}
        assert isinstance(restore_error(described), RemoteError)
    assert isinstance(restore_error({**described, "type": "UnicodeDecodeError"}), UnicodeError)
    strange: list[Any] = [None, 5, {"code": []}, {"code": {}, "message": b"x"}, {"code": "remote"}]
    for nonsense in strange:
        assert str(restore_error(nonsense)) != ""
    assert restore_error({"code": "remote", "notes": 5, "type": [], "message": None})
