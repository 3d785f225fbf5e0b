"""The engine in plain PyTorch: for devices without their own, and to hold the others against.

Distances are made of differences in double precision, so that none is lost; nothing here is quick.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import torch
from torch import Tensor

BLOCK = 1 << 20
"""Values held a second time at once, in all rows together."""


def ranked_mean(stack: Tensor, first: int, last: int) -> Tensor:
    """In each coordinate the mean of the values of rank first..last-1; NaN counts as +inf."""
    means = [_mean_of(_sorted(block)[first:last]) for block in _blocks(stack)]
    return _joined(means, stack)


def around_median(stack: Tensor, rows: Sequence[int], keep: int) -> Tensor:
    """In each coordinate the mean of the `keep` values of these rows nearest to their median.

    NaN counts as +inf, and of two values equally near the smaller is kept.
    """
    chosen = torch.tensor([int(row) for row in rows], device=stack.device)
    means = []
    for block in _blocks(stack):
        ranks = _sorted(block.index_select(0, chosen))
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


def squared_norms(stack: Tensor, centre: Tensor | None = None) -> Tensor:
    """Of each row, or of its difference from a centre, on the CPU; inf from NaN or infinity."""
    total = torch.zeros(len(stack), dtype=torch.float64)
    middles = None if centre is None else _blocks(centre.unsqueeze(0), len(stack))
    for block in _blocks(stack):
        apart = block if middles is None else block - next(middles)
        total += apart.square().sum(dim=1).cpu()
    return total.nan_to_num(nan=torch.inf, posinf=torch.inf)


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


def _sorted(block: Tensor) -> Tensor:
    return block.nan_to_num(nan=torch.inf, posinf=torch.inf, neginf=-torch.inf).sort(dim=0).values


def _mean_of(block: Tensor) -> Tensor:
    """Divided before it is added up: the mean of values near the largest there are is finite."""
    return (block / len(block)).sum(dim=0)


def _joined(means: list[Tensor], stack: Tensor) -> Tensor:
    return torch.cat(means).to(device=stack.device, dtype=stack.dtype)
