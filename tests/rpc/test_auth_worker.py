"""What a worker and a client's inbox do with a request before it is proven: nothing at all."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field, replace
from typing import Any

import pytest

from axon.errors import ConfigurationError
from axon.rpc import wire
from axon.rpc.calling.inbox import Inbox
from axon.rpc.memory.network import MemoryTransport
from axon.rpc.messages import Request, Response
from axon.rpc.paths import CALLS, HEALTH, PROFILE, PROGRESS, RESULTS
from axon.rpc.security.auth import Signer
from axon.rpc.security.keys import Key, Keyring
from axon.worker import Worker
from tests.rpc.raw import connected
from tests.rpc.signing import BOOT, KEY, LARGE, signed
from tests.rpc.worlds import World, run, serving

OTHER = Key("tablet", b"t" * 32)
CALL = b"".join(wire.encode([["it"], {}]))
AXON = {b"content-type": wire.CONTENT_TYPE}


@dataclass
class Place:
    """A worker with a key, whose functions note that they ran, and a raw way to it."""

    ran: list[str] = field(default_factory=list)
    gate: asyncio.Event = field(default_factory=asyncio.Event)
    world: World = field(init=False)
    link: MemoryTransport = field(init=False)

    @asynccontextmanager
    async def open(self) -> AsyncIterator[Place]:
        worker = Worker("worker")
        worker.rpc()(self.quick)
        worker.rpc()(self.slow)
        worker.rpc()(self.items)
        async with serving(worker, "memory", key=KEY) as self.world:
            assert self.world.network is not None
            self.link = self.world.network.transport("stranger")
            yield self

    def quick(self, name: str) -> str:
        self.ran.append(name)
        return name

    async def slow(self, name: str) -> str:
        self.ran.append(name)
        await self.gate.wait()
        return name

    def items(self, name: str) -> Any:
        self.ran.append(name)
        yield name

    async def boot(self) -> bytes:
        health = await self.link.exchange(self.world.address, Request(b"GET", HEALTH))
        return wire.from_json(health.body[0])["boot"].encode()  # type: ignore[no-any-return]

    async def send(self, made: Request) -> Response:
        return await self.link.exchange(self.world.address, made)

    async def ask(self, made: Request) -> Response:
        """As the holder of the key."""
        seal = Signer(KEY).sign(made, boot=await self.boot())
        answer = await self.send(made)
        seal.verify(answer)
        return answer

    async def submit(self, function: bytes, id: bytes) -> None:
        """A duplex call whose result waits to be fetched."""
        headers = {**AXON, b"axon-mode": b"duplex", b"axon-call": id}
        body = b"".join(wire.encode([[id.decode()], {}]))
        assert (
            await self.ask(Request(b"POST", b"/rpc/" + function, headers, (body,)))
        ).status == 202

    async def result(self, id: bytes) -> Any:
        answer = await self.ask(Request(b"GET", CALLS + id + b"?wait=5"))
        assert answer.status == 200
        return wire.decode(answer.body[0])


def forged(made: Request, boot: bytes) -> Request:
    """As the holder of the key would send it, but for the secret."""
    Signer(Key(KEY.id, b"guess" * 8)).sign(made, boot=boot)
    return made


ATTEMPTS = {
    "quick": Request(b"POST", b"/rpc/quick", AXON, (CALL,)),
    "slow": Request(b"POST", b"/rpc/slow", AXON, (CALL,)),
    "stream": Request(b"POST", b"/rpc/items", AXON, (CALL,)),
    "progress": Request(b"POST", b"/rpc/slow", AXON | {b"axon-accept": b"progress"}, (CALL,)),
    "duplex": Request(
        b"POST", b"/rpc/slow", AXON | {b"axon-mode": b"duplex", b"axon-call": b"new"}, (CALL,)
    ),
    "not a call": Request(b"POST", b"/rpc/quick", AXON, (b"nothing like an envelope",)),
    "no function": Request(b"POST", b"/rpc/nothing", AXON, (CALL,)),
    "large": Request(b"POST", b"/rpc/quick", AXON, (LARGE,)),
    "profile": Request(b"GET", PROFILE),
    "fetch": Request(b"GET", CALLS + b"ended"),
    "acknowledge": Request(b"DELETE", CALLS + b"ended"),
    "cancel": Request(b"POST", CALLS + b"running/cancel"),
    "nowhere": Request(b"PUT", b"/"),
}


@pytest.mark.parametrize("attempt", ATTEMPTS)
def test_without_the_secret_nothing_is_run_read_or_signed(attempt: str) -> None:
    async def main() -> None:
        async with Place().open() as place:
            await place.submit(b"quick", b"ended")
            await place.result(b"ended")
            await place.submit(b"slow", b"running")
            made = replace(ATTEMPTS[attempt], headers=dict(ATTEMPTS[attempt].headers))
            answer = await place.send(forged(made, await place.boot()))
            assert (answer.status, answer.stream) == (401, None)
            assert b"axon-auth" not in answer.headers
            # One answer to all: it tells nothing of what there is.
            assert b"signature" in b"".join(answer.body)
            place.gate.set()
            assert await place.result(b"running") == "running"
            assert await place.result(b"ended") == "ended"
            assert place.ran == ["ended", "running"]

    run(main)


def test_a_signed_answer_is_of_use_to_nobody_who_sends_the_request_again() -> None:
    async def main() -> None:
        async with Place().open() as place:
            made = Request(b"POST", b"/rpc/quick", dict(AXON), (CALL,))
            seal = Signer(KEY).sign(made, boot=await place.boot())
            seal.verify(await place.send(made))
            again = await place.send(made)
            assert again.status == 401
            assert b"axon-auth" not in again.headers
            altered = replace(made, body=(CALL.replace(b"it", b"at"),))
            assert (await place.send(altered)).status == 401
            assert place.ran == ["it"]

    run(main)


def test_an_altered_large_body_is_refused_under_the_callers_key() -> None:
    async def main() -> None:
        async with Place().open() as place:
            body = b"".join(wire.encode([["x" * 9000], {}]))
            made = Request(b"POST", b"/rpc/quick", dict(AXON), (body,))
            seal = Signer(KEY).sign(made, boot=await place.boot())
            answer = await place.send(replace(made, body=(body.replace(b"xx", b"yy"),)))
            assert answer.status == 401
            seal.verify(answer)
            assert place.ran == []

    run(main)


def test_a_stranger_cannot_make_the_worker_hold_a_body_of_chunks() -> None:
    async def main() -> None:
        worker = Worker("worker")
        async with serving(worker, "http", key=KEY) as world:
            auth = signed().headers[b"axon-auth"]
            head = b"POST /rpc/echo HTTP/1.1\r\nhost: w\r\ntransfer-encoding: chunked\r\n"
            async with connected(world.address) as peer:
                peer.writer.write(head + b"axon-auth: " + auth + b"\r\n\r\n")
                # Told by its head; not a byte of the body was sent.
                answer = await asyncio.wait_for(peer.reader.readuntil(b"\r\n"), 5)
            assert answer.startswith(b"HTTP/1.1 401 ")

    run(main)


@pytest.mark.parametrize("stated", [b"0" * 5000 + b"4", b"4097", b"4 "])
def test_odd_lengths_are_refused_and_not_stumbled_over(stated: bytes) -> None:
    async def main() -> None:
        async with serving(Worker("worker"), "http", key=KEY) as world:
            made = Request(b"POST", b"/rpc/echo", {}, (b"body",))
            forged(made, BOOT)
            head = b"POST /rpc/echo HTTP/1.1\r\nhost: w\r\ncontent-length: " + stated
            async with connected(world.address) as peer:
                peer.writer.write(head + b"\r\naxon-auth: " + made.headers[b"axon-auth"])
                peer.writer.write(b"\r\n\r\nbody")
                answer = await asyncio.wait_for(peer.reader.readuntil(b"\r\n"), 5)
            assert answer.startswith(b"HTTP/1.1 401 ")

    run(main)


def test_an_empty_ring_opens_nothing() -> None:
    async def main() -> None:
        worker = Worker("worker")
        with pytest.raises(ConfigurationError, match="holds no key"):
            async with worker.serving(port=0, key=Keyring([])):
                pass

    run(main)


# A client's inbox


def pushed(key: Key, boot: bytes, target: bytes = RESULTS + b"mine") -> Request:
    body = b"".join(wire.encode("it"))
    made = Request(b"POST", target, {**AXON, b"axon-status": b"200"}, (body,))
    Signer(key).sign(made, boot=boot)
    return made


def give(inbox: Inbox, made: Request) -> Response:
    arrived = replace(made, body=())
    arrived.headers[b"content-length"] = b"%d" % len(made.body[0])
    refusal = inbox.admit(arrived)
    arrived.body = made.body
    return inbox.handle(arrived) if refusal is None else refusal


def test_an_inbox_takes_what_the_key_it_called_with_has_signed() -> None:
    async def main() -> None:
        inbox, told = Inbox(Keyring([KEY, OTHER]), wire.decode), list[Any]()
        result = inbox.expect("mine", told.append)
        guess = Key(KEY.id, b"guess" * 8)
        for target in (RESULTS + b"mine", PROGRESS + b"mine"):
            # Nor by another of our keys: its holder was not asked.
            for bad in (pushed(guess, inbox.boot, target), pushed(OTHER, inbox.boot, target),
                        pushed(KEY, BOOT, target), pushed(KEY, b"", target)):  # fmt: skip
                assert give(inbox, bad).status == 401
        assert not result.done()
        assert told == []
        assert give(inbox, pushed(KEY, inbox.boot, PROGRESS + b"mine")).status == 204
        assert told == ["it"]
        good = pushed(KEY, inbox.boot)
        assert give(inbox, good).status == 204
        assert result.result().status == 200

    run(main)


def test_an_inbox_takes_progress_once() -> None:
    async def main() -> None:
        inbox, told = Inbox(Keyring([KEY]), wire.decode), list[Any]()
        inbox.expect("mine", told.append)
        made = pushed(KEY, inbox.boot, PROGRESS + b"mine")
        assert [give(inbox, made).status for _ in range(2)] == [204, 401]
        assert told == ["it"]

    run(main)
