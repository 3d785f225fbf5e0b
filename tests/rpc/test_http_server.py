"""The receiving end of HTTP over real loopback sockets: framing, order and what is refused."""

from __future__ import annotations

import asyncio

import pytest

from axon.rpc.http.connection import DIRECT_BYTES
from tests.rpc.malformed import MALFORMED
from tests.rpc.mirrors import Scene, play
from tests.rpc.raw import ask, connected, request
from tests.rpc.worlds import every_loop

pytestmark = pytest.mark.usefixtures("quick_sweeps", "no_errors_logged")

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
