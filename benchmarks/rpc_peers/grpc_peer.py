"""gRPC, sync and aio, with generic method handlers and bytes as they are: no protobuf in the way.

An array costs what it must: `tobytes` on the sending side, `frombuffer` on the receiving one. The
server has the whole array before it answers, as a function of an array must, streaming or not.
"""

from __future__ import annotations

import asyncio
import struct
from collections.abc import Awaitable, Callable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from itertools import cycle
from typing import TYPE_CHECKING, Any

import grpc  # type: ignore[import-untyped]

from rpc_peers.driver import main, run_on_best_loop
from rpc_peers.measures import CALLS_IN_FLIGHT, first_of

if TYPE_CHECKING:
    from rpc_peers.measures import Array

WORK = struct.Struct("<d")
# Large frames and read-ahead gain gRPC about a tenth on bulk; it is compared at its best.
OPTIONS = [
    ("grpc.max_send_message_length", -1),
    ("grpc.max_receive_message_length", -1),
    ("grpc.http2.max_frame_size", 16_777_215),
    ("grpc.http2.lookahead_bytes", 64 << 20),
    ("grpc.use_local_subchannel_pool", 1),  # else channels to one address share a connection
]


def to_array(data: bytes) -> Array:
    """The array whose bytes these are."""
    import numpy as np  # late: only the bulk question needs it

    return np.frombuffer(data, dtype=np.float32)


def pieces(array: Array, chunk_bytes: int) -> Iterator[bytes]:
    """The array's bytes in chunks; gRPC takes nothing but `bytes`, so each is copied once."""
    view = array.data.cast("B")
    for start in range(0, len(view), chunk_bytes):
        yield bytes(view[start : start + chunk_bytes])


class AioClient:
    """The asyncio client, on one channel or several in turn."""

    def __init__(self, channels: int = 1) -> None:
        self._channels = channels

    async def open(self, ports: Sequence[int]) -> None:
        self._links = [
            grpc.aio.insecure_channel(f"127.0.0.1:{port}", options=OPTIONS)
            for port in (ports if len(ports) > 1 else [*ports] * self._channels)
        ]
        for link in self._links:
            await link.channel_ready()
        self._turn = cycle([link.unary_unary("/bench/echo") for link in self._links])
        self._array = self._links[0].unary_unary("/bench/array")
        self._workers = [link.unary_unary("/bench/work") for link in self._links]

    def echo(self, payload: bytes) -> Awaitable[object]:
        call: Awaitable[object] = next(self._turn)(payload)
        return call

    async def echo_array(self, array: Array) -> Array:
        return to_array(await self._array(array.tobytes()))

    async def gather(self, works_s: Sequence[float], quorum: int) -> int:
        pairs = zip(self._workers, works_s, strict=True)
        return await first_of([call(WORK.pack(work_s)) for call, work_s in pairs], quorum)


class SyncClient:
    """The blocking client; arrays travel in one message, or in a stream of chunks."""

    def __init__(self, chunk_bytes: int | None = None) -> None:
        self._chunk_bytes = chunk_bytes

    def open(self, ports: Sequence[int]) -> None:
        link = grpc.insecure_channel(f"127.0.0.1:{ports[0]}", options=OPTIONS)
        self._echo = link.unary_unary("/bench/echo")
        self._array = link.unary_unary("/bench/array")
        self._stream = link.stream_stream(f"/bench/stream{self._chunk_bytes}")

    @contextmanager
    def caller(self) -> Iterator[Callable[[bytes], object]]:
        # A channel is made to be shared by threads, so this one is.
        yield self._echo

    def echo_array(self, array: Array) -> Array:
        if self._chunk_bytes is None:
            return to_array(self._array(array.tobytes()))
        return to_array(b"".join(self._stream(pieces(array, self._chunk_bytes))))

    def work(self, worker: int, work_s: float) -> object:
        raise NotImplementedError(f"worker {worker}: gRPC gathers with its asyncio client")


CHUNKS_BYTES = (256 << 10, 1 << 20, 4 << 20)


def _serve_sync(port: int) -> None:
    def echo(payload: bytes, _: object) -> bytes:
        return payload

    def echo_array(data: bytes, _: object) -> bytes:
        return to_array(data).tobytes()

    handlers = {
        "echo": grpc.unary_unary_rpc_method_handler(echo),
        "array": grpc.unary_unary_rpc_method_handler(echo_array),
    }
    for chunk_bytes in CHUNKS_BYTES:
        stream = grpc.stream_stream_rpc_method_handler(_echo_stream(chunk_bytes))
        handlers[f"stream{chunk_bytes}"] = stream
    server = grpc.server(ThreadPoolExecutor(CALLS_IN_FLIGHT), options=OPTIONS)
    server.add_generic_rpc_handlers((_service(handlers),))
    server.add_insecure_port(f"127.0.0.1:{port}")
    server.start()
    server.wait_for_termination()


def _echo_stream(chunk_bytes: int) -> Callable[[Iterator[bytes], object], Iterator[bytes]]:
    def echo_stream(chunks: Iterator[bytes], _: object) -> Iterator[bytes]:
        yield from pieces(to_array(b"".join(chunks)), chunk_bytes)

    return echo_stream


async def _serve_aio(ports: Sequence[int]) -> None:
    async def echo(payload: bytes, _: object) -> bytes:
        return payload

    async def echo_array(data: bytes, _: object) -> bytes:
        return to_array(data).tobytes()

    async def work(message: bytes, _: object) -> bytes:
        await asyncio.sleep(WORK.unpack(message)[0])
        return message

    handlers = {
        "echo": grpc.unary_unary_rpc_method_handler(echo),
        "array": grpc.unary_unary_rpc_method_handler(echo_array),
        "work": grpc.unary_unary_rpc_method_handler(work),
    }
    # One server for each port: a worker of its own, as in the other frameworks.
    servers = [grpc.aio.server(options=OPTIONS) for _ in ports]
    for server, port in zip(servers, ports, strict=True):
        server.add_generic_rpc_handlers((_service(handlers),))
        server.add_insecure_port(f"127.0.0.1:{port}")
        await server.start()
    await asyncio.gather(*(server.wait_for_termination() for server in servers))


def _service(handlers: Mapping[str, Any]) -> Any:
    return grpc.method_handlers_generic_handler("bench", handlers)


def serve(variant: str, ports: Sequence[int]) -> None:
    """Listen with the server the variant names, until ended."""
    if variant == "sync":
        _serve_sync(ports[0])
    else:
        run_on_best_loop(_serve_aio(ports))


if __name__ == "__main__":
    main(
        serve,
        waiting={
            "aio": AioClient,
            "aio-2": lambda: AioClient(2),
            "aio-4": lambda: AioClient(4),
            "aio-8": lambda: AioClient(8),
        },
        blocking={
            "sync": SyncClient,
            "stream-256k": lambda: SyncClient(256 << 10),
            "stream-1m": lambda: SyncClient(1 << 20),
            "stream-4m": lambda: SyncClient(4 << 20),
        },
    )
