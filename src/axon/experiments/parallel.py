"""Work that takes minutes, done on all cores of this machine, a process for each."""

from __future__ import annotations

import os
import signal
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ProcessPoolExecutor
from multiprocessing import active_children, get_context
from typing import TypeVar

A = TypeVar("A")
T = TypeVar("T")


def spread(work: Callable[[A], T], tasks: Sequence[A], workers: int | None = None) -> Iterator[T]:
    """What the work makes of each task, in their order; as many at once as there are cores.

    With one worker it is done here. Otherwise tasks and results travel between processes, and the
    work is a function of a module. Whoever stops listening stops the work.
    """
    workers = min(len(tasks), workers or _cores())
    if workers < 2:
        yield from map(work, tasks)
        return
    before = set(active_children())
    # Not forked: PyTorch's threads would be missing in the copy.
    pool = ProcessPoolExecutor(workers, mp_context=get_context("spawn"), initializer=_heedless)
    try:
        yield from pool.map(work, tasks)
    except BaseException:
        # Nobody wants what is under way any more, and it may take minutes.
        for child in set(active_children()) - before:
            child.terminate()
        raise
    finally:
        pool.shutdown(cancel_futures=True)


def _cores() -> int:
    """How many this process may use, where the system tells it."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


def _heedless() -> None:
    """An interrupt is for the process that was started by a person, and that one ends this."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)
