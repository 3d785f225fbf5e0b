"""How quick the link to a worker is, by timing what it sends: `probe` there, `measured` here."""

from __future__ import annotations

import os
import time
from collections.abc import Callable
from dataclasses import replace
from functools import cache
from typing import TYPE_CHECKING

from axon.errors import ConfigurationError

# The client brings all of the library, and `axon --help` should be quick.
if TYPE_CHECKING:
    from axon.rpc.calling.options import Access

PATH = "rpc/probe"
MOST_BYTES = 1 << 20
PARTS = 8
REPEATS = 3


@cache
def _block() -> bytes:
    # Random, so that nothing on the way makes it smaller; kept, so that making it is not timed.
    return os.urandom(MOST_BYTES)


def probe(size: int) -> bytes:
    """That many bytes, for somebody who measures how quickly they come."""
    if not 0 <= size <= MOST_BYTES:
        raise ConfigurationError(f"size must be from 0 to {MOST_BYTES} bytes, got {size}")
    return _block()[:size]


def measured(
    where: str, way: Access, clock: Callable[[], float] = time.perf_counter
) -> list[tuple[float, float]]:
    """What came from the worker there: bytes and seconds, for nested sizes, several times each."""
    from axon import client
    from axon.devices.subset import nested
    from axon.rpc.address import Address

    address = replace(Address.parse(where, tls=way.tls is not None), path=PATH)
    ask = client.get_stub(address, way=way, stub_type=client.SyncStub)
    ask(MOST_BYTES)  # Not timed: it opens the connection, and makes the bytes.
    points = []
    for _ in range(REPEATS):
        for parts in nested(PARTS):
            size = MOST_BYTES * parts // PARTS
            began_s = clock()
            ask(size)
            points.append((float(size), clock() - began_s))
    return points
