"""Messages between a worker and its child processes: a kind, a pickled value, its large buffers.

Pickle is right here and only here: both ends are one program on one machine under one user, so
whoever could write to the pipe could as well change the code.
"""

from __future__ import annotations

import enum
import os
import pickle
import struct
import threading
from collections.abc import Callable
from functools import partial
from typing import TYPE_CHECKING, Any, TypeAlias

from axon.errors import CannotTravel

# multiprocessing is imported late throughout: a worker without process functions never needs it.
if TYPE_CHECKING:
    from multiprocessing.connection import Connection

OUT_OF_BAND_BYTES = 16 * 1024
"""Buffers from this size on travel beside the pickle, without being copied into it."""

Packed: TypeAlias = list[bytes | memoryview]
"""A message ready to be sent: its head, then its large buffers."""
Load: TypeAlias = Callable[[], Any]
"""Unpickles a received value; apart from receiving, so that a bad value does not break the pipe."""

_HEAD = struct.Struct("<BI")
_RAW = hasattr(os, "readv")


class Kind(enum.IntEnum):
    """What a message says. The parent speaks, the child answers once, after any progress."""

    CALL = 1
    NEXT = 2
    CLOSE = 3
    PROGRESS = 4
    RESULT = 5
    ITEM = 6
    END = 7
    ERROR = 8


def pack(kind: Kind, value: Any, what: str) -> Packed:
    """Make a message; `what` names the value in the `CannotTravel` raised if it does not pickle."""
    buffers: list[memoryview] = []

    def belongs_in_band(buffer: pickle.PickleBuffer) -> bool:
        raw = buffer.raw()
        if raw.nbytes < OUT_OF_BAND_BYTES:
            return True
        buffers.append(raw)
        return False

    try:
        body = pickle.dumps(value, protocol=5, buffer_callback=belongs_in_band)
    except Exception as error:
        raise CannotTravel(
            f"{what} cannot cross between processes: {error}",
            hint="use values that pickle, or executor='thread'",
        ) from error
    sizes = struct.pack(f"<{len(buffers)}Q", *(buffer.nbytes for buffer in buffers))
    return [_HEAD.pack(kind, len(buffers)) + sizes + body, *buffers]


class Pipe:
    """One end of a pipe; messages sent from several threads do not interleave."""

    def __init__(self, connection: Connection) -> None:
        self._connection = connection
        self._sending = threading.Lock()

    def send(self, message: Packed) -> None:
        """Raises `OSError` when the other end is gone."""
        head, *buffers = message
        with self._sending:
            self._connection.send_bytes(head)
            for buffer in buffers:
                self._write(memoryview(buffer))

    def receive(self) -> tuple[Kind, Load]:
        """Raises `EOFError` or `OSError` when the other end is gone."""
        head = self._connection.recv_bytes()
        kind, count = _HEAD.unpack_from(head)
        sizes = struct.unpack_from(f"<{count}Q", head, _HEAD.size)
        buffers = [self._read(size) for size in sizes]
        body = memoryview(head)[_HEAD.size + 8 * count :]
        return Kind(kind), partial(pickle.loads, body, buffers=buffers)

    def close(self) -> None:
        """Close this end; the other one reads the end of file."""
        self._connection.close()

    # Where the system lets us we read and write large buffers ourselves: the connection's own way
    # gathers each in a second copy and takes two to three times as long.

    def _write(self, view: memoryview) -> None:
        if not _RAW:
            self._connection.send_bytes(view)
            return
        descriptor = self._connection.fileno()
        while view:
            view = view[os.write(descriptor, view) :]

    def _read(self, size: int) -> bytearray:
        # Not bytes: an array built on those could not be written to.
        buffer = bytearray(size)
        if not _RAW:
            self._connection.recv_bytes_into(buffer)
            return buffer
        descriptor, view = self._connection.fileno(), memoryview(buffer)
        while view:
            count = os.readv(descriptor, [view])
            if not count:
                raise EOFError
            view = view[count:]
        return buffer
