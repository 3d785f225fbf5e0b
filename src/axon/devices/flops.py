"""The FLOPS baseline: a device's speed as one number, whatever the task.

It is what subset benchmarking is compared with, in D. J. Mays, "Data Allocation and Benchmarking in
Parallelized Mobile Edge Learning", MSc thesis, Queen's University, 2023, section 3.4.
"""

from __future__ import annotations

import time
from collections.abc import Callable

import numpy as np

from axon.errors import ConfigurationError
from axon.seeds import stream
from axon.values import check_positive, check_whole

SIDE = 512
"""Rows and columns of the matrices."""

PRODUCT_FLOPS = 2 * SIDE**3
"""A multiplication and an addition for each of the terms of one product."""


def measure_flops(
    repeats: int = 100,
    clock: Callable[[], float] = time.perf_counter,
    brake: Callable[[], None] = lambda: None,
) -> float:
    """Floating-point operations a second over so many products of two matrices, 512 by 512.

    `brake` is called before the first and after every one: it may rest, to make a machine look
    like another.
    """
    check_whole("repeats", repeats, least=1)
    random = stream(0, "flops")
    left, right = (random.random((SIDE, SIDE), dtype=np.float32) for _ in range(2))
    # Not timed: the first product also starts the threads and touches the memory.
    product = left @ right
    brake()
    began = clock()
    for _ in range(repeats):
        np.matmul(left, right, out=product)
        brake()
    elapsed_s = clock() - began
    if not elapsed_s > 0:
        raise ConfigurationError(
            f"the clock moved by {elapsed_s} s over {repeats} products",
            hint="more repeats, or a finer clock",
        )
    return PRODUCT_FLOPS * repeats / elapsed_s


def predict_s(reference_s: float, reference_flops: float, target_flops: float) -> float:
    """How long the target takes over what took the reference device so long."""
    check_positive("reference_s", reference_s)
    check_positive("reference_flops", reference_flops)
    check_positive("target_flops", target_flops)
    return reference_s * (reference_flops / target_flops)
