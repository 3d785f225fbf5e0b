"""What a duplex call promises while links break and workers die, in virtual time."""

from __future__ import annotations

import asyncio
from collections import Counter

import pytest

from axon import client
from axon.errors import CallCancelled, CallLost, DeadlineExceeded, RemoteError, WorkerStopping
from axon.rpc.calling.callers import caller_for
from axon.rpc.link import Link
from axon.rpc.security.keys import Key
from tests.rpc.places import KEY, Place, client_attach, in_virtual_time
from tests.rpc.scenes import now
from tests.rpc.worlds import World


def test_the_result_is_sent_before_anyone_asks() -> None:
    @in_virtual_time
    async def main() -> None:
        async with Place().serving() as world:
            stub = await world.stub(duplex=True)
            assert await stub.work(3, 1.0) == 3
            assert now() == pytest.approx(1.0)  # The first question would come 2 s after the ack.


def test_the_result_is_asked_for_where_it_cannot_be_sent() -> None:
    @in_virtual_time
    async def main() -> None:
        place = Place()
        async with place.serving() as world:
            stub = await world.stub(duplex=True)
            call = asyncio.ensure_future(stub.work(3, 3.0))
            await asyncio.sleep(0.5)
            place.network.crash("client")  # Its listener is gone; it can still ask.
            assert await call == 3
            assert 3.0 < now() < 10.0
            assert place.runs == {3: 1}


@pytest.mark.parametrize("push", [True, False])
@pytest.mark.parametrize("key", [None, KEY])
@pytest.mark.parametrize("silent_s", [1.0, 35.0, 200.0])
def test_a_silent_link_at_any_moment_loses_nothing(
    silent_s: float, key: Key | None, push: bool
) -> None:
    """Whatever message the silence swallows: the request, the acknowledgement, the result."""

    async def one(cut_s: float) -> None:
        place = Place(**({"key": key} if key else {}))
        place.network.set_link("worker", Link(latency_s=0.1))
        async with place.serving() as world:
            stub = await world.stub(duplex=True)
            start = now()
            chosen = stub.work.options(deadline_s=None, push=push)
            call = asyncio.ensure_future(chosen("it", 1.0))
            await asyncio.sleep(cut_s)
            place.network.partition("worker")
            await asyncio.sleep(silent_s)
            place.network.heal("worker")
            assert await call == "it"
            assert place.runs == {"it": 1}
            assert now() - start < cut_s + silent_s + 30

    @in_virtual_time
    async def main() -> None:
        for tenths in range(17):
            await one(tenths / 10 + 0.05)


@pytest.mark.parametrize("push", [True, False])
@pytest.mark.parametrize("key", [None, KEY])
def test_a_worker_that_dies_at_any_moment_runs_the_call_once_or_says_so(
    key: Key | None, push: bool
) -> None:
    outcomes: Counter[str] = Counter()

    async def one(crash_s: float, down_s: float) -> None:
        place = Place(**({"key": key} if key else {}))
        place.network.set_link("worker", Link(latency_s=0.1))
        async with place.serving() as world:
            stub = await world.stub(duplex=True)
            call = asyncio.ensure_future(stub.work.options(push=push)("it", 1.0))
            await asyncio.sleep(crash_s)
            async with place.restarted(down_s=down_s):
                try:
                    assert await call == "it"
                except CallLost:
                    assert place.runs["it"] <= 1
                    outcomes["lost"] += 1
                else:
                    assert place.runs["it"] == 1
                    outcomes["returned"] += 1

    @in_virtual_time
    async def main() -> None:
        for tenths in range(17):
            for down_s in (0.0, 0.3, 3.0):
                await one(tenths / 10 + 0.05, down_s)

    assert outcomes["lost"] > 10
    assert outcomes["returned"] > 5


@pytest.mark.parametrize("key", [None, KEY])
@pytest.mark.parametrize("push", [True, False])
def test_a_worker_restarted_between_calls_is_found_again(key: Key | None, push: bool) -> None:
    @in_virtual_time
    async def main() -> None:
        place = Place(**({"key": key} if key else {}))
        async with place.serving() as world:
            stub = (await world.stub(duplex=True)).work.options(push=push)
            assert await stub(1) == 1
            async with place.restarted():
                assert await stub(2) == 2
                async with place.restarted():
                    assert await stub(3) == 3
        assert place.runs == {1: 1, 2: 1, 3: 1}


def test_a_call_to_a_worker_that_died_is_lost_and_never_repeated() -> None:
    @in_virtual_time
    async def main() -> None:
        place = Place()
        async with place.serving() as world:
            stub = await world.stub(duplex=True)
            call = asyncio.ensure_future(stub.work("it", 5.0))
            await asyncio.sleep(0.5)
            async with place.restarted():
                with pytest.raises(CallLost, match="knows no call"):
                    await call
                assert place.runs == {"it": 1}


@pytest.mark.parametrize("push", [True, False])
def test_progress_comes_in_order(push: bool) -> None:
    @in_virtual_time
    async def main() -> None:
        place = Place()
        place.network.set_link("client", Link(latency_s=0.05, jitter_s=0.5))
        async with place.serving() as world:
            stub = await world.stub(duplex=True)
            seen: list[int] = []
            assert await stub.work.options(progress=seen.append, push=push)(1, 4.0) == 1
            assert seen == sorted(seen)
            assert len(seen) >= 3


def test_progress_that_cannot_be_told_does_not_hold_up_the_result() -> None:
    @in_virtual_time
    async def main() -> None:
        place = Place()
        async with place.serving() as world:
            stub = await world.stub(duplex=True)
            seen: list[int] = []
            call = asyncio.ensure_future(stub.work.options(progress=seen.append)(1, 4.0))
            await asyncio.sleep(0.5)
            place.network.crash("client")
            assert await call == 1
            assert now() < 12
            assert seen[0] == 0


@pytest.mark.parametrize("push", [True, False])
def test_a_deadline_and_a_cancel_end_the_work(push: bool) -> None:
    @in_virtual_time
    async def main() -> None:
        place = Place()
        async with place.serving() as world:
            stub = (await world.stub(duplex=True)).work
            with pytest.raises(DeadlineExceeded):
                await stub.options(push=push, deadline_s=1.0)("late", 60.0)
            call = asyncio.ensure_future(stub.options(push=push)("unwanted", 60.0))
            await asyncio.sleep(1)
            call.cancel()
            with pytest.raises(asyncio.CancelledError):
                await call
            await asyncio.sleep(100)
            assert place.runs == {"late": 1, "unwanted": 1}
            assert place.finished == []
            assert not world.serving.dispatcher.engine.active


@pytest.mark.parametrize("push", [True, False])
def test_closing_the_client_lets_go_of_those_who_wait(push: bool) -> None:
    @in_virtual_time
    async def main() -> None:
        place = Place()
        async with place.serving() as world:
            stub = (await world.stub(duplex=True)).work.options(call_id="kept", push=push)
            call = asyncio.ensure_future(stub("it", 10.0))
            await asyncio.sleep(0.5)
            await (await caller_for(client.access(**world.access))).close()
            with pytest.raises(CallCancelled, match="closed"):
                await call
            assert now() < 5
            heir = World(world.address, place.access("heir"), world.serving)
            assert await client_attach(heir, "kept") == "it"


def test_a_function_that_cancels_itself_or_fails_is_told() -> None:
    @in_virtual_time
    async def main() -> None:
        async with Place().serving() as world:
            for duplex in (True, False):
                stub = await world.stub(duplex=duplex)
                with pytest.raises(CallCancelled, match="cancelled itself"):
                    await stub.cancel_itself()
                with pytest.raises(ValueError, match="no good") as caught:
                    await stub.fail()
                assert isinstance(caught.value, RemoteError)


def test_a_repeated_submission_to_a_stopping_worker_brings_the_result() -> None:
    @in_virtual_time
    async def main() -> None:
        place = Place()
        place.network.set_link("worker", Link(latency_s=0.1))
        async with place.serving() as world:
            stub = await world.stub(duplex=True)
            call = asyncio.ensure_future(stub.work.options(deadline_s=None)("it", 100.0))
            await asyncio.sleep(0.15)
            place.network.partition("worker")  # Swallows the acknowledgement.
            world.serving.dispatcher.stopping = True
            await asyncio.sleep(35)
            place.network.heal("worker")
            assert await call == "it"
            with pytest.raises(WorkerStopping, match="shutting down"):
                await stub.work("new", 1.0)
            assert place.runs == {"it": 1}
