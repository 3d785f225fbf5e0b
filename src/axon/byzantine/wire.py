"""Boards over the transport: how a node is offered to others, and how others are read.

What one caller may have under way at a node is bounded, so that a node which asks for everything
at once keeps nobody else from being answered. A caller is the host it calls from, together with its
key where keys are used: nodes on one host that have no keys of their own share a bound.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Awaitable
from dataclasses import dataclass, replace

from axon import client
from axon.byzantine.board import WAIT_S, Absent, Readable
from axon.errors import Overloaded
from axon.learning.service import SPARE_BYTES, taking
from axon.rpc.address import Address
from axon.rpc.calling.options import CallOptions
from axon.rpc.calling.stubs import GenericStub, RemoteFunction
from axon.rpc.limits import Limits
from axon.rpc.messages import App, Listener, Request, Response, Transport
from axon.rpc.replies import error_response
from axon.rpc.security.auth import Admission
from axon.rpc.wire import Types
from axon.values import Vector

SERVICE = "board"
"""The name under which a node is offered."""

MOST_READS = 64
"""Calls that a node may have under way at another."""

ANSWERS = Types(classes=frozenset({Absent}))
"""All that a board answers with beside arrays; a liar must not choose what is built here."""

QUESTION_BYTES = 64 << 10
"""A question is a name and two numbers; nothing longer is read."""


class BoardService:
    """What others may ask of a node: to read, and nothing else."""

    def __init__(self, node: Readable) -> None:
        self._node = node

    async def read(self, kind: str, step: int, round: int = 0) -> Vector | Absent:
        """The vector of a kind, a step and a round, or why there is none."""
        # A lying node may answer with anything at all; the reader is the one who judges.
        return await self._node.read(kind, step, round)  # type: ignore[return-value]


class RemoteBoard:
    """A node on another device; an answer longer than a vector of that size is cut off.

    A read takes `patience_s` at most, the way of the vector over a slow link included.
    """

    def __init__(
        self,
        address: str | Address,
        access: client.Access,
        size: int,
        *,
        patience_s: float = 2 * WAIT_S,
    ) -> None:
        where = Address.parse(address, tls=access.tls is not None).origin
        limited = replace(taking(access, 4 * size + SPARE_BYTES), types=ANSWERS)
        # Longer than a board waits, so that it is the board which says that it is too early.
        options = CallOptions(deadline_s=max(2 * WAIT_S, patience_s))
        self._read = RemoteFunction(limited, where, f"{SERVICE}/read", GenericStub, options)

    async def read(self, kind: str, step: int, round: int = 0) -> object:
        """Whatever it answers."""
        return await self._read(kind, step, round)


def serving_limits(nodes: int, on_a_host: int = 1) -> Limits:
    """What a node takes from others: short questions, and as many at once as all may ask.

    An answer that is taken slowly waits in memory in part, so that connections are few as well.
    """
    return Limits(
        max_body_bytes=QUESTION_BYTES,
        max_head_bytes=QUESTION_BYTES,
        max_calls=MOST_READS * (nodes + 1),
        max_connections_per_peer=2 * MOST_READS * on_a_host,
        max_bodies_bytes=MOST_READS * QUESTION_BYTES,
    )


@dataclass(frozen=True, slots=True)
class Fair:
    """A transport whose listeners give every caller the same number of calls at once."""

    inner: Transport
    most: int = MOST_READS

    @property
    def scheme(self) -> str:
        """That of the transport within."""
        return self.inner.scheme

    async def exchange(self, address: Address, request: Request) -> Response:
        """As the transport within does it."""
        return await self.inner.exchange(address, request)

    async def listen(self, app: App, address: Address) -> Listener:
        """Serve the app behind the bound."""
        return await self.inner.listen(_FairApp(app, self.most), address)

    async def host_towards(self, address: Address) -> str:
        """As the transport within sees it."""
        return await self.inner.host_towards(address)

    async def close(self) -> None:
        """Close the transport within."""
        await self.inner.close()


class _FairApp:
    """An app that counts what each caller has under way."""

    def __init__(self, app: App, most: int) -> None:
        self._app = app
        self._most = most
        self._under_way: Counter[str] = Counter()

    def admit(self, request: Request) -> Response | None:
        return self._app.admit(request)

    def handle(self, request: Request) -> Response | Awaitable[Response]:
        admission = request.context
        who = request.peer
        if isinstance(admission, Admission):
            # An id that is claimed and not proven holds no place: such a call is answered at once.
            who = f"{admission.key.id}@{who}"
        if self._under_way[who] >= self._most:
            refusal = Overloaded(f"{self._most} calls of {who} are under way")
            return error_response(refusal, as_json=False)
        answer = self._app.handle(request)
        if isinstance(answer, Response):
            return answer
        return self._counted(who, answer)

    async def _counted(self, who: str, answer: Awaitable[Response]) -> Response:
        self._under_way[who] += 1
        try:
            return await answer
        finally:
            self._under_way[who] -= 1
            if not self._under_way[who]:
                del self._under_way[who]
