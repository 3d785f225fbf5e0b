"""The receiving end of HTTP when an app fails, a peer leaves or the listener closes."""

from __future__ import annotations

import asyncio
import socket

import pytest

from axon.rpc.http.server import ServerConnection
from tests.rpc.mirrors import Scene, open_peer, play
from tests.rpc.raw import connected, request
from tests.rpc.worlds import every_loop

pytestmark = pytest.mark.usefixtures("quick_sweeps", "no_errors_logged")


@every_loop
def test_an_app_that_fails_still_answers(loop: str, caplog: pytest.LogCaptureFixture) -> None:
    async def main(stage: Scene) -> None:
        async with connected(stage.address) as peer:
            targets = [b"/broken", b"/1", b"/broken-later", b"/slow?0.01", b"/broken", b"/2"]
            await peer.send(b"".join(request(target) for target in targets))
            answers = await peer.get(6)
            assert [answer.status for answer in answers] == [500, 200, 500, 200, 500, 200]
            assert bytes(answers[0].body) == b"internal error"
        async with connected(stage.address) as peer:
            await peer.send(request(b"/cancels"))
            assert await peer.ended() == []  # Rather than waiting for ever.
        await stage.alive()

    play(main, loop)
    assert sum("failed in the app" in r.getMessage() for r in caplog.records) == 3
    caplog.clear()


@every_loop
def test_closing_lets_answers_under_way_finish(loop: str) -> None:
    async def main(stage: Scene) -> None:
        async with connected(stage.address) as busy, connected(stage.address) as idle:
            await busy.send(request(b"/slow?0.2") + request(b"/never"))
            await idle.send(request())
            await idle.get()
            await asyncio.sleep(0.05)
            closing = asyncio.ensure_future(stage.listener.close(grace_s=5))
            assert len(await idle.ended()) == 1
            answers = await busy.ended()
            assert [(a.status, a.headers[b"connection"]) for a in answers] == [(200, b"close")]
            await closing
            assert [r.target for r in stage.app.handled] == [b"/slow?0.2", b"/rpc/echo"]
            with pytest.raises(ConnectionRefusedError):
                await open_peer(stage.address)
        assert not stage.listener.connections

    play(main, loop)


@every_loop
def test_closing_cuts_what_is_not_done_in_time(loop: str) -> None:
    async def main(stage: Scene) -> None:
        async with connected(stage.address) as peer:
            await peer.send(request(b"/slow?20"))
            await asyncio.sleep(0.05)
            await stage.listener.close(grace_s=0.1)
            assert await peer.ended() == []
            await stage.settled()
            await asyncio.sleep(0)
            assert stage.app.cancelled == 1

    play(main, loop)


@every_loop
def test_a_connection_ready_only_after_closing_is_cut(loop: str) -> None:
    async def main(stage: Scene) -> None:
        await stage.listener.close()
        ours, theirs = socket.socketpair()
        with ours:
            ours.setblocking(False)
            await asyncio.get_running_loop().connect_accepted_socket(
                lambda: ServerConnection(stage.listener), theirs
            )
            assert stage.listener.connections == set()
            async with asyncio.timeout(5):
                assert await asyncio.get_running_loop().sock_recv(ours, 10) == b""

    play(main, loop)


@every_loop
def test_a_peer_that_leaves_cancels_its_work(loop: str) -> None:
    async def main(stage: Scene) -> None:
        async with connected(stage.address) as peer:
            await peer.send(request(b"/slow?20"))
            await asyncio.sleep(0.05)
        await stage.settled()
        await asyncio.sleep(0)
        assert stage.app.cancelled == 1

    play(main, loop)


@every_loop
def test_an_answer_ready_as_its_peer_leaves_goes_nowhere(loop: str) -> None:
    async def main(stage: Scene) -> None:
        def leave() -> None:
            # Closed, and not yet told so: the gap between the two is a turn of the loop.
            for link in stage.listener.connections:
                link._transport.abort()

        for size in (4, 200_000):
            stage.app.parting, stage.app.slow_bytes = leave, size
            async with connected(stage.address) as peer:
                await peer.send(request(b"/slow?0.02") * 3)
                assert await peer.ended() == []
            await stage.settled()
        await stage.alive()

    play(main, loop)
