"""Many calls at once: who is waited for, what comes of the others, and in which order."""

from __future__ import annotations

import asyncio
import random
import threading
import time
from contextlib import AsyncExitStack
from typing import Any

import pytest

from axon import client
from axon.errors import ConfigurationError, ConnectFailed, QuorumNotReached, RemoteError
from axon.rpc.memory.network import Network
from axon.testbed import virtual
from axon.values import Failure
from axon.worker import Worker
from tests.rpc.worlds import World, run, serving


def make_worker(name: str = "one", cancelled: list[str] | None = None) -> Worker:
    worker = Worker(name)

    @worker.rpc()
    async def after(seconds: float, value: Any = "done") -> Any:
        try:
            await asyncio.sleep(seconds)
        except asyncio.CancelledError:
            if cancelled is not None:
                cancelled.append(name)
            raise
        return value

    @worker.rpc(executor="inline")
    def fail(text: str) -> None:
        raise ValueError(text)

    return worker


def in_memory(main: Any) -> Any:
    async def go() -> Any:
        async with serving(make_worker(), "memory") as world:
            return await main(world)

    return run(go, loop="virtual")


@pytest.mark.slow
def test_a_thousand_devices_without_a_thread() -> None:
    count, cancelled = 1000, list[str]()
    delays = [0.001 * place for place in range(count)]
    random.Random(7).shuffle(delays)

    async def main() -> Any:
        network = Network(seed=3)
        access = client.access(transport=network.transport("hub"))
        async with AsyncExitStack() as stack:
            calls = {}
            for place in range(count):
                name = f"device{place}"
                served = await stack.enter_async_context(
                    make_worker(name, cancelled).serving(
                        name, 8000, transport=network.transport(name), grace_s=0.0
                    )
                )
                stub = await client.connect(served.address, transport=access.transport)
                calls[name] = stub.after(1 + delays[place], place)
            threads = threading.active_count()
            began = asyncio.get_running_loop().time()
            answers = await client.gather(calls, quorum=600)
            took_s = asyncio.get_running_loop().time() - began
            assert threading.active_count() == threads
            await asyncio.sleep(1)
            return answers, took_s

    began = time.perf_counter()
    answers, took_s = virtual.run(main())
    print(f"1000 devices in {time.perf_counter() - began:.2f} s")
    fastest = [place for place in range(count) if delays[place] < 0.6]
    assert answers.values == fastest
    assert list(answers.outcomes) == [f"device{place}" for place in range(count)]
    assert 1.59 < took_s < 1.75
    assert len(answers.failures) == 400
    assert {failure.reason for failure in answers.failures} == {"not needed"}
    assert len(cancelled) == 400


def test_a_quorum_out_of_reach_tells_its_numbers() -> None:
    async def main(world: World) -> None:
        stub = await world.stub()
        calls = [stub.after(1, "a"), stub.fail("x"), stub.fail("y"), stub.after(9, "b")]
        began = asyncio.get_running_loop().time()
        with pytest.raises(QuorumNotReached, match="wanted 3 answers, got 0") as caught:
            await client.gather(calls, quorum=3)
        # Known as soon as the second failure comes: nobody is waited for in vain.
        assert asyncio.get_running_loop().time() - began < 0.5
        assert (caught.value.wanted, caught.value.got) == (3, 0)
        answers = caught.value.answers
        assert isinstance(answers, client.Answers)
        assert "ValueError: x" in answers[1].reason
        assert isinstance(answers[1].error, RemoteError)
        assert [answers[place].reason for place in (0, 3)] == ["not needed"] * 2
        with pytest.raises(QuorumNotReached, match="wanted 2 answers, got 1") as caught:
            await client.gather([stub.after(1, "a"), stub.after(9, "b")], quorum=2, deadline_s=3)
        assert list(caught.value.answers) == ["a"]  # type: ignore[call-overload]

    in_memory(main)


def test_at_the_deadline_those_who_answered_are_there() -> None:
    async def main(world: World) -> None:
        stub = await world.stub()
        loop = asyncio.get_running_loop()
        for scoped in (False, True):
            began = loop.time()
            calls = [stub.after.options(deadline_s=60)(s, s) for s in (1, 9, 2, 8)]
            if scoped:
                with client.deadline(3):
                    answers = await client.gather(calls)
            else:
                answers = await client.gather(calls, deadline_s=3)
            assert 2.99 < loop.time() - began < 3.2
            assert list(answers) == [1, 2]
            assert len(answers) == 2
            assert all(isinstance(answers[place], Failure) for place in (1, 3))
            assert answers[1].device == str(world.address)
            assert all("deadline" in failure.reason.lower() for failure in answers.failures)

    in_memory(main)


def test_names_and_order_are_those_of_the_calls() -> None:
    async def main(world: World) -> list[Any]:
        stub = await world.stub()
        wishes = {"slow": 0.3, "quick": 0.1, 7: 0.2}
        answers = await client.gather({name: stub.after(s, s) for name, s in wishes.items()})
        assert list(answers.outcomes) == ["slow", "quick", 7]
        assert (answers["slow"], answers["quick"], answers[7]) == (0.3, 0.1, 0.2)
        listed = await client.gather([stub.after(s, s) for s in (0.3, 0.1, 0.2)])
        assert listed.values == [0.3, 0.1, 0.2]
        return list(answers.outcomes.items())

    assert in_memory(main) == in_memory(main)


def test_falsy_answers_are_answers() -> None:
    async def main(world: World) -> None:
        stub = await world.stub()
        falsy: list[Any] = [None, 0, "", [], False]
        calls = [stub.after(0.1, value) for value in falsy]
        answers = await client.gather(calls, quorum=5)
        assert answers.values == falsy
        assert answers.failures == []

    in_memory(main)


def test_nothing_to_ask() -> None:
    async def main() -> None:
        assert list(await client.gather([])) == []
        assert list(await client.gather({})) == []
        for quorum in (0, 1, -1):
            with pytest.raises(ConfigurationError, match=f"got {quorum}"):
                client.gather([], quorum=quorum)

    run(main, loop="virtual")
    assert list(client.gather([]).join()) == []


@pytest.mark.parametrize("kind", [TypeError, TimeoutError, KeyError])
def test_a_bug_here_is_raised_and_not_a_device_that_failed(kind: type[Exception]) -> None:
    async def broken() -> None:
        await asyncio.sleep(0.1)
        raise kind("here")

    async def main(world: World) -> None:
        stub = await world.stub()
        with pytest.raises(kind, match="here"):
            await client.gather([stub.after(5), broken(), stub.after(6)], deadline_s=20)
        assert asyncio.get_running_loop().time() < 1
        assert await stub.after(0, "still here") == "still here"

    in_memory(main)


def test_workers_that_are_not_there_are_failures() -> None:
    async def main(world: World) -> None:
        stub = await world.stub()
        transport = world.access["transport"]
        gone = client.CoroSimplexStub(
            worker_ip="memory://nowhere:8000", rpc_name="after", transport=transport
        )
        answers = await client.gather({"here": stub.after(0.1), "gone": gone(0.1)})
        assert list(answers) == ["done"]
        assert isinstance(answers["gone"].error, ConnectFailed)
        assert answers["gone"].device == "memory://nowhere:8000"

    in_memory(main)


def test_cancelling_a_gather_cancels_its_calls() -> None:
    cancelled: list[str] = []

    async def main() -> None:
        async with serving(make_worker("one", cancelled), "memory") as world:
            stub = await world.stub()

            async def collect() -> client.Answers:
                return await client.gather([stub.after(5), stub.after(6)])

            task = asyncio.create_task(collect())
            await asyncio.sleep(1)
            task.cancel()
            with pytest.raises(asyncio.CancelledError):
                await task
            await asyncio.sleep(0.5)

    run(main, loop="virtual")
    assert cancelled == ["one", "one"]


@pytest.mark.parametrize("kind", ["generic", "thread", "future"])
def test_joined_from_a_plain_script(kind: str) -> None:
    cancelled: list[str] = []
    served = make_worker("one", cancelled).start(port=0)
    try:
        stub = client.get_stub(str(served.address), stub_type=kind)
        began = time.monotonic()
        calls = {"slow": stub.after(20), "b": stub.after(0.1, 2), "c": stub.after(0.0, 3)}
        answers = client.gather(calls, quorum=2).join()
        assert time.monotonic() - began < 5
        assert answers.values == [2, 3]
        assert answers["slow"].reason == "not needed"
        with pytest.raises(QuorumNotReached):
            client.gather([stub.fail("x")], quorum=1).join()
        deadline = time.monotonic() + 5
        while not cancelled and time.monotonic() < deadline:
            time.sleep(0.01)
        assert cancelled == ["one"]
    finally:
        served.shutdown()


def test_answers_that_come_together_are_all_told() -> None:
    """More may be there in one turn than were wanted: none of them is lost or made up."""

    async def main() -> None:
        async def work(value: object) -> object:
            await asyncio.sleep(0)
            return value

        for size in range(1, 6):
            answers = await client.gather([work(None) for _ in range(5)], quorum=size)
            assert answers.values == [None] * size
            assert [failure.reason for failure in answers.failures] == ["not needed"] * (5 - size)

    virtual.run(main())
