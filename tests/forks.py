"""Processes that begin with torch in hand; a new one would first spend seconds on importing it."""

from __future__ import annotations

import multiprocessing
import os
import runpy
import signal
import sys
import tempfile
import time
import warnings
from collections.abc import Callable
from pathlib import Path
from types import TracebackType

FORKS = multiprocessing.get_context("forkserver")
# One server forks for every test of a session, and imports only what it was told before its start.
FORKS.set_forkserver_preload(["axon.cli.main", "axon.recipes.runner", "pytest", "torch._dynamo"])


class Forked:
    """A command or a program in a process of its own; leaving the block kills it."""

    def __init__(
        self, work: Callable[[str], None], text: str, folder: Path, environment: dict[str, str]
    ) -> None:
        self._outputs = tempfile.TemporaryDirectory()
        self._said = [Path(self._outputs.name, name) for name in ("out", "err")]
        for path in self._said:
            path.touch()
        self._process = FORKS.Process(
            target=_begin, args=(work, text, folder, environment, self._said)
        )
        self._process.start()

    @property
    def pid(self) -> int:
        assert self._process.pid is not None, "it was started"
        return self._process.pid

    def send(self, number: signal.Signals) -> None:
        os.kill(self.pid, number)

    def line(self, timeout_s: float = 90.0) -> str:
        """The first line that it prints, as soon as all of it is there."""
        until_s = time.monotonic() + timeout_s
        while "\n" not in (out := self._said[0].read_text()):
            assert self._process.is_alive(), self._said[1].read_text()
            assert time.monotonic() < until_s, f"it printed nothing in {timeout_s} s"
            time.sleep(0.01)
        return out.partition("\n")[0]

    def complaints(self) -> str:
        """What it has printed on standard error by now."""
        return self._said[1].read_text()

    def result(self, timeout_s: float = 90.0) -> tuple[int, str, str]:
        """Exit code, standard output and standard error, once it has ended."""
        self._process.join(timeout_s)
        assert self._process.exitcode is not None, f"it has not ended in {timeout_s} s"
        out, err = (path.read_text() for path in self._said)
        return self._process.exitcode, out, err

    def __enter__(self) -> Forked:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self._process.kill()
        self._process.join()
        self._process.close()
        self._outputs.cleanup()


def command(words: str, folder: Path, **environment: str) -> Forked:
    """`axon` with these words, separated by blanks."""
    return Forked(_command, words, folder, environment)


def program(code: str, folder: Path, **environment: str) -> Forked:
    """A script; warnings are errors in it."""
    return Forked(_program, code, folder, environment)


def _begin(
    work: Callable[[str], None],
    text: str,
    folder: Path,
    environment: dict[str, str],
    outputs: list[Path],
) -> None:
    import torch

    for number, path in enumerate(outputs, 1):
        os.dup2(os.open(path, os.O_WRONLY), number)
    os.chdir(folder)
    os.environ.update(environment)
    # What it would read of OMP_NUM_THREADS, it has read in the process that forks.
    torch.set_num_threads(1)
    work(text)


def _command(words: str) -> None:
    sys.argv = ["axon", *words.split()]
    runpy.run_module("axon.cli", run_name="__main__", alter_sys=True)


def _program(code: str) -> None:
    warnings.simplefilter("error")
    exec(compile(code, "<page>", "exec"), {"__name__": "__main__"})
