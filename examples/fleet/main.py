"""Five devices, the fastest three wanted: one is slow, one dies, and nobody waits for them.

Starts five workers as processes on this machine, asks all of them, and takes three answers.
"""

import asyncio
import contextlib
import socket
import subprocess
import sys
import time
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

from rich.console import Console
from rich.table import Table

import axon

FLEET = {"laptop": 0.1, "jetson": 0.2, "pi-1": 0.4, "pi-2": 0.5, "pi-3": 60.0}
console = Console()


def free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port: int = probe.getsockname()[1]
        return port


async def reach(port: int) -> Any:
    """A stub of the worker, as soon as it answers."""
    while True:
        with contextlib.suppress(axon.errors.ConnectFailed):
            return await axon.client.connect(f"127.0.0.1:{port}")
        await asyncio.sleep(0.05)


@contextlib.asynccontextmanager
async def fleet() -> AsyncIterator[dict[str, tuple[subprocess.Popen[bytes], Any]]]:
    """Each device's process and stub, by name."""
    script = Path(__file__).with_name("worker.py")
    ports = {name: free_port() for name in FLEET}
    processes = {
        name: subprocess.Popen([sys.executable, script, name, str(ports[name]), str(seconds)])
        for name, seconds in FLEET.items()
    }
    try:
        yield {name: (processes[name], await reach(ports[name])) for name in FLEET}
    finally:
        for process in processes.values():
            process.kill()
            process.wait()


def show(title: str, answers: axon.client.Answers, seconds: float) -> None:
    table = Table("device", "outcome", title=f"{title}: {seconds:.2f} s")
    for name, outcome in answers.outcomes.items():
        failed = isinstance(outcome, axon.values.Failure)
        table.add_row(name, f"[dim]{outcome.reason.splitlines()[0]}[/dim]" if failed else outcome)
    console.print(table)


async def main() -> None:
    async with fleet() as devices:
        began = time.perf_counter()
        calls = {name: stub.work("round 1") for name, (_, stub) in devices.items()}
        answers = await axon.client.gather(calls, quorum=3, deadline_s=10)
        show("the fastest three of five", answers, time.perf_counter() - began)

        began = time.perf_counter()
        calls = {name: stub.work("round 2") for name, (_, stub) in devices.items()}
        asyncio.get_running_loop().call_later(0.05, devices["laptop"][0].kill)
        answers = await axon.client.gather(calls, deadline_s=1.0)
        show("all of them within a second, one killed", answers, time.perf_counter() - began)


if __name__ == "__main__":
    asyncio.run(main())
