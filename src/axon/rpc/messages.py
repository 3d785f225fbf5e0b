"""The narrow waist: what a transport carries and what a peer must offer to be carried.

Everything above (calls, stubs, duplex) and everything below (HTTP sockets, memory) meets only here,
so one conformance suite covers every transport.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Awaitable, Sequence
from dataclasses import dataclass, field
from typing import Protocol, TypeAlias

from axon.rpc.address import Address

Buffer: TypeAlias = bytes | bytearray | memoryview
Pieces: TypeAlias = Sequence[Buffer]
"""A body in the order it is sent. Whoever receives it gets one piece, or none."""
Headers: TypeAlias = dict[bytes, bytes]
"""Names in lower case."""


def body_size(body: Pieces) -> int:
    """Bytes in a body, whatever the item size of its views."""
    total = 0
    for piece in body:
        # The length of a memory view is in items, which need not be bytes.
        total += piece.nbytes if type(piece) is memoryview else len(piece)
    return total


@dataclass(slots=True)
class Request:
    """One HTTP request, or the same thing in memory."""

    method: bytes
    target: bytes
    """Path and query, percent-encoded, as on the request line."""
    headers: Headers = field(default_factory=dict)
    body: Pieces = ()
    peer: str = ""
    """Who sent it, as the receiving transport saw it."""
    context: object = None
    """Whatever `App.admit` wants `App.handle` to know."""
    streams: bool = False
    """Whether a streamed answer is wanted; one that is not is read whole."""


@dataclass(slots=True)
class Response:
    """The answer: a whole body, or a stream of buffers whose end is the end of the answer."""

    status: int
    headers: Headers = field(default_factory=dict)
    body: Pieces = ()
    stream: AsyncIterator[Buffer] | None = None


class App(Protocol):
    """What answers requests on the receiving side."""

    def admit(self, request: Request) -> Response | None:
        """Judge a request by its head alone; a response refuses it and its body is never read."""

    def handle(self, request: Request) -> Response | Awaitable[Response]:
        """Answer. An awaitable is cancelled when the sender goes away."""


class Listener(Protocol):
    """An app being served; `address` is where, with the port really bound."""

    @property
    def address(self) -> Address: ...

    async def close(self, *, grace_s: float = 0.0) -> None:
        """Stop accepting, let answers under way finish for `grace_s`, then cut."""


class Transport(Protocol):
    """A way to reach apps and to be one, bound to one event loop."""

    @property
    def scheme(self) -> str:
        """Of the addresses it listens at, Unix sockets aside."""

    async def exchange(self, address: Address, request: Request) -> Response:
        """Send and wait for the answer, whole unless it streams and a stream was wanted.

        Cancelling abandons the exchange and lets the other side know. Raises `ConnectFailed` when
        the request certainly was not delivered and `ConnectionLost` when it may have been.
        """

    async def listen(self, app: App, address: Address) -> Listener: ...

    async def host_towards(self, address: Address) -> str:
        """Our own host as the peer at that address sees it."""

    async def close(self) -> None: ...
