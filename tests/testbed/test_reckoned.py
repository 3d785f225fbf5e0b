"""Reckoned links by hand, and hosts that go down."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Coroutine
from random import Random
from typing import Any

import pytest

from axon.errors import ConnectFailed, ConnectionLost
from axon.rpc.link import RESEND_S, Direction, Link
from axon.testbed.reckoned import Host, ReckonedLink
from axon.testbed.virtual import Deadlock, run

LINK = Link(latency_s=0.5, up_bytes_per_s=100.0, down_bytes_per_s=400.0)


def now() -> float:
    return asyncio.get_running_loop().time()


def play(scene: Callable[[ReckonedLink], Coroutine[Any, Any, Any]], link: Link = LINK) -> Any:
    async def main() -> Any:
        return await scene(ReckonedLink(link, Random(0)))

    return run(main())


async def arrival(message: Awaitable[None]) -> float:
    await message
    return now()


def test_one_message_takes_its_size_over_the_bandwidth_and_the_latency() -> None:
    async def scene(link: ReckonedLink) -> list[float]:
        return [
            await arrival(link.send("up", 100)),
            await arrival(link.send("down", 100)),
            await arrival(link.send("up", 0)),
        ]

    assert play(scene) == [1.5, 2.25, 2.75]


def test_messages_of_one_direction_queue_and_fly_together() -> None:
    async def scene(link: ReckonedLink) -> list[float]:
        sent: list[tuple[Direction, int]] = [
            ("up", 100),
            ("up", 50),
            ("down", 400),
            ("up", 0),
            ("down", 800),
        ]
        return await asyncio.gather(*(arrival(link.send(way, size)) for way, size in sent))

    # Up they leave at 1.0, 1.5 and 1.5; down at 1.0 and 3.0.
    assert play(scene) == [1.5, 2.0, 1.5, 2.0, 3.5]


def test_a_link_that_fell_free_keeps_nobody_waiting() -> None:
    async def scene(link: ReckonedLink) -> float:
        await link.send("up", 100)
        await asyncio.sleep(10.0)
        return await arrival(link.send("up", 100))

    assert play(scene) == 1.5 + 10.0 + 1.5


def test_a_question_goes_up_and_its_answer_comes_down() -> None:
    async def scene(link: ReckonedLink) -> Any:
        first, second = link.ask(10, 400), link.ask(20, 800)
        return await asyncio.gather(arrival(first), arrival(second), arrival(link.send("up", 30)))

    # Up at 0.1, 0.3 and 0.6; the answers begin at 0.6 and at 1.6, when the first has left.
    assert play(scene) == pytest.approx([0.1 + 0.5 + 1.0 + 0.5, 1.6 + 2.0 + 0.5, 0.6 + 0.5])


def test_a_link_that_loses_everything_brings_nothing() -> None:
    async def scene(link: ReckonedLink) -> None:
        for message in (link.send("up", 1), link.ask(1, 1), link.send("down", 1)):
            with pytest.raises(TimeoutError):
                await asyncio.wait_for(message, 1e6)
        await link.send("up", 1)

    with pytest.raises(Deadlock):
        play(scene, Link(loss=1.0))


def test_losses_cost_resends_and_jitter_stays_within_its_bounds() -> None:
    link = Link(latency_s=1.0, jitter_s=0.1, loss=0.3)

    async def scene(shaped: ReckonedLink) -> list[float]:
        return [await _took(shaped.send("up", 1)) for _ in range(300)]

    took_s = play(scene, link)
    assert play(scene, link) == took_s
    at_once = [each for each in took_s if each < 1.0 + RESEND_S]
    # Of a binomial of 300 at 0.7, four standard deviations are 32.
    assert abs(len(at_once) - 210) < 32
    assert all(1.0 <= each <= 1.1 + 1e-9 for each in at_once)
    resent = [each for each in took_s if 1.0 + RESEND_S <= each < 1.0 + 3 * RESEND_S]
    assert all(each <= 1.1 + RESEND_S + 1e-9 for each in resent)


async def _took(message: Awaitable[None]) -> float:
    began_s = now()
    await message
    return now() - began_s


def test_what_is_under_way_when_a_link_is_cut_waits_until_it_is_healed() -> None:
    async def scene(link: ReckonedLink) -> Any:
        async def cut_and_heal() -> None:
            await asyncio.sleep(1.0)
            link.cut()
            link.cut()
            await asyncio.sleep(4.0)
            link.heal()

        messages = (link.send("up", 40), link.send("up", 60), link.ask(0, 0))
        gathered = await asyncio.gather(*map(arrival, messages), cut_and_heal())
        return gathered[:3]

    # The first was there before; the others would have been at 1.5 and 2.0.
    assert play(scene) == [0.9, 5.0, 5.0]


def test_what_is_sent_over_a_cut_link_comes_after_its_own_time_and_the_healing() -> None:
    async def scene(link: ReckonedLink) -> Any:
        link.cut()
        messages = asyncio.gather(arrival(link.send("up", 0)), arrival(link.send("up", 400)))
        await asyncio.sleep(2.0)
        link.heal()
        link.cut()
        await asyncio.sleep(1.0)
        link.heal()
        link.heal()
        return await messages

    assert play(scene) == [3.0, 4.5]


# Hosts


async def work(host: Host, log: list[str]) -> str:
    async def call() -> str:
        try:
            await asyncio.sleep(10.0)
        except asyncio.CancelledError:
            log.append("stopped")
            raise
        return "answer"

    return await host.serve(call())


@pytest.mark.parametrize("restarts_at_once", [False, True])
def test_a_crash_breaks_the_calls_under_way(restarts_at_once: bool) -> None:
    async def main() -> list[str]:
        host, log = Host("pi"), list[str]()
        calls = [asyncio.create_task(work(host, log)) for _ in range(2)]
        await asyncio.sleep(1.0)
        host.crash()
        if restarts_at_once:
            host.start()
        for call in calls:
            with pytest.raises(ConnectionLost, match="pi went down"):
                await call
            # Nothing of the cancellation is left for whoever awaits next.
            assert call.cancelling() == 0
        assert now() == 1.0
        return log

    assert run(main()) == ["stopped", "stopped"]


def test_a_host_that_is_down_cannot_be_reached_and_one_that_is_back_can() -> None:
    async def main() -> None:
        host, log = Host("pi"), list[str]()
        host.crash()
        with pytest.raises(ConnectFailed, match="nobody listens at pi"):
            await work(host, log)
        assert now() == 0.0
        host.start()
        assert await work(host, log) == "answer"
        assert now() == 10.0
        assert log == []

    run(main())


def test_a_call_that_is_cancelled_from_outside_is_cancelled() -> None:
    async def main() -> None:
        host, log = Host("pi"), list[str]()
        call = asyncio.create_task(work(host, log))
        await asyncio.sleep(1.0)
        call.cancel()
        await asyncio.wait([call])
        assert call.cancelled()
        assert log == ["stopped"]
        # It is no longer the host's to break.
        host.crash()

    run(main())


@pytest.mark.parametrize("crash_first", [False, True])
def test_a_crash_does_not_swallow_a_cancellation_of_the_same_moment(crash_first: bool) -> None:
    async def main() -> None:
        host, log = Host("pi"), list[str]()
        call = asyncio.create_task(work(host, log))
        await asyncio.sleep(1.0)
        for act in (host.crash, call.cancel) if crash_first else (call.cancel, host.crash):
            act()
        await asyncio.wait([call])
        assert call.cancelled()

    run(main())


def test_a_crash_twice_is_one_crash() -> None:
    async def main() -> None:
        host, log = Host("pi"), list[str]()
        call = asyncio.create_task(work(host, log))
        await asyncio.sleep(1.0)
        host.crash()
        host.crash()
        with pytest.raises(ConnectionLost):
            await call

    run(main())


def test_a_time_out_around_a_call_is_a_time_out() -> None:
    async def main() -> None:
        host = Host("pi")
        with pytest.raises(TimeoutError):
            async with asyncio.timeout(2.0):
                await work(host, [])
        assert now() == 2.0

    run(main())
