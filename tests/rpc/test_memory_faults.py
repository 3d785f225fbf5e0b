"""The in-memory transport when hosts crash, fall silent, give up or shut down."""

from __future__ import annotations

import asyncio

import anyio
import pytest

from axon.errors import ConnectFailed, ConnectionLost
from axon.rpc.address import Address
from axon.rpc.link import Link
from axon.rpc.memory.network import Network
from axon.rpc.messages import Buffer, Request, Response
from axon.testbed.virtual import run
from tests.rpc.scenes import (
    MB,
    PI,
    Pair,
    Served,
    Witness,
    body_of,
    never,
    now,
    play,
)

# ---- faults


def test_a_partition_is_silence_until_the_callers_deadline() -> None:
    async def scene(pair: Pair) -> float:
        pair.network.partition("pi")
        with pytest.raises(TimeoutError), anyio.fail_after(30.0):
            await pair.ask()
        assert pair.app.admitted == []
        return now()

    assert play(scene) == 30.0


@pytest.mark.parametrize("cut_at_s", [0.0, 0.5, 1.5])
def test_what_a_partition_held_back_passes_when_it_heals(cut_at_s: float) -> None:
    """The request takes a second and the answer another; the cut falls on either."""

    async def scene(pair: Pair) -> float:
        task = pair.start([b"x"])
        await asyncio.sleep(cut_at_s)
        pair.network.partition("pi")
        await asyncio.sleep(10.0 - cut_at_s)
        assert not task.done()
        assert len(pair.app.handled) == (cut_at_s > 1.0)
        pair.network.heal("pi")
        assert body_of(await task) == b"x"
        return now()

    # Sent while cut: both ways again. In flight when cut: it lands at once, and the answer flies.
    expected = {0.0: 12.0, 0.5: 11.0, 1.5: 10.0}[cut_at_s]
    assert play(scene, pi=Link(latency_s=1.0)) == expected


def test_a_body_under_way_when_the_link_is_cut_lands_when_it_heals() -> None:
    async def scene(pair: Pair) -> None:
        loop = asyncio.get_running_loop()
        loop.call_at(5.0, pair.network.partition, "pi")
        loop.call_at(20.0, pair.network.heal, "pi")
        task = pair.start([bytes(10 * MB)])
        await asyncio.sleep(19.0)
        assert (len(pair.app.admitted), len(pair.app.handled)) == (1, 0)
        await task
        assert now() == 20.0

    play(scene, pi=Link(down_bytes_per_s=MB))


def test_a_link_that_loses_everything_is_a_partition() -> None:
    async def scene(pair: Pair) -> None:
        with anyio.move_on_after(1000.0) as scope:
            await pair.ask()
        assert scope.cancelled_caught
        assert pair.app.admitted == []

    play(scene, hub=Link(loss=1.0))


@pytest.mark.parametrize("crashing", ["pi", "hub"])
def test_a_crash_loses_the_exchange_and_cancels_the_app(crashing: str) -> None:
    witness = Witness()

    async def scene(pair: Pair) -> None:
        task = pair.start()
        await asyncio.sleep(3.0)
        pair.network.crash(crashing)
        with pytest.raises(ConnectionLost, match=f"{crashing} crashed"):
            await task
        await asyncio.sleep(0.1)
        assert witness.cancelled_at == [3.0]

    play(scene, witness)


def test_a_crashed_host_listens_no_more_until_it_is_started_again() -> None:
    async def scene(pair: Pair) -> None:
        pair.network.crash("pi")
        with pytest.raises(ConnectFailed):
            await pair.ask()
        await pair.server.listen(pair.app, PI)
        assert (await pair.ask()).status == 200

    play(scene)


def test_a_crash_while_the_request_travels_may_have_delivered_it() -> None:
    async def scene(pair: Pair) -> None:
        task = pair.start()
        await asyncio.sleep(0.5)
        pair.network.crash("pi")
        with pytest.raises(ConnectionLost):
            await task

    play(scene, pi=Link(latency_s=1.0))


def test_a_crash_of_one_host_leaves_the_others_alone() -> None:
    async def scene(pair: Pair) -> None:
        other = Address("other", 1, "memory")
        await pair.network.transport("other").listen(Served(), other)
        pair.network.set_link("other", Link(latency_s=1.0))
        task = asyncio.create_task(pair.ask([b"x"], other))
        await asyncio.sleep(0.5)
        pair.network.crash("pi")
        assert body_of(await task) == b"x"

    play(scene)


def test_a_crash_inside_a_shielded_scope_is_still_a_lost_connection() -> None:
    """A task that was cancelled before must not mistake the crash for another cancel."""

    async def scene(pair: Pair) -> None:
        seen: list[float] = []
        with anyio.CancelScope() as outer:
            outer.cancel()
            try:
                await anyio.sleep(1.0)
            finally:
                with anyio.CancelScope(shield=True):
                    asyncio.get_running_loop().call_later(2.0, pair.network.crash, "pi")
                    try:
                        await pair.ask()
                    except ConnectionLost:
                        seen.append(now())
        # Asserted out here, because the scope would swallow a cancel as its own.
        assert seen == [2.0]

    play(scene, never)


# ---- going away


def test_cancelling_an_exchange_cancels_the_apps_task() -> None:
    witness = Witness()

    async def scene(pair: Pair) -> None:
        with anyio.move_on_after(2.0) as scope:
            await pair.ask()
        assert scope.cancelled_caught
        await asyncio.sleep(1.0)
        assert witness.cancelled_at == [2.0]

    play(scene, witness)


def test_a_cancelled_sender_does_not_wait_for_the_app_to_clean_up() -> None:
    cleaned: list[float] = []

    async def handler(request: Request) -> Response:
        try:
            return await never(request)
        finally:
            with anyio.CancelScope(shield=True):
                await anyio.sleep(5.0)
            cleaned.append(now())

    async def scene(pair: Pair) -> None:
        with anyio.move_on_after(2.0):
            await pair.ask()
        assert now() == 2.0
        await asyncio.sleep(10.0)
        assert cleaned == [7.0]

    play(scene, handler)


def test_the_stream_of_an_answer_that_came_too_late_is_closed() -> None:
    closed: list[bool] = []

    class Pieces:
        def __aiter__(self) -> Pieces:
            return self

        async def __anext__(self) -> Buffer:
            return b"x"

        async def aclose(self) -> None:
            closed.append(True)

    async def handler(request: Request) -> Response:
        try:
            await anyio.sleep_forever()
        except asyncio.CancelledError:
            return Response(200, stream=Pieces())
        raise AssertionError("unreachable")

    async def scene(pair: Pair) -> None:
        with anyio.move_on_after(2.0):
            await pair.ask()
        await asyncio.sleep(1.0)
        assert closed == [True]

    play(scene, handler)


def test_an_app_that_cancels_itself_loses_the_connection() -> None:
    async def handler(request: Request) -> Response:
        raise asyncio.CancelledError

    async def scene(pair: Pair) -> None:
        with pytest.raises(ConnectionLost):
            await pair.ask()

    play(scene, handler)


@pytest.mark.parametrize("grace_s", [0.0, 2.0, 9.0])
def test_a_closing_listener_lets_answers_finish_within_its_grace(grace_s: float) -> None:
    async def handler(request: Request) -> Response:
        await asyncio.sleep(5.0)
        return Response(200)

    async def main() -> None:
        network = Network()
        listener = await network.transport("pi").listen(Served(handler), PI)
        client = network.transport("hub")
        under_way = asyncio.create_task(client.exchange(PI, Request(b"GET", b"/")))
        await asyncio.sleep(1.0)
        closing = asyncio.create_task(listener.close(grace_s=grace_s))
        await asyncio.sleep(0.0)
        with pytest.raises(ConnectFailed):
            await client.exchange(PI, Request(b"GET", b"/"))
        await closing
        assert now() == 1.0 + min(grace_s, 4.0)
        if grace_s > 4.0:
            assert (await under_way).status == 200
        else:
            with pytest.raises(ConnectionLost, match="memory://pi:8000 was closed"):
                await under_way

    run(main())


def test_a_listener_closed_twice_leaves_its_successor_alone() -> None:
    async def main() -> int:
        network = Network()
        transport = network.transport("pi")
        first = await transport.listen(Served(), PI)
        await first.close()
        await transport.listen(Served(), PI)
        await first.close()
        return (await network.transport("hub").exchange(PI, Request(b"GET", b"/"))).status

    assert run(main()) == 200


def test_an_app_may_close_its_own_listener() -> None:
    async def scene(pair: Pair) -> float:
        address = Address("pi", 1, "memory")
        done: list[bool] = []

        async def handler(request: Request) -> Response:
            await listener.close(grace_s=1.0)
            done.append(True)
            return Response(200)

        listener = await pair.server.listen(Served(handler), address)
        with pytest.raises(ConnectionLost):
            await pair.ask(address=address)
        assert done == [True]  # it was cut off from its caller, not held up waiting for itself
        return now()

    assert play(scene) == 1.0


def test_closing_a_transport_ends_what_it_began() -> None:
    witness = Witness()

    async def scene(pair: Pair) -> None:
        task = pair.start()
        await asyncio.sleep(1.0)
        await pair.client.close()
        with pytest.raises(ConnectionLost, match="transport of hub was closed"):
            await task
        with pytest.raises(ConnectFailed, match="transport of hub is closed"):
            await pair.ask()
        await pair.server.close()
        assert witness.cancelled_at == [1.0]
        with pytest.raises(ConnectFailed):
            await pair.network.transport("hub").exchange(PI, Request(b"GET", b"/"))

    play(scene, witness)
