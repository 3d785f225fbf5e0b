"""A device's link over a transport, exact in virtual time."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import suppress
from random import Random
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from axon.errors import ConnectFailed, ConnectionLost
from axon.rpc.address import Address
from axon.rpc.link import Link
from axon.rpc.memory.network import HEAD_BYTES, Network
from axon.rpc.memory.stream import STREAM_WINDOW
from axon.rpc.messages import Buffer, Request, Response
from axon.testbed import virtual
from axon.testbed.shaping import WINDOW_BYTES, ShapedTransport
from tests.rpc.scenes import PI, Handler, Producer, Served, Witness, body_of, close, echo, now, read
from tests.testbed.timing import timed

SLOW = Link(latency_s=0.25, up_bytes_per_s=400.0, down_bytes_per_s=800.0)
"""A head takes 0.5 s up and 0.25 s down: every number below is exact in binary."""


def shape(network: Network, host: str, link: Link, seed: int = 0) -> ShapedTransport:
    return ShapedTransport(network.transport(host), link, Random(seed))


class Pair:
    """A client `hub` and a served `pi` on a network that costs nothing, either one shaped."""

    def __init__(self, handler: Handler, hub: Link, pi: Link) -> None:
        network = Network()
        self.hub = shape(network, "hub", hub)
        self.pi = shape(network, "pi", pi)
        self.app = Served(handler)

    async def ask(self, size: int = 0) -> Response:
        return await self.hub.exchange(PI, Request(b"POST", b"/f", body=(b"x" * size,)))

    async def stream(self) -> Response:
        return await self.hub.exchange(PI, Request(b"POST", b"/f", streams=True))


def play(
    scene: Callable[[Pair], Awaitable[Any]],
    handler: Handler = echo,
    *,
    hub: Link | None = None,
    pi: Link | None = None,
) -> Any:
    async def main() -> Any:
        pair = Pair(handler, hub or Link(), pi or Link())
        await pair.pi.listen(pair.app, PI)
        return await scene(pair)

    return virtual.run(main())


@pytest.mark.parametrize("size", [0, 800])
def test_a_client_pays_up_for_the_request_and_down_for_the_answer(size: int) -> None:
    up_s = HEAD_BYTES / 400.0 + 0.25 + size / 400.0
    down_s = (HEAD_BYTES + size) / 800.0 + 0.25
    assert play(lambda pair: timed(pair.ask(size)), hub=SLOW) == up_s + down_s


@pytest.mark.parametrize("size", [0, 800])
def test_a_worker_pays_down_for_the_request_and_up_for_the_answer(size: int) -> None:
    down_s = HEAD_BYTES / 800.0 + 0.25 + size / 800.0
    up_s = (HEAD_BYTES + size) / 400.0 + 0.25
    assert play(lambda pair: timed(pair.ask(size)), pi=SLOW) == down_s + up_s


def test_the_app_sees_a_request_only_when_it_has_come_down() -> None:
    seen: list[float] = []

    def handler(request: Request) -> Response:
        seen.append(now())
        return echo(request)

    async def scene(pair: Pair) -> bytes:
        return body_of(await pair.ask(800))

    assert play(scene, handler, pi=SLOW) == b"x" * 800
    assert seen == [HEAD_BYTES / 800.0 + 0.25 + 800 / 800.0]


def test_a_shaped_host_takes_as_long_as_the_same_host_in_the_simulation() -> None:
    async def simulated() -> float:
        network = Network()
        network.set_link("pi", SLOW)
        await network.transport("pi").listen(Served(), PI)
        request = Request(b"POST", b"/f", body=(b"x" * 1200,))
        return await timed(network.transport("hub").exchange(PI, request))

    assert play(lambda pair: timed(pair.ask(1200)), pi=SLOW) == virtual.run(simulated())


def test_two_transfers_share_a_direction_and_leave_the_other_alone() -> None:
    async def scene(pair: Pair) -> list[float]:
        return await asyncio.gather(*(timed(pair.ask(800)) for _ in range(2)))

    # The heads go one behind the other, then the bodies: 0.5, 1.0, then 2 s each from 1.0 on.
    rate = Link(up_bytes_per_s=400.0)
    assert play(scene, hub=rate) == [3.0, 5.0]
    assert play(scene, hub=Link(latency_s=0.25)) == [0.5, 0.5]


def test_all_listeners_and_calls_of_a_device_share_its_link() -> None:
    async def main() -> list[float]:
        network = Network()
        pi = shape(network, "pi", Link(up_bytes_per_s=200.0))
        await pi.listen(Served(), PI)
        await network.transport("hub").listen(Served(), Address("hub", 1, "memory"))
        answered = network.transport("hub").exchange(PI, Request(b"GET", b"/"))
        called = pi.exchange(Address("hub", 1, "memory"), Request(b"GET", b"/"))
        return sorted(await asyncio.gather(timed(answered), timed(called)))

    assert virtual.run(main()) == [1.0, 2.0]


def test_a_cancelled_transfer_frees_the_link() -> None:
    async def scene(pair: Pair) -> tuple[float, int]:
        bulk = asyncio.create_task(pair.ask(400_000))
        await asyncio.sleep(10.0)
        bulk.cancel()
        with suppress(asyncio.CancelledError):
            await bulk
        return await timed(pair.ask()), len(pair.app.handled)

    assert play(scene, hub=Link(up_bytes_per_s=400.0)) == (0.5, 1)
    # The worker hears that the sender is gone, and its app never hears of the request.
    assert play(scene, pi=Link(down_bytes_per_s=400.0)) == (0.5, 1)


def test_cancelling_reaches_the_app() -> None:
    witness = Witness()

    async def scene(pair: Pair) -> None:
        with suppress(TimeoutError):
            async with asyncio.timeout(3.0):
                await pair.ask()
        await asyncio.sleep(1.0)

    play(scene, witness, pi=SLOW)
    assert witness.cancelled_at == [3.0]


def test_the_link_can_be_replaced_while_it_is_used() -> None:
    async def scene(pair: Pair) -> list[float]:
        first = await timed(pair.ask())
        pair.hub.link = Link(latency_s=2.0)
        assert pair.hub.link.latency_s == 2.0
        return [first, await timed(pair.ask())]

    assert play(scene, hub=Link(latency_s=1.0)) == [2.0, 4.0]


def test_a_link_that_loses_everything_is_silent() -> None:
    async def scene(pair: Pair) -> int:
        with pytest.raises(TimeoutError):
            async with asyncio.timeout(1000.0):
                await pair.ask()
        return len(pair.app.handled)

    assert play(scene, hub=Link(loss=1.0)) == 0
    assert play(scene, pi=Link(loss=1.0)) == 0


@settings(max_examples=20, deadline=None)
@given(st.integers(0, 2**32), st.sampled_from([Link(jitter_s=0.5), Link(loss=0.5)]))
def test_chance_is_the_seeds_and_one_directions_does_not_move_the_others(
    seed: int, link: Link
) -> None:
    async def flights(requests: int) -> tuple[list[float], list[float]]:
        hub = shape(Network(), "hub", link, seed)
        up = [hub._up.flight_s() for _ in range(requests)]
        return up, [hub._down.flight_s() for _ in range(3)]

    few_up, few_down = virtual.run(flights(1))
    many_up, many_down = virtual.run(flights(4))
    assert (few_up, few_down) == (many_up[:1], many_down)


def test_errors_and_names_are_those_underneath() -> None:
    async def scene(pair: Pair) -> None:
        assert pair.hub.scheme == "memory"
        assert await pair.hub.host_towards(PI) == "hub"
        with pytest.raises(ConnectFailed, match="nobody listens"):
            await pair.hub.exchange(Address("pi", 9, "memory"), Request(b"GET", b"/"))
        await pair.hub.close()
        with pytest.raises(ConnectFailed, match="closed"):
            await pair.ask()

    play(scene)


def test_a_refusal_by_the_head_keeps_the_app_from_the_body() -> None:
    async def scene(pair: Pair) -> tuple[int, int]:
        pair.app.refusal = Response(401)
        return (await pair.ask(800)).status, len(pair.app.handled)

    assert play(scene, pi=Link(latency_s=1.0)) == (401, 0)


# Streams, in virtual time


async def arrivals(response: Response) -> list[float]:
    assert response.stream is not None
    return [now() async for _ in response.stream]


@pytest.mark.parametrize("shaped", ["hub", "pi"])
def test_a_streams_buffers_pay_the_bandwidth_in_turn_and_fly_together(shaped: str) -> None:
    async def scene(pair: Pair) -> list[float]:
        times = await arrivals(await pair.stream())
        return [*times, now()]

    link = Link(latency_s=0.25, up_bytes_per_s=800.0, down_bytes_per_s=800.0)
    links = {shaped: link}
    request_s = HEAD_BYTES / 800.0 + 0.25
    first_s = request_s + (HEAD_BYTES + 400) / 800.0 + 0.25
    # The end has no bytes of its own and the latency of the last buffer.
    expected = [first_s, first_s + 0.5, first_s + 1.0, first_s + 1.0]
    assert play(scene, Producer(3, size=400), **links) == expected


def test_sparse_buffers_each_come_a_latency_after_they_were_made() -> None:
    async def scene(pair: Pair) -> list[float]:
        return await arrivals(await pair.stream())

    assert play(scene, Producer(3, every_s=1.0), pi=Link(latency_s=0.25)) == [1.5, 2.5, 3.5]


def test_a_producer_is_no_further_ahead_than_the_window() -> None:
    producer = Producer(100, size=WINDOW_BYTES // 4)

    async def scene(pair: Pair) -> tuple[int, int]:
        response = await pair.stream()
        await asyncio.sleep(1.0)
        ahead = producer.produced
        return ahead, len(await read(response))

    # At each of the two shaped ends four fill the window and one waits for room.
    between = STREAM_WINDOW
    ahead, whole = play(scene, producer, pi=Link(latency_s=0.25))
    assert ahead == 2 * (4 + 1) + between
    assert whole == 100 * (WINDOW_BYTES // 4)


@pytest.mark.parametrize("shaped", ["hub", "pi"])
def test_closing_a_stream_closes_its_producer_and_frees_the_link(shaped: str) -> None:
    producer = Producer(100, size=80_000)

    async def scene(pair: Pair) -> float:
        response = await pair.stream()
        await asyncio.sleep(1.0)
        closed = now()
        await close(response.stream)
        await asyncio.sleep(1.0)
        assert producer.closed_at == [closed]
        again = await pair.stream()
        await close(again.stream)
        return now() - closed - 1.0

    links = {shaped: Link(up_bytes_per_s=800.0, down_bytes_per_s=800.0)}
    assert play(scene, producer, **links) == 2 * HEAD_BYTES / 800.0


def test_a_stream_given_up_before_its_head_arrives_is_closed() -> None:
    producer = Producer(100, size=WINDOW_BYTES)

    async def scene(pair: Pair) -> None:
        with suppress(TimeoutError):
            async with asyncio.timeout(1.5):
                await pair.stream()
        await asyncio.sleep(1.0)

    play(scene, producer, hub=Link(latency_s=1.0))
    assert producer.closed_at == [1.5]


def test_a_stream_that_breaks_off_says_so_after_what_came_first() -> None:
    async def pieces() -> AsyncIterator[Buffer]:
        yield b"first"
        raise ConnectionLost("the far end went away")

    async def scene(pair: Pair) -> float:
        response = await pair.stream()
        assert response.stream is not None
        assert bytes(await anext(response.stream)) == b"first"
        with pytest.raises(ConnectionLost):
            await anext(response.stream)
        with pytest.raises(StopAsyncIteration):
            await anext(response.stream)
        return now()

    assert play(scene, lambda _: Response(200, stream=pieces()), hub=Link(latency_s=0.5)) == 1.0
