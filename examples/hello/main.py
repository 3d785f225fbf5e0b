"""Two processes say hello: one function, three ways to wait for it, then a bulk transfer.

Starts `worker.py` as a process of its own and calls it over HTTP on this machine.
"""

import asyncio
import contextlib
import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import numpy as np
from rich.console import Console
from rich.table import Table

import axon

console = Console()


def free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port: int = probe.getsockname()[1]
        return port


@contextlib.contextmanager
def worker(port: int) -> Iterator[str]:
    """A worker process that answers at the address given."""
    script = Path(__file__).with_name("worker.py")
    process = subprocess.Popen([sys.executable, script, str(port)])
    address = f"127.0.0.1:{port}"
    try:
        for _ in range(100):
            with contextlib.suppress(axon.errors.ConnectFailed):
                axon.client.get_stub(address)
                break
            time.sleep(0.05)
        yield address
    finally:
        process.terminate()
        process.wait()


async def awaited(address: str) -> str:
    stub = await axon.client.connect(address)
    greeting: str = await stub.simple_hello("the loop")
    return greeting


def say_hello(address: str) -> None:
    """The same function by the three concurrency models."""
    table = Table("concurrency model", "code", "answer", title="one function, three ways to wait")
    sync = axon.client.get_stub(address, stub_type=axon.client.SyncStub)
    table.add_row("blocking", "stub.simple_hello(…)", sync.simple_hello("the script"))
    handle = axon.client.get_stub(address).simple_hello("the thread")
    table.add_row("thread handle", "stub.simple_hello(…).join()", handle.join())
    table.add_row("event loop", "await stub.simple_hello(…)", asyncio.run(awaited(address)))
    console.print(table)


def watch_training(address: str) -> None:
    """A long call reports while it runs, and its connection is free meanwhile."""
    stub = axon.client.get_stub(address, stub_type=axon.client.SyncStub, duplex=True)
    report = axon.client.get_stub(address, stub_type=axon.client.SyncStub)
    final = stub.train.options(progress=lambda at: console.print(f"  progress {at}"))(3)
    console.print(f"trained on the worker, final loss {final:.3f}")
    console.print(f"a generator, item by item: {list(report.readings(5))}")


def move_array(address: str) -> None:
    """64 MB of float32 there and back."""
    stub = axon.client.get_stub(address, stub_type=axon.client.SyncStub)
    array = np.arange(16 << 20, dtype=np.float32)
    stub.echo(array)
    rates = []
    for _ in range(5):
        began = time.perf_counter()
        back = stub.echo(array)
        rates.append(2 * array.nbytes / (time.perf_counter() - began) / 1e9)
    if not np.array_equal(back, array):
        sys.exit("the array came back changed")
    console.print(f"64 MB array, up and down: {sorted(rates)[2]:.2f} GB/s (median of 5)")


def time_calls(address: str) -> None:
    """How long a small call takes."""
    stub = axon.client.get_stub(address, stub_type=axon.client.SyncStub)
    times = []
    for _ in range(2000):
        began = time.perf_counter()
        stub.echo("x" * 64)
        times.append(time.perf_counter() - began)
    console.print(f"64-byte echo, blocking caller: {sorted(times)[1000] * 1e6:.0f} µs (median)")


def main() -> None:
    with worker(free_port()) as address:
        console.print(f"a worker process listens on http://{address}")
        say_hello(address)
        watch_training(address)
        time_calls(address)
        move_array(address)


if __name__ == "__main__":
    main()
