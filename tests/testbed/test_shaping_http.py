"""A device's link over HTTP, close to its rate and latency on loopback sockets."""

from __future__ import annotations

import asyncio
import math
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager, suppress
from pathlib import Path
from random import Random
from typing import Any

import numpy as np
import pytest

from axon import client
from axon.errors import ConfigurationError, Unauthorised
from axon.rpc.http.transport import HttpTransport
from axon.rpc.link import Link
from axon.rpc.security.keys import Key
from axon.rpc.security.tls import client_context, make_material, worker_context
from axon.rpc.serving.options import ServeOptions
from axon.testbed.shaping import ShapedTransport
from axon.worker import Worker
from tests.rpc import worlds
from tests.testbed.timing import timed

MB = 1_000_000


def make_worker() -> Worker:
    worker = Worker("shaped")

    @worker.rpc(executor="inline")
    def take(value: Any) -> int:
        return len(value)

    @worker.rpc(executor="inline")
    def give(size: int) -> Any:
        return np.zeros(size, np.uint8)

    @worker.rpc()
    async def drip(count: int, size: int) -> AsyncIterator[bytes]:
        for _ in range(count):
            yield bytes(size)

    return worker


@asynccontextmanager
async def http_stub(link: Link) -> AsyncIterator[tuple[Any, ShapedTransport]]:
    """A client and a worker behind `link`, over HTTP."""
    transport = ShapedTransport(HttpTransport(), link, Random(0))
    async with make_worker().serving(port=0, transport=transport) as served:
        assert served.address.scheme == "http"
        stub = await client.connect(served.address.at("rpc"))
        await stub.take(b"")
        yield stub, transport
    await transport.close()


async def measured(transfer: Callable[[], Awaitable[Any]], wanted_s: float) -> None:
    """Never early; the machine may be busy, so the best of three may not be late."""
    took = math.inf
    for _ in range(3):
        took = min(took, await timed(transfer()))
        assert took >= wanted_s * 0.8
        if took <= wanted_s * 1.2:
            return
    raise AssertionError(f"took {took} s, wanted {wanted_s} s")


def test_a_megabyte_takes_its_time_over_http_each_way_at_its_own_rate() -> None:
    async def main() -> None:
        link = Link(down_bytes_per_s=4 * MB, up_bytes_per_s=8 * MB)
        array = np.zeros(MB, np.uint8)
        async with http_stub(link) as (stub, transport):
            await measured(lambda: stub.take(array), 0.25)
            await measured(lambda: stub.give(MB), 0.125)
            transport.link = Link(down_bytes_per_s=8 * MB, up_bytes_per_s=4 * MB)
            await measured(lambda: stub.take(array), 0.125)
            await measured(lambda: stub.give(MB), 0.25)

    worlds.run(main)


def test_latency_is_paid_twice_a_call_over_http_and_bandwidth_shared() -> None:
    async def main() -> None:
        array = np.zeros(MB // 2, np.uint8)
        async with http_stub(Link(latency_s=0.1)) as (stub, transport):
            await measured(lambda: stub.take(b""), 0.2)
            transport.link = Link(down_bytes_per_s=4 * MB)
            await measured(lambda: asyncio.gather(stub.take(array), stub.take(array)), 0.25)

    worlds.run(main)


def test_a_cancelled_transfer_over_http_frees_the_link() -> None:
    async def main() -> None:
        async with http_stub(Link(down_bytes_per_s=MB)) as (stub, _):
            bulk = asyncio.ensure_future(stub.take(np.zeros(20 * MB, np.uint8)))
            await asyncio.sleep(0.2)
            bulk.cancel()
            with suppress(asyncio.CancelledError):
                await bulk
            assert await timed(stub.take(b"")) < 2.0

    worlds.run(main)


def test_a_stream_over_http_takes_its_bytes_over_the_rate() -> None:
    async def main() -> None:
        async with http_stub(Link(up_bytes_per_s=4 * MB)) as (stub, _):

            async def drain() -> None:
                assert [len(piece) async for piece in stub.drip(10, MB // 10)] == [MB // 10] * 10

            await measured(drain, 0.25)

    worlds.run(main)


def test_a_shaped_client_calls_a_plain_worker_over_http() -> None:
    async def main() -> None:
        link = Link(up_bytes_per_s=4 * MB, latency_s=0.01)
        transport = ShapedTransport(HttpTransport(), link, Random(0))
        async with make_worker().serving(port=0) as served:
            stub = await client.connect(served.address.at("rpc"), transport=transport)
            await measured(lambda: stub.take(np.zeros(MB, np.uint8)), 0.27)
            duplex = await client.connect(
                served.address.at("rpc"), transport=transport, duplex=True
            )
            assert await duplex.take(b"four") == 4
        await transport.close()

    worlds.run(main)


def test_a_key_still_locks_a_shaped_worker() -> None:
    async def main() -> None:
        key = Key.new("ours")
        shaped = ShapedTransport(HttpTransport(), Link(latency_s=0.001), Random(0))
        async with make_worker().serving(port=0, transport=shaped, key=key) as served:
            stub = await client.connect(served.address.at("rpc"), key=key)
            assert await stub.take(b"four") == 4
            with pytest.raises(Unauthorised):
                await client.connect(served.address.at("rpc"))
        await shaped.close()

    worlds.run(main)


def test_a_shaped_worker_speaks_tls_by_the_certificates_of_its_transport(tmp_path: Path) -> None:
    make_material(tmp_path, hosts=[])
    plain = HttpTransport(worker_tls=worker_context(tmp_path, mutual=True))

    async def main() -> None:
        shaped = ShapedTransport(plain, Link(latency_s=0.001), Random(0))
        near = HttpTransport(client_tls=client_context(tmp_path))
        async with make_worker().serving(port=0, transport=shaped) as served:
            assert served.address.scheme == "https"
            stub = await client.connect(served.address.at("rpc"), transport=near)
            assert await stub.take(b"four") == 4
        await near.close()
        await shaped.close()

    worlds.run(main)


def test_a_shaped_worker_open_to_others_needs_a_key_like_any() -> None:
    async def main() -> None:
        shaped = ShapedTransport(HttpTransport(), Link(), Random(0))
        with pytest.raises(ConfigurationError, match="has no key"):
            ServeOptions(host="0.0.0.0", transport=shaped)
        with pytest.raises(ConfigurationError, match="tls= has no effect"):
            ServeOptions(tls="folder", transport=shaped)

    worlds.run(main)
