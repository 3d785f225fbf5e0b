"""Axon: the calling side, and the process that holds many workers for the gather."""

from __future__ import annotations

import os
from collections.abc import Awaitable, Callable, Iterator, Sequence
from contextlib import AsyncExitStack, contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

import axon.client
from rpc_peers.driver import main, run_on_best_loop

if TYPE_CHECKING:
    from rpc_peers.measures import Array

GATHER_DEADLINE_S = 10.0


def key_file() -> Path:
    """Where this run keeps its key."""
    return Path(os.environ["BENCH_SCRATCH"]) / "bench.key"


class AsyncStubClient:
    """The awaitable stub, calling one of the worker's three echoes."""

    def __init__(self, function: str = "echo", *, signed: bool = False) -> None:
        self._function = function
        self._signed = signed

    async def open(self, ports: Sequence[int]) -> None:
        key = key_file() if self._signed else None
        self._stubs: list[Any] = [
            await axon.client.connect(f"127.0.0.1:{port}", key=key) for port in ports
        ]
        if len(ports) == 1:  # the workers of a gather offer no echo
            self._call: Callable[[object], Awaitable[Any]]
            self._call = getattr(self._stubs[0], self._function)

    def echo(self, payload: bytes) -> Awaitable[object]:
        return self._call(payload)

    def echo_array(self, array: Array) -> Awaitable[Array]:
        return self._call(array)

    async def gather(self, works_s: Sequence[float], quorum: int) -> int:
        pairs = zip(self._stubs, works_s, strict=True)
        calls = [stub.work(work_s) for stub, work_s in pairs]
        await axon.client.gather(calls, quorum=quorum, deadline_s=GATHER_DEADLINE_S)
        return quorum  # fewer would have raised


class BlockingStubClient:
    """The stub whose calls block."""

    def open(self, ports: Sequence[int]) -> None:
        address = f"127.0.0.1:{ports[0]}"
        self._stub: Any = axon.client.get_stub(address, stub_type=axon.client.SyncStub)

    @contextmanager
    def caller(self) -> Iterator[Callable[[bytes], object]]:
        yield self._stub.echo

    def echo_array(self, array: Array) -> Array:
        answer: Array = self._stub.echo(array)
        return answer

    def work(self, worker: int, work_s: float) -> object:
        raise NotImplementedError(f"worker {worker}: Axon gathers with its awaitable stub")


async def _serve_many(ports: Sequence[int]) -> None:
    # Late: a client has no use for the worker's side.
    import asyncio

    from axon.worker import Worker

    worker = Worker()

    @worker.rpc()
    async def work(work_s: float) -> float:
        await asyncio.sleep(work_s)
        return work_s

    async with AsyncExitStack() as stack:
        for port in ports:
            await stack.enter_async_context(worker.serving(host="127.0.0.1", port=port))
        await asyncio.Event().wait()


def serve(variant: str, ports: Sequence[int]) -> None:
    """Many workers on one loop, for the gather; a single one is `axon_worker`."""
    del variant
    run_on_best_loop(_serve_many(ports))


if __name__ == "__main__":
    main(
        serve,
        waiting={
            "inline": AsyncStubClient,
            "async": lambda: AsyncStubClient("echo_async"),
            "thread": lambda: AsyncStubClient("echo_thread"),
            "signed": lambda: AsyncStubClient(signed=True),
        },
        blocking={"blocking": BlockingStubClient},
    )
