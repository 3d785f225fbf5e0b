"""The results and ids of duplex calls: how long they are kept, and for whom, in virtual time."""

from __future__ import annotations

import asyncio

import pytest

from axon.errors import BadArguments, CallError, CallLost
from axon.rpc.limits import Limits
from axon.rpc.security.keys import Key, Keyring
from axon.rpc.serving import duplex as desk_module
from tests.rpc.places import KEY, Place, ask, client_attach, in_virtual_time, text
from tests.rpc.scenes import now
from tests.rpc.worlds import World

OTHER = Key.new("theirs")


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
