"""Covers of a graph: few vertices such that every edge has one of them.

Graphs are lists of numbers whose bits are a vertex's neighbours. The search takes the vertex with
most edges and tries it, then all its neighbours. It is exact, so it may take long in the worst
case; for fifty vertices, half of them to spend, it takes milliseconds.
"""

from __future__ import annotations

import math
from collections.abc import Iterator

import numpy as np
from numpy.typing import NDArray

PATIENCE = 20_000
"""Steps after which the best cover found so far is taken. The steps do not depend on the order in
which rows came, so neither does the result."""


def can_cover(edges: list[int], spare: int) -> bool:
    """Whether at most `spare` vertices cover every edge."""
    return next(_covers(edges, spare), None) is not None


def lightest(edges: list[int], weights: NDArray[np.float64], spare: int) -> list[int]:
    """A cover of exactly `spare` vertices, such that what remains weighs least together."""
    search = _Lightest(weights, spare)
    for cover, keeps in _covers(edges, spare):
        search.fill(cover, keeps)
        if search.steps > PATIENCE:
            break
    return search.best


def _covers(edges: list[int], spare: int, kept: int = 0) -> Iterator[tuple[int, int]]:
    """Covers of at most `spare` vertices and what each must not take; every cover extends one."""
    degrees = [around.bit_count() for around in edges]
    most = max(degrees, default=0)
    if most == 0:
        yield 0, kept
        return
    # Each vertex covers no more than this many edges.
    if sum(degrees) > 2 * spare * most:
        return
    vertex = degrees.index(most)
    around = edges[vertex]
    if spare >= 1:
        for cover, keeps in _covers(_without(edges, 1 << vertex), spare - 1, kept):
            yield cover | 1 << vertex, keeps
    # Or it stays, and all its neighbours go. What stays has no edge left, so it is not asked again.
    if most <= spare:
        rest = _without(edges, around)
        for cover, keeps in _covers(rest, spare - most, kept | 1 << vertex):
            yield cover | around, keeps


def _without(edges: list[int], taken: int) -> list[int]:
    return [0 if taken >> vertex & 1 else around & ~taken for vertex, around in enumerate(edges)]


class _Lightest:
    """The best way found so far to leave `spare` vertices out."""

    def __init__(self, weights: NDArray[np.float64], spare: int) -> None:
        self.weights = weights
        self.spare = spare
        self.least = math.inf
        self.best: list[int] = []
        self.steps = 0

    def fill(self, cover: int, keeps: int) -> None:
        """Try a cover, with the best of the other vertices where it has fewer than are to go."""
        there = np.array([not cover >> vertex & 1 for vertex in range(len(self.weights))])
        free = [vertex for vertex in np.flatnonzero(there).tolist() if not keeps >> vertex & 1]
        taken = np.flatnonzero(~there).tolist()
        inside = self.weights * there * there[:, None]
        self._descend(taken, free, inside.sum(axis=1), float(inside.sum()) / 2)

    def _descend(
        self, taken: list[int], free: list[int], sums: NDArray[np.float64], total: float
    ) -> None:
        """`sums` are of each vertex's weights to those still there, `total` is all of them once."""
        self.steps += 1
        more = self.spare - len(taken)
        if more == 0:
            self._compare(taken)
            return
        free = sorted(free, key=lambda vertex: (-sums[vertex], vertex))
        # What lies between two that go is counted for both of them.
        twice = more * (more - 1) / 2 * self._least_between(free) if more > 1 else 0.0
        for at in range(len(free) - more + 1):
            gone = float(sums[free[at : at + more]].sum()) - twice
            if total - gone >= self.least or self.steps > PATIENCE:
                return
            vertex = free[at]
            left = sums - self.weights[vertex]
            self._descend([*taken, vertex], free[at + 1 :], left, total - float(sums[vertex]))

    def _least_between(self, vertices: list[int]) -> float:
        between = self.weights[np.ix_(vertices, vertices)]
        return float(between[np.triu_indices(len(vertices), 1)].min(initial=np.inf))

    def _compare(self, taken: list[int]) -> None:
        kept = np.setdiff1d(np.arange(len(self.weights)), taken)
        inside = self.weights[np.ix_(kept, kept)][np.triu_indices(len(kept), 1)]
        # Rounded once, so that sets of the same distances are told to be equal.
        weight = math.fsum(inside.tolist())
        if weight < self.least:
            self.least, self.best = weight, taken
