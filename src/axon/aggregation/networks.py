"""Networks of comparators that bring chosen ranks to their places, whatever the values are.

The same comparisons happen for every coordinate, so that each is one operation on two whole rows: a
minimum and a maximum. Batcher's odd-even merge sort, with what no wanted rank depends on left out.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from functools import lru_cache
from typing import NamedTuple

Comparator = tuple[int, int]
"""Places (low, high): afterwards the first holds the smaller of their values."""

ALL_OFFSETS = 128
"""Values up to which every offset is tried; beyond, the two ends and the middle."""


class Step(NamedTuple):
    """A comparator of which only one half may be needed."""

    low: int
    high: int
    keeps_low: bool
    keeps_high: bool


class Move(NamedTuple):
    """The minimum or maximum of two rows of memory, written into a third or over one of them."""

    takes_low: bool
    left: int
    right: int
    into: int


@dataclass(frozen=True, slots=True)
class Schedule:
    """A network for rows in memory: those with the values are only read."""

    moves: tuple[Move, ...]
    values: int
    """How many rows hold values, which come first."""
    scratch: int
    """How many rows of memory there must be after them."""
    places: dict[int, int]
    """The row in which each wanted rank is found in the end."""


@lru_cache(maxsize=256)
def network(n: int, first: int, last: int) -> tuple[Comparator, ...]:
    """Comparators after which places first..last-1 hold the values of these ranks, in order.

    Ranks count from 0, ascending. The other places hold the other values, in no order.
    """
    return tuple((step.low, step.high) for step in halves(n, [*range(first, last)]))


def halves(n: int, wanted: Iterable[int]) -> tuple[Step, ...]:
    """The comparators that bring the wanted ranks to their places, with what is needed of each.

    A half that is not needed is a minimum or a maximum saved; its place then holds nothing of use.
    """
    ranks = frozenset(wanted)
    if n < 1 or not ranks or min(ranks) < 0 or max(ranks) >= n:
        shown = f"{min(ranks)} to {max(ranks)}" if ranks else "none"
        raise ValueError(
            f"a network over {n} values brings some of ranks 0 to {n - 1}, got {shown}"
        )
    return _halves(n, ranks)


@lru_cache(maxsize=256)
def schedule(n: int, wanted: tuple[int, ...]) -> Schedule:
    """The network for the wanted ranks, in few rows of memory beside those with the values."""
    memory = _Memory(n)
    moves = [move for step in halves(n, wanted) for move in memory.moves(step)]
    places = {rank: memory.row_of[rank] for rank in wanted}
    return Schedule(tuple(moves), n, memory.rows - n, places)


class _Memory:
    """Which row holds each line of a network, and which are free to be written."""

    def __init__(self, n: int) -> None:
        self.n = n
        self.rows = n
        self.row_of = list(range(n))
        self.free: list[int] = []

    def moves(self, step: Step) -> Iterator[Move]:
        """What a step does, with rows that nothing needs any more given back."""
        left, right = self.row_of[step.low], self.row_of[step.high]
        both = step.keeps_low and step.keeps_high
        written = [row for row in (right, left) if row >= self.n]
        if both:
            into = self._take()
            yield Move(True, left, right, into)
            self.row_of[step.low] = into
        last = written.pop(0) if written else self._take()
        yield Move(not step.keeps_high, left, right, last)
        self.row_of[step.high if step.keeps_high else step.low] = last
        self.free += written

    def _take(self) -> int:
        if self.free:
            return self.free.pop()
        self.rows += 1
        return self.rows - 1


@lru_cache(maxsize=256)
def _halves(n: int, ranks: frozenset[int]) -> tuple[Step, ...]:
    whole = 1 << (n - 1).bit_length()
    spare = whole - n
    offsets = range(spare + 1) if n <= ALL_OFFSETS else sorted({0, spare // 2, spare})
    sorting = tuple(_merge_sort(whole))
    # Lines below the offset count as -inf and those above the values as +inf. They never move, so
    # their comparators fall away; how many others do depends on where the values lie.
    tried = (_pruned(_shifted(sorting, n, offset), ranks) for offset in offsets)
    return min(tried, key=lambda steps: sum(step.keeps_low + step.keeps_high for step in steps))


def _merge_sort(size: int) -> Iterator[Comparator]:
    """Batcher's network for a power of two."""
    merged = 1
    while merged < size:
        apart = merged
        while apart >= 1:
            for start in range(apart % merged, size - apart, 2 * apart):
                for low in range(start, min(start + apart, size - apart)):
                    if low // (2 * merged) == (low + apart) // (2 * merged):
                        yield low, low + apart
            apart //= 2
        merged *= 2


def _shifted(sorting: Iterable[Comparator], n: int, offset: int) -> list[Comparator]:
    return [
        (low - offset, high - offset)
        for low, high in sorting
        if low >= offset and high < offset + n
    ]


def _pruned(comparators: list[Comparator], ranks: frozenset[int]) -> tuple[Step, ...]:
    """What the ranks depend on, found from the end back."""
    needed = set(ranks)
    kept = []
    for low, high in reversed(comparators):
        if low in needed or high in needed:
            kept.append(Step(low, high, low in needed, high in needed))
            needed |= {low, high}
    return tuple(reversed(kept))
