"""What is decided coordinate by coordinate: values sorted in registers, one read, one write."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from functools import lru_cache
from typing import TYPE_CHECKING, Any

from axon.aggregation.kernels.written import (
    THREADS,
    WARPS,
    blocks,
    kernel,
    on_device_of,
    per_thread,
)
from axon.aggregation.networks import Step, halves

if TYPE_CHECKING:
    from torch import Tensor

    from axon.aggregation.wholeness import Watch

POSITION = ["at = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)", "inside = at < size"]

SCALE = 64
"""As many values as are ever added up."""


def ranked_mean(stack: Tensor, first: int, last: int, watch: Watch | None = None) -> Tensor:
    """Per coordinate the mean of the values of rank first..last-1; NaN counts as +inf."""
    rows, size = stack.shape
    out = stack.new_empty(size)
    block = THREADS * per_thread(rows, stack.element_size())
    grid = blocks(size, block)
    odd = _room(stack, grid)
    with on_device_of(stack):
        _ranked(rows, first, last)[grid](
            stack, out, odd, stack.stride(0), size, BLOCK=block, num_warps=WARPS
        )
    _tell(watch, odd)
    return out


def around_median(
    stack: Tensor, rows: Sequence[int], keep: int, watch: Watch | None = None
) -> Tensor:
    """Per coordinate, over the given rows, the mean of the `keep` values nearest their median.

    NaN counts as +inf; of two values equally near, the smaller is kept.
    """
    size = stack.shape[1]
    out = stack.new_empty(size)
    block = THREADS * per_thread(len(rows), stack.element_size())
    grid = blocks(size, block)
    odd = _room(stack, grid)
    with on_device_of(stack):
        _around(len(rows), keep)[grid](
            stack, out, odd, stack.stride(0), size, *map(int, rows), BLOCK=block, num_warps=WARPS
        )
    _tell(watch, odd)
    return out


def _room(stack: Tensor, grid: tuple[int]) -> Tensor:
    """A number for each block: NaN afterwards where it met what is no number, else 0."""
    import torch

    return stack.new_empty(grid[0], dtype=torch.float32)


def _tell(watch: Watch | None, odd: Tensor) -> None:
    if watch is not None and not bool(odd.isfinite().all()):
        watch.tell()


@lru_cache(maxsize=256)
def _ranked(rows: int, first: int, last: int) -> Any:
    lines = [
        *POSITION,
        "place = stack + at",
        *(line for row in range(rows) for line in _load_next(row)),
        *_sorting(rows, halves(rows, range(first, last))),
        *_store_mean([f"v{rank}" for rank in range(first, last)]),
    ]
    name = f"ranked_mean_{rows}_{first}_{last}"
    return kernel(name, ["stack", "out", "odd", "row", "size"], lines, [])


@lru_cache(maxsize=256)
def _around(rows: int, keep: int) -> Any:
    # A window of the sorted values that holds those nearest the median holds a middle one itself.
    middle = [(rows - 1) // 2, rows // 2]
    starts = range(max(0, middle[0] - keep + 1), min(rows - keep, middle[1]) + 1)
    reached = range(starts[0], starts[-1] + keep)
    lines = [
        *POSITION,
        "place = stack + at",
        *(line for row in range(rows) for line in _load_given(row)),
        *_sorting(rows, halves(rows, {*reached, *middle})),
        *_nearest(starts, keep, middle),
        *_store_mean([f"w{slot}" for slot in range(keep)]),
    ]
    given = [f"r{row}" for row in range(rows)]
    name = f"around_median_{rows}_{keep}"
    return kernel(name, ["stack", "out", "odd", "row", "size"], lines, given)


def _load_next(row: int) -> Iterator[str]:
    # The pointer walks: a row's number times the stride may be more than 32 bits hold.
    if row:
        yield "place += row"
    yield f"v{row} = tl.load(place, mask=inside, other=0.0)"


def _load_given(row: int) -> Iterator[str]:
    yield f"v{row} = tl.load(place + r{row}.to(tl.int64) * row, mask=inside, other=0.0)"


def _sorting(rows: int, steps: Sequence[Step]) -> Iterator[str]:
    """The network, over values of which none is NaN; all loads are under way before it begins."""
    yield "spoiled = tl.zeros([BLOCK], tl.float32)"
    for row in range(rows):
        yield f"v{row} = v{row}.to(tl.float32)"
        # 0 for every number, NaN for what is none.
        yield f"spoiled += v{row} - v{row}"
        yield f"v{row} = tl.where(v{row} == v{row}, v{row}, float('inf'))"
    yield "tl.store(odd + tl.program_id(0), tl.sum(spoiled))"
    for step in steps:
        yield f"low = tl.minimum(v{step.low}, v{step.high})"
        yield f"v{step.high} = tl.maximum(v{step.low}, v{step.high})"
        yield f"v{step.low} = low"


def _nearest(starts: range, keep: int, middle: Sequence[int]) -> Iterator[str]:
    """Move a window over the sorted values upwards for as long as that brings it nearer.

    The value that comes in takes the place of the one that goes, so nothing is ever subtracted.
    """
    for rank in range(starts[0], starts[0] + keep):
        yield f"w{rank % keep} = v{rank}"
    # high - median < median - low, without rounding the median: a tie stays a tie.
    yield f"twice = v{middle[0]} + v{middle[1]}"
    for start in starts[:-1]:
        slot = start % keep
        nearer = f"v{start} + v{start + keep} < twice"
        yield f"w{slot} = tl.where({nearer}, v{start + keep}, w{slot})"


def _store_mean(values: Sequence[str]) -> Iterator[str]:
    yield f"total = {values[0]}"
    if len(values) > 1:
        # By a power of two, which rounds nothing: the sum of values near the largest there are
        # is then finite, as their mean is.
        yield f"total *= {1 / SCALE}"
        yield from (f"total += {value} * {1 / SCALE}" for value in values[1:])
        count = f"tl.full([BLOCK], {len(values) / SCALE}, tl.float32)"
        yield f"total = tl.div_rn(total, {count})"
    yield "tl.store(out + at, total, mask=inside)"
