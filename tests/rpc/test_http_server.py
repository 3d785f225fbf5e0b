"""The receiving end of HTTP over real loopback sockets: framing, order, limits and patience."""

from __future__ import annotations

import asyncio
import logging
import socket
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from typing import Any

import pytest

from axon.rpc.address import Address
from axon.rpc.http import connection as connection_module
from axon.rpc.http import listener as listener_module
from axon.rpc.http.connection import DIRECT_BYTES
from axon.rpc.http.listener import HttpListener
from axon.rpc.http.patience import Patience
from axon.rpc.http.server import ServerConnection
from axon.rpc.http.transport import HttpTransport
from axon.rpc.limits import Limits
from axon.rpc.messages import Buffer, Request, Response
from tests.rpc.raw import Peer, ask, connected, request
from tests.rpc.worlds import run

every_loop = pytest.mark.parametrize("loop", ["uvloop", "asyncio"])


@pytest.fixture(autouse=True)
def quick_sweeps(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(listener_module, "_SWEEP_S", 0.05)


@pytest.fixture(autouse=True)
def no_errors_logged(caplog: pytest.LogCaptureFixture) -> Iterator[None]:
    """A peer's faults are not errors of ours; a test that expects one clears the log."""
    yield
    records = caplog.get_records("call")
    assert [r.getMessage() for r in records if r.levelno >= logging.ERROR] == []


@dataclass
class Mirror:
    """An app that answers with what it was asked; some targets do more."""

    handled: list[Request] = field(default_factory=list)
    cancelled: int = 0
    slow_bytes: int = 0
    parting: Callable[[], None] | None = None

    def admit(self, request: Request) -> Response | None:
        return Response(401, {}, (b"no",)) if b"origin" in request.headers else None

    def handle(self, request: Request) -> Response | Awaitable[Response]:
        self.handled.append(request)
        target = request.target
        if target.startswith(b"/slow"):
            return self._slow(float(target.partition(b"?")[2]))
        if target.startswith(b"/big"):
            return Response(200, {}, (bytes(int(target.partition(b"?")[2])),))
        if target == b"/stream":
            return Response(200, {}, stream=_endless())
        if target == b"/broken":
            raise ZeroDivisionError("app")
        if target == b"/broken-later":
            return _breaks()
        if target == b"/cancels":
            return _cancels()
        return Response(200, {b"x-target": target}, request.body)

    async def _slow(self, seconds: float) -> Response:
        try:
            await asyncio.sleep(seconds)
        except asyncio.CancelledError:
            self.cancelled += 1
            raise
        if self.parting is not None:
            self.parting()
        return Response(200, {}, (b"slow" + bytes(self.slow_bytes),))


async def _breaks() -> Response:
    await asyncio.sleep(0)
    raise ZeroDivisionError("app")


async def _cancels() -> Response:
    raise asyncio.CancelledError


produced = 0


async def _endless() -> AsyncIterator[Buffer]:
    global produced
    produced = 0
    while True:
        produced += 1 << 20
        yield bytes(1 << 20)


@dataclass
class Scene:
    app: Mirror
    listener: HttpListener

    @property
    def address(self) -> Address:
        return self.listener.address

    async def alive(self) -> None:
        assert (await ask(self.address, request())).status == 200

    async def settled(self, *, empty: bool = True) -> None:
        """Until nobody is connected, or somebody is."""
        for _ in range(500):
            if empty is not bool(self.listener.connections):
                return
            await asyncio.sleep(0.01)
        raise AssertionError(f"{len(self.listener.connections)} connections after 5 s")


@asynccontextmanager
async def scene(**limits: Any) -> AsyncIterator[Scene]:
    transport = HttpTransport(limits=Limits(**limits))
    app = Mirror()
    listener = await transport.listen(app, Address("127.0.0.1", 0))
    try:
        yield Scene(app, listener)
    finally:
        await listener.close()


def play(main: Callable[[Scene], Awaitable[None]], loop: str = "uvloop", **limits: Any) -> None:
    async def go() -> None:
        async with scene(**limits) as stage:
            await main(stage)

    run(go, loop=loop)


CHUNKED = (
    b"POST /x HTTP/1.1\r\nhost: w\r\ntransfer-encoding: chunked\r\n\r\n"
    b"3\r\nabc\r\n2;ext=1\r\nde\r\n0\r\ntrailer: t\r\n\r\n"
)
WHOLE = request(b"/x", b"abcde", headers={b"x-long": b"v" * 40})


@every_loop
@pytest.mark.parametrize("data", [WHOLE, CHUNKED], ids=["length", "chunked"])
def test_a_request_cut_anywhere_is_the_same_request(loop: str, data: bytes) -> None:
    async def main(stage: Scene) -> None:
        async with connected(stage.address) as peer:
            for position in range(1, len(data)):
                await peer.send(data[:position])
                await asyncio.sleep(0.0005)
                await peer.send(data[position:])
                answer = (await peer.get(position))[-1]
                assert (answer.status, bytes(answer.body)) == (200, b"abcde")
        assert len(stage.app.handled) == len(data) - 1
        async with connected(stage.address) as peer:
            for byte in data:
                await peer.send(bytes([byte]))
                await asyncio.sleep(0)
            assert bytes((await peer.get())[0].body) == b"abcde"

    play(main, loop)


@every_loop
def test_large_bodies_land_in_place_and_the_next_request_is_found(loop: str) -> None:
    large = bytes(range(256)) * (DIRECT_BYTES // 64)

    async def main(stage: Scene) -> None:
        for cut in (0, 1, 70, len(large), len(large) + 90):
            async with connected(stage.address) as peer:
                data = request(b"/a", large) + request(b"/b", b"small") + request(b"/c", large)
                await peer.send(data[:cut])
                await asyncio.sleep(0.01)
                await peer.send(data[cut:])
                answers = await peer.get(3)
                assert [bytes(answer.body) for answer in answers] == [large, b"small", large]
                assert [a.headers[b"x-target"] for a in answers] == [b"/a", b"/b", b"/c"]
        assert stage.listener._receiving == 0

    play(main, loop)


@every_loop
def test_a_thousand_pipelined_requests_are_answered_in_order(loop: str) -> None:
    async def main(stage: Scene) -> None:
        async with connected(stage.address) as peer:
            await peer.send(b"".join(request(b"/%d" % number) for number in range(1000)))
            answers = await peer.get(1000)
            assert [answer.headers[b"x-target"] for answer in answers] == [
                b"/%d" % number for number in range(1000)
            ]
        async with connected(stage.address) as peer:
            mixed = [b"/slow?0.05", b"/1", b"/slow?0.01", b"/2"] + [b"/3"] * 20
            await peer.send(b"".join(request(target) for target in mixed))
            answers = await peer.get(len(mixed))
            assert [a.headers.get(b"x-target", b"slow") for a in answers] == [
                b"slow", b"/1", b"slow", b"/2", *[b"/3"] * 20
            ]  # fmt: skip

    play(main, loop)


@every_loop
def test_keep_alive_and_close(loop: str) -> None:
    async def main(stage: Scene) -> None:
        async with connected(stage.address) as peer:
            await peer.send(request(b"/1"))
            await peer.get(1)
            await peer.send(request(b"/2", headers={b"connection": b"close"}))
            answers = await peer.ended()
            assert [answer.status for answer in answers] == [200, 200]
            assert answers[1].headers[b"connection"] == b"close"
        async with connected(stage.address) as peer:
            await peer.send(b"GET /old HTTP/1.0\r\n\r\n")
            assert [answer.status for answer in await peer.ended()] == [200]
        async with connected(stage.address) as peer:
            await peer.send(request(b"/3", headers={b"connection": b"close"}) + request(b"/4"))
            assert [answer.status for answer in await peer.ended()] == [200]
        assert [r.target for r in stage.app.handled] == [b"/1", b"/2", b"/old", b"/3"]

    play(main, loop)


MALFORMED = {
    "garbage": (b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03" + bytes(200), 400),
    "http/2 preface": (b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n", 400),
    "version 2": (b"GET / HTTP/2.0\r\n\r\n", 505),
    "version 9": (b"GET / HTTP/9.9\r\n\r\n", 400),
    "version 0.9": (b"GET / HTTP/0.9\r\n\r\n", 505),
    "no version": (b"GET /\r\n\r\n", 505),
    "negative length": (request(headers={b"content-length": b"-1"}), 400),
    "empty length": (request(headers={b"content-length": b""}), 400),
    "huge length": (request(headers={b"content-length": b"%d" % 2**62}), 413),
    "length beyond 64 bits": (request(headers={b"content-length": b"9" * 400}), 400),
    "two lengths": (request(headers={b"Content-Length": b"1"}), 400),
    "length and chunks": (request(headers={b"transfer-encoding": b"chunked"}), 400),
    "chunks and length": (
        b"POST / HTTP/1.1\r\ntransfer-encoding: chunked\r\ncontent-length: 3\r\n\r\n0\r\n\r\n",
        400,
    ),
    "unknown coding": (b"POST / HTTP/1.1\r\ntransfer-encoding: gzip\r\n\r\n", 400),
    "chunk size overflow": (
        b"POST / HTTP/1.1\r\ntransfer-encoding: chunked\r\n\r\n" + b"f" * 17 + b"\r\n",
        400,
    ),
    "chunk size of nothing": (b"POST / HTTP/1.1\r\ntransfer-encoding: chunked\r\n\r\nxyz\r\n", 400),
    "folded header": (b"GET / HTTP/1.1\r\na: b\r\n c\r\n\r\n", 400),
    "bare line feeds": (b"GET / HTTP/1.1\na: b\n\n", 400),
    "null in target": (b"GET /\0 HTTP/1.1\r\n\r\n", 400),
    "null in header": (b"GET / HTTP/1.1\r\na: \0\r\n\r\n", 400),
    "upgrade": (request(headers={b"connection": b"upgrade", b"upgrade": b"websocket"}), 501),
    "connect": (b"CONNECT a:1 HTTP/1.1\r\n\r\n", 501),
    "head": (b"HEAD / HTTP/1.1\r\n\r\n", 405),
    "long target": (b"GET /" + b"a" * 100_000 + b" HTTP/1.1\r\n\r\n", 431),
    "long header": (b"GET / HTTP/1.1\r\na: " + b"b" * (1 << 20) + b"\r\n\r\n", 431),
    "long header name": (b"GET / HTTP/1.1\r\n" + b"b" * (1 << 20), 431),
    "many headers": (b"GET / HTTP/1.1\r\n" + b"a: b\r\n" * 10_000 + b"\r\n", 431),
    "no end of line": (b"A" * 5 + b"GET" * 100_000, 400),
    "endless target": (b"GET /" + b"a" * 1_000_000, 431),
    "endless empty lines": (b"\r\n" * 100_000, 431),
    "endless trailer": (
        b"POST / HTTP/1.1\r\ntransfer-encoding: chunked\r\n\r\n0\r\na: " + b"b" * 1_000_000,
        431,
    ),
    "endless chunk extension": (
        b"POST / HTTP/1.1\r\ntransfer-encoding: chunked\r\n\r\n1;" + b"b" * 1_000_000,
        431,
    ),
    "many trailers": (
        b"POST / HTTP/1.1\r\ntransfer-encoding: chunked\r\n\r\n0\r\n" + b"a: b\r\n" * 10_000,
        431,
    ),
    "web page": (request(headers={b"origin": b"http://evil"}), 401),
}


@every_loop
@pytest.mark.parametrize("name", MALFORMED)
def test_what_is_refused(loop: str, name: str) -> None:
    data, status = MALFORMED[name]

    async def main(stage: Scene) -> None:
        async with connected(stage.address) as peer:
            await peer.send(data)
            answers = await peer.ended()
            assert [answer.status for answer in answers] == [status]
            assert answers[0].headers[b"connection"] == b"close"
        assert stage.app.handled == []
        await stage.alive()
        await stage.settled()
        assert stage.listener._receiving == 0

    play(main, loop)


@every_loop
@pytest.mark.parametrize("step", [1, 7, 1000])
def test_heads_are_counted_honestly_however_they_arrive(loop: str, step: int) -> None:
    within = request(b"/x", b"abc", headers={b"a": b"b" * 1800})
    over = request(b"/x", b"abc", headers={b"a": b"b" * 2100})

    async def main(stage: Scene) -> None:
        async with connected(stage.address) as peer:
            data = within * 4 + over
            for start in range(0, len(data), step):
                peer.writer.write(data[start : start + step])
                await asyncio.sleep(0)
            answers = await peer.ended()
            assert [answer.status for answer in answers] == [200, 200, 200, 200, 431]

    play(main, loop, max_header_bytes=2048)


def test_bodies_do_not_count_as_heads() -> None:
    async def main(stage: Scene) -> None:
        async with connected(stage.address) as peer:
            chunk = b"%x\r\n%b\r\n" % (5000, bytes(5000))
            head = b"POST /x HTTP/1.1\r\ntransfer-encoding: chunked\r\n\r\n"
            for _ in range(3):
                await peer.send(head, *[chunk] * 20, b"0\r\n\r\n", request(b"/y", bytes(60_000)))
            assert [len(a.body) for a in await peer.get(6)] == [100_000, 60_000] * 3

    play(main, max_header_bytes=1024)


@every_loop
def test_a_refusal_waits_for_the_answers_before_it(loop: str) -> None:
    async def main(stage: Scene) -> None:
        async with connected(stage.address) as peer:
            await peer.send(request(b"/slow?0.1") + request(b"/b") + b"rubbish\r\n\r\n")
            answers = await peer.ended()
            assert [(a.status, bytes(a.body)[:4]) for a in answers] == [
                (200, b"slow"), (200, b"[1]"), (400, b"not ")
            ]  # fmt: skip
        await stage.alive()

    play(main, loop)


def test_trailers_and_repeats_do_not_change_a_judged_head() -> None:
    async def main(stage: Scene) -> None:
        data = CHUNKED.replace(b"trailer: t", b"host: evil\r\norigin: x")
        assert (await ask(stage.address, data)).status == 200
        assert stage.app.handled[-1].headers[b"host"] == b"w"
        assert b"origin" not in stage.app.handled[-1].headers
        async with connected(stage.address) as peer:
            await peer.send(data, request(b"/next"))
            await peer.get(2)
        assert b"origin" not in stage.app.handled[-1].headers
        await ask(stage.address, request(headers={b"x": b"1", b"X": b"2"}))
        assert stage.app.handled[-1].headers[b"x"] == b"1, 2"

    play(main)


@pytest.mark.parametrize(
    ("length", "status"),
    [(b"0" * 5000 + b"3", 200), (b"3" + b" " * 40, 200), (b"0" * 5000 + b"9" * 19, 413)],
)
def test_lengths_in_odd_spellings(length: bytes, status: int) -> None:
    async def main(stage: Scene) -> None:
        answer = await ask(
            stage.address, request(b"/x", b"abc", headers={b"content-length": length})
        )
        assert answer.status == status

    play(main)


@every_loop
def test_continue_is_said_when_it_cannot_fall_into_an_answer(loop: str) -> None:
    head = request(b"/x", b"", headers={b"content-length": b"3", b"expect": b"100-continue"})

    async def main(stage: Scene) -> None:
        async with connected(stage.address) as peer:
            await peer.send(head)
            await peer.reader.readuntil(b"100 Continue\r\n\r\n")
            await peer.send(b"abc")
            assert bytes((await peer.get())[0].body) == b"abc"
        async with connected(stage.address) as peer:
            await peer.send(request(b"/slow?0.1") + head)
            said = await peer.reader.readuntil(b"100 Continue\r\n\r\n")
            assert said.index(b"slow") < said.index(b"100 Continue")
            await peer.send(b"abc")
            assert bytes((await peer.get())[0].body) == b"abc"
        too_much = request(
            b"/x", b"", headers={b"content-length": b"9999", b"expect": b"100-continue"}
        )
        async with connected(stage.address) as peer:
            await peer.send(too_much)
            assert [answer.status for answer in await peer.ended()] == [413]
            assert len(peer.answers.all) == 1  # Not invited first.

    play(main, loop, max_body_bytes=1000)


@every_loop
def test_chunked_bodies_have_limits_too(loop: str) -> None:
    head = b"POST /x HTTP/1.1\r\ntransfer-encoding: chunked\r\n\r\n"

    async def main(stage: Scene) -> None:
        async with connected(stage.address) as peer:
            await peer.send(head + b"%x\r\n" % (1 << 60) + bytes(600_000))
            assert [answer.status for answer in await peer.ended()] == [413]
        async with connected(stage.address) as first, connected(stage.address) as second:
            part = b"%x\r\n%b\r\n" % (300_000, bytes(300_000))
            await first.send(head + part)
            await asyncio.sleep(0.1)
            await second.send(head + part)
            assert [answer.status for answer in await second.ended()] == [503]
            await first.send(b"0\r\n\r\n")
            assert len((await first.get())[0].body) == 300_000
        await stage.settled()
        assert stage.listener._receiving == 0

    play(main, loop, max_body_bytes=500_000, max_bodies_bytes=500_000)


def test_no_memory_for_a_body_is_said(monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(size: int) -> memoryview:
        raise OSError(12, "Cannot allocate memory")

    monkeypatch.setattr(connection_module, "allocate", refuse)

    async def main(stage: Scene) -> None:
        assert (await ask(stage.address, request(b"/x", bytes(100_000)))).status == 503
        await stage.settled()
        assert stage.listener._receiving == 0
        await stage.alive()

    play(main)


@every_loop
def test_an_app_that_fails_still_answers(loop: str, caplog: pytest.LogCaptureFixture) -> None:
    async def main(stage: Scene) -> None:
        async with connected(stage.address) as peer:
            targets = [b"/broken", b"/1", b"/broken-later", b"/slow?0.01", b"/broken", b"/2"]
            await peer.send(b"".join(request(target) for target in targets))
            answers = await peer.get(6)
            assert [answer.status for answer in answers] == [500, 200, 500, 200, 500, 200]
            assert bytes(answers[0].body) == b"internal error"
        async with connected(stage.address) as peer:
            await peer.send(request(b"/cancels"))
            assert await peer.ended() == []  # Rather than waiting for ever.
        await stage.alive()

    play(main, loop)
    assert sum("failed in the app" in r.getMessage() for r in caplog.records) == 3
    caplog.clear()


@every_loop
def test_slow_peers_are_cut_off_and_told(loop: str) -> None:
    async def main(stage: Scene) -> None:
        async def outcome(first: bytes, drip: bytes = b"") -> tuple[list[int], bytes]:
            async with connected(stage.address) as peer:
                await peer.send(first)
                ending = asyncio.ensure_future(peer.ended())
                while not ending.done():
                    peer.writer.write(drip)
                    await asyncio.sleep(0.05)
                answers = await ending
                return [a.status for a in answers], bytes(answers[-1].body) if answers else b""

        body = request(headers={b"content-length": b"100000"})
        outcomes = await asyncio.gather(
            outcome(b""),
            outcome(b"POST / HTTP/1.1\r\n", b"a"),
            outcome(b"", b"\r\n"),
            outcome(body + bytes(1000)),
            outcome(body, b"x"),
            outcome(request(b"/ok")),
        )
        assert list(outcomes) == [
            ([], b""),
            ([408], b"headers too slow"),
            ([], b""),  # Empty lines begin no request: such a peer is only idle.
            ([408], b"body stalled"),
            ([408], b"body too slow"),
            ([200], b"[1]"),
        ]
        await stage.settled()
        assert stage.listener._receiving == 0

    play(main, loop, header_s=0.3, stall_s=0.3, idle_s=0.5)


@pytest.mark.slow
@every_loop
@pytest.mark.parametrize("target", [b"/big?50000000", b"/big?60000", b"/stream"])
def test_answers_nobody_takes_are_held_within_bounds_then_dropped(loop: str, target: bytes) -> None:
    async def main(stage: Scene) -> None:
        async with connected(stage.address) as peer:
            peer.writer.transport.pause_reading()  # type: ignore[attr-defined]
            asked = request(target) * (2000 if target == b"/big?60000" else 1)
            peer.writer.write(asked)
            held = 0
            async with asyncio.timeout(15):
                await stage.settled(empty=False)
                while stage.listener.connections:
                    for link in stage.listener.connections:
                        held = max(held, link._transport.get_write_buffer_size())
                    await asyncio.sleep(0.01)
            assert 0 < held < 8 << 20
            assert len(stage.app.handled) < 400
        if target == b"/stream":
            assert produced < 64 << 20
        await stage.alive()

    play(main, loop, stall_s=0.2, least_bytes_per_s=10_000)


@every_loop
def test_a_pipelining_peer_that_starts_to_read_gets_everything(loop: str) -> None:
    async def main(stage: Scene) -> None:
        async with connected(stage.address) as peer:
            peer.writer.transport.pause_reading()  # type: ignore[attr-defined]
            peer.writer.write(request(b"/big?60000") * 500)
            await asyncio.sleep(0.3)
            assert len(stage.app.handled) < 400
            peer.writer.transport.resume_reading()  # type: ignore[attr-defined]
            assert [len(a.body) for a in await peer.get(500)] == [60000] * 500

    play(main, loop)


@every_loop
def test_the_longest_idle_makes_room(loop: str) -> None:
    async def main(stage: Scene) -> None:
        async with connected(stage.address) as known, connected(stage.address) as busy:
            await known.send(request())
            await known.get()
            await busy.send(request(b"/slow?0.5"))
            strangers = [await _open(stage.address) for _ in range(30)]
            await asyncio.sleep(0.1)
            assert len(stage.listener.connections) <= 5
            gone = [peer.reader.at_eof() for peer in strangers]
            assert gone == [True] * 27 + [False] * 3
            await known.send(request())
            assert len(await known.get(2)) == 2
            assert (await busy.get())[0].status == 200
            for peer in strangers:
                peer.writer.transport.abort()

    play(main, loop, max_connections_per_peer=5)


async def _open(address: Address) -> Peer:
    return Peer(*await asyncio.open_connection(address.host, address.port))


@every_loop
def test_a_peer_that_began_with_a_pipeline_is_known_too(loop: str) -> None:
    async def main(stage: Scene) -> None:
        async with connected(stage.address) as longest, connected(stage.address) as pipelining:
            await longest.send(request())
            await longest.get()
            await pipelining.send(request(b"/slow?0.02") + request())
            await pipelining.get(2)
            async with connected(stage.address) as newcomer:
                await newcomer.send(request())
                await newcomer.get()
                await longest.ended()
                await pipelining.send(request())
                assert len(await pipelining.get(3)) == 3

    play(main, loop, max_connections=2)


@every_loop
def test_when_all_are_busy_the_newcomer_is_told(loop: str) -> None:
    async def main(stage: Scene) -> None:
        async with connected(stage.address) as one, connected(stage.address) as two:
            for peer in (one, two):
                await peer.send(request(b"/slow?0.4"))
            await asyncio.sleep(0.05)
            async with connected(stage.address) as third:
                answers = await third.ended()
                assert [answer.status for answer in answers] == [503]
                assert b"too many connections" in answers[0].body
            for peer in (one, two):
                assert (await peer.get())[0].status == 200
        await stage.settled()
        await stage.alive()

    play(main, loop, max_connections=2)


@every_loop
def test_closing_lets_answers_under_way_finish(loop: str) -> None:
    async def main(stage: Scene) -> None:
        async with connected(stage.address) as busy, connected(stage.address) as idle:
            await busy.send(request(b"/slow?0.2") + request(b"/never"))
            await idle.send(request())
            await idle.get()
            await asyncio.sleep(0.05)
            closing = asyncio.ensure_future(stage.listener.close(grace_s=5))
            assert len(await idle.ended()) == 1
            answers = await busy.ended()
            assert [(a.status, a.headers[b"connection"]) for a in answers] == [(200, b"close")]
            await closing
            assert [r.target for r in stage.app.handled] == [b"/slow?0.2", b"/rpc/echo"]
            with pytest.raises(ConnectionRefusedError):
                await _open(stage.address)
        assert not stage.listener.connections

    play(main, loop)


@every_loop
def test_closing_cuts_what_is_not_done_in_time(loop: str) -> None:
    async def main(stage: Scene) -> None:
        async with connected(stage.address) as peer:
            await peer.send(request(b"/slow?20"))
            await asyncio.sleep(0.05)
            await stage.listener.close(grace_s=0.1)
            assert await peer.ended() == []
            await stage.settled()
            await asyncio.sleep(0)
            assert stage.app.cancelled == 1

    play(main, loop)


@every_loop
def test_a_connection_ready_only_after_closing_is_cut(loop: str) -> None:
    async def main(stage: Scene) -> None:
        await stage.listener.close()
        ours, theirs = socket.socketpair()
        with ours:
            ours.setblocking(False)
            await asyncio.get_running_loop().connect_accepted_socket(
                lambda: ServerConnection(stage.listener), theirs
            )
            assert stage.listener.connections == set()
            async with asyncio.timeout(5):
                assert await asyncio.get_running_loop().sock_recv(ours, 10) == b""

    play(main, loop)


@every_loop
def test_a_peer_that_leaves_cancels_its_work(loop: str) -> None:
    async def main(stage: Scene) -> None:
        async with connected(stage.address) as peer:
            await peer.send(request(b"/slow?20"))
            await asyncio.sleep(0.05)
        await stage.settled()
        await asyncio.sleep(0)
        assert stage.app.cancelled == 1

    play(main, loop)


@every_loop
def test_an_answer_ready_as_its_peer_leaves_goes_nowhere(loop: str) -> None:
    async def main(stage: Scene) -> None:
        def leave() -> None:
            # Closed, and not yet told so: the gap between the two is a turn of the loop.
            for link in stage.listener.connections:
                link._transport.abort()

        for size in (4, 200_000):
            stage.app.parting, stage.app.slow_bytes = leave, size
            async with connected(stage.address) as peer:
                await peer.send(request(b"/slow?0.02") * 3)
                assert await peer.ended() == []
            await stage.settled()
        await stage.alive()

    play(main, loop)


def test_patience_counts() -> None:
    patience = Patience(Limits(header_s=10, idle_s=75, stall_s=20, least_bytes_per_s=100), 0.0)
    assert patience.with_idling(10, known=False) == ""
    assert patience.with_idling(10.1, known=False) == "idle"
    assert patience.with_idling(75, known=True) == ""
    assert patience.with_head(10) == ""
    assert patience.with_head(11) == "headers too slow"
    patience.note(1, 100.0)
    assert patience.with_body(120, 1) == ""
    assert patience.with_body(121, 2) == "body too slow"  # 2 of 2100 bytes due.
    assert patience.with_body(130, 3000) == ""
    assert patience.with_body(150.1, 3000) == "body stalled"
    assert patience.with_answer(200, 1000, 0) == ""
    assert patience.with_answer(260, 5000, 4000) == ""  # 60 s are not over yet.
    assert patience.with_answer(261, 5000, 4000) == "answer taken too slowly"
    assert patience.with_answer(400, 50_000, 1000) == ""  # 48,000 taken, 13,900 due.
