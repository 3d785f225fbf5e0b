"""The receiving end of HTTP over real loopback sockets: limits, patience and room for others."""

from __future__ import annotations

import asyncio

import pytest

from axon.rpc.http import connection as connection_module
from axon.rpc.http.patience import Patience
from axon.rpc.limits import Limits
from tests.rpc.mirrors import Scene, open_peer, play
from tests.rpc.raw import ask, connected, request
from tests.rpc.worlds import every_loop

pytestmark = pytest.mark.usefixtures("quick_sweeps", "no_errors_logged")


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
            assert stage.app.produced < 64 << 20
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
            strangers = [await open_peer(stage.address) for _ in range(30)]
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
