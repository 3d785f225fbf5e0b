"""Covers of a graph: few vertices such that every edge has one of them.

Graphs are lists of numbers whose bits are a vertex's neighbours. A search takes what every small
cover must or may as well have, gives up where a matching shows that too much is left, and else
tries the vertex with most edges, then all its neighbours. It is exact as long as its steps last.
"""

from __future__ import annotations

import math
from collections.abc import Iterator

import numpy as np
from numpy.typing import NDArray

SEARCHED = 400
"""Steps of a search, after which no cover counts as found. Where nobody means to make it hard a few
dozen are enough; the steps do not depend on the order in which rows came."""

PATIENCE = 20_000
"""Steps after which the best of several covers found so far is taken, likewise."""


def find(edges: list[int], spare: int, searched: int = SEARCHED) -> int | None:
    """At most `spare` vertices that cover every edge, as bits, if the search finds them."""
    return _Search(searched).cover(edges, spare)


def lightest(edges: list[int], weights: NDArray[np.float64], spare: int, known: int) -> list[int]:
    """A cover of exactly `spare` vertices, such that what remains weighs least together.

    With fewer covers than there is `PATIENCE` for; else the best met, or the one that is known.
    """
    search = _Lightest(weights, spare)
    for cover, keeps in _covers(edges, spare, search):
        search.fill(cover, keeps)
    if not search.best:
        search.steps = 0
        search.fill(known, 0)
    return search.best


class _Search:
    """A search for one cover, with so many steps to take."""

    def __init__(self, steps: int) -> None:
        self.steps = steps

    def cover(self, edges: list[int], spare: int) -> int | None:
        """Some cover of at most so many vertices, or None."""
        self.steps -= 1
        taken, edges = _reduced(edges, spare)
        spare -= taken.bit_count()
        if spare < 0 or self.steps < 0:
            return None
        most = max(edges, key=int.bit_count, default=0).bit_count()
        if most == 0:
            return taken
        # Half of a matching of both sides, as many vertices as any cover has.
        if _matched(edges, 2 * spare) > 2 * spare:
            return None
        apart = _components(edges)
        rest = self._together(apart, spare) if len(apart) > 1 else self._branched(edges, spare)
        return None if rest is None else taken | rest

    def _together(self, components: list[list[int]], spare: int) -> int | None:
        """The least cover of each component, while they are not too many."""
        taken = 0
        for component in components:
            for count in range(1, spare - taken.bit_count() + 1):
                cover = self.cover(component, count)
                if cover is not None or self.steps < 0:
                    break
            else:
                return None
            if cover is None:
                return None
            taken |= cover
        return taken

    def _branched(self, edges: list[int], spare: int) -> int | None:
        around = max(edges, key=int.bit_count)
        vertex = 1 << edges.index(around)
        for taken in (vertex, around):
            if taken.bit_count() <= spare:
                rest = self.cover(_without(edges, taken), spare - taken.bit_count())
                if rest is not None:
                    return taken | rest
        return None


def _reduced(edges: list[int], spare: int) -> tuple[int, list[int]]:
    """What some cover of the least size has, and what is left then.

    A vertex with more neighbours than can be spared, and one that has all neighbours of a
    neighbour: whoever takes the latter may take it instead.
    """
    taken = 0
    while True:
        left = spare - taken.bit_count()
        more = sum(1 << at for at, around in enumerate(edges) if around.bit_count() > left)
        more = more or _dominating(edges)
        if not more or left < 0:
            return taken, edges
        taken |= more
        edges = _without(edges, more)


def _dominating(edges: list[int]) -> int:
    """Vertices that have all neighbours of a neighbour with few, no two of them for one reason."""
    taken = touched = 0
    for vertex, around in enumerate(edges):
        if not 0 < around.bit_count() <= 3 or (around | 1 << vertex) & touched:
            continue
        for other in _bits(around):
            if around & ~(edges[other] | 1 << other) == 0:
                taken |= 1 << other
                touched |= edges[other] | 1 << other
                break
    return taken


def _matched(edges: list[int], enough: int) -> int:
    """The largest matching between the vertices and copies of them; any one above `enough`."""
    partner: dict[int, int] = {}
    size = 0
    for vertex, around in enumerate(edges):
        if around:
            size += _augmented(edges, vertex, partner)
        if size > enough:
            break
    return size


def _augmented(edges: list[int], vertex: int, partner: dict[int, int]) -> bool:
    """Match one more vertex, by a path on which each gives way to the one before."""
    came: dict[int, int] = {}
    queue, seen = [vertex], 0
    for one in queue:
        for copy in _bits(edges[one] & ~seen):
            seen |= 1 << copy
            came[copy] = one
            if copy not in partner:
                _turned(copy, came, partner)
                return True
            queue.append(partner[copy])
    return False


def _turned(copy: int, came: dict[int, int], partner: dict[int, int]) -> None:
    """Match all on the path that ends here."""
    held = {one: old for old, one in partner.items()}
    while True:
        one = came[copy]
        before = held.get(one)
        partner[copy] = one
        if before is None:
            return
        copy = before


def _components(edges: list[int]) -> list[list[int]]:
    """The graph in pieces that no edge joins, those without an edge left out."""
    left = sum(1 << vertex for vertex, around in enumerate(edges) if around)
    pieces = []
    while left:
        piece, fresh = 0, left & -left
        while fresh:
            piece |= fresh
            reached = 0
            for vertex in _bits(fresh):
                reached |= edges[vertex]
            fresh = reached & ~piece
        pieces.append([around if piece >> at & 1 else 0 for at, around in enumerate(edges)])
        left &= ~piece
    return pieces


def _bits(number: int) -> Iterator[int]:
    while number:
        lowest = number & -number
        yield lowest.bit_length() - 1
        number ^= lowest


def _covers(
    edges: list[int], spare: int, search: _Lightest, kept: int = 0
) -> Iterator[tuple[int, int]]:
    """Covers of at most `spare` vertices and what each must not take; every cover extends one."""
    search.steps += 1
    degrees = [around.bit_count() for around in edges]
    most = max(degrees, default=0)
    if most == 0:
        yield 0, kept
        return
    # Each vertex covers no more than this many edges.
    if sum(degrees) > 2 * spare * most or search.steps > PATIENCE:
        return
    vertex = degrees.index(most)
    around = edges[vertex]
    if spare >= 1:
        for cover, keeps in _covers(_without(edges, 1 << vertex), spare - 1, search, kept):
            yield cover | 1 << vertex, keeps
    # Or it stays, and all its neighbours go. What stays has no edge left, so it is not asked again.
    if most <= spare:
        rest = _without(edges, around)
        for cover, keeps in _covers(rest, spare - most, search, kept | 1 << vertex):
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
            # What is clearly more need not be added up exactly.
            if total <= self.least * (1 + 1e-9):
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
