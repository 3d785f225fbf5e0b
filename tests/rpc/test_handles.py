"""What a call's handle keeps, and what it lets go of."""

from __future__ import annotations

import asyncio
import gc
import weakref
from collections.abc import AsyncIterator
from typing import Any

import pytest

from axon import client
from axon.errors import CallCancelled, ConnectFailed
from axon.rpc.calling import callers
from axon.worker import Worker
from tests.rpc.worlds import every_transport, run, serving


def make_worker() -> tuple[Worker, list[str]]:
    worker = Worker("handles")
    log: list[str] = []

    @worker.rpc()
    async def slow(seconds: float) -> str:
        try:
            await asyncio.sleep(seconds)
        except asyncio.CancelledError:
            log.append("cancelled")
            raise
        return "done"

    @worker.rpc()
    async def endless() -> AsyncIterator[int]:
        number = 0
        while True:
            yield number
            number += 1
            await asyncio.sleep(0.01)

    @worker.rpc()
    async def steps() -> str:
        from axon.worker import progress

        for number in range(100):
            progress(number)
            await asyncio.sleep(0.05)
        log.append("went on to the end")
        return "done"

    return worker, log


def test_a_call_cancelled_by_one_task_does_not_cancel_another() -> None:
    async def main() -> None:
        worker, _ = make_worker()
        async with serving(worker, "http") as world:
            stub = await world.stub()
            call = stub.slow(5)
            with pytest.raises(TimeoutError):
                await asyncio.wait_for(call, 0.05)
            with pytest.raises(CallCancelled):
                await call
            assert call.done()

    run(main)


async def _exhaust(stream: AsyncIterator[Any]) -> None:
    async for _ in stream:
        pass


def test_cancel_ends_an_iteration() -> None:
    async def main() -> None:
        worker, _ = make_worker()
        async with serving(worker, "http") as world:
            stub = await world.stub()
            call = stub.endless()
            stream = aiter(call)
            assert await anext(stream) == 0
            asyncio.get_running_loop().call_later(0.05, call.cancel)
            await asyncio.sleep(0.1)
            with pytest.raises(CallCancelled):
                await _exhaust(stream)
            with pytest.raises(CallCancelled):
                await anext(aiter(call))

    run(main)


@every_transport
@pytest.mark.parametrize(("duplex", "push"), [(False, True), (True, True), (True, False)])
def test_a_progress_callback_that_fails_fails_the_call(
    transport: str, tmp_path: Any, duplex: bool, push: bool
) -> None:
    def broken(value: Any) -> None:
        raise ZeroDivisionError(value)

    async def main() -> None:
        worker, log = make_worker()
        async with serving(worker, transport, tmp_path) as world:
            stub = await world.stub(duplex=duplex)
            with pytest.raises(ZeroDivisionError):
                await stub.steps.options(progress=broken, push=push)()
            for _ in range(50):
                await asyncio.sleep(0.02)
                if not world.serving.dispatcher.engine.active:
                    break
            assert not world.serving.dispatcher.engine.active
            assert log == []

    run(main, loop="virtual" if transport == "memory" else "uvloop")


def test_first_calls_made_together_share_what_they_open() -> None:
    async def main() -> None:
        worker, _ = make_worker()
        async with serving(worker, "http") as world:
            access = client.access()
            caller = await callers.caller_for(access)
            stub = await world.stub(duplex=True)
            assert await asyncio.gather(*(stub.slow(0) for _ in range(10))) == ["done"] * 10
            mine = await callers.caller_for(client.access())
            assert mine is caller
            assert len(caller._duplex._inbox._listeners) == 1

    run(main)


def test_a_loop_that_ended_is_forgotten() -> None:
    loops: list[weakref.ref[asyncio.AbstractEventLoop]] = []

    async def once() -> None:
        loops.append(weakref.ref(asyncio.get_running_loop()))
        with pytest.raises(ConnectFailed):
            await client.connect("127.0.0.1:1")

    for _ in range(3):
        asyncio.run(once())
    gc.collect()
    assert [loop() for loop in loops] == [None, None, None]


def test_a_worker_that_comes_back_is_waited_for_each_time() -> None:
    worker, _ = make_worker()

    async def main() -> None:
        async with worker.serving(port=0) as first:
            address = first.address
            stub = await client.connect(address, reconnect_s=3.0)
            assert await stub.slow(0) == "done"
        for _ in range(2):
            waiting = asyncio.ensure_future(stub.slow(0))
            await asyncio.sleep(0.1)
            assert not waiting.done()
            async with worker.serving(port=address.port):
                assert await waiting == "done"

    run(main)
