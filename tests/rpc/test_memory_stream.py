"""Streamed answers in memory: the same bytes, in order, in time, and closed at both ends."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator

import anyio
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from axon.errors import ConnectionLost, TooLarge
from axon.rpc.link import Link
from axon.rpc.memory import network as network_module
from axon.rpc.memory.network import Network
from axon.rpc.memory.stream import MemoryStream
from axon.rpc.messages import Buffer, Request, Response
from axon.testbed.virtual import run
from tests.rpc.scenes import (
    PI,
    Pair,
    Producer,
    Served,
    body_of,
    close,
    now,
    play,
    read,
)

ASK = Request(b"GET", b"/", streams=True)
ASK_WHOLE = Request(b"GET", b"/")


def test_a_stream_brings_the_same_bytes() -> None:
    producer = Producer(20)

    async def scene(pair: Pair) -> None:
        response = await pair.ask()
        assert response.headers[b"x-kind"] == b"stream"
        assert response.body == ()
        assert await read(response) == b"".join(bytes([n]) * 10 for n in range(20))
        assert response.stream is not None
        with pytest.raises(StopAsyncIteration):
            await anext(response.stream)
        assert len(producer.closed_at) == 1

    play(scene, producer, pi=Link(latency_s=0.1))


def test_a_stream_nobody_wanted_is_read_whole() -> None:
    async def scene(pair: Pair) -> None:
        response = await pair.client.exchange(PI, ASK_WHOLE)
        assert response.stream is None
        assert response.headers[b"x-kind"] == b"stream"
        assert body_of(response) == b"".join(bytes([n]) * 10 for n in range(20))

    play(scene, Producer(20), pi=Link(latency_s=0.1))


def test_a_stream_nobody_wanted_has_a_limit(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(network_module, "MOST_BYTES", 95)
    producer = Producer(1000, every_s=1.0)

    async def scene(pair: Pair) -> None:
        with pytest.raises(TooLarge, match="100 bytes, this client takes 95"):
            await pair.client.exchange(PI, ASK_WHOLE)
        await asyncio.sleep(0.5)
        assert (producer.produced, producer.closed_at) == (10, [10.0])

    play(scene, producer)


def test_a_stream_nobody_wanted_ends_with_its_call() -> None:
    producer = Producer(50, every_s=1.0)

    async def scene(pair: Pair) -> None:
        with anyio.move_on_after(2.5):
            await pair.client.exchange(PI, ASK_WHOLE)
        asyncio.get_running_loop().call_later(2.0, pair.network.crash, "pi")
        with pytest.raises(ConnectionLost, match="pi crashed"):
            await pair.client.exchange(PI, ASK_WHOLE)
        await asyncio.sleep(0.1)
        assert producer.closed_at == [2.5, 4.5]

    play(scene, producer)


def test_a_stream_is_shaped() -> None:
    async def scene(pair: Pair) -> list[float]:
        response = await pair.ask()
        assert response.stream is not None
        return [now() async for _ in response.stream]

    link = Link(latency_s=0.5, up_bytes_per_s=1000)
    # Request 0.5; head 0.2 + 0.5; each buffer another second behind it.
    expected = [0.5 + 0.2 + 0.5 + n for n in (1, 2, 3)]
    assert play(scene, Producer(3, size=1000), pi=link) == pytest.approx(expected)


def test_a_slow_producers_buffers_each_take_the_latency() -> None:
    async def scene(pair: Pair) -> list[float]:
        response = await pair.ask()
        assert response.stream is not None
        return [now() async for _ in response.stream]

    made = [0.25 + n for n in (1.0, 2.0, 3.0)]
    times = play(scene, Producer(3, every_s=1.0), pi=Link(latency_s=0.25))
    assert times == pytest.approx([when + 0.25 for when in made])


def test_a_producer_is_at_most_two_buffers_ahead() -> None:
    producer = Producer(50)

    async def scene(pair: Pair) -> None:
        response = await pair.ask()
        assert response.stream is not None
        for consumed in range(10):
            await asyncio.sleep(5.0)
            assert producer.produced == consumed + 2
            await anext(response.stream)

    play(scene, producer)


def test_closing_a_stream_closes_its_producer() -> None:
    producer = Producer(50)

    async def scene(pair: Pair) -> None:
        response = await pair.ask()
        assert response.stream is not None
        await anext(response.stream)
        await asyncio.sleep(1.0)
        await close(response.stream)
        await close(response.stream)
        await asyncio.sleep(1.0)
        assert producer.closed_at == [1.0]
        with pytest.raises(StopAsyncIteration):
            await anext(response.stream)

    play(scene, producer)


def test_closing_a_stream_unread_closes_its_producer() -> None:
    closed: list[float] = []

    class Pieces:
        def __aiter__(self) -> Pieces:
            return self

        async def __anext__(self) -> Buffer:
            await anyio.sleep_forever()
            return b""

        async def aclose(self) -> None:
            closed.append(now())

    async def scene(pair: Pair) -> None:
        response = await pair.ask()
        await close(response.stream)
        await asyncio.sleep(1.0)
        assert closed == [0.0]

    play(scene, lambda _: Response(200, stream=Pieces()))


class SlowToClose:
    """A producer of one buffer that takes a second to close."""

    def __init__(self) -> None:
        self.closed_at: list[float] = []
        self._pieces = [b"only"]

    def __aiter__(self) -> SlowToClose:
        return self

    async def __anext__(self) -> Buffer:
        if not self._pieces:
            raise StopAsyncIteration
        return self._pieces.pop()

    async def aclose(self) -> None:
        await asyncio.sleep(1.0)
        self.closed_at.append(now())


def test_a_stream_closed_before_its_first_step_still_closes_its_producer() -> None:
    async def main() -> None:
        async def carry(size: int) -> None:
            raise AssertionError("nothing should be sent")

        producer, ended = SlowToClose(), []
        stream = MemoryStream(
            producer, carry=carry, start=asyncio.create_task, ended=lambda: ended.append(True)
        )
        stream.close()
        await asyncio.sleep(2.0)
        assert (producer.closed_at, ended) == ([1.0], [True])

    run(main())


def test_reading_to_the_end_does_not_interrupt_a_producer_that_is_closing() -> None:
    producer = SlowToClose()

    async def scene(pair: Pair) -> None:
        assert await read(await pair.ask()) == b"only"
        assert producer.closed_at == []
        await asyncio.sleep(2.0)
        assert producer.closed_at == [1.0]

    play(scene, lambda _: Response(200, stream=producer))


def test_cancelling_a_reader_closes_the_producer() -> None:
    producer = Producer(50, every_s=10.0)

    async def scene(pair: Pair) -> None:
        response = await pair.ask()
        with anyio.move_on_after(25.0):
            await read(response)
        await asyncio.sleep(1.0)
        assert (producer.produced, producer.closed_at) == (2, [25.0])

    play(scene, producer)


def test_cancelling_while_the_head_of_a_stream_travels_closes_the_producer() -> None:
    producer = Producer(50)

    async def scene(pair: Pair) -> None:
        with anyio.move_on_after(1.5):
            await pair.ask()
        await asyncio.sleep(1.0)
        assert producer.closed_at == [1.5]

    play(scene, producer, pi=Link(latency_s=1.0))


@pytest.mark.parametrize("crashing", ["pi", "hub"])
def test_a_crash_in_mid_stream_is_a_lost_connection(crashing: str) -> None:
    producer = Producer(50, every_s=1.0)

    async def scene(pair: Pair) -> None:
        response = await pair.ask()
        assert response.stream is not None
        await anext(response.stream)
        asyncio.get_running_loop().call_later(0.5, pair.network.crash, crashing)
        with pytest.raises(ConnectionLost, match=f"{crashing} crashed"):
            await anext(response.stream)
        assert now() == 1.5
        await asyncio.sleep(1.0)
        assert producer.closed_at == [1.5]
        with pytest.raises(StopAsyncIteration):
            await anext(response.stream)

    play(scene, producer)


def test_a_partition_holds_a_stream_and_healing_resumes_it() -> None:
    async def scene(pair: Pair) -> list[float]:
        loop = asyncio.get_running_loop()
        loop.call_at(1.5, pair.network.partition, "pi")
        loop.call_at(7.5, pair.network.heal, "pi")
        response = await pair.ask()
        assert response.stream is not None
        return [now() async for _ in response.stream]

    # Two more are made at 2 and 3, held, and come at once; the fourth had to wait for room.
    assert play(scene, Producer(4, every_s=1.0)) == [1.0, 7.5, 7.5, 8.5]


def test_a_producer_that_raises_loses_the_connection_after_its_last_buffer(
    caplog: pytest.LogCaptureFixture,
) -> None:
    async def pieces() -> AsyncIterator[Buffer]:
        yield b"first"
        raise ZeroDivisionError("a bug")

    async def scene(pair: Pair) -> None:
        response = await pair.ask()
        assert response.stream is not None
        assert await anext(response.stream) == b"first"
        with pytest.raises(ConnectionLost, match="broke off"):
            await anext(response.stream)

    play(scene, lambda _: Response(200, stream=pieces()), pi=Link(latency_s=1.0))
    assert "the app's stream raised" in caplog.text


def test_a_producer_that_raises_while_closing_is_logged(caplog: pytest.LogCaptureFixture) -> None:
    async def pieces() -> AsyncIterator[Buffer]:
        try:
            while True:
                yield b"x"
        finally:
            raise ZeroDivisionError("a bug")

    async def scene(pair: Pair) -> None:
        response = await pair.ask()
        await asyncio.sleep(1.0)
        await close(response.stream)
        await asyncio.sleep(1.0)

    play(scene, lambda _: Response(200, stream=pieces()))
    assert "raised while closing" in caplog.text


def test_a_producer_without_a_close_is_just_dropped() -> None:
    class Pieces:
        def __aiter__(self) -> Pieces:
            return self

        async def __anext__(self) -> Buffer:
            return b"x"

    async def scene(pair: Pair) -> None:
        response = await pair.ask()
        assert response.stream is not None
        assert await anext(response.stream) == b"x"
        await close(response.stream)
        await asyncio.sleep(1.0)

    play(scene, lambda _: Response(200, stream=Pieces()))


@pytest.mark.parametrize("grace_s", [1.0, 9.0])
def test_a_closing_listener_lets_a_stream_finish_within_its_grace(grace_s: float) -> None:
    producer = Producer(3, every_s=1.0)

    async def main() -> None:
        network = Network()
        listener = await network.transport("pi").listen(Served(producer), PI)
        response = await network.transport("hub").exchange(PI, ASK)
        reading = asyncio.create_task(read(response))
        await listener.close(grace_s=grace_s)
        assert len(producer.closed_at) == 1  # nothing of the app outlives its listener
        if grace_s > 3.0:
            assert now() == 3.0
            assert len(await reading) == 30
        else:
            with pytest.raises(ConnectionLost, match="was closed"):
                await reading

    run(main())


@settings(max_examples=30, deadline=None)
@given(st.lists(st.binary(max_size=50), max_size=8), st.integers(0, 50))
def test_any_bytes_arrive_whole_and_in_order_over_a_bad_link(
    pieces: list[bytes], seed: int
) -> None:
    async def produce(request: Request) -> AsyncIterator[Buffer]:
        for piece in request.body:
            yield piece
        for piece in pieces:
            yield piece

    async def scene(pair: Pair) -> bytes:
        return await read(await pair.ask(pieces))

    link = Link(latency_s=0.01, jitter_s=0.2, loss=0.3, up_bytes_per_s=100, down_bytes_per_s=300)
    whole = b"".join(pieces)
    streamed = play(scene, lambda r: Response(200, stream=produce(r)), pi=link, hub=link, seed=seed)
    assert streamed == whole + whole


def test_it_works_on_an_ordinary_loop() -> None:
    async def main() -> bytes:
        network = Network()
        network.set_link("pi", Link(latency_s=0.001))
        await network.transport("pi").listen(Served(Producer(5)), PI)
        return await read(await network.transport("hub").exchange(PI, ASK))

    assert len(asyncio.run(main())) == 50
