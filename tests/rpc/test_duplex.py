"""What a duplex call promises while links break and workers die, in virtual time."""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from typing import Any

import pytest

from axon import client
from axon.errors import (
    BadArguments,
    CallCancelled,
    CallError,
    CallLost,
    DeadlineExceeded,
    RemoteError,
    WorkerStopping,
)
from axon.rpc.calling.callers import caller_for
from axon.rpc.limits import Limits
from axon.rpc.link import Link
from axon.rpc.memory.network import Network
from axon.rpc.messages import Request, Response
from axon.rpc.security.keys import Key, Keyring
from axon.rpc.serving import duplex as desk_module
from axon.worker import Worker, progress
from tests.rpc.worlds import World, run

KEY = Key.new("ours")
OTHER = Key.new("theirs")


class Place:
    """A network on which workers that share one memory of what they ran live and die."""

    def __init__(self, **options: Any) -> None:
        self.network = Network(seed=1)
        self.options = options
        self.runs: Counter[Any] = Counter()
        self.finished: list[str] = []

    def worker(self) -> Worker:
        worker = Worker("w")

        @worker.rpc()
        async def work(number: Any, seconds: float = 1.0, size: int = 0) -> Any:
            self.runs[number] += 1
            for step in range(4):
                progress(step)
                await asyncio.sleep(seconds / 4)
            self.finished.append(str(number))
            return bytes(size) if size else number

        @worker.rpc()
        async def cancel_itself() -> None:
            raise asyncio.CancelledError

        @worker.rpc(executor="inline")
        def fail() -> None:
            raise ValueError("no good")

        return worker

    @asynccontextmanager
    async def serving(self) -> AsyncIterator[World]:
        """One life of the worker, and how a client reaches it."""
        transport = self.transport = self.network.transport("worker")
        async with self.worker().serving(
            "worker", 8000, transport=transport, **self.options
        ) as served:
            self.world = World(served.address, self.access("client"), served)
            yield self.world

    def access(self, host: str, key: Key | None = None) -> dict[str, Any]:
        found: dict[str, Any] = {"transport": self.network.transport(host)}
        if key is not None or "key" in self.options:
            found["key"] = key or KEY
        return found

    async def kill(self) -> None:
        """End the worker's life: nobody listens, nothing is sent, and what runs stops dead."""
        self.network.crash("worker")
        for entry in self.world.serving.dispatcher.desk._entries.values():
            if entry.task is not None:
                entry.task.cancel()
        await self.transport.close()

    @asynccontextmanager
    async def restarted(self, *, down_s: float = 0.0) -> AsyncIterator[World]:
        """The worker's next life, at the same address."""
        await self.kill()
        await asyncio.sleep(down_s)
        async with self.serving() as world:
            yield world


def in_virtual_time(main: Callable[[], Awaitable[None]]) -> None:
    """Run the decorated coroutine at once."""
    run(main, loop="virtual")


def now() -> float:
    return asyncio.get_running_loop().time()


async def ask(world: World, method: bytes, target: bytes, **headers: str) -> Response:
    """A request as a client of another make would send it."""
    named = {f"axon-{name}".encode(): value.encode() for name, value in headers.items()}
    body = (b'{"number": 7, "seconds": 1.0}',) if method == b"POST" else ()
    transport = world.access["transport"]
    response = await transport.exchange(world.address, Request(method, target, named, body))
    assert isinstance(response, Response)
    return response


def text(response: Response) -> str:
    return bytes(response.body[0]).decode("utf-8", "replace") if response.body else ""


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


def test_a_result_is_kept_until_acknowledged() -> None:
    @in_virtual_time
    async def main() -> None:
        place = Place()
        async with place.serving() as world:
            assert (await ask(world, b"POST", b"/rpc/work", mode="duplex", call="c")).status == 202
            running = await ask(world, b"GET", b"/_axon/calls/c")
            assert (running.status, running.headers[b"axon-state"]) == (202, b"running")
            await asyncio.sleep(1)
            for _ in range(3):
                result = await ask(world, b"GET", b"/_axon/calls/c?wait=5")
                assert (result.status, text(result)) == (200, "7")
            again = await ask(world, b"POST", b"/rpc/work", mode="duplex", call="c")
            assert again.headers[b"axon-state"] == b"done"
            await ask(world, b"DELETE", b"/_axon/calls/c")
            gone = await ask(world, b"GET", b"/_axon/calls/c")
            assert gone.status == 410
            assert "was acknowledged already" in text(gone)
            assert place.runs == {7: 1}


def test_a_result_nobody_takes_expires_and_its_id_does_not() -> None:
    @in_virtual_time
    async def main() -> None:
        place = Place(limits=Limits(result_s=5.0))
        async with place.serving() as world:
            await ask(world, b"POST", b"/rpc/work", mode="duplex", call="c")
            await asyncio.sleep(5.9)
            assert (await ask(world, b"GET", b"/_axon/calls/c")).status == 200
            await asyncio.sleep(0.2)
            assert world.serving.dispatcher.desk.undelivered == 0
            gone = await ask(world, b"GET", b"/_axon/calls/c")
            assert gone.status == 410
            assert "was not asked for in time" in text(gone)
            await ask(world, b"POST", b"/rpc/work", mode="duplex", call="c")
            await asyncio.sleep(2)
            assert place.runs == {7: 1}


def test_ids_are_remembered_within_bounds(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(desk_module, "_REMEMBERED", 10)

    @in_virtual_time
    async def main() -> None:
        place = Place()
        async with place.serving() as world:
            stub = await world.stub(duplex=True)
            for number in range(15):
                assert await stub.work.options(call_id=f"c{number}")(number, 0.1) == number
            desk = world.serving.dispatcher.desk
            await asyncio.sleep(1)
            assert list(desk._past) == [f"c{number}" for number in range(5, 15)]
            assert not desk._entries
            await asyncio.sleep(700)
            with pytest.raises(CallLost):
                await client_attach(world, "c14")
            assert not desk._past


async def client_attach(world: World, id: str, **options: Any) -> Any:
    """`client.attach` for a running loop."""
    caller = await caller_for(client.access(**world.access))
    return await caller.attach(world.address, id, client.CallOptions(**options))


def test_results_are_kept_within_bytes() -> None:
    @in_virtual_time
    async def main() -> None:
        place = Place(limits=Limits(max_results_bytes=1000))
        async with place.serving() as world:
            stub = await world.stub(duplex=True)
            with pytest.raises(CallLost, match=r"has \d+ bytes, the worker keeps 1000"):
                await stub.work("large", 1.0, 2000)
            calls = []
            for name in ("first", "second"):
                # Never collected: its caller is cut off as soon as the call is acknowledged.
                calls.append(asyncio.ensure_future(stub.work.options(call_id=name)(name, 1.0, 600)))
                await asyncio.sleep(0.1)
            place.network.crash("client")
            place.network.partition("client")
            await asyncio.sleep(5)
            assert world.serving.dispatcher.desk.undelivered == 1
            place.network.heal("client")
            with pytest.raises(CallLost, match="dropped to make room"):
                await calls[0]
            assert await calls[1] == bytes(600)


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
def test_the_same_id_while_running_joins_the_call(push: bool) -> None:
    @in_virtual_time
    async def main() -> None:
        place = Place()
        async with place.serving() as world:
            stub = (await world.stub(duplex=True)).work.options(call_id="same", push=push)
            first = asyncio.ensure_future(stub("it", 1.0, 100))
            await asyncio.sleep(0.5)
            second = asyncio.ensure_future(stub("it", 1.0, 100))
            assert await first == bytes(100)
            assert await second == bytes(100)
            assert place.runs == {"it": 1}
            assert now() < 1.5


def test_another_key_cannot_touch_a_call() -> None:
    @in_virtual_time
    async def main() -> None:
        place = Place(key=Keyring([KEY, OTHER]))
        async with place.serving() as world:
            ours = (await world.stub(duplex=True)).work.options(call_id="mine")
            call = asyncio.ensure_future(ours("it", 3.0))
            await asyncio.sleep(0.5)
            thief = World(world.address, place.access("thief", OTHER), world.serving)
            with pytest.raises(CallLost, match="knows no call"):
                await client_attach(thief, "mine")
            theirs = (await thief.stub(duplex=True)).work.options(call_id="mine")
            with pytest.raises(BadArguments, match="another caller"):
                await theirs("it", 3.0)
            assert await call == "it"
            assert place.runs == {"it": 1}


def test_attach_finds_a_call_of_a_client_that_died() -> None:
    @in_virtual_time
    async def main() -> None:
        place = Place()
        async with place.serving() as world:
            await ask(world, b"POST", b"/rpc/work", mode="duplex", call="c")
            heir = World(world.address, place.access("heir"), world.serving)
            # In the format the call was made in, so that any client can take it.
            with pytest.raises(CallError):
                await client_attach(heir, "unknown")
            stub = (await heir.stub(duplex=True)).work.options(call_id="d")
            dying = asyncio.ensure_future(stub("it", 1.0))
            await asyncio.sleep(0.5)
            other = World(world.address, place.access("other"), world.serving)
            assert await client_attach(other, "d") == "it"
            dying.cancel()
            assert place.runs["it"] == 1


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
