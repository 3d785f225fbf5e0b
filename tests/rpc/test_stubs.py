"""What a client holds in place of remote things, used as people use their own."""

from __future__ import annotations

import asyncio
import concurrent.futures
import os
import threading
import time
from typing import Any

import pytest

import axon
from axon import client
from axon.errors import BadArguments, CallCancelled, NotFound
from axon.worker import Worker
from tests.rpc.stubbed import base_worker, in_world, started
from tests.rpc.worlds import World


def pid_in_process() -> int:
    return os.getpid()


# A worker that changes


def test_functions_that_come_and_go() -> None:
    worker = base_worker()

    async def main(world: World) -> None:
        stub = await world.stub()
        assert await stub.echo(1) == 1
        late = client.CoroSimplexStub(worker_ip=str(world.address), rpc_name="late")
        with pytest.raises(NotFound, match="it offers rpc/echo, rpc/slow"):
            await late()
        worker.rpc(name="late", executor="inline")(lambda: "better than never")
        assert await late() == "better than never"
        assert await (await world.stub()).late() == "better than never"
        worker.services.remove("rpc/echo")
        with pytest.raises(NotFound):
            await stub.echo(1)
        with pytest.raises(AttributeError):
            (await world.stub()).echo  # noqa: B018
        # Another function under the same name, with other arguments.
        worker.rpc(name="late", executor="inline")(lambda whom: f"late, {whom}")
        with pytest.raises(BadArguments):
            await late()
        assert await late("Ada") == "late, Ada"

    in_world(worker, main)


# Threads and loops


def test_one_stub_in_many_threads() -> None:
    with started(base_worker()) as running:
        stub = client.get_stub(str(running.address), stub_type="sync")

        def calls(place: int) -> list[int]:
            return [stub.echo(1000 * place + turn) for turn in range(50)]

        with concurrent.futures.ThreadPoolExecutor(20) as pool:
            results = list(pool.map(calls, range(20)))
        assert results == [[1000 * place + turn for turn in range(50)] for place in range(20)]


def test_one_stub_in_many_loops() -> None:
    with started(base_worker()) as running:
        stub = client.get_stub(str(running.address))

        async def calls(place: int) -> list[int]:
            return [await stub.echo(1000 * place + turn) for turn in range(50)]

        with concurrent.futures.ThreadPoolExecutor(20) as pool:
            results = list(pool.map(lambda place: asyncio.run(calls(place)), range(20)))
        assert results == [[1000 * place + turn for turn in range(50)] for place in range(20)]


@pytest.mark.parametrize("kind", [client.CoroSimplexStub, client.CoroDuplexStub])
def test_a_named_stub_outlives_a_loop(kind: Any) -> None:
    with started(base_worker()) as running:
        stub = kind(worker_ip="127.0.0.1", port=running.address.port, rpc_name="echo")

        async def main(value: str) -> str:
            answer: str = await stub(value)
            return answer

        assert [asyncio.run(main(text)) for text in ("a", "b", "c")] == ["a", "b", "c"]


# Workers that call workers


def test_calls_from_inside_a_workers_function() -> None:
    behind = base_worker()
    front = Worker("front")
    stubs: dict[str, Any] = {}

    @front.rpc()
    def in_thread(value: int) -> int:
        answer: int = stubs["sync"].echo(value)
        return answer + 1

    @front.rpc()
    async def on_loop(value: int) -> int:
        answer: int = await stubs["generic"].echo(value)
        return answer + 1

    @front.rpc()
    def joined(value: int) -> int:
        answer: int = stubs["generic"].echo(value).join()
        return answer + 1

    with started(behind) as far, started(front) as near:
        stubs["sync"] = client.get_stub(str(far.address), stub_type="sync")
        stubs["generic"] = client.get_stub(str(far.address))
        stub = client.get_stub(str(near.address), stub_type="sync")
        assert [stub.in_thread(1), stub.on_loop(2), stub.joined(3)] == [2, 3, 4]
        with concurrent.futures.ThreadPoolExecutor(8) as pool:
            assert list(pool.map(stub.in_thread, range(40))) == list(range(1, 41))


@pytest.mark.system
def test_a_function_in_a_process_of_its_own() -> None:
    worker = base_worker()
    worker.rpc(executor="process")(pid_in_process)
    with started(worker) as running:
        stub = client.get_stub(str(running.address), stub_type="sync")
        pids = {stub.pid_in_process() for _ in range(3)}
        assert os.getpid() not in pids
        assert len(pids) == 1  # Kept warm.


# A call in one's hands


def test_a_call_gives_its_outcome_as_often_as_asked() -> None:
    async def main(world: World) -> None:
        stub = await world.stub()
        call = stub.echo([1])
        assert not call.done()
        assert await call == [1]
        assert await call == [1]
        assert call.join() == [1]
        assert call.done()
        failing = stub.echo(asyncio.Lock())
        for _ in range(2):
            with pytest.raises(TypeError, match="Lock"):
                await failing
        with pytest.raises(TypeError, match="Lock"):
            failing.join()

    in_world(base_worker(), main)


def test_a_call_awaited_by_two_says_so() -> None:
    async def main(world: World) -> None:
        call = (await world.stub()).slow(0.2)
        first = asyncio.ensure_future(call)
        await asyncio.sleep(0.05)
        with pytest.raises(RuntimeError, match="already being awaited"):
            await call
        with pytest.raises(RuntimeError, match="cannot be joined"):
            call.join()
        assert await first == "done"
        assert await call == "done"

    in_world(base_worker(), main)


def test_cancelled_before_it_began() -> None:
    ran: list[int] = []
    worker = base_worker()
    worker.rpc(name="note", executor="inline")(ran.append)

    async def main(world: World) -> None:
        stub = await world.stub()
        awaited, joined = stub.note(1), stub.note(2)
        for call in (awaited, joined):
            call.cancel()
        with pytest.raises(CallCancelled, match="before it was sent"):
            await awaited
        with pytest.raises(CallCancelled, match="before it was sent"):
            joined.join()
        assert await stub.echo(1) == 1
        assert ran == []

    in_world(worker, main)


def test_cancelled_while_awaited() -> None:
    async def main(world: World) -> None:
        stub = await world.stub()
        call = stub.slow(20)
        asyncio.get_running_loop().call_later(0.05, call.cancel)
        asyncio.get_running_loop().call_later(0.05, call.cancel)
        began = time.monotonic()
        with pytest.raises(CallCancelled):
            await call
        assert time.monotonic() - began < 5
        # The task that awaited goes on as if nothing had been.
        assert asyncio.current_task().cancelling() == 0  # type: ignore[union-attr]
        assert await stub.echo("on") == "on"
        from_thread = stub.slow(20)
        threading.Timer(0.05, from_thread.cancel).start()
        with pytest.raises(CallCancelled):
            await from_thread
        assert await world.serving.dispatcher.engine.drain(5)  # Ended on the worker as well.
        finished = stub.slow(0)
        await finished
        finished.cancel()
        await asyncio.sleep(0)
        assert await finished == "done"

    in_world(base_worker(), main)


def test_cancelled_in_the_background_while_awaited() -> None:
    async def main(world: World) -> None:
        stub = await world.stub(stub_type="thread")
        call = stub.slow(20)
        asyncio.get_running_loop().call_later(0.05, call.cancel)
        with pytest.raises(CallCancelled):
            await call
        task = asyncio.ensure_future(stub.slow(20))
        await asyncio.sleep(0.05)
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task

    in_world(base_worker(), main)


def test_futures_are_pythons_own() -> None:
    with started(base_worker()) as running:
        stub = client.get_stub(str(running.address), stub_type=axon.stubs.FutureStub)
        futures = [stub.slow(20), stub.echo(1), stub.echo(2)]
        done, waiting = concurrent.futures.wait(futures[1:], timeout=10)
        assert {future.result() for future in done} == {1, 2}
        assert not waiting
        first = next(concurrent.futures.as_completed(futures, timeout=10))
        assert first.result() in (1, 2)
        assert futures[0].cancel()
        with pytest.raises(concurrent.futures.CancelledError):
            futures[0].result(5)
        assert isinstance(stub.echo.options(deadline_s=0)(1).exception(5), TimeoutError)
