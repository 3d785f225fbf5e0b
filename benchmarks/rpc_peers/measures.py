"""What is timed: four questions, asked of every framework by the same code.

A client comes in one of two colours and offers three calls; everything else (warm-up, clocks,
percentiles, threads or tasks) is here, so that no framework is timed more kindly than another. Runs
in every peer's interpreter, hence the standard library alone at the top.
"""

from __future__ import annotations

import asyncio
import random
import threading
import time
from collections.abc import Awaitable, Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor, as_completed
from contextlib import AbstractContextManager
from dataclasses import dataclass
from typing import TYPE_CHECKING, Protocol, TypeAlias

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    Array: TypeAlias = NDArray[np.float32]

Measured: TypeAlias = dict[str, float]

PAYLOAD = bytes(range(64))
ARRAY_ITEMS = 16_000_000  # float32: 64 MB
CALLS_IN_FLIGHT = 64
WORKERS = 50
QUORUM = 40
SHORTEST_WORK_S = 0.020
LONGEST_WORK_S = 0.120
WARM_UP_CALLS = 50


@dataclass(frozen=True, slots=True, kw_only=True)
class Budget:
    """How long one visit may take: whichever of the two is reached first ends it."""

    seconds: float
    count: int
    seed: int = 0
    """Chooses the work times of a gather, so that in one round every peer gets the same ones."""


class AsyncClient(Protocol):
    """A framework's client that waits on an event loop."""

    async def open(self, ports: Sequence[int]) -> None: ...

    def echo(self, payload: bytes) -> Awaitable[object]: ...

    def echo_array(self, array: Array) -> Awaitable[Array]: ...

    async def gather(self, works_s: Sequence[float], quorum: int) -> int:
        """Ask worker i to work `works_s[i]`; return how many had answered at the quorum."""


class BlockingClient(Protocol):
    """A framework's client whose calls block the thread that makes them."""

    def open(self, ports: Sequence[int]) -> None: ...

    def caller(self) -> AbstractContextManager[Callable[[bytes], object]]:
        """An echo with a connection of its own, for the thread that enters it."""

    def echo_array(self, array: Array) -> Array: ...

    def work(self, worker: int, work_s: float) -> object: ...


def visits(budget: Budget) -> Iterator[int]:
    """Count up until the budget is spent."""
    end = time.perf_counter() + budget.seconds
    for number in range(budget.count):
        if number and time.perf_counter() >= end:
            return
        yield number


def latency(samples_s: list[float]) -> Measured:
    """The middle and the tail of a visit's calls."""
    ordered = sorted(samples_s)
    tail = min(len(ordered) - 1, int(len(ordered) * 0.99))
    return {
        "p50_us": ordered[len(ordered) // 2] * 1e6,
        "p99_us": ordered[tail] * 1e6,
        "calls": len(ordered),
    }


def throughput(samples_s: list[float], moved_bytes: int) -> Measured:
    """Megabytes a second of the middle transfer, both directions counted."""
    middle_s = sorted(samples_s)[len(samples_s) // 2]
    return {"mb_per_s": moved_bytes / middle_s / 1e6, "transfers": len(samples_s)}


def work_times(seed: int) -> list[float]:
    """How long each worker works in one gather."""
    stream = random.Random(f"gather {seed}")
    return [stream.uniform(SHORTEST_WORK_S, LONGEST_WORK_S) for _ in range(WORKERS)]


def overhead(took_s: float, works_s: Sequence[float]) -> float:
    """What a gather took beyond the time at which its quorum could have been complete."""
    return (took_s - sorted(works_s)[QUORUM - 1]) * 1e3


def sample_array() -> Array:
    """64 MB of float32 that do not compress."""
    import numpy as np  # late: only the bulk question needs it

    return np.random.default_rng(7).random(ARRAY_ITEMS, dtype=np.float32)


def check_same(sent: Array, got: Array) -> None:
    """Refuse to time an echo that does not bring the array back."""
    import numpy as np  # late: only the bulk question needs it

    if not np.array_equal(sent, got):
        raise ValueError(f"sent {sent.nbytes} bytes of float32, got something else back")


async def first_of(calls: Sequence[Awaitable[object]], quorum: int) -> int:
    """Wait for the fastest `quorum` calls and cancel the others, as plain asyncio allows."""
    pending = {asyncio.ensure_future(call) for call in calls}
    answered = 0
    while answered < quorum and pending:
        done, pending = await asyncio.wait(pending, return_when=asyncio.FIRST_COMPLETED)
        for task in done:
            task.result()
        answered += len(done)
    for task in pending:
        task.cancel()
    return answered


class AsyncMeasures:
    """The questions, for a client that waits on an event loop."""

    def __init__(self, client: AsyncClient) -> None:
        self._client = client
        self._array: Array | None = None

    async def first(self, budget: Budget) -> Measured:
        """One answer, for the start-up question; the system-wide clock says when it came."""
        del budget
        await self._client.echo(PAYLOAD)
        return {"answered_at_s": time.monotonic()}

    async def echo(self, budget: Budget) -> Measured:
        """One caller, one small call after another."""
        call = self._client.echo
        for _ in range(WARM_UP_CALLS):
            await call(PAYLOAD)
        samples = []
        for _ in visits(budget):
            start = time.perf_counter()
            await call(PAYLOAD)
            samples.append(time.perf_counter() - start)
        return latency(samples)

    async def in_flight(self, budget: Budget) -> Measured:
        """Small calls with 64 always under way."""
        call = self._client.echo
        await asyncio.gather(*(call(PAYLOAD) for _ in range(CALLS_IN_FLIGHT)))
        start = time.perf_counter()
        end = start + budget.seconds
        calls = 0

        async def keep_one() -> None:
            nonlocal calls
            while time.perf_counter() < end and calls < budget.count:
                await call(PAYLOAD)
                calls += 1

        await asyncio.gather(*(keep_one() for _ in range(CALLS_IN_FLIGHT)))
        return {"calls_per_s": calls / (time.perf_counter() - start), "calls": calls}

    async def bulk(self, budget: Budget) -> Measured:
        """A 64 MB array there and back."""
        if self._array is None:
            self._array = sample_array()
            check_same(self._array, await self._client.echo_array(self._array))
        samples = []
        for _ in visits(budget):
            start = time.perf_counter()
            answer = await self._client.echo_array(self._array)
            samples.append(time.perf_counter() - start)
            del answer
        return throughput(samples, 2 * self._array.nbytes)

    async def gather(self, budget: Budget) -> Measured:
        """The fastest 40 of 50 workers."""
        works_s = work_times(budget.seed)
        start = time.perf_counter()
        answered = await self._client.gather(works_s, QUORUM)
        took_s = time.perf_counter() - start
        # Stragglers that could not be cancelled must not work on into the next peer's visit.
        await asyncio.sleep(LONGEST_WORK_S)
        return {"overhead_ms": overhead(took_s, works_s), "answered": answered}


class BlockingMeasures:
    """The questions, for a client whose calls block."""

    def __init__(self, client: BlockingClient) -> None:
        self._client = client
        self._array: Array | None = None
        self._pool: ThreadPoolExecutor | None = None

    def first(self, budget: Budget) -> Measured:
        """One answer, for the start-up question; the system-wide clock says when it came."""
        del budget
        with self._client.caller() as call:
            call(PAYLOAD)
            return {"answered_at_s": time.monotonic()}

    def echo(self, budget: Budget) -> Measured:
        """One caller, one small call after another."""
        samples = []
        with self._client.caller() as call:
            for _ in range(WARM_UP_CALLS):
                call(PAYLOAD)
            for _ in visits(budget):
                start = time.perf_counter()
                call(PAYLOAD)
                samples.append(time.perf_counter() - start)
        return latency(samples)

    def in_flight(self, budget: Budget) -> Measured:
        """Small calls from 64 threads at once."""
        ready = threading.Barrier(CALLS_IN_FLIGHT + 1)

        def keep_one() -> int:
            with self._client.caller() as call:
                call(PAYLOAD)
                ready.wait(timeout=30)
                return sum(1 for _ in visits(each) if call(PAYLOAD) is not None)

        each = Budget(seconds=budget.seconds, count=budget.count // CALLS_IN_FLIGHT)
        with ThreadPoolExecutor(CALLS_IN_FLIGHT) as pool:
            counts = [pool.submit(keep_one) for _ in range(CALLS_IN_FLIGHT)]
            ready.wait(timeout=30)
            start = time.perf_counter()
            calls = sum(count.result() for count in counts)
            took_s = time.perf_counter() - start
        return {"calls_per_s": calls / took_s, "calls": calls}

    def bulk(self, budget: Budget) -> Measured:
        """A 64 MB array there and back."""
        if self._array is None:
            self._array = sample_array()
            check_same(self._array, self._client.echo_array(self._array))
        samples = []
        for _ in visits(budget):
            start = time.perf_counter()
            answer = self._client.echo_array(self._array)
            samples.append(time.perf_counter() - start)
            del answer
        return throughput(samples, 2 * self._array.nbytes)

    def gather(self, budget: Budget) -> Measured:
        """The fastest 40 of 50 workers, a thread for each."""
        # Kept between visits: starting 50 threads is no part of a framework's gather.
        if self._pool is None:
            self._pool = ThreadPoolExecutor(WORKERS)
        works_s = work_times(budget.seed)
        start = time.perf_counter()
        calls = [self._pool.submit(self._client.work, i, s) for i, s in enumerate(works_s)]
        answered = 0
        for call in as_completed(calls):
            call.result()
            answered += 1
            if answered == QUORUM:
                break
        took_s = time.perf_counter() - start
        for call in calls:
            call.result()
        return {"overhead_ms": overhead(took_s, works_s), "answered": answered}
