"""How a call is made: deadlines from every side, compression, and options that cannot be meant."""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator, Iterator
from typing import Any

import anyio
import numpy as np
import pytest

from axon import client
from axon.errors import BadArguments, ConfigurationError, DeadlineExceeded, RemoteError
from axon.rpc import executors
from axon.rpc.messages import Request, Response, body_size
from axon.worker import Serving, Worker
from tests.rpc.worlds import World, run, serving


def make_worker(ran: list[str] | None = None) -> Worker:
    worker = Worker("patient")

    @worker.rpc()
    async def remaining() -> float | None:
        """The seconds this call has, as the worker knows it."""
        running = executors.current.get()
        assert running is not None
        return running.remaining_s()

    @worker.rpc()
    def remaining_in_thread() -> float | None:
        running = executors.current.get()
        assert running is not None
        return running.remaining_s()

    @worker.rpc()
    async def slow(seconds: float) -> str:
        await asyncio.sleep(seconds)
        return "done"

    @worker.rpc()
    async def drip(every_s: float) -> AsyncIterator[int]:
        for number in range(1000):
            await asyncio.sleep(every_s)
            yield number

    @worker.rpc(executor="inline")
    def echo(value: Any) -> Any:
        if ran is not None:
            ran.append("echo")
        return value

    @worker.rpc(executor="inline")
    def count(most: int) -> Iterator[int]:
        if ran is not None:
            ran.append("count")
        yield from range(most)

    @worker.rpc(name="echo_thread")
    def in_thread(value: Any) -> Any:
        return value

    @worker.rpc(executor="inline")
    def fail_at_length(size: int) -> None:
        raise ValueError("x" * size)

    return worker


def in_world(main: Any, **options: Any) -> None:
    async def go() -> None:
        async with serving(make_worker(), "http", **options) as world:
            await main(world)

    run(go)


# Deadlines


def test_the_default_and_the_one_of_the_stub_and_of_the_call() -> None:
    async def main(world: World) -> None:
        stub = await world.stub()
        assert 29 < await stub.remaining() < 30.01
        assert 29 < await stub.remaining_in_thread() < 30.01
        assert 6 < await stub.remaining.options(deadline_s=7)() < 7.01
        patient = await world.stub(deadline_s=100)
        assert 99 < await patient.remaining() < 100.01
        assert 4 < await patient.remaining.options(deadline_s=5)() < 5.01
        assert 99 < await patient.remaining.options(progress=print)() < 100.01

    in_world(main)


def test_no_deadline_must_be_written_out() -> None:
    async def main(world: World) -> None:
        stub = await world.stub()
        assert await stub.remaining.options(deadline_s=None)() is None
        assert await stub.remaining_in_thread.options(deadline_s=None)() is None
        endless = await world.stub(deadline_s=None)
        assert await endless.remaining() is None
        with client.deadline(9):
            assert 8 < await endless.remaining() < 9.01

    in_world(main)


@pytest.mark.parametrize("duplex", [False, True])
def test_scopes_shorten_and_never_lengthen(duplex: bool) -> None:
    async def main(world: World) -> None:
        stub = await world.stub(duplex=duplex)
        with client.deadline(20):
            assert 19 < await stub.remaining() < 20.01
            with client.deadline(10):
                assert 9 < await stub.remaining() < 10.01
            with client.deadline(500):
                assert 19 < await stub.remaining() < 20.01
            assert 4 < await stub.remaining.options(deadline_s=5)() < 5.01
            assert 19 < await stub.remaining.options(deadline_s=500)() < 20.01
        assert 29 < await stub.remaining() < 30.01
        with client.deadline(500):
            assert 499 < await stub.remaining() < 500.01

    in_world(main)


def test_a_scope_holds_across_tasks_and_threads() -> None:
    async def main(world: World) -> None:
        stub = await world.stub()
        with client.deadline(20):
            left = await asyncio.gather(*(stub.remaining() for _ in range(3)))
            assert all(19 < seconds <= 20 for seconds in left)
            sync = await world.stub(stub_type="sync")
            assert 19 < await asyncio.to_thread(sync.remaining) <= 20
            eager = await world.stub(stub_type="thread")
            assert 19 < await eager.remaining() < 20.01

    in_world(main)


def test_a_scope_around_blocking_calls() -> None:
    served = make_worker().start(port=0)
    try:
        sync = client.get_stub(str(served.address), stub_type="sync")
        generic = client.get_stub(str(served.address))
        with client.deadline(20):
            assert 19 < sync.remaining() <= 20
            with client.deadline(8):
                assert 7 < generic.remaining().join() <= 8
        with client.deadline(0.2), pytest.raises(DeadlineExceeded):
            sync.slow(10)
        assert 29 < sync.remaining() <= 30
    finally:
        served.shutdown()


@pytest.mark.parametrize("scope", [anyio.fail_after, anyio.move_on_after])
def test_the_worker_is_given_the_time_of_anyio_scopes(scope: Any) -> None:
    async def main(world: World) -> None:
        stub = await world.stub()
        with scope(12):
            assert 11 < await stub.remaining() < 12.01
            assert 11 < await stub.remaining_in_thread() < 12.01
            assert 4 < await stub.remaining.options(deadline_s=5)() < 5.01
            assert 11 < await stub.remaining.options(deadline_s=None)() <= 12
            with client.deadline(6):
                assert 5 < await stub.remaining() < 6.01
            with scope(3):
                assert 2 < await stub.remaining() < 3.01
        assert 29 < await stub.remaining() < 30.01

    in_world(main)


@pytest.mark.slow
@pytest.mark.parametrize("duplex", [False, True])
def test_fail_after_fails_and_move_on_after_moves_on(duplex: bool) -> None:
    """Against a worker with a loop and a clock of its own, whose deadline passes when ours does."""
    served = make_worker().start(port=0)

    async def main() -> None:
        stub = await client.connect(served.address, duplex=duplex)
        simplex = await client.connect(served.address)
        for place in range(30):
            with anyio.move_on_after(0.01 + place / 5000) as scope:
                await stub.slow(5)
            assert scope.cancelled_caught
            with anyio.move_on_after(0.01 + place / 5000) as scope:
                async for _ in simplex.drip(0.004):
                    continue
            assert scope.cancelled_caught
        with pytest.raises(TimeoutError), anyio.fail_after(0.05):
            await stub.slow(5)
        assert await stub.slow(0) == "done"

    try:
        run(main)
    finally:
        served.shutdown()


def test_a_call_whose_time_is_up_is_not_sent() -> None:
    ran: list[str] = []

    async def main() -> None:
        async with serving(make_worker(ran), "http") as world:
            stub = await world.stub()
            duplex = await world.stub(duplex=True)
            for function in (stub.echo, duplex.echo):
                with pytest.raises(DeadlineExceeded, match="within 0 s"):
                    await function.options(deadline_s=0)(1)
            with client.deadline(0), pytest.raises(DeadlineExceeded):
                await stub.echo(1)
            with anyio.move_on_after(0) as scope:
                await stub.echo(1)
            assert scope.cancelled_caught
            with anyio.move_on_after(0.01) as scope:
                time.sleep(0.03)  # noqa: ASYNC251 - the scope's end passes unseen
                await stub.echo(1)
            assert scope.cancelled_caught
            with pytest.raises(DeadlineExceeded):
                await anext(aiter(stub.count.options(deadline_s=0)(3)))
            assert ran == []
            assert await stub.echo(1) == 1

    run(main)
    assert ran == ["echo"]


def test_the_functions_own_timeout_is_not_a_deadline() -> None:
    worker = Worker("own")

    @worker.rpc()
    async def give_up() -> None:
        raise TimeoutError("mine")

    async def main() -> None:
        async with serving(worker, "http") as world:
            stub = await world.stub()
            with pytest.raises(TimeoutError, match="mine") as caught:
                await stub.give_up()
            assert isinstance(caught.value, RemoteError)
            assert not isinstance(caught.value, DeadlineExceeded)

    run(main)


# Compression


class Spy:
    """Stands before a worker's app and keeps what crosses the link."""

    def __init__(self, serving: Serving) -> None:
        self.seen: list[tuple[Request, Response]] = []
        self.sizes: list[tuple[int, int]] = []
        dispatcher = serving.dispatcher
        handle = dispatcher.handle

        def watch(request: Request) -> Any:
            size = body_size(request.body)
            answer = handle(request)
            if isinstance(answer, Response):
                self._note(request, size, answer)
                return answer

            async def finish() -> Response:
                response = await answer
                self._note(request, size, response)
                return response

            return finish()

        dispatcher.handle = watch  # type: ignore[method-assign]

    def _note(self, request: Request, size: int, response: Response) -> None:
        if request.method == b"POST":
            self.seen.append((request, response))
            self.sizes.append((size, body_size(response.body)))


@pytest.mark.parametrize("function", ["echo", "echo_thread"])
@pytest.mark.parametrize("keyed", [False, True])
def test_compressed_both_ways(function: str, keyed: bool) -> None:
    from axon.rpc.security.keys import Key

    options = {"key": Key.new("k")} if keyed else {}

    async def main(world: World) -> None:
        spy = Spy(world.serving)
        stub = await world.stub("rpc")
        remote = getattr(stub, function).options(compress=True)
        zeros = np.zeros(100_000)
        back = await remote(zeros)
        assert np.array_equal(back, zeros)
        assert back.flags.writeable
        sent, received = spy.sizes[-1]
        assert sent < 10_000
        assert received < 10_000
        request, response = spy.seen[-1]
        assert request.headers[b"content-encoding"] == b"zstd"
        assert response.headers[b"content-encoding"] == b"zstd"
        for value in ("small", "x" * 1023, "x" * 1024, b"", None, list(range(1000))):
            assert await remote(value) == value
        assert await getattr(stub, function)("x" * 5000) == "x" * 5000
        assert spy.sizes[-1][0] > 5000

    in_world(main, **options)


def test_compressed_errors_duplex_streams_and_progress() -> None:
    async def main(world: World) -> None:
        stub = await world.stub()
        with pytest.raises(ValueError, match="xxx"):
            await stub.fail_at_length.options(compress=True)(10_000)
        with pytest.raises(BadArguments):
            await stub.echo.options(compress=True)()
        duplex = stub.echo_thread.options(compress=True, duplex=True)
        assert await duplex("y" * 50_000) == "y" * 50_000
        asked = stub.echo_thread.options(compress=True, duplex=True, push=False)
        assert await asked("y" * 50_000) == "y" * 50_000
        items = stub.count.options(compress=True)(500)
        assert [item async for item in items] == list(range(500))
        followed = stub.echo_thread.options(compress=True, progress=print)
        assert await followed("z" * 50_000) == "z" * 50_000

    in_world(main)


# Options that cannot be meant


def test_unknown_names_list_the_known_ones() -> None:
    async def main(world: World) -> None:
        stub = await world.stub()
        with pytest.raises(ConfigurationError, match="timeout") as caught:
            stub.echo.options(timeout=3)
        for known in ("deadline_s", "duplex", "call_id", "push", "progress", "compress"):
            assert known in str(caught.value)
        with pytest.raises(ConfigurationError, match=r"timeout.*deadline_s"):
            await client.connect(world.address, timeout=3)
        with pytest.raises(ConfigurationError, match="generic, thread, sync, future"):
            await world.stub(stub_type="blocking")

    in_world(main)


def test_a_workers_unknown_option_lists_the_known_ones() -> None:
    with pytest.raises(ConfigurationError, match="unknown option prot") as caught:
        Worker("w").start(prot=8000)
    assert "port" in caught.value.hint
    assert "max_threads" in caught.value.hint


def test_options_that_contradict_one_another() -> None:
    async def main(world: World) -> None:
        stub = await world.stub()
        with pytest.raises(ConfigurationError, match="duplex=True"):
            stub.echo.options(call_id="x")
        assert await stub.echo.options(call_id="x", duplex=True)(1) == 1
        for wrong in (-1, float("nan")):
            with pytest.raises(ConfigurationError, match="at least 0"):
                stub.echo.options(deadline_s=wrong)
        with pytest.raises(ConfigurationError, match="key="):
            await world.stub(pickling=True)

    in_world(main)


def test_the_longest_deadline_there_is() -> None:
    async def main(world: World) -> None:
        stub = await world.stub()
        for endless in (1e9, 1e12, float("inf")):
            left = await stub.remaining.options(deadline_s=endless)()
            assert left is None or left > 9e8

    in_world(main)
