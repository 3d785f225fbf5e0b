"""The engine under the rules for stacks on an NVIDIA GPU: each need one kernel, written in Triton.

written     kernels as text, made for one number of rows
ranked      means of chosen ranks, and around the median: values sorted in registers
distances   squared distances between all rows
combining   a weighted sum of the rows that count

Nothing here touches Triton or a GPU before a function is called.
"""

from __future__ import annotations

import importlib.util
from functools import lru_cache
from typing import TYPE_CHECKING

from axon.aggregation.kernels.combining import combine
from axon.aggregation.kernels.distances import squared_distances
from axon.aggregation.kernels.ranked import around_median, ranked_mean

if TYPE_CHECKING:
    from torch import Tensor

__all__ = ["around_median", "combine", "is_usable", "ranked_mean", "squared_distances"]

MOST_ROWS = 64
"""Rows whose values of one coordinate fit the registers of a thread."""

MOST_COORDINATES = 2**31 - 2**17
"""Coordinates that 32 bits count, with what a block reaches past the last of them to spare."""

KINDS = frozenset({"torch.float32", "torch.bfloat16", "torch.float16"})


def is_usable(stack: Tensor) -> bool:
    """Whether the kernels can take this stack; what they cannot is left to the plain engine."""
    rows, size = stack.shape
    return (
        stack.is_cuda
        and str(stack.dtype) in KINDS
        and stack.stride(1) == 1
        and 1 <= rows <= MOST_ROWS
        and 1 <= size <= MOST_COORDINATES
        and _has_triton()
    )


@lru_cache(maxsize=1)
def _has_triton() -> bool:
    return importlib.util.find_spec("triton") is not None
