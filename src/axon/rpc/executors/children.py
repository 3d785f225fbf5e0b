"""A child process, seen from its parent: started, asked, waited for, ended."""

from __future__ import annotations

import contextlib
import signal
import threading
from collections.abc import Iterator
from typing import Any

from axon.errors import CannotTravel
from axon.rpc.executors import child
from axon.rpc.executors.pipes import Kind, Packed, Pipe
from axon.rpc.executors.running import Running

EXIT_GRACE_S = 0.5
"""How long a child may take to leave by itself before it is killed."""

# Two threads that ask after the same dead child would each see half of the answer.
_reaping = threading.Lock()


class PipeBroken(Exception):
    """The child is gone, or as good as gone."""


class Child:
    """One child process, seen from its parent."""

    def __init__(self) -> None:
        # Late: a worker without process functions never needs it.
        import multiprocessing

        # Never fork: threads and loops are running, and a copy of them would be broken.
        context = multiprocessing.get_context("spawn")
        ours, theirs = context.Pipe()
        self.pipe = Pipe(ours)
        # Not a daemon in multiprocessing's sense, which could have no children of its own.
        self.process = context.Process(
            target=child.serve, args=(theirs,), name=child.CHILD_NAME, daemon=False
        )
        self.busy = False
        """Whether it owes an answer; such a child is not fit for the next call."""
        with contextlib.closing(theirs), _interrupts_blocked(), _reaping:
            self.process.start()

    def ask(self, message: Packed, running: Running) -> tuple[Kind, Any]:
        """Send a message and wait for its answer; raises what the function raised."""
        self.busy = True
        try:
            self.pipe.send(message)
        except OSError as error:
            raise PipeBroken from error
        while True:
            kind, value = self._receive()
            if kind is Kind.ERROR:
                raise value
            if kind is not Kind.PROGRESS:
                return kind, value
            running.report(value)

    def _receive(self) -> tuple[Kind, Any]:
        try:
            kind, load = self.pipe.receive()
        except (EOFError, OSError) as error:
            raise PipeBroken from error
        self.busy = kind in (Kind.PROGRESS, Kind.ITEM)
        try:
            return kind, load()
        except Exception as error:
            raise CannotTravel(
                f"what the child process sent cannot be read here: {error}",
                hint="its class must be importable in the worker too",
            ) from error

    def exit_code(self) -> int | None:
        """What it ended with; None while it lives."""
        with _reaping:
            return self.process.exitcode

    def obituary(self, name: str) -> str:
        """How the child that ran the function ended, for a person to read."""
        code = self._wait(EXIT_GRACE_S)
        if code is None:
            return f"the process running {name} closed its pipe"
        if code < 0:
            return (
                f"the process running {name} was killed by {_signal_name(-code)} (exit code {code})"
            )
        return f"the process running {name} ended by itself with exit code {code}"

    def end(self, patience_s: float) -> None:
        """Wait for the process to leave, and kill it when it takes too long."""
        if self._wait(max(0.0, patience_s)) is None:
            self.process.kill()
            with _reaping:
                self.process.join()

    def _wait(self, patience_s: float) -> int | None:
        from multiprocessing.connection import wait

        # Waited for outside the lock, reaped inside it. The sentinel is ready a moment before the
        # process can be reaped, so that what follows blocks for that moment and no longer.
        if not wait([self.process.sentinel], patience_s):
            return None
        with _reaping:
            self.process.join()
            return self.process.exitcode


@contextlib.contextmanager
def _interrupts_blocked() -> Iterator[None]:
    """Let a child be born with Ctrl-C blocked, until it has chosen to ignore it."""
    if not hasattr(signal, "pthread_sigmask"):
        yield
        return
    before = signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGINT})
    try:
        yield
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, before)


def _signal_name(number: int) -> str:
    try:
        return signal.Signals(number).name
    except ValueError:
        return f"signal {number}"
