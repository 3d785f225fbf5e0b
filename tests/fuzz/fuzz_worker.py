"""Coverage-guided fuzzing of a worker's port and of the frame reader, with atheris.

    python tests/fuzz/fuzz_worker.py -max_total_time=60

The bytes go straight into a server connection over a transport made of memory, so that millions of
inputs need no sockets. Anything but a clean answer ends the run with the input that caused it.
"""

from __future__ import annotations

import asyncio
import logging
import sys
from contextlib import suppress
from typing import Any

import atheris  # type: ignore[import-not-found, import-untyped, unused-ignore]

with atheris.instrument_imports(include=["axon"]):
    from axon.errors import CallError
    from axon.rpc import frames
    from axon.rpc.address import Address
    from axon.rpc.http.listener import HttpListener
    from axon.rpc.http.server import ServerConnection
    from axon.rpc.limits import Limits
    from axon.worker import Worker

import httptools

worker = Worker("fuzzed")


@worker.rpc(executor="inline")
def echo(value: Any = None) -> Any:
    return value


class Wire(asyncio.Transport):
    """Where a connection writes, kept so that it can be read as HTTP."""

    def __init__(self) -> None:
        super().__init__({"peername": ("127.0.0.1", 1)})
        self.written = bytearray()
        self.closed = False

    def write(self, data: bytes | bytearray | memoryview) -> None:
        self.written += data

    def close(self) -> None:
        self.closed = True

    abort = close

    def is_closing(self) -> bool:
        return self.closed

    def can_write_eof(self) -> bool:
        return True

    def write_eof(self) -> None:
        self.ended = True

    def get_write_buffer_size(self) -> int:
        return 0

    def set_write_buffer_limits(self, high: int | None = None, low: int | None = None) -> None:
        self.limits = (high, low)

    def pause_reading(self) -> None:
        self.paused = True

    def resume_reading(self) -> None:
        self.paused = False


class Strict(logging.Handler):
    """An error in the log is a finding."""

    def emit(self, record: logging.LogRecord) -> None:
        raise AssertionError(record.getMessage())


class Statuses:
    """The statuses of answers; httptools raises when they are not HTTP."""

    def __init__(self, data: bytes) -> None:
        self.seen: list[int] = []
        self._parser = httptools.HttpResponseParser(self)
        self._parser.feed_data(data)

    def on_headers_complete(self) -> None:
        self.seen.append(self._parser.get_status_code())


async def attack(listener: HttpListener, data: bytes) -> None:
    wire = Wire()
    connection = ServerConnection(listener)
    connection.connection_made(wire)
    position = 0
    while position < len(data) and not wire.closed:
        buffer = connection.get_buffer(-1)
        part = data[position : position + min(len(buffer), 1 + data[position] * 8)]
        buffer[: len(part)] = part
        connection.buffer_updated(len(part))
        position += len(part)
        await asyncio.sleep(0)
    for status in Statuses(bytes(wire.written)).seen:
        assert status in (100, 200, 202) or 400 <= status < 600, status
    connection.connection_lost(None)
    assert not listener.connections
    assert listener._receiving == 0


async def read_frames(data: bytes) -> None:
    async def stream() -> Any:
        yield data

    with suppress(CallError):  # Anything else is a finding.
        _ = [kind async for kind, _ in frames.unpack(stream(), max_bytes=1 << 16, seal=None)]


def main() -> None:
    logging.getLogger().addHandler(Strict(logging.ERROR))
    runner = asyncio.Runner()
    limits = Limits(max_header_bytes=4096, max_body_bytes=1 << 20)
    serving = runner.run(worker.serving(port=0, limits=limits).__aenter__())
    listener = HttpListener(serving.dispatcher, Address("127.0.0.1", 0), limits)

    def one(data: bytes) -> None:
        runner.run(attack(listener, data))
        runner.run(read_frames(data))

    atheris.Setup(sys.argv, one)
    atheris.Fuzz()


if __name__ == "__main__":
    main()
