"""What a call promises, on every transport alike."""

from __future__ import annotations

import asyncio
import time
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from axon import client
from axon.errors import (
    BadArguments,
    CallCancelled,
    CallLost,
    CannotTravel,
    DeadlineExceeded,
    NotFound,
    Overloaded,
    RemoteError,
    TooLarge,
)
from axon.rpc.limits import Limits
from axon.worker import Worker, check
from tests.rpc.callees import Colour, Point, log_of, make_worker, with_world
from tests.rpc.worlds import World, every_transport, run


@every_transport
def test_values_come_back(transport: str, tmp_path: Path) -> None:
    @with_world(transport, tmp_path)
    async def main(world: World) -> None:
        stub = await world.stub()
        for value in (None, True, 2**80, 1.5, "ü", b"x", [1, (2, {3})], {"a": Colour.RED}):
            assert await stub.echo(value) == value
        array = np.arange(12, dtype=np.float32).reshape(3, 4)[:, ::2]
        back = await stub.echo(array)
        assert np.array_equal(back, array)
        assert back.flags.writeable
        large = np.arange(1 << 18, dtype=np.float64)
        assert np.array_equal(await stub.echo(large), large)


@every_transport
def test_data_classes_travel_both_ways(transport: str, tmp_path: Path) -> None:
    @with_world(transport, tmp_path)
    async def main(world: World) -> None:
        stub = await world.stub()
        assert await stub.scale(Point(1, 2.0), by=3.0) == Point(3, 6.0)
        assert await stub.scale(Point(1, 2.0), flip=True) == Point(2, -4.0)


@every_transport
def test_wrong_arguments_fail_before_anything_is_sent(transport: str, tmp_path: Path) -> None:
    @with_world(transport, tmp_path)
    async def main(world: World) -> None:
        stub = await world.stub()
        with pytest.raises(BadArguments, match="missing"):
            stub.scale()
        with pytest.raises(TypeError, match="unexpected keyword"):
            stub.scale(Point(1, 1.0), flop=True)
        with pytest.raises(BadArguments, match="too many"):
            stub.echo(1, 2)


@every_transport
def test_remote_errors_are_the_builtin_type_too(transport: str, tmp_path: Path) -> None:
    @with_world(transport, tmp_path)
    async def main(world: World) -> None:
        stub = await world.stub()
        with pytest.raises(ValueError, match="no good") as caught:
            await stub.fail("value")
        assert isinstance(caught.value, RemoteError)
        assert caught.value.type_name == "ValueError"
        assert "in fail" in caught.value.remote_traceback
        assert "look here" in caught.value.__notes__
        with pytest.raises(KeyError):
            await stub.fail("key")


@every_transport
def test_a_deadline_ends_the_call_on_both_sides(transport: str, tmp_path: Path) -> None:
    @with_world(transport, tmp_path)
    async def main(world: World) -> None:
        stub = await world.stub()
        worker = world.serving.dispatcher._services
        log = log_of(worker)
        with pytest.raises(DeadlineExceeded, match=r"0\.1 s"):
            await stub.slow.options(deadline_s=0.1)(5)
        with client.deadline(0.1), pytest.raises(TimeoutError):
            await stub.slow(5)
        await asyncio.sleep(0.2)
        assert log == ["cancelled", "cancelled"]


@every_transport
def test_cancelling_the_caller_cancels_the_work(transport: str, tmp_path: Path) -> None:
    @with_world(transport, tmp_path)
    async def main(world: World) -> None:
        stub = await world.stub()
        log = log_of(world.serving.dispatcher._services)
        task = asyncio.ensure_future(stub.slow(5))
        await asyncio.sleep(0.1)
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
        await asyncio.sleep(0.1)
        assert log == ["cancelled"]
        assert await stub.echo("still here") == "still here"


@every_transport
def test_generators_are_iterators(transport: str, tmp_path: Path) -> None:
    @with_world(transport, tmp_path)
    async def main(world: World) -> None:
        stub = await world.stub()
        assert [item async for item in stub.count(5)] == [0, 1, 2, 3, 4]
        stream = aiter(stub.count_async(3))
        assert [await anext(stream) for _ in range(3)] == [0, 1, 2]
        with pytest.raises(ValueError, match="after the last"):
            await anext(stream)
        with pytest.raises(BadArguments, match="generator"):
            await stub.count(3)


@every_transport
def test_leaving_a_stream_closes_the_generator(transport: str, tmp_path: Path) -> None:
    @with_world(transport, tmp_path)
    async def main(world: World) -> None:
        stub = await world.stub()
        log = log_of(world.serving.dispatcher._services)
        stream = aiter(stub.count(10**9))
        assert await anext(stream) == 0
        await stream.aclose()
        await asyncio.sleep(0.3)
        assert log == ["closed"]


@every_transport
@pytest.mark.parametrize("duplex", [False, True])
def test_progress_is_reported(transport: str, tmp_path: Path, duplex: bool) -> None:
    @with_world(transport, tmp_path)
    async def main(world: World) -> None:
        stub = await world.stub(duplex=duplex)
        seen: list[Any] = []
        assert await stub.steps.options(progress=seen.append)(3) == "all"
        if transport != "unix" or not duplex:  # Asked for now and then, it may skip some.
            assert seen == [{"step": 0}, {"step": 1}, {"step": 2}]
        call = stub.steps(2)
        if not duplex:
            assert [value async for value in call.progress()] == [{"step": 0}, {"step": 1}]
            assert await call == "all"
        else:
            await call


@every_transport
def test_services_expose_public_methods_and_no_more(transport: str, tmp_path: Path) -> None:
    @with_world(transport, tmp_path)
    async def main(world: World) -> None:
        stub = await world.stub("counter")
        assert await stub.add(2) == 2
        assert await stub.add() == 3
        assert await stub(10) == 13
        assert await stub.inner.deep() == "deep"
        assert dir(stub) == ["add", "inner", "reset"]
        assert await stub.reset() is None  # Itself, which the caller has a stub of.
        assert await stub.add(1) == 1
        with pytest.raises(AttributeError, match="offers"):
            stub.missing  # noqa: B018
        functions = world.serving.dispatcher.profile()["functions"]
        assert not any("_" in path.rpartition("/")[2][:1] for path in functions)


@every_transport
def test_what_is_not_there(transport: str, tmp_path: Path) -> None:
    @with_world(transport, tmp_path)
    async def main(world: World) -> None:
        with pytest.raises(NotFound, match="offers"):
            await world.stub("nothing/here")
        stub = await world.stub()
        with pytest.raises(CannotTravel, match="lock"):
            await stub.echo(asyncio.Lock())
        with pytest.raises(CannotTravel, match="rpc/lock"):
            await stub.lock()


@every_transport
def test_over_the_limits(transport: str, tmp_path: Path) -> None:
    limits = Limits(max_body_bytes=1 << 20, max_calls=2)

    @with_world(transport, tmp_path, limits=limits)
    async def main(world: World) -> None:
        stub = await world.stub()
        if transport != "memory":
            with pytest.raises(TooLarge):
                await stub.echo(bytes(2 << 20))
        held = [asyncio.ensure_future(stub.slow(3)) for _ in range(2)]
        await asyncio.sleep(0.1)
        with pytest.raises(Overloaded):
            await stub.echo_async(1)
        for task in held:
            task.cancel()
        await asyncio.wait(held)
        await asyncio.sleep(0.1)
        assert await stub.echo(1) == 1


@every_transport
def test_gather_takes_the_fastest(transport: str, tmp_path: Path) -> None:
    @with_world(transport, tmp_path)
    async def main(world: World) -> None:
        stub = await world.stub()
        log = log_of(world.serving.dispatcher._services)
        calls = [stub.slow(s) for s in (0.3, 9, 0.1, 9, 0.2)]
        answers = await client.gather(calls, quorum=3, deadline_s=5)
        assert list(answers) == ["done"] * 3
        assert [name for name, value in answers.outcomes.items() if value == "done"] == [0, 2, 4]
        assert [failure.reason for failure in answers.failures] == ["not needed"] * 2
        await asyncio.sleep(0.1)
        assert log.count("cancelled") == 2
        mixed = await client.gather({"a": stub.echo(1), "b": stub.fail("value")})
        assert mixed["a"] == 1
        assert "no good" in mixed["b"].reason


@every_transport
def test_duplex_answers_and_never_runs_an_id_twice(transport: str, tmp_path: Path) -> None:
    @with_world(transport, tmp_path)
    async def main(world: World) -> None:
        stub = await world.stub("counter", duplex=True)
        assert await stub.add(5) == 5
        assert await stub.add.options(call_id="once")(1) == 6
        await asyncio.sleep(0.1)
        with pytest.raises(CallLost, match="acknowledged"):
            await stub.add.options(call_id="once", deadline_s=5)(1)
        assert await stub.add(0) == 6


@every_transport
def test_duplex_without_push_is_asked_for(transport: str, tmp_path: Path) -> None:
    @with_world(transport, tmp_path)
    async def main(world: World) -> None:
        stub = await world.stub(duplex=True)
        assert await stub.slow.options(push=False)(0.2) == "done"
        with pytest.raises(DeadlineExceeded):
            await stub.slow.options(deadline_s=0.2)(5)
        with pytest.raises(ValueError, match="no good"):
            await stub.fail("value")


@every_transport
def test_duplex_cancel_reaches_the_work(transport: str, tmp_path: Path) -> None:
    @with_world(transport, tmp_path)
    async def main(world: World) -> None:
        stub = await world.stub(duplex=True)
        log = log_of(world.serving.dispatcher._services)
        task = asyncio.ensure_future(stub.slow(5))
        await asyncio.sleep(0.2)
        task.cancel()
        await asyncio.wait([task])
        await asyncio.sleep(0.2)
        assert log == ["cancelled"]


def test_threads_and_blocking_share_the_implementation() -> None:
    serving = make_worker().start(port=0)
    where = str(serving.address)
    try:
        sync = client.get_stub(where, stub_type=client.SyncStub)
        assert sync.echo_thread("a") == "a"
        assert list(sync.count(3)) == [0, 1, 2]
        generic = client.get_stub(where)
        assert generic.echo("b").join() == "b"
        assert generic.counter.add(1).join() == 1
        future = client.get_stub(where, stub_type="future").slow(0.01)
        assert future.result(5) == "done"
        handle = generic.slow(30)
        time.sleep(0.1)
        handle.cancel()
        with pytest.raises(CallCancelled):
            handle.join()
        answers = client.gather([generic.echo(n) for n in range(5)], quorum=5).join()
        assert list(answers) == [0, 1, 2, 3, 4]
        assert client.call(f"{where}/rpc/echo", "c") == "c"
    finally:
        serving.shutdown()


def test_help_shows_the_remote_signature() -> None:
    import inspect
    import pydoc

    serving = make_worker().start(port=0)
    try:
        stub = client.get_stub(str(serving.address))
        assert str(inspect.signature(stub.scale)) == (
            "(point: Point, by: float = 2.0, *, flip: bool = False) -> Point"
        )
        text = pydoc.plain(pydoc.render_doc(stub.echo))
        assert "echo(value: Any) -> Any" in text
        assert "Give back what came." in text
        assert "scale" in dir(stub)
    finally:
        serving.shutdown()


def test_a_sync_function_never_blocks_the_others() -> None:
    worker = Worker("busy")

    @worker.rpc()
    def train(seconds: float) -> int:
        end = time.monotonic() + seconds
        turns = 0
        while time.monotonic() < end:
            turns += 1
            check()
        return turns

    @worker.rpc()
    async def ping() -> str:
        return "pong"

    async def main() -> None:
        async with worker.serving(port=0) as serving:
            stub = await client.connect(serving.address)
            training = asyncio.ensure_future(stub.train(1.0))
            await asyncio.sleep(0.1)
            began = time.monotonic()
            assert await stub.ping() == "pong"
            assert time.monotonic() - began < 0.5
            assert await training > 0

    run(main)
