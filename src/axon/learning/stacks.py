"""The memory of jobs that are trained together: their parameters, and a batch of each, in stacks.

Rows never move: a job has its row from beginning to end, and copies its parameters out when it
halts. What is computed is a prefix of the rows; jobs come longest first, so that the prefix shrinks
as they end. A job told to halt within it stays as a row whose samples have no weight.
"""

from __future__ import annotations

import threading
import weakref
from collections import deque
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from itertools import groupby
from math import prod
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from axon.learning.parameters import Layout, check_size, split
from axon.seeds import stream
from axon.values import Job, Vector

ALIGNMENT = 64
"""Where rows begin, in bytes; kernels may sum in another order elsewhere."""

KEPT_BYTES = 256 << 20
"""The largest memory for results that is kept to be lent again."""

IDLE_SCRATCH = 2
"""How many working memories that nobody uses are kept."""


class Scratch:
    """Working memory by name, kept between batches: a fresh page costs more than using it."""

    def __init__(self) -> None:
        self._buffers: dict[str, Tensor] = {}

    def room(self, name: str, *shape: int, dtype: torch.dtype = torch.float32) -> Tensor:
        """A tensor of that shape, holding anything; the same memory for the same name."""
        wanted = prod(shape)
        buffer = self._buffers.get(name)
        if buffer is None or buffer.numel() < wanted or buffer.dtype != dtype:
            buffer = self._buffers[name] = torch.empty(wanted, dtype=dtype)
        return buffer[:wanted].view(shape)


_idle: list[Scratch] = []
_idle_lock = threading.Lock()


@contextmanager
def scratch() -> Iterator[Scratch]:
    """Working memory, nobody else's for the while."""
    with _idle_lock:
        lent = _idle.pop() if _idle else Scratch()
    try:
        yield lent
    finally:
        with _idle_lock:
            _idle.append(lent)
            del _idle[:-IDLE_SCRATCH]


def result_rows(count: int, length: int) -> NDArray[np.float32]:
    """Memory for that many vectors, each contiguous and aligned.

    It is lent again when the last view of it is gone: the first touch of fresh pages costs as much
    as copying the vectors into them.
    """
    pitch = -(-length * 4 // ALIGNMENT) * ALIGNMENT
    memory = _large_memory(count * pitch + ALIGNMENT)
    # Every view of `lent` keeps alive the memoryview that is its base; `memory` does not.
    lent = np.frombuffer(memory.data, np.uint8)
    if memory.nbytes <= KEPT_BYTES:
        weakref.finalize(lent.base, _returned.append, memory).atexit = False
    first = -memory.ctypes.data % ALIGNMENT
    rows = lent[first : first + count * pitch].view(np.float32)
    return rows.reshape(count, pitch // 4)[:, :length]


_returned: deque[NDArray[np.uint8]] = deque(maxlen=1)


def _large_memory(wanted: int) -> NDArray[np.uint8]:
    # Without a lock, which a finaliser that interrupts its owner would wait for in vain.
    with suppress(IndexError):
        memory = _returned.popleft()
        if wanted <= memory.nbytes <= 2 * wanted:
            return memory
    # Of numpy, not torch: it asks for huge pages, which are four times as quick to come by.
    return np.empty(wanted, np.uint8)


class Parameters:
    """The parameters of several jobs, stacked entry by entry."""

    def __init__(self, layout: Layout, count: int, memory: Scratch) -> None:
        self.entries = {
            name: memory.room(f"parameters {name}", count, *shape)
            for name, shape in zip(layout.names, layout.shapes, strict=True)
        }
        self._layout = layout

    def load(self, starts: Sequence[Vector]) -> bool:
        """Overwrite each row with its start; whether that was one array for all of them."""
        first = 0
        for _, same in groupby(starts, key=id):
            run = list(same)
            self._fill(slice(first, first + len(run)), run[0])
            first += len(run)
        return len({id(start) for start in starts}) == 1

    def _fill(self, rows: slice, start: Vector) -> None:
        check_size(start, self._layout)
        at = 0
        for entry, length in zip(self.entries.values(), self._layout.sizes, strict=True):
            # Through numpy: what arrives may be read-only, and torch warns of that.
            entry.numpy()[rows] = start[at : at + length].reshape(entry.shape[1:])
            at += length

    def save(self, rows: Sequence[int], results: Tensor) -> None:
        """Copy some rows, given in order, to the same rows of the results."""
        places = split(results, self._layout)
        for _, run in groupby(enumerate(rows), key=lambda each: each[1] - each[0]):
            positions = [row for _, row in run]
            where = slice(positions[0], positions[-1] + 1)
            for name, entry in self.entries.items():
                places[name][where].copy_(entry[where])


class Course:
    """One job's way through its samples, pass after pass."""

    __slots__ = ("_batch", "_order", "_random", "inputs", "job", "labels", "seen", "total")

    def __init__(self, job: Job) -> None:
        self.job = job
        self.total = job.batches
        self.seen = 0
        self.inputs = _plain(job.samples.inputs)
        self.labels = np.ascontiguousarray(job.samples.labels, np.int64)
        self._random = stream(*job.stream)
        self._order = _NOTHING
        self._batch = job.spec.batch_size

    def ahead(self) -> int:
        """How many samples the next batch has."""
        left = len(self._order) or len(self.labels)
        return min(left, self._batch)

    def draw(self, width: int) -> NDArray[np.intp]:
        """The samples of the next batch; the last one again where they are fewer than `width`."""
        if not len(self._order):
            self._order = self._random.permutation(len(self.labels))
        rows = self._order[: self._batch]
        self._order = self._order[self._batch :]
        self.seen += len(rows)
        return rows if len(rows) == width else rows.take(np.arange(width), mode="clip")


_NOTHING = np.empty(0, np.intp)


def _plain(inputs: NDArray[Any]) -> NDArray[Any]:
    # Bytes stay bytes until they are gathered: a quarter of the memory to read.
    return np.ascontiguousarray(inputs, np.uint8 if inputs.dtype == np.uint8 else np.float32)


class Batches:
    """The next batch of each job, side by side."""

    def __init__(self, courses: Sequence[Course], memory: Scratch) -> None:
        self._courses = courses
        self._memory = memory

    def gather(self, running: Sequence[bool]) -> tuple[Tensor, Tensor, Tensor]:
        """Inputs, labels and weights, (jobs, samples, ...); a job's weights sum to one, or to zero.

        A batch that is short is filled up with a sample of its own, of no weight: whatever the net
        makes of it, it makes of that job's samples.
        """
        pairs = list(zip(self._courses, running, strict=False))
        counts = [course.ahead() if going else 0 for course, going in pairs]
        width = max(counts)
        inputs, raw, labels = self._rooms(len(counts), width)
        for (course, going), into, beside in zip(pairs, raw.numpy(), labels.numpy(), strict=True):
            if going:
                rows = course.draw(width)
                # "clip" writes straight into the room, where "raise" would write elsewhere first.
                course.inputs.take(rows, 0, into, "clip")
                course.labels.take(rows, 0, beside, "clip")
            else:
                into.fill(0)
                beside.fill(0)
        if raw is not inputs:
            inputs.copy_(raw)
        if (scale := self._courses[0].job.samples.scale) != 1.0:
            inputs.mul_(scale)
        return inputs, labels, _weights(counts, width)

    def _rooms(self, count: int, width: int) -> tuple[Tensor, Tensor, Tensor]:
        model = self._courses[0]
        shape = (count, width, *model.inputs.shape[1:])
        inputs = self._memory.room("inputs", *shape)
        as_bytes = model.inputs.dtype == np.uint8
        raw = self._memory.room("bytes", *shape, dtype=torch.uint8) if as_bytes else inputs
        beside = (count, width, *model.labels.shape[1:])
        return inputs, raw, self._memory.room("labels", *beside, dtype=torch.int64)


def _weights(counts: Sequence[int], width: int) -> Tensor:
    column = torch.tensor(counts).unsqueeze(1)
    return (torch.arange(width) < column) / column.clamp(min=1)
