"""The in-memory transport: what both sides see, and hand-computed times."""

from __future__ import annotations

import asyncio
import contextvars
import logging
from collections.abc import AsyncIterator

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from axon.errors import ConfigurationError, ConnectFailed
from axon.rpc.address import Address
from axon.rpc.link import Link
from axon.rpc.memory.network import HEAD_BYTES, Network
from axon.rpc.messages import Buffer, Listener, Request, Response, Transport
from axon.testbed.virtual import run
from tests.rpc.scenes import (
    MB,
    PI,
    Pair,
    Served,
    body_of,
    now,
    play,
    read,
)

# ---- what both sides see


def test_it_is_a_transport() -> None:
    async def main() -> None:
        transport: Transport = Network().transport("pi")
        listener: Listener = await transport.listen(Served(), PI)
        assert await transport.host_towards(Address("hub", 1, "memory")) == "pi"
        await listener.close()
        await transport.close()

    run(main())


def test_a_request_and_its_answer() -> None:
    async def scene(pair: Pair) -> None:
        response = await pair.ask([b"ab", bytearray(b"cd"), memoryview(b"ef")])
        assert (response.status, body_of(response)) == (200, b"abcdef")
        assert response.headers == {b"x-from": b"hub", b"content-length": b"6"}
        (request,) = pair.app.handled
        assert (request.method, request.target, request.peer) == (b"POST", b"/f", "hub")
        assert request.headers[b"content-length"] == b"6"

    play(scene)


def test_an_empty_body_is_no_piece() -> None:
    async def scene(pair: Pair) -> None:
        response = await pair.ask([b"", b""])
        assert response.body == ()
        assert pair.app.handled[0].body == ()

    play(scene)


def test_buffers_of_wide_items_are_weighed_in_bytes() -> None:
    async def scene(pair: Pair) -> None:
        words = memoryview(bytearray(64)).cast("Q")
        assert len(body_of(await pair.ask([words]))) == 64
        assert pair.app.handled[0].headers[b"content-length"] == b"64"

    play(scene)


def test_neither_side_sees_the_others_memory() -> None:
    kept = bytearray(b"answer")

    async def handler(request: Request) -> Response:
        (piece,) = request.body
        assert isinstance(piece, bytearray)
        piece[0:1] = b"X"  # the receiver may write
        return Response(200, body=[kept])

    async def scene(pair: Pair) -> None:
        sent = bytearray(b"question")
        task = pair.start([sent])
        await asyncio.sleep(0.5)
        sent[:] = b"????????"  # while it is on the way
        await asyncio.sleep(1.0)
        assert pair.app.handled[0].body == (b"Xuestion",)
        kept[:] = b"??????"
        response = await task
        assert body_of(response) == b"answer"
        assert isinstance(response.body[0], bytearray)
        assert sent == b"????????"

    play(scene, handler, pi=Link(latency_s=1.0))


def test_the_senders_request_is_left_as_it_was() -> None:
    async def scene(pair: Pair) -> None:
        request = Request(b"POST", b"/f", {b"a": b"b"}, [b"body"])
        await pair.client.exchange(PI, request)
        assert request == Request(b"POST", b"/f", {b"a": b"b"}, [b"body"])

    play(scene)


def test_a_refusal_comes_without_the_body_being_carried() -> None:
    async def scene(pair: Pair) -> float:
        pair.app.refusal = Response(413, body=[b"no"])
        response = await pair.ask([bytes(100 * MB)])
        assert (response.status, body_of(response)) == (413, b"no")
        assert pair.app.admitted[0].headers[b"content-length"] == b"100000000"
        assert pair.app.handled == []
        return now()

    assert play(scene, pi=Link(latency_s=0.5, down_bytes_per_s=MB)) == pytest.approx(1.0, abs=0.01)


def test_what_admit_leaves_in_the_context_reaches_handle() -> None:
    class Judge(Served):
        def admit(self, request: Request) -> Response | None:
            request.context = "known"
            return None

    async def main() -> object:
        network = Network()
        judge = Judge()
        await network.transport("pi").listen(judge, PI)
        await network.transport("hub").exchange(PI, Request(b"GET", b"/"))
        return judge.handled[0].context

    assert run(main()) == "known"


def test_the_app_does_not_see_the_callers_context_variables() -> None:
    variable = contextvars.ContextVar("variable", default="unset")

    async def handler(request: Request) -> Response:
        return Response(200, body=[variable.get().encode()])

    async def scene(pair: Pair) -> bytes:
        variable.set("the caller's")
        return body_of(await pair.ask())

    assert play(scene, handler) == b"unset"


def test_an_app_that_raises_is_logged_and_answers_500(caplog: pytest.LogCaptureFixture) -> None:
    def handler(request: Request) -> Response:
        raise ZeroDivisionError("a bug")

    async def later(request: Request) -> Response:
        await asyncio.sleep(1.0)
        raise ZeroDivisionError("a bug")

    async def scene(pair: Pair) -> int:
        return (await pair.ask()).status

    for each in (handler, later):
        caplog.clear()
        with caplog.at_level(logging.ERROR, "axon.memory"):
            assert play(scene, each) == 500
        (record,) = caplog.records
        assert record.name == "axon.memory"
        assert record.exc_info is not None
        assert record.exc_info[0] is ZeroDivisionError


def test_an_app_that_raises_while_admitting_answers_500(caplog: pytest.LogCaptureFixture) -> None:
    class Broken(Served):
        def admit(self, request: Request) -> Response | None:
            raise ZeroDivisionError("a bug")

    async def main() -> int:
        network = Network()
        await network.transport("pi").listen(Broken(), PI)
        return (await network.transport("hub").exchange(PI, Request(b"GET", b"/"))).status

    assert run(main()) == 500
    assert "while admitting" in caplog.text


# ---- addresses


def test_nobody_listening_is_a_failed_connection() -> None:
    async def scene(pair: Pair) -> None:
        with pytest.raises(ConnectFailed, match="nobody listens at memory://pi:8001"):
            await pair.ask(address=Address("pi", 8001, "memory"))
        with pytest.raises(ConnectFailed, match="no host 'nowhere'"):
            await pair.ask(address=Address("nowhere", 8000, "memory"))

    play(scene)


def test_port_zero_takes_a_free_one_and_a_taken_one_is_refused() -> None:
    async def scene(pair: Pair) -> None:
        wanted = Address("pi", 0, "memory")
        first = await pair.server.listen(Served(), wanted)
        second = await pair.server.listen(Served(), wanted)
        assert len({PI.port, first.address.port, second.address.port, 0}) == 4
        assert (await pair.ask(address=second.address)).status == 200
        with pytest.raises(ConfigurationError, match="port 8000 of pi is taken"):
            await pair.server.listen(Served(), PI)

    play(scene)


def test_addresses_that_cannot_be_meant_are_refused() -> None:
    async def scene(pair: Pair) -> None:
        with pytest.raises(ConfigurationError, match="cannot reach http://pi:8000"):
            await pair.ask(address=Address("pi", 8000))
        with pytest.raises(ConfigurationError, match="hub cannot listen as pi"):
            await pair.client.listen(Served(), Address("pi", 1, "memory"))
        with pytest.raises(ConfigurationError, match=r"no host 'pie'.*known: pi, hub"):
            pair.network.partition("pie")

    play(scene)


# ---- time


def test_a_round_trip_pays_both_latencies_twice_and_the_slower_bandwidth() -> None:
    async def scene(pair: Pair) -> float:
        await pair.ask([bytes(MB)])
        return now()

    pi = Link(latency_s=0.1, up_bytes_per_s=MB, down_bytes_per_s=2 * MB)
    hub = Link(latency_s=0.02, up_bytes_per_s=10 * MB, down_bytes_per_s=20 * MB)
    there = HEAD_BYTES / (10 * MB) + 0.12 + HEAD_BYTES / (2 * MB) + 0.5
    back = (HEAD_BYTES + MB) / MB + 0.12
    # The head leaves hub before pi's slower link has taken it all, hence the small tolerance.
    assert play(scene, pi=pi, hub=hub) == pytest.approx(there + back, abs=3e-4)


def test_a_small_exchange_to_the_digit() -> None:
    async def scene(pair: Pair) -> float:
        await pair.ask()
        return now()

    # 200 bytes at 1000 bytes/s down, then 200 at 100 up, and 0.5 s each way.
    link = Link(latency_s=0.5, down_bytes_per_s=1000, up_bytes_per_s=100)
    assert play(scene, lambda _: Response(200), pi=link) == pytest.approx(0.2 + 0.5 + 2.0 + 0.5)


def test_two_requests_at_once_share_the_link() -> None:
    async def handler(request: Request) -> Response:
        return Response(200)

    async def scene(pair: Pair) -> list[float]:
        async def one() -> float:
            await pair.ask([bytes(MB)])
            return now()

        return list(await asyncio.gather(one(), one()))

    assert play(scene, handler, pi=Link(down_bytes_per_s=MB)) == pytest.approx([1, 2], abs=1e-3)


def test_a_host_talks_to_itself_for_nothing_even_when_cut_off() -> None:
    async def scene(pair: Pair) -> float:
        pair.network.partition("pi")
        response = await pair.server.exchange(PI, Request(b"POST", b"/", body=[bytes(MB)]))
        assert response.headers[b"x-from"] == b"pi"
        return now()

    assert play(scene, pi=Link(latency_s=9.0, up_bytes_per_s=1.0)) == 0.0


@settings(max_examples=10, deadline=None)
@given(st.integers(0, 1000))
def test_the_same_seed_gives_the_same_schedule(seed: int) -> None:
    async def handler(request: Request) -> Response:
        async def pieces() -> AsyncIterator[Buffer]:
            for _ in range(3):
                yield bytes(1000)

        return Response(200, stream=pieces())

    async def scene(pair: Pair) -> list[tuple[int, float]]:
        landed: list[tuple[int, float]] = []

        async def one(number: int) -> None:
            await read(await pair.ask([bytes(500 * number)]))
            landed.append((number, now()))

        await asyncio.gather(*(one(number) for number in range(12)))
        return landed

    link = Link(latency_s=0.01, jitter_s=0.1, loss=0.3, up_bytes_per_s=1e5)
    first = play(scene, handler, pi=link, hub=link, seed=seed)
    assert first == play(scene, handler, pi=link, hub=link, seed=seed)
    assert first != play(scene, handler, pi=link, hub=link, seed=seed + 1)
