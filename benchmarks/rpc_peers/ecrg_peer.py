"""The earlier axon-ECRG package, also imported as `axon`, so it runs in its own interpreter."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from importlib import import_module
from typing import TYPE_CHECKING

from rpc_peers.driver import main
from rpc_peers.measures import WORKERS, first_of

if TYPE_CHECKING:
    from rpc_peers.measures import Array

# By name, because a type checker would take `import axon` for the other package.
axon = import_module("axon")


class BlockingStubClient:
    """Its blocking stub, the faster of its two for one caller."""

    def open(self, ports: Sequence[int]) -> None:
        address = f"127.0.0.1:{ports[0]}/rpc"
        self._stub = axon.client.get_stub(address, stub_type=axon.stubs.SyncStub)

    @contextmanager
    def caller(self) -> Iterator[Callable[[bytes], object]]:
        yield self._stub.echo  # its connection pool is one for the process, made for threads

    def echo_array(self, array: Array) -> Array:
        answer: Array = self._stub.echo(array)
        return answer

    def work(self, worker: int, work_s: float) -> object:
        raise NotImplementedError(f"worker {worker}: it gathers with its awaitable stub")


class AwaitableStubClient:
    """Its default stub, which waits in a thread for each call."""

    async def open(self, ports: Sequence[int]) -> None:
        self._stubs = [axon.client.get_stub(f"127.0.0.1:{port}/rpc") for port in ports]

    def echo(self, payload: bytes) -> Awaitable[object]:
        return self._wait(self._stubs[0].echo(payload))

    async def _wait(self, handle: Awaitable[object]) -> object:
        return await handle  # its handles are awaitable but no coroutines, which gather insists on

    async def echo_array(self, array: Array) -> Array:
        raise NotImplementedError("arrays travel with its blocking stub")

    async def gather(self, works_s: Sequence[float], quorum: int) -> int:
        pairs = zip(self._stubs, works_s, strict=True)
        return await first_of([self._wait(stub.work(work_s)) for stub, work_s in pairs], quorum)


def _echo(value: object) -> object:
    return value


async def _work(work_s: float) -> float:
    await asyncio.sleep(work_s)
    return work_s


_echo.__name__, _work.__name__ = "echo", "work"


def serve(variant: str, ports: Sequence[int]) -> None:
    """One HTTP worker for each port."""
    del variant
    http = import_module("axon.HTTP_transport")
    # Its inline executor holds one lock for the whole process, so sleeping calls need threads.
    pool = ThreadPoolExecutor(WORKERS)
    for port in ports:
        transport = http.worker(port=port)
        # Flask refuses form fields over 500 kB unless told otherwise; an array is one form field.
        transport.app.config["MAX_FORM_MEMORY_SIZE"] = None
        axon.worker.rpc(tl=transport)(_echo)
        axon.worker.rpc(tl=transport, executor=pool)(_work)
    axon.worker.init(tl=transport)


if __name__ == "__main__":
    main(
        serve,
        waiting={"awaitable": AwaitableStubClient},
        blocking={"blocking": BlockingStubClient},
    )
