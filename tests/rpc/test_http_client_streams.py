"""The sending end of HTTP: uploads refused half way, and streams that free their connection."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from typing import Any

import pytest

from axon.rpc.address import Address
from axon.rpc.http.transport import HttpTransport
from axon.rpc.limits import Limits
from axon.rpc.messages import Buffer, Request, Response
from tests.rpc.rogues import ASK, ASK_STREAM, HEAD, Rogue, connections, says, with_rogue
from tests.rpc.worlds import every_loop, run

pytestmark = pytest.mark.usefixtures("no_errors_logged")


class Taker:
    """An app that streams, or swallows."""

    def __init__(self, parts: list[bytes] | None = None, refusal: Response | None = None) -> None:
        self.parts = parts or []
        self.refusal = refusal

    def admit(self, request: Request) -> Response | None:
        return self.refusal

    def handle(self, request: Request) -> Response:
        return Response(200, stream=self._stream())

    async def _stream(self) -> AsyncIterator[Buffer]:
        for part in self.parts:
            yield part


def with_app(
    app: Taker, loop: str, **limits: Any
) -> Callable[[Callable[[HttpTransport, Address], Awaitable[None]]], None]:
    """Run the decorated coroutine against our own server."""

    def decorate(main: Callable[[HttpTransport, Address], Awaitable[None]]) -> None:
        async def go() -> None:
            server, transport = HttpTransport(limits=Limits(**limits)), HttpTransport()
            listener = await server.listen(app, Address("127.0.0.1", 0))
            try:
                await main(transport, listener.address)
            finally:
                await transport.close()
                await listener.close()

        run(go, loop=loop)

    return decorate


@every_loop
@pytest.mark.parametrize("megabytes", [3, 40, 300])
def test_a_refusal_during_the_upload_is_heard(loop: str, megabytes: int) -> None:
    refusal = Response(401, {b"axon-error": b"unauthorised"}, (b"no",))
    body = (memoryview(bytearray(megabytes << 20)),)

    @with_app(Taker(), loop, max_body_bytes=1 << 20)
    async def too_large(transport: HttpTransport, address: Address) -> None:
        for _ in range(3):
            response = await transport.exchange(address, Request(b"POST", b"/x", {}, body))
            assert response.status == 413
        assert connections(transport) == 0

    @with_app(Taker(refusal=refusal), loop)
    async def unwanted(transport: HttpTransport, address: Address) -> None:
        response = await transport.exchange(address, Request(b"POST", b"/x", {}, body))
        assert response.status == 401


def _free(transport: HttpTransport) -> int:
    return sum(len(pool.free) for pool in transport._pools.values())


@every_loop
def test_streams_give_their_connection_back(loop: str) -> None:
    @with_app(Taker([b"a", b"b"]), loop)
    async def short(transport: HttpTransport, address: Address) -> None:
        for _ in range(30):
            response = await transport.exchange(address, ASK_STREAM)
            assert response.stream is not None
            assert b"".join([bytes(part) async for part in response.stream]) == b"ab"
        assert connections(transport) == 1
        assert _free(transport) == 1

    large = [bytes(1 << 18)] * 40

    @with_app(Taker(large), loop)
    async def unread(transport: HttpTransport, address: Address) -> None:
        for _ in range(3):
            response = await transport.exchange(address, ASK_STREAM)
            assert response.stream is not None
            assert await anext(response.stream)
            await response.stream.aclose()  # type: ignore[attr-defined]
            await asyncio.sleep(0.02)
            assert connections(transport) == 0
        response = await transport.exchange(address, ASK_STREAM)
        assert response.stream is not None
        await asyncio.sleep(0.05)
        assert sum([len(part) async for part in response.stream]) == 40 << 18


def test_a_short_stream_over_in_one_read_is_not_forgotten() -> None:
    whole = HEAD + b"transfer-encoding: chunked\r\n\r\n2\r\nab\r\n0\r\n\r\n"

    @with_rogue(says(whole))
    async def main(transport: HttpTransport, server: Rogue) -> None:
        for _ in range(5):
            response = await transport.exchange(server.address, ASK_STREAM)
            assert response.stream is not None
            assert [bytes(part) async for part in response.stream] == [b"ab"]
        assert server.opened == 1
        assert _free(transport) == 1


def test_a_stream_that_ended_while_held_back_frees_its_connection() -> None:
    chunk = b"%x\r\n%b\r\n" % (1 << 20, bytes(1 << 20))
    whole = HEAD + b"transfer-encoding: chunked\r\n\r\n" + chunk + b"1\r\nx\r\n0\r\n\r\n"

    @with_rogue(says(whole))
    async def main(transport: HttpTransport, server: Rogue) -> None:
        async with asyncio.timeout(5):
            for _ in range(5):
                response = await transport.exchange(server.address, ASK_STREAM)
                assert response.stream is not None
                await asyncio.sleep(0.02)
                await response.stream.aclose()  # type: ignore[attr-defined]


@every_loop
def test_a_stream_nobody_wanted_is_read_whole_and_its_connection_kept(loop: str) -> None:
    @with_app(Taker([b"a" * 100_000, b"b"]), loop)
    async def main(transport: HttpTransport, address: Address) -> None:
        for _ in range(5):
            response = await transport.exchange(address, ASK)
            assert response.stream is None
            assert bytes(response.body[0]) == b"a" * 100_000 + b"b"
        assert (connections(transport), _free(transport)) == (1, 1)

    @with_app(Taker(), loop)
    async def empty(transport: HttpTransport, address: Address) -> None:
        response = await transport.exchange(address, ASK)
        assert (response.stream, response.body) == (None, ())
