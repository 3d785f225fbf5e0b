"""The rules once more, as naively as they can be written, in double precision."""

from __future__ import annotations

import math
from itertools import combinations
from typing import Any

import numpy as np
from numpy.typing import NDArray

from axon.seeds import stream

Rows = list[list[float]]


def drawn(n: int, d: int, seed: int = 1) -> NDArray[np.float32]:
    """Rows around a common point, as gradients of one model are."""
    random = stream(seed, "stack", n, d)
    return (1 + random.standard_normal((n, d))).astype(np.float32)


def rows(stack: Any) -> Rows:
    """Any stack as lists of Python's own numbers."""
    listed: Rows = np.asarray(stack, dtype=np.float64).tolist()
    return listed


def columns(stack: Any) -> Rows:
    return [list(column) for column in zip(*rows(stack), strict=True)]


def middle(values: list[float]) -> float:
    ordered = sorted(values)
    return (ordered[(len(values) - 1) // 2] + ordered[len(values) // 2]) / 2


def median(stack: Any) -> list[float]:
    return [middle(column) for column in columns(stack)]


def trimmed_mean(stack: Any, f: int) -> list[float]:
    kept = [sorted(column)[f : len(column) - f] for column in columns(stack)]
    return [math.fsum(values) / len(values) for values in kept]


def around_median(stack: Any, keep: int) -> list[float]:
    result = []
    for column in columns(stack):
        centre = middle(column)
        nearest = sorted(column, key=lambda value: (abs(value - centre), value))[:keep]
        result.append(math.fsum(nearest) / keep)
    return result


def squared_distance(one: list[float], other: list[float]) -> float:
    return math.fsum((a - b) ** 2 for a, b in zip(one, other, strict=True))


def score(listed: Rows, row: int, left: list[int], count: int) -> float:
    """Σ of the squared distances to the `count` nearest of those left."""
    apart = sorted(squared_distance(listed[row], listed[o]) for o in left if o != row)
    return math.fsum(apart[: max(0, count)])


def ranked(stack: Any, f: int, left: list[int]) -> list[int]:
    """Those left by score, then by the score over all, the sum over all, and what they hold."""
    listed = rows(stack)
    everyone = list(range(len(listed)))

    def key(row: int) -> tuple[Any, ...]:
        return (
            score(listed, row, left, len(left) - f - 2),
            score(listed, row, everyone, len(listed) - f - 2),
            score(listed, row, everyone, len(listed) - 1),
            listed[row],
        )

    return sorted(left, key=key)


def mean(listed: Rows) -> list[float]:
    return [math.fsum(column) / len(column) for column in zip(*listed, strict=True)]


def multi_krum(stack: Any, f: int, m: int) -> list[float]:
    listed = rows(stack)
    return mean([listed[row] for row in ranked(stack, f, list(range(len(listed))))[:m]])


def bulyan(stack: Any, f: int) -> list[float]:
    listed = rows(stack)
    left = list(range(len(listed)))
    selected = []
    for _ in range(len(listed) - 2 * f):
        selected.append(ranked(stack, f, left)[0])
        left.remove(selected[-1])
    return around_median([listed[row] for row in selected], len(listed) - 4 * f)


def diameter(listed: Rows, members: tuple[int, ...]) -> tuple[float, float]:
    """The largest squared distance between two of them, and the sum of all."""
    apart = [squared_distance(listed[a], listed[b]) for a, b in combinations(members, 2)]
    return max(apart, default=0.0), math.fsum(apart)


def mda(stack: Any, f: int) -> list[float]:
    listed = rows(stack)
    subsets = combinations(range(len(listed)), len(listed) - f)
    best = min(subsets, key=lambda members: diameter(listed, members))
    return mean([listed[row] for row in best])
