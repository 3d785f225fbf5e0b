"""Work that takes minutes, done on all cores of this machine, a process for each."""

from __future__ import annotations

import os
import signal
import threading
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ProcessPoolExecutor
from multiprocessing import active_children, get_context, parent_process
from multiprocessing.process import BaseProcess
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
    pool = ProcessPoolExecutor(workers, mp_context=get_context("spawn"), initializer=_attend)
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


def _attend() -> None:
    """Heed nobody but the process that began this one, and end with it, however it ends."""
    # An interrupt goes to all processes of a terminal; the first one ends the others itself.
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    parent = parent_process()
    assert parent is not None, "a worker is somebody's child"
    threading.Thread(target=_follow, args=(parent,), daemon=True).start()


def _follow(parent: BaseProcess) -> None:
    parent.join()
    # At once: what is under way is for nobody any more, and nothing of it is kept.
    os._exit(1)
