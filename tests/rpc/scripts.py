"""Scripts run as processes of their own, always killed in the end, and a link that can be cut."""

from __future__ import annotations

import contextlib
import os
import secrets
import selectors
import signal
import socket
import subprocess
import sys
import textwrap
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from types import TracebackType

ROOT = Path(__file__).parents[2]
WAIT_S = 15.0
_GIVEN: set[int] = set()
"""Ports that this process has chosen before."""


def free_port(host: str = "127.0.0.1") -> int:
    """A port nobody listens on at the moment, and which no connection takes for its own end."""
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    while True:
        # Below those that the system gives to connections: between now and when somebody listens
        # there, other tests make many.
        port = secrets.choice(range(10_000, 32_000))
        if port in _GIVEN:
            continue
        with socket.socket(family) as probe, contextlib.suppress(OSError):
            probe.bind((host, port))
            _GIVEN.add(port)
            return port


def listens(port: int, host: str = "127.0.0.1") -> bool:
    """Whether somebody accepts connections there."""
    try:
        with socket.create_connection((host, port), timeout=1.0):
            return True
    except OSError:
        return False


class Script:
    """One Python process; warnings are errors in it, and leaving the block kills it."""

    def __init__(self, text: str, *args: object, **environment: str) -> None:
        self.process = subprocess.Popen(
            [sys.executable, "-W", "error", "-c", textwrap.dedent(text), *map(str, args)],
            cwd=ROOT,
            env={**os.environ, "PYTHONUNBUFFERED": "1", **environment},
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )
        self._ended: tuple[int, str, str] | None = None

    def line(self) -> str:
        """The next line it prints."""
        assert self.process.stdout is not None
        return self.process.stdout.readline().rstrip("\n")

    def until_listening(self, port: int, host: str = "127.0.0.1") -> Script:
        """Wait until it accepts connections; fails at once if it ends instead."""
        until = time.monotonic() + WAIT_S
        while not listens(port, host):
            if self.process.poll() is not None:
                raise AssertionError(f"it ended: {self.result()}")
            if time.monotonic() > until:
                raise AssertionError(f"nobody listens on {host} port {port} after {WAIT_S} s")
            time.sleep(0.01)
        return self

    def send(self, number: signal.Signals) -> None:
        self.process.send_signal(number)

    def kill(self) -> None:
        """As a power failure would end it."""
        self.process.kill()
        self.result()

    def result(self, timeout_s: float = WAIT_S) -> tuple[int, str, str]:
        """Exit code, standard output and standard error, once it has ended."""
        if self._ended is None:
            out, err = self.process.communicate(timeout=timeout_s)
            self._ended = (self.process.returncode, out, err)
        return self._ended

    def __enter__(self) -> Script:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        if self._ended is None:
            self.process.kill()
            self.process.communicate(timeout=WAIT_S)


class CuttableLink:
    """A TCP relay to a port; cutting it resets every connection and refuses new ones."""

    def __init__(self, target: int) -> None:
        self._target = target
        self._listener = socket.create_server(("127.0.0.1", 0), backlog=256)
        self.port: int = self._listener.getsockname()[1]
        self._selector = selectors.DefaultSelector()
        self._selector.register(self._listener, selectors.EVENT_READ, None)
        self._pairs: dict[socket.socket, socket.socket] = {}
        self._lock = threading.Lock()
        self._up = True
        self._running = True
        self._thread = threading.Thread(target=self._relay, name="relay", daemon=True)
        self._thread.start()

    def cut(self) -> None:
        """Break every connection under way, and let no new one through."""
        with self._lock:
            self._up = False
            for end in list(self._pairs):
                self._drop(end)

    def heal(self) -> None:
        with self._lock:
            self._up = True

    def close(self) -> None:
        self._running = False
        self._thread.join(timeout=5)
        self.cut()
        self._listener.close()
        self._selector.close()

    def _relay(self) -> None:
        while self._running:
            for key, _ in self._selector.select(timeout=0.05):
                with self._lock:
                    if key.fileobj is self._listener:
                        self._accept()
                    elif isinstance(key.fileobj, socket.socket):
                        self._pass_on(key.fileobj)

    def _accept(self) -> None:
        near, _ = self._listener.accept()
        try:
            if not self._up:
                raise ConnectionRefusedError
            far = socket.create_connection(("127.0.0.1", self._target), timeout=1.0)
        except OSError:
            _reset(near)
            return
        for one, other in ((near, far), (far, near)):
            self._pairs[one] = other
            self._selector.register(one, selectors.EVENT_READ)

    def _pass_on(self, end: socket.socket) -> None:
        if end not in self._pairs:
            return  # Dropped since the selector saw it.
        try:
            data = end.recv(1 << 16)
            if data:
                self._pairs[end].sendall(data)
                return
        except OSError:
            self._drop(end)
            return
        self._drop(end)

    def _drop(self, end: socket.socket) -> None:
        other = self._pairs.pop(end, None)
        if other is None:
            return
        del self._pairs[other]
        for one in (end, other):
            self._selector.unregister(one)
            _reset(one)


def _reset(end: socket.socket) -> None:
    """Close with a reset, as a broken link shows itself."""
    with contextlib.suppress(OSError):  # A peer that is gone already needs no reset.
        end.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, b"\1\0\0\0\0\0\0\0")
    end.close()


@contextmanager
def cuttable_link(target: int) -> Iterator[CuttableLink]:
    """A relay for the length of a block."""
    link = CuttableLink(target)
    try:
        yield link
    finally:
        link.close()
