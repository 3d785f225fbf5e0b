"""The link's probe: bounded bytes from a real worker, timed in nested sizes."""

from __future__ import annotations

import asyncio
from collections.abc import Callable

import pytest

from axon import client
from axon.cli.probe import MOST_BYTES, measured, probe
from axon.devices.subset import fit
from axon.errors import NotFound
from axon.worker import Worker


def with_worker(worker: Worker, use: Callable[[str], object]) -> object:
    """What `use` gives, called with the address of the worker at work."""

    async def main() -> object:
        async with worker.serving("127.0.0.1", 0, announce=False) as serving:
            return await asyncio.to_thread(use, str(serving.address))

    return asyncio.run(main())


@pytest.mark.parametrize("size", [0, 1, MOST_BYTES])
def test_so_many_bytes_as_are_asked_for(size: int) -> None:
    assert len(probe(size)) == size


@pytest.mark.parametrize("size", [-1, MOST_BYTES + 1])
def test_nobody_is_sent_more_than_the_bound(size: int) -> None:
    with pytest.raises(ValueError, match=rf"from 0 to {MOST_BYTES} bytes, got {size}"):
        probe(size)


def test_a_link_is_timed_in_nested_sizes() -> None:
    """A clock that each call moves by 10 ms, and a microsecond a byte."""
    asked: list[int] = []

    def counted(size: int) -> bytes:
        asked.append(size)
        return probe(size)

    def clock() -> float:
        return sum(0.01 + size * 1e-6 for size in asked)

    worker = Worker("there")
    worker.rpc(name="probe", executor="inline")(counted)
    points = with_worker(worker, lambda where: measured(where, client.access(), clock))
    assert isinstance(points, list)
    assert [size for size, _ in points] == [MOST_BYTES / 4, MOST_BYTES / 2, MOST_BYTES] * 3
    assert asked == [MOST_BYTES, *(int(size) for size, _ in points)]
    line = fit(points)
    assert line.fixed_s == pytest.approx(0.01)
    assert line.rate == pytest.approx(1e6)


def test_a_worker_without_a_probe_says_what_it_offers() -> None:
    worker = Worker("there")
    worker.rpc(name="other", executor="inline")(lambda: 1)
    with pytest.raises(NotFound, match="other"):
        with_worker(worker, lambda where: measured(where, client.access()))
