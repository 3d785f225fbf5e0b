"""Work on a long range of coordinates, shared among the cores in parts of a fixed size."""

from __future__ import annotations

import itertools
import os
import sys
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor

PART = 1 << 17
"""Coordinates of a part: worth a thread's while. Sums are made by part, so that no bit of a result
depends on how many threads there are."""

CACHED = 1 << 22
"""Bytes that a core works on at a time, held by its caches."""


def threads() -> int:
    """How many threads to use: as many as torch may where it is loaded, else one a core."""
    torch = sys.modules.get("torch")
    return int(torch.get_num_threads()) if torch is not None else os.cpu_count() or 1


def parts(size: int) -> list[tuple[int, int]]:
    """The bounds of the parts of a range."""
    return [(first, min(first + PART, size)) for first in range(0, size, PART)]


def chunk_size(rows: int, item_bytes: int) -> int:
    """Coordinates at a time, such that so many rows of them stay in a cache."""
    fitting = CACHED // (max(rows, 1) * item_bytes)
    return max(1 << 10, min(1 << 15, 1 << (fitting.bit_length() - 1)))


def in_parts(work: Callable[[int, int], None], size: int) -> None:
    """Do `work(first, last)` for the whole range, each call for some parts next to one another."""
    bounds = parts(size)
    workers = min(threads(), len(bounds))
    if workers < 2:
        work(0, size)
        return
    cuts = [len(bounds) * worker // workers for worker in range(workers + 1)]
    with ThreadPoolExecutor(workers) as pool:
        runs = [
            pool.submit(work, bounds[first][0], bounds[last - 1][1])
            for first, last in itertools.pairwise(cuts)
        ]
        for run in runs:
            run.result()
