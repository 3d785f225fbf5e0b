"""Squared distances between all rows, from the differences themselves.

A product of the rows with themselves would need fewer operations, but rows that nearly coincide
drown in it beside one that is a million times as large. Differences have no such weakness, and give
the same bits wherever in the stack two rows stand. A block holds the sums of one tile of pairs in
registers while the coordinates of its rows pass. Blocks of the same coordinates are numbered one
after the other: they start together, and can find in the cache what another has read.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from functools import lru_cache
from typing import TYPE_CHECKING, Any

from axon.aggregation.kernels.written import THREADS, WARPS, kernel, on_device_of

if TYPE_CHECKING:
    from torch import Tensor

WIDEST = 11
"""Rows along a side of a tile: 121 sums and what they are made of fit a thread's registers."""

MOST_STEPS = 512
"""Steps of a block, so that sums in single precision lose a few millionths at most; then double."""

FEWEST_STEPS = 8
"""Steps of a block below which adding up its threads' sums would outweigh them."""

BLOCKS_WANTED = 1024
"""Blocks that keep every multiprocessor of a large device busy to the end."""

HALVES = {
    "float32": ["{value}.to(tl.float32)"],
    "bfloat16": [
        "({value} << 16).to(tl.float32, bitcast=True)",
        "({value} & -65536).to(tl.float32, bitcast=True)",
    ],
    "float16": [
        "{value}.to(tl.int16).to(tl.float16, bitcast=True).to(tl.float32)",
        "({value} >> 16).to(tl.int16).to(tl.float16, bitcast=True).to(tl.float32)",
    ],
}
"""The coordinates in one loaded value: of 16 bits each, two travel in a word of 32."""


def squared_distances(stack: Tensor) -> Tensor:
    """The (n, n) squared distances, in float64 on the CPU: symmetric, with 0 on the diagonal.

    A row with NaN or infinity, or so far off that float32 cannot hold the square, is at inf.
    """
    import torch

    rows = stack.shape[0]
    loaded, kind = _loaded(stack)
    size = loaded.shape[1]
    tiles = -(-rows // WIDEST)
    side = -(-rows // tiles)
    steps = _steps(size, tiles)
    chunks = -(-size // (steps * THREADS))
    sums = stack.new_empty((chunks, tiles, tiles, side, side), dtype=torch.float32)
    with on_device_of(stack):
        _tiled(side, kind, single=tiles == 1)[(chunks * tiles * tiles,)](
            *(loaded, sums, loaded.stride(0), size, rows, tiles, steps),
            BLOCK=THREADS,
            num_warps=WARPS,
        )
    return _matrix(sums.sum(0, dtype=torch.float64).cpu(), rows)


def _loaded(stack: Tensor) -> tuple[Tensor, str]:
    """The stack as it is loaded, words of two coordinates where they line up, and its kind."""
    import torch

    even = not (stack.shape[1] % 2 or stack.stride(0) % 2 or stack.data_ptr() % 4)
    if stack.element_size() == 2 and even:
        return stack.detach().view(torch.int32), str(stack.dtype).removeprefix("torch.")
    return stack, "float32"


def _steps(size: int, tiles: int) -> int:
    """Steps of a block: as many as leave enough blocks, within what is quick and accurate."""
    pairs = tiles * (tiles + 1) // 2
    shared = size * pairs // (THREADS * BLOCKS_WANTED)
    return max(FEWEST_STEPS, min(shared, MOST_STEPS))


def _matrix(sums: Tensor, rows: int) -> Tensor:
    """Tiles, of which only those from the diagonal up were written, as one symmetric matrix."""
    tiles, _, side, _ = sums.shape
    whole = sums.transpose(1, 2).reshape(tiles * side, tiles * side)[:rows, :rows]
    upper = whole.triu(1).nan_to_num(nan=float("inf"), posinf=float("inf"))
    return upper + upper.T


@lru_cache(maxsize=64)
def _tiled(side: int, kind: str, *, single: bool) -> Any:
    upper = [(a, b) for a in range(side) for b in range(a + 1, side)]
    whole = [(a, b) for a in range(side) for b in range(side)]
    lines = [
        "tile = tl.program_id(0) % (tiles * tiles)",
        "chunk = tl.program_id(0) // (tiles * tiles)",
        "first = tile // tiles",
        "second = tile % tiles",
        "begin = chunk * steps * BLOCK",
        "end = tl.minimum(begin + steps * BLOCK, size)",
        f"result = sums + tl.program_id(0) * {side * side}",
        *_pointers("p", "first", side),
        "if first == second:",
        *_indented(_tile(side, kind, upper, "v")),
    ]
    if not single:
        lines += ["if first < second:", *_indented(_pointers("q", "second", side))]
        lines += _indented(_tile(side, kind, whole, "w"))
    name = f"distances_{side}_{kind}" + "_single" * single
    return kernel(name, ["stack", "sums", "row", "size"], lines, ["rows", "tiles", "steps"])


def _pointers(name: str, tile: str, side: int) -> Iterator[str]:
    for place in range(side):
        # The last tile may reach past the last row, which then stands in for the missing ones.
        row = f"tl.minimum({tile} * {side} + {place}, rows - 1)"
        yield f"{name}{place} = stack + {row}.to(tl.int64) * row"


def _tile(side: int, kind: str, pairs: Sequence[tuple[int, int]], other: str) -> Iterator[str]:
    """The sums of one tile of pairs: `other` names the values of the second row of a pair."""
    values = [("v", "p")] if other == "v" else [("v", "p"), ("w", "q")]
    named = [
        (f"{value}{place}", f"{pointer}{place}")
        for value, pointer in values
        for place in range(side)
    ]
    for a, b in pairs:
        yield f"s{a}_{b} = tl.zeros([BLOCK], tl.float32)"
    yield "at = begin + tl.arange(0, BLOCK)"
    for value, pointer in named:
        yield f"{value} = tl.load({pointer} + at, mask=at < end, other=0)"
    yield "for _ in range(steps):"
    # What the next step needs is on its way while this one is computed with.
    yield "    at += BLOCK"
    for value, pointer in named:
        yield f"    {value}n = tl.load({pointer} + at, mask=at < end, other=0)"
    for half in HALVES[kind]:
        for value, _ in named:
            yield f"    {value}h = {half.format(value=value)}"
        for a, b in pairs:
            yield f"    apart = v{a}h - {other}{b}h"
            yield f"    s{a}_{b} += apart * apart"
    for value, _ in named:
        yield f"    {value} = {value}n"
    for a, b in pairs:
        yield f"tl.store(result + {a * side + b}, tl.sum(s{a}_{b}))"


def _indented(lines: Iterator[str]) -> list[str]:
    return [f"    {line}" for line in lines]
