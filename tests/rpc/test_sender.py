"""What a client with a key believes, and what it does not."""

from __future__ import annotations

import asyncio
import json
from dataclasses import dataclass

import pytest

from axon.errors import (
    AxonError,
    CallLost,
    Overloaded,
    ProtocolError,
    TooLarge,
    Unauthorised,
    WorkerStopping,
)
from axon.rpc import wire, zstd
from axon.rpc.address import Address
from axon.rpc.calling.options import Access
from axon.rpc.calling.sender import Sender
from axon.rpc.limits import Limits
from axon.rpc.memory.network import Network
from axon.rpc.messages import Request, Response
from axon.rpc.replies import error_response, remote_response, value_response
from axon.rpc.security.keys import Key, Keyring
from axon.testbed import virtual


class Liar:
    """Whoever sits on the link: answers everything, signs nothing."""

    def __init__(self, answer: Response) -> None:
        self._answer = answer

    def admit(self, request: Request) -> Response | None:
        return None

    def handle(self, request: Request) -> Response:
        return Response(self._answer.status, dict(self._answer.headers), self._answer.body)


def ask(answer: Response) -> None:
    access = Access(key=Keyring([Key("k", bytes(32))]))
    asked(answer, Request(b"GET", b"/_axon/calls/1"), access)


def asked(answer: Response, request: Request, access: Access) -> Response:
    async def main() -> Response:
        sender, where = await facing(answer, access)
        async with asyncio.timeout(5):
            return await sender.send(where, request)

    return virtual.run(main())


async def facing(answer: Response, access: Access) -> tuple[Sender, Address]:
    """A sender, and where everything is answered so."""
    network = Network()
    where = Address("worker", 8000, "memory")
    await network.transport("worker").listen(Liar(answer), where)
    return Sender(access, network.transport("client")), where


@pytest.mark.parametrize(
    "answer",
    [
        value_response(1, as_json=False),
        remote_response(ValueError("so they say"), as_json=False),
        error_response(CallLost("gone"), as_json=False),
        error_response(WorkerStopping("bye"), as_json=False),
    ],
)
def test_an_outcome_is_not_taken_from_just_anyone(answer: Response) -> None:
    with pytest.raises(Unauthorised, match="sign"):
        ask(answer)


@pytest.mark.parametrize("error", [Unauthorised("no such key"), Overloaded("too many bodies")])
def test_a_refusal_may_come_before_the_key_is_known_to_be_good(error: AxonError) -> None:
    with pytest.raises(type(error), match=error.message):
        ask(error_response(error, as_json=False))


# Answers that are larger than they look

SMALL = Access(limits=Limits(max_body_bytes=1 << 20, max_head_bytes=1 << 10))
WANTED = {b"accept-encoding": zstd.ENCODING}


def packed(answer: Response) -> Response:
    headers = {**answer.headers, b"content-encoding": zstd.ENCODING}
    return Response(answer.status, headers, zstd.compress(answer.body))


def called(answer: Response, headers: dict[bytes, bytes], access: Access = SMALL) -> object:
    async def main() -> object:
        sender, where = await facing(answer, access)
        return sender.value(await sender.send(where, Request(b"POST", b"/f", dict(headers))))

    return virtual.run(main())


def test_what_nobody_asked_to_be_compressed_is_not_inflated(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    answer = packed(value_response("x" * 100, as_json=False))
    assert called(answer, WANTED) == "x" * 100
    monkeypatch.setattr(zstd, "decompress", None)
    with pytest.raises(ProtocolError, match="compressed, which nobody asked for"):
        called(answer, {})


def test_a_compressed_answer_that_came_some_other_way_is_not_inflated() -> None:
    sender = Sender(SMALL, Network().transport("client"))
    with pytest.raises(ProtocolError, match="nobody asked for"):
        sender.value(packed(value_response(1, as_json=False)))


@pytest.mark.parametrize("size", [1, 64])
def test_a_bomb_stops_growing_early(size: int) -> None:
    """At the limit for any body, and before that at so many times what was sent."""
    answer = packed(value_response(bytes(size << 20), as_json=False))
    limits = Limits(max_body_bytes=1 << 20) if size == 1 else Limits()
    grown = 1 << 20 if size == 1 else 16 << 20
    with pytest.raises(TooLarge, match=f"grows over the limit of {grown} bytes"):
        called(answer, WANTED, Access(limits=limits))


def test_a_compressed_answer_may_be_empty_or_garbage() -> None:
    for body in ((), (b"no such thing",)):
        with pytest.raises(ProtocolError):
            called(Response(200, {b"content-encoding": zstd.ENCODING}, body), WANTED)


@pytest.mark.parametrize(
    ("answer", "complaint"),
    [
        (value_response(bytes(1 << 20), as_json=False), "this client takes 1048576"),
        (value_response([0] * 2000, as_json=False), "head of 2.* is over the limit of 1024"),
        (
            remote_response(ValueError("x" * 2000), as_json=False),
            r"has 4\d+ bytes of error, this client takes 1024",
        ),
    ],
)
def test_an_answer_over_the_limits_is_not_decoded(answer: Response, complaint: str) -> None:
    with pytest.raises(TooLarge, match=complaint):
        called(answer, {})


def test_a_profile_over_the_limits_is_not_read() -> None:
    async def main() -> None:
        sender, where = await facing(Response(200, {}, (b"[" * 2000,)), SMALL)
        await sender.profile(where)

    with pytest.raises(TooLarge, match="has 2000 bytes of profile, this client takes 1024"):
        virtual.run(main())


@pytest.mark.parametrize("name", [5, None, ["x"]])
def test_a_profile_whose_name_is_no_text_is_no_workers(name: object) -> None:
    told = {"protocols": [wire.VERSION], "name": name, "boot": "b", "version": "1", "functions": {}}

    async def main() -> None:
        body = json.dumps(told).encode()
        sender, where = await facing(Response(200, {}, (body,)), SMALL)
        await sender.profile(where)

    with pytest.raises(ProtocolError, match="does not answer like an Axon worker"):
        virtual.run(main())


@dataclass(frozen=True)
class Unasked:
    """Loaded here, and of no use to whoever asks."""

    value: int


def test_an_answer_brings_only_classes_that_the_way_of_access_takes() -> None:
    body = b"".join(wire.encode(Unasked(3)))
    transport = Network().transport("client")
    assert Sender(Access(), transport).decode(body) == Unasked(3)
    few = Access(types=wire.Types(classes=frozenset()))
    with pytest.raises(ProtocolError, match="Unasked is not known on this side"):
        Sender(few, transport).decode(body)
