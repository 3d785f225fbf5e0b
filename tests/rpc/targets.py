"""A worker in a process of its own, attacked and watched from outside."""

from __future__ import annotations

import os
import subprocess
import sys
import textwrap
import time
from contextlib import suppress
from pathlib import Path

from axon.rpc import wire
from tests.rpc.raw import knock, listen_to, request, statuses
from tests.rpc.scripts import free_port

RSS_GROWTH_MB = 40.0
AXON = {b"content-type": wire.CONTENT_TYPE}
_SCRIPT = """
    import sys
    import axon.worker
    from axon.rpc.limits import Limits

    @axon.worker.rpc(executor="inline")
    def echo(value=None):
        return value

    @axon.worker.rpc(executor="inline")
    def add(left: int, right: int = 1) -> int:
        return left + right

    @axon.worker.rpc()
    def blob(size):
        return bytes(size)

    limits = Limits(max_body_bytes=64 << 20, header_s=3.0, stall_s=1.0, least_bytes_per_s=2000.0)
    axon.worker.init(port=int(sys.argv[1]), limits=limits)
"""


class Target:
    """The worker under attack, seen from outside."""

    def __init__(self, folder: Path) -> None:
        script = folder / "worker.py"
        script.write_text(textwrap.dedent(_SCRIPT))
        self.log = folder / "log"
        self.port = free_port()
        with self.log.open("wb") as log:
            self.process = subprocess.Popen(
                [sys.executable, str(script), str(self.port)], stdout=log, stderr=log
            )

    def warm_up(self) -> None:
        for _ in range(200):
            with suppress(ConnectionRefusedError):
                self.check()
                break
            time.sleep(0.05)
        for _ in range(300):
            self.check()
        self.attack(request(b"/rpc/echo", bytes(30 << 20), headers=AXON))
        time.sleep(0.3)
        self.rss_mb = self.memory_mb()
        self.open_files = self.count_files()

    def attack(self, data: bytes, count: int = 1) -> list[int]:
        return list(statuses(self.port, data, count))

    def check(self) -> None:
        """It answers a normal call, and quickly."""
        with knock(self.port, request(b"/rpc/echo", b'["hello"]'), timeout_s=5.0) as link:
            answers = listen_to(link)
        assert [(a.status, bytes(a.body)) for a in answers] == [(200, b'"hello"')]

    def memory_mb(self) -> float:
        lines = Path(f"/proc/{self.process.pid}/status").read_text().splitlines()
        sizes = dict(line.split(":", 1) for line in lines)
        return int(sizes["VmRSS"].split()[0]) / 1024

    def count_files(self) -> int:
        return len(os.listdir(f"/proc/{self.process.pid}/fd"))

    def settle(self) -> None:
        """Files are back to what they were, memory near it."""
        for _ in range(100):
            grown = self.memory_mb() - self.rss_mb
            if self.count_files() <= self.open_files and grown < RSS_GROWTH_MB:
                return
            time.sleep(0.1)
        files = self.count_files()
        raise AssertionError(f"{grown:.1f} MB more, {files} files open, {self.open_files} before")
