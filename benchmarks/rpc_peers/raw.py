"""The floor: sockets with nothing on top.

`loop` echoes bytes through asyncio protocols; `blocking` sends length-prefixed messages through
blocking sockets, received into one buffer kept for all messages or into a fresh one for each.
"""

from __future__ import annotations

import asyncio
import socket
import struct
import threading
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from itertools import cycle
from typing import TYPE_CHECKING, cast

from rpc_peers.driver import main, run_on_best_loop
from rpc_peers.measures import PAYLOAD, first_of

if TYPE_CHECKING:
    from rpc_peers.measures import Array

LENGTH = struct.Struct("<Q")
WORK = struct.Struct("<d")


class Echo(asyncio.Protocol):
    """Sends back whatever comes."""

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast(asyncio.Transport, transport)  # uvloop's does not inherit from it

    def data_received(self, data: bytes) -> None:
        self._transport.write(data)


class Work(Echo):
    """Sleeps as long as it is told, then sends the message back."""

    def data_received(self, data: bytes) -> None:
        (work_s,) = WORK.unpack(data)
        self._task = asyncio.ensure_future(self._answer(work_s, data))

    async def _answer(self, work_s: float, data: bytes) -> None:
        await asyncio.sleep(work_s)
        self._transport.write(data)


class Line(asyncio.Protocol):
    """The calling end: answers come in the order the calls were sent."""

    def __init__(self, answer_bytes: int) -> None:
        self._answer_bytes = answer_bytes
        self._waiting: deque[asyncio.Future[int]] = deque()
        self._arrived = 0

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast(asyncio.Transport, transport)  # uvloop's does not inherit from it
        self._loop = asyncio.get_running_loop()

    def data_received(self, data: bytes) -> None:
        self._arrived += len(data)
        while self._arrived >= self._answer_bytes:
            self._arrived -= self._answer_bytes
            waiting = self._waiting.popleft()
            if not waiting.done():
                waiting.set_result(self._answer_bytes)

    def call(self, message: bytes) -> asyncio.Future[int]:
        """Send, and return where the answer will arrive."""
        answer = self._loop.create_future()
        self._waiting.append(answer)
        self._transport.write(message)
        return answer


class LoopClient:
    """Echo over asyncio protocols, on one connection or several in turn."""

    def __init__(self, connections: int) -> None:
        self._connections = connections

    async def open(self, ports: Sequence[int]) -> None:
        if len(ports) > 1:
            self._workers = [await self._connect(port, WORK.size) for port in ports]
        lines = [await self._connect(ports[0], len(PAYLOAD)) for _ in range(self._connections)]
        self._turn = cycle(lines)

    async def _connect(self, port: int, answer_bytes: int) -> Line:
        loop = asyncio.get_running_loop()
        _, line = await loop.create_connection(lambda: Line(answer_bytes), "127.0.0.1", port)
        return line

    def echo(self, payload: bytes) -> asyncio.Future[int]:
        return next(self._turn).call(payload)

    async def echo_array(self, array: Array) -> Array:
        raise NotImplementedError("the floor for arrays is the blocking client's")

    async def gather(self, works_s: Sequence[float], quorum: int) -> int:
        pairs = zip(self._workers, works_s, strict=True)
        return await first_of([line.call(WORK.pack(work_s)) for line, work_s in pairs], quorum)


class BlockingSocketClient:
    """Length-prefixed messages over one blocking socket."""

    def __init__(self, *, fresh: bool) -> None:
        self._fresh = fresh
        self._kept: Array | None = None

    def open(self, ports: Sequence[int]) -> None:
        self._port = ports[0]
        self._bulk = self._connect()

    def _connect(self) -> socket.socket:
        link = socket.create_connection(("127.0.0.1", self._port))
        link.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        return link

    @contextmanager
    def caller(self) -> Iterator[Callable[[bytes], object]]:
        answer = bytearray(LENGTH.size + len(PAYLOAD))
        with self._connect() as link:

            def echo(payload: bytes) -> object:
                link.sendall(LENGTH.pack(len(payload)) + payload)
                receive_into(link, memoryview(answer))
                return answer

            yield echo

    def echo_array(self, array: Array) -> Array:
        import numpy as np  # late: only the bulk question needs it

        self._bulk.sendall(LENGTH.pack(array.nbytes))
        self._bulk.sendall(array.data.cast("B"))
        receive_into(self._bulk, memoryview(bytearray(LENGTH.size)))
        answer = np.empty_like(array) if self._fresh or self._kept is None else self._kept
        receive_into(self._bulk, answer.data.cast("B"))
        self._kept = None if self._fresh else answer
        return answer

    def work(self, worker: int, work_s: float) -> object:
        raise NotImplementedError(f"worker {worker}: the floor for a gather is the loop client's")


def receive_into(link: socket.socket, view: memoryview) -> bool:
    """Fill the view; false when the other side closed before the first byte."""
    filled = 0
    while filled < len(view):
        count = link.recv_into(view[filled:], 0, socket.MSG_WAITALL)
        if count == 0:
            if filled:
                raise ConnectionResetError(f"closed after {filled} of {len(view)} bytes")
            return False
        filled += count
    return True


def serve_blocking(port: int, *, fresh: bool) -> None:
    """Echo length-prefixed messages, a thread for each connection."""
    with socket.create_server(("127.0.0.1", port), backlog=128) as listener:
        while True:
            link, _ = listener.accept()
            link.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            threading.Thread(target=_echo_messages, args=(link, fresh), daemon=True).start()


def _echo_messages(link: socket.socket, fresh: bool) -> None:
    header = bytearray(LENGTH.size)
    kept = memoryview(b"")
    with link:
        while receive_into(link, memoryview(header)):
            (size,) = LENGTH.unpack(header)
            if fresh or len(kept) != size:
                kept = _buffer(size)
            receive_into(link, kept)
            if size <= 4096:
                link.sendall(header + kept)
            else:
                link.sendall(header)
                link.sendall(kept)


def _buffer(size: int) -> memoryview:
    if size <= 4096:
        return memoryview(bytearray(size))
    import numpy as np  # late, and used because a bytearray is filled with zeros first

    return np.empty(size, dtype=np.uint8).data


async def _serve_loop(protocol: Callable[[], asyncio.Protocol], ports: Sequence[int]) -> None:
    loop = asyncio.get_running_loop()
    servers = [await loop.create_server(protocol, "127.0.0.1", port) for port in ports]
    await asyncio.gather(*(server.serve_forever() for server in servers))


def serve(variant: str, ports: Sequence[int]) -> None:
    """Listen as the variant says, until ended."""
    if variant.startswith("blocking"):
        serve_blocking(ports[0], fresh=variant == "blocking-fresh")
    else:
        run_on_best_loop(_serve_loop(Work if variant == "work" else Echo, ports))


if __name__ == "__main__":
    main(
        serve,
        waiting={"loop": lambda: LoopClient(1), "loop-64": lambda: LoopClient(64)},
        blocking={
            "blocking": lambda: BlockingSocketClient(fresh=False),
            "blocking-fresh": lambda: BlockingSocketClient(fresh=True),
        },
    )
