"""What a client with a key believes, and what it does not."""

from __future__ import annotations

import asyncio

import pytest

from axon.errors import AxonError, CallLost, Overloaded, Unauthorised, WorkerStopping
from axon.rpc.address import Address
from axon.rpc.calling.options import Access
from axon.rpc.calling.sender import Sender
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
    async def main() -> None:
        network = Network()
        where = Address("worker", 8000, "memory")
        await network.transport("worker").listen(Liar(answer), where)
        access = Access(key=Keyring([Key("k", bytes(32))]))
        sender = Sender(access, network.transport("client"))
        async with asyncio.timeout(5):
            await sender.send(where, Request(b"GET", b"/_axon/calls/1"))

    virtual.run(main())


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
