"""Keys and pickles between a real worker and real clients."""

from __future__ import annotations

import asyncio
import re
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from axon import client
from axon.errors import CannotTravel, ConfigurationError, NotFound, ProtocolError, Unauthorised
from axon.rpc.address import Address
from axon.rpc.security.keys import Key, Keyring
from axon.worker import Worker
from tests.rpc import raw
from tests.rpc.guarded import KEY, Scene, scene


class Plain:
    """An object with no form of its own on the wire."""

    def __init__(self, value: int) -> None:
        self.value = value

    def __reduce__(self) -> tuple[Any, ...]:
        return Plain, (self.value,)


# Keys


def test_only_the_right_key_opens() -> None:
    async def main(scene: Scene) -> None:
        with pytest.raises(Unauthorised, match="key=") as caught:
            await scene.stub()
        assert str(caught.value) == "not signed (this worker needs a key: key=...)"
        assert getattr(caught.value, "reason", None) == "missing"
        with pytest.raises(Unauthorised, match="no key 'stranger'"):
            await scene.stub(key=Key.new("stranger"))
        with pytest.raises(Unauthorised, match="signature by key 'laptop' is wrong"):
            await scene.stub(key=Key.new("laptop"))
        stub = await scene.stub(key=KEY)
        assert await stub.note(1) == 1
        assert scene.ran == [1]

    scene(main, key=KEY)


def test_a_wrong_key_runs_nothing_even_by_a_named_stub() -> None:
    async def main(scene: Scene) -> None:
        for key in (None, Key.new("laptop"), Key.new("other")):
            for kind in (client.CoroSimplexStub, client.CoroDuplexStub):
                named = kind(worker_ip=str(scene.address), rpc_name="note", key=key)
                with pytest.raises(Unauthorised):
                    await named(1)
        raw_call = raw.request(b"/rpc/note", b"[1]", headers={b"content-type": b"application/json"})
        answer = await raw.ask(scene.address, raw_call)
        assert answer.status == 401
        assert scene.ran == []

    scene(main, key=KEY)


def test_an_unkeyed_worker_cannot_pass_for_a_keyed_one() -> None:
    async def main(scene: Scene) -> None:
        with pytest.raises(Unauthorised, match="not signed"):
            await scene.stub(key=KEY)

    scene(main)


def test_each_key_calls_what_it_may() -> None:
    guest = Key.new("guest", allow=("rpc/later", "items/*"))
    nobody = Key.new("nobody", allow=())

    async def main(scene: Scene) -> None:
        stub = await scene.stub(key=guest)
        assert await stub.later(2) == 2
        assert await stub.items.pop() == "x"
        assert "note" not in dir(stub)
        profile = await (await _caller(guest)).profile(scene.address)
        assert "rpc/note" not in profile.functions
        assert {"rpc/later", "items/pop"} <= set(profile.functions)
        for way in ({}, {"duplex": True}, {"progress": print}):
            forbidden = await _forged(scene, guest, **way)
            with pytest.raises(Unauthorised, match="guest may not call rpc/note") as caught:
                await forbidden(3)
            assert getattr(caught.value, "reason", None) == "forbidden"
        named = client.CoroSimplexStub(worker_ip=str(scene.address), rpc_name="note", key=guest)
        with pytest.raises(NotFound):
            await named(3)
        with pytest.raises(NotFound):
            await scene.stub(key=nobody)
        assert scene.ran == [2]
        assert await (await scene.stub(key=KEY)).note(4) == 4

    scene(main, key=Keyring([KEY, guest, nobody]))


async def _caller(key: Key) -> Any:
    from axon.rpc.calling.callers import caller_for

    return await caller_for(client.access(key=key))


async def _forged(scene: Scene, key: Key, **options: Any) -> Any:
    """A stub of `rpc/note` in the hands of a key that was never told of it."""
    from axon.rpc.calling.stubs import RemoteFunction

    known = (await (await _caller(KEY)).profile(scene.address)).functions["rpc/note"]
    chosen = client.CallOptions(**options)
    return RemoteFunction(client.access(key=key), scene.address, known, client.GenericStub, chosen)


@asynccontextmanager
async def relay(target: Address) -> AsyncIterator[tuple[Address, list[bytes]]]:
    """A man in the middle who keeps what clients send."""
    heard: list[bytes] = []
    tasks: set[asyncio.Task[None]] = set()

    async def pump(
        reader: asyncio.StreamReader, writer: asyncio.StreamWriter, kept: list[bytes] | None
    ) -> None:
        try:
            while data := await reader.read(1 << 16):
                if kept is not None:
                    kept.append(data)
                writer.write(data)
        finally:
            writer.close()

    async def join(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        there = await asyncio.open_connection(target.host, target.port)
        for task in (pump(reader, there[1], heard), pump(there[0], writer, None)):
            tasks.add(asyncio.ensure_future(task))

    server = await asyncio.start_server(join, "127.0.0.1", 0)
    try:
        port: int = server.sockets[0].getsockname()[1]
        yield Address("127.0.0.1", port), heard
    finally:
        server.close()
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)


def recorded(heard: list[bytes]) -> bytes:
    """The bytes of the last call among what a relay heard."""
    return b"".join(heard).rpartition(b"POST /rpc/")[2].join((b"POST /rpc/", b""))


@pytest.mark.parametrize("value", ["small", "large" * 5000])
@pytest.mark.parametrize("function", ["note", "later"])
def test_a_replayed_request_is_refused_and_does_not_run(value: str, function: str) -> None:
    async def main(scene: Scene) -> None:
        async with relay(scene.address) as (address, heard):
            stub = await scene.stub(address, key=KEY)
            assert await getattr(stub, function)(value) == value
            again = recorded(heard)
        assert scene.ran == [value]
        for _ in range(3):
            answer = await raw.ask(scene.address, again)
            assert answer.status == 401
            assert b"taken before" in answer.body
        assert scene.ran == [value]
        assert await (await scene.stub(key=KEY)).note("next") == "next"

    scene(main, key=KEY)


@pytest.mark.parametrize("value", ["small", "large" * 5000])
def test_an_altered_request_is_refused_and_does_not_run(value: str) -> None:
    async def main(scene: Scene) -> None:
        async with relay(scene.address) as (address, heard):
            stub = await scene.stub(address, key=KEY)
            await stub.note(value)
            sent = recorded(heard)
        scene.ran.clear()
        # A number no session has used yet, so that only the signature can be in the way.
        fresh = re.sub(rb"(axon-auth: v1;[^;]*;[0-9]+;)[0-9a-f]{16}", rb"\g<1>" + b"0" * 16, sent)
        altered = {
            "body": sent.replace(value.encode()[-5:], b"XXXXX"),
            "target": sent.replace(b"/rpc/note", b"/items/append"),
            "deadline": sent.replace(b"axon-deadline: 30", b"axon-deadline: 31"),
            "session": fresh,
            "another key": sent.replace(b"v1;laptop;", b"v1;guest;"),
        }
        for name, data in altered.items():
            assert data != sent, name
            answer = await raw.ask(scene.address, data)
            assert answer.status == 401, name
        assert scene.ran == []

    scene(main, key=Keyring([KEY, Key.new("guest")]))


@pytest.mark.parametrize("push", [True, False])
def test_signed_streams_progress_and_duplex(push: bool) -> None:
    async def main(scene: Scene) -> None:
        stub = await scene.stub(key=KEY)
        items = [item async for item in stub.count(30)]
        assert [len(item) for item in items] == [100 * number for number in range(30)]
        seen: list[int] = []
        assert await stub.steps.options(progress=seen.append)(5) == "all"
        assert seen == [0, 1, 2, 3, 4]
        seen.clear()
        pushed = stub.steps.options(progress=seen.append, duplex=True, push=push)
        assert await pushed(5) == "all"
        if push:
            assert seen == [0, 1, 2, 3, 4]
        large = np.arange(200_000)
        back = await stub.later.options(duplex=True, push=push)(large)
        assert np.array_equal(back, large)

    scene(main, key=KEY)


def test_keys_from_a_file(tmp_path: Path) -> None:
    from axon.rpc.security.keys import save

    place = tmp_path / "keys.toml"
    save(place, [KEY])

    async def main(scene: Scene) -> None:
        assert await (await scene.stub(key=str(place))).note(1) == 1
        assert await (await scene.stub(key=place)).note(2) == 2
        with pytest.raises(ConfigurationError, match="no key file"):
            await scene.stub(key=tmp_path / "none.toml")

    scene(main, key=place)


# Pickles


def test_pickles_only_where_both_sides_agree() -> None:
    async def main(scene: Scene) -> None:
        plain = await scene.stub(key=KEY)
        with pytest.raises(CannotTravel, match="Plain"):
            await plain.note(Plain(1))
        both = await scene.stub(key=KEY, pickling=True)
        back = await both.note(Plain(2))
        assert isinstance(back, Plain)
        assert back.value == 2
        duplex = await scene.stub(key=KEY, pickling=True, duplex=True)
        assert (await duplex.later(Plain(3))).value == 3
        # The worker would send one that this client does not take.
        scene.serving.dispatcher._services.by_target[b"/rpc/give"] = _giving(scene)
        giving = client.CoroSimplexStub(worker_ip=str(scene.address), rpc_name="give", key=KEY)
        with pytest.raises(ProtocolError):
            await giving()
        assert [value.value for value in scene.ran] == [2, 3]

    scene(main, key=KEY, pickling=True)


def _giving(scene: Scene) -> Any:
    from axon.rpc.serving.service import make_function

    return make_function("rpc/give", lambda: Plain(9), "inline")


def test_a_worker_without_pickling_takes_none() -> None:
    async def main(scene: Scene) -> None:
        stub = await scene.stub(key=KEY, pickling=True)
        with pytest.raises(ProtocolError, match="pickl"):
            await stub.note(Plain(1))
        assert await stub.note("plain") == "plain"
        assert scene.ran == ["plain"]

    scene(main, key=KEY)


def test_pickling_without_a_key_is_refused_on_both_sides() -> None:
    with pytest.raises(ConfigurationError, match="key="):
        Worker("w").start(port=0, pickling=True)
    with pytest.raises(ConfigurationError, match="key="):
        client.access(pickling=True)
