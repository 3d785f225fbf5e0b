"""The engine in plain PyTorch: for devices without their own, and to hold the others against.

Distances are made of differences in double precision, so that none is lost; nothing here is quick.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import torch
from torch import Tensor

from axon.aggregation.wholeness import Watch

BLOCK = 1 << 20
"""Values held a second time at once, in all rows together."""


def ranked_mean(stack: Tensor, first: int, last: int, watch: Watch | None = None) -> Tensor:
    """In each coordinate the mean of the values of rank first..last-1; NaN counts as +inf."""
    means = [_mean_of(_sorted(block, watch)[first:last]) for block in _blocks(stack)]
    return _joined(means, stack)


def around_median(
    stack: Tensor, rows: Sequence[int], keep: int, watch: Watch | None = None
) -> Tensor:
    """In each coordinate the mean of the `keep` values of these rows nearest to their median.

    NaN counts as +inf, and of two values equally near the smaller is kept.
    """
    chosen = torch.tensor([int(row) for row in rows], device=stack.device)
    means = []
    for block in _blocks(stack):
        ranks = _sorted(block.index_select(0, chosen), watch)
        middle = (ranks[(len(ranks) - 1) // 2] + ranks[len(ranks) // 2]) / 2
        # Stable, and the values ascend: of two equally near the smaller comes first.
        nearest = (ranks - middle).abs().argsort(dim=0, stable=True)[:keep]
        means.append(_mean_of(ranks.gather(0, nearest)))
    return _joined(means, stack)


def squared_distances(stack: Tensor) -> Tensor:
    """Between all rows, on the CPU: 0 on the diagonal, inf from a row with NaN or infinity."""
    total = torch.zeros(len(stack), len(stack), dtype=torch.float64)
    for block in _blocks(stack):
        rows = [(block - row).square().sum(dim=1) for row in block]
        total += torch.stack(rows).cpu()
    return total.nan_to_num(nan=torch.inf, posinf=torch.inf).fill_diagonal_(0.0)


def inner_products(stack: Tensor, centre: Tensor, rows: Sequence[int]) -> Tensor:
    """Of some rows' differences from a centre, on the CPU, in the order of the rows given."""
    chosen = torch.tensor([int(row) for row in rows], device=stack.device)
    total = torch.zeros(len(rows), len(rows), dtype=torch.float64)
    middles = _blocks(centre.unsqueeze(0), len(stack))
    for block, middle in zip(_blocks(stack), middles, strict=True):
        apart = block.index_select(0, chosen.to(block.device)) - middle
        total += (apart @ apart.T).cpu()
    return total


def lengths(stack: Tensor) -> Tensor:
    """Of each row, on the CPU; inf for a row with NaN or infinity, and for no other."""
    largest = torch.zeros(len(stack), dtype=torch.float64)
    for block in _blocks(stack):
        largest = torch.maximum(largest, block.abs().amax(dim=1).cpu())
    # Brought to at most 1, no square overflows.
    by = torch.where((largest > 0) & largest.isfinite(), largest, 1.0).unsqueeze(1)
    total = torch.zeros(len(stack), dtype=torch.float64)
    for block in _blocks(stack):
        total += (block / by.to(block.device)).square().sum(dim=1).cpu()
    long = (largest * total.sqrt()).clamp(max=torch.finfo(torch.float64).max)
    return torch.where(largest.isfinite(), long, torch.inf)


def combine(stack: Tensor, factors: Sequence[float]) -> Tensor:
    """Σ factor · row; rows of factor 0 are never read."""
    used = [row for row, factor in enumerate(factors) if factor]
    total = torch.zeros(stack.shape[1], dtype=stack.dtype, device=stack.device)
    if not used:
        return total
    by = torch.tensor([float(factors[row]) for row in used], dtype=torch.float64).unsqueeze(1)
    rows = torch.tensor(used, device=stack.device)
    return _joined(
        [(b.index_select(0, rows) * by.to(b.device)).sum(dim=0) for b in _blocks(stack)], stack
    )


def _blocks(stack: Tensor, rows: int | None = None) -> Iterator[Tensor]:
    """The stack's columns, some at a time, in double precision."""
    # Apple's devices have no double precision; what they hold is worked out on the CPU.
    device = stack.device if stack.device.type != "mps" else torch.device("cpu")
    width = max(1, BLOCK // max(rows or len(stack), 1))
    for block in torch.split(stack.detach(), width, dim=1):
        yield block.to(device).double()


def _sorted(block: Tensor, watch: Watch | None) -> Tensor:
    if watch is not None and not bool(block.isfinite().all()):
        watch.tell()
    return block.nan_to_num(nan=torch.inf, posinf=torch.inf, neginf=-torch.inf).sort(dim=0).values


def _mean_of(block: Tensor) -> Tensor:
    """Divided before it is added up: the mean of values near the largest there are is finite."""
    return (block / len(block)).sum(dim=0)


def _joined(means: list[Tensor], stack: Tensor) -> Tensor:
    return torch.cat(means).to(device=stack.device, dtype=stack.dtype)
