"""Σ factor · row over the rows that count, each of them read once and the others never."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from functools import lru_cache
from typing import TYPE_CHECKING, Any

from axon.aggregation.kernels.written import THREADS, WARPS, blocks, kernel, on_device_of

if TYPE_CHECKING:
    from torch import Tensor

UNDER_WAY = 16
"""Rows whose loads are under way at once: enough to keep the memory busy, few enough registers."""

LOAD_BYTES = 16


def combine(stack: Tensor, factors: Sequence[float]) -> Tensor:
    """The sum of factor times row, in float32; a row of factor 0 is not read, and may hold NaN."""
    counted = [row for row, factor in enumerate(factors) if factor != 0]
    size = stack.shape[1]
    if not counted:
        return stack.new_zeros(size)
    out = stack.new_empty(size)
    block = THREADS * LOAD_BYTES // stack.element_size()
    given = [*counted, *(float(factors[row]) for row in counted)]
    with on_device_of(stack):
        _combined(len(counted))[blocks(size, block)](
            stack, out, stack.stride(0), size, *given, BLOCK=block, num_warps=WARPS
        )
    return out


@lru_cache(maxsize=128)
def _combined(rows: int) -> Any:
    lines = [
        "at = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)",
        "inside = at < size",
        "place = stack + at",
        "total = tl.zeros([BLOCK], tl.float32)",
        *(line for start in range(0, rows, UNDER_WAY) for line in _group(start, rows)),
        "tl.store(out + at, total, mask=inside)",
    ]
    given = [f"{kind}{row}" for kind in "rf" for row in range(rows)]
    return kernel(f"combine_{rows}", ["stack", "out", "row", "size"], lines, given)


def _group(start: int, rows: int) -> Iterator[str]:
    group = range(start, min(start + UNDER_WAY, rows))
    for row in group:
        yield f"v{row} = tl.load(place + r{row}.to(tl.int64) * row, mask=inside, other=0.0)"
    for row in group:
        yield f"total += v{row}.to(tl.float32) * f{row}"
