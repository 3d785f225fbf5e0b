"""The process of an emulated device, seen from its world: started, told, frozen, killed."""

from __future__ import annotations

import asyncio
import json
import signal
import sys
import tempfile
from typing import IO

import msgspec

from axon.errors import ConfigurationError
from axon.testbed.cgroups import CpuQuota
from axon.testbed.device import DeviceSettings
from axon.testbed.namespaces import Namespaces

START_S = 60.0
"""How long a device's process may take to come up: an import of torch, on a busy machine."""


class DeviceProcess:
    """The process of one device, seen from its world."""

    def __init__(self, settings: DeviceSettings, spaces: Namespaces | None) -> None:
        self._settings = settings
        self._spaces = spaces
        self._process: asyncio.subprocess.Process | None = None
        self._log: IO[bytes] | None = None
        self._quota: CpuQuota | None = None
        self.address = ""

    @property
    def pid(self) -> int:
        """Of the process that is running now."""
        return self._running.pid

    @property
    def _running(self) -> asyncio.subprocess.Process:
        assert self._process is not None, "the device was started"
        return self._process

    async def start(self) -> None:
        """Start it, and wait until it can be reached."""
        name = self._settings.name
        command = [sys.executable, "-m", "axon.testbed.device"]
        if self._spaces is not None:
            command = self._spaces.command(name, command)
        self._log = tempfile.TemporaryFile()  # noqa: SIM115  (closed by `end`)
        pipe = asyncio.subprocess.PIPE
        self._process = await asyncio.create_subprocess_exec(
            *command, stdin=pipe, stdout=pipe, stderr=self._log
        )
        try:
            # Python's own JSON knows infinity: the rate of a link that nothing limits.
            self._tell(json.dumps(msgspec.to_builtins(self._settings)))
            async with asyncio.timeout(START_S):
                self.address = (await self._output.readline()).decode().strip()
        except (TimeoutError, ConnectionError):
            self.address = ""
        if not self.address:
            raise ConfigurationError(
                f"the process of {name} did not start: {await self._last_words()}"
            )
        if self._quota is not None:
            self._quota.add(self.pid)

    def hold(self, quota: CpuQuota) -> None:
        """Keep it under a quota, and what takes its place after a crash too."""
        self._quota = quota
        quota.add(self.pid)

    def tell(self, word: str) -> None:
        """Say something to the device that does not go over its link."""
        self._tell(word)

    def kill(self) -> None:
        """End it at once, like a device that loses its power."""
        self._running.kill()

    def freeze(self) -> None:
        """Stop it where it is."""
        self._running.send_signal(signal.SIGSTOP)

    def thaw(self) -> None:
        """Let it go on."""
        self._running.send_signal(signal.SIGCONT)

    async def end(self) -> None:
        """Let it go, and see to it that it does."""
        if self._process is None:
            return
        if self._process.returncode is None:
            self._process.kill()
        await self._process.wait()
        self._input.close()
        self._process = None
        if self._log is not None:
            self._log.close()

    def _tell(self, line: str) -> None:
        self._input.write(line.encode() + b"\n")

    async def _last_words(self) -> str:
        assert self._log is not None, "it was started with a log"
        self._log.seek(0)
        lines = self._log.read().decode(errors="replace").strip().splitlines()
        await self.end()
        return lines[-1] if lines else "it said nothing"

    @property
    def _input(self) -> asyncio.StreamWriter:
        assert self._running.stdin is not None, "it was started with a pipe"
        return self._running.stdin

    @property
    def _output(self) -> asyncio.StreamReader:
        assert self._running.stdout is not None, "it was started with a pipe"
        return self._running.stdout
