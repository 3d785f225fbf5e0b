"""The narrowest window of epochs that all learners can work within, found exactly.

A learner that does as many epochs as fit does fewer of them the more samples it has. The numbers of
samples that bring it into a window [a, b] are therefore an interval: at most `hi`, which depends on
a alone, and at least `lo`, which depends on b alone. A window is possible when no interval is empty
and the total lies between the sums of their ends. That makes the problem, which the paper calls
NP-hard and relaxes, one of two bisections and a sort: O(K log K + K log τ) for K learners.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from axon.allocation.epochs import Problem, Whole


@dataclass(frozen=True, slots=True)
class Window:
    """A range of epochs, both ends in it."""

    fewest: int
    most: int

    @property
    def width(self) -> int:
        """The staleness of two learners at its ends."""
        return self.most - self.fewest

    def samples(self, problem: Problem) -> tuple[Whole, Whole]:
        """The fewest and the most samples with which each learner's epochs are in it."""
        lo = np.maximum(problem.lower, problem.most_samples(self.most + 1) + 1)
        return lo, problem.most_samples(self.fewest)


def narrowest(problem: Problem) -> Window:
    """The window of the least staleness; of several, the one with the most epochs at its low end.

    No plan's fewest epochs are above A, `most_in_common`, nor its most epochs below B,
    `least_in_common`, so [A, B] is the answer wherever it is possible. And B >= A: to stay below A
    epochs everybody has to take more samples than the most of which it can do A, and those most
    add up to the total already.
    """
    fewest, most = most_in_common(problem), least_in_common(problem)
    held = problem.most_samples(fewest)
    return _with_jumpers(problem, Window(fewest, most), held, problem.most_epochs(held))


def _with_jumpers(problem: Problem, window: Window, held: Whole, epochs: Whole) -> Window:
    """The window made wide enough for learners that jump over it from one sample to the next.

    `held` are the most samples with which each does not fall below the window, and `epochs` what it
    then does. A learner still above the window must be let in at the top as it is, or, with one
    sample more, at the bottom. If one is let in at the bottom, so is everybody above it, or its
    leaving the top would gain nothing: of J such learners in their order there are J + 1 windows.
    """
    jumpers = np.flatnonzero(epochs > window.most)
    jumpers = jumpers[np.argsort(-epochs[jumpers], kind="stable")]
    landed = problem.most_epochs(held[jumpers] + 1, jumpers)
    tops = np.append(epochs[jumpers], window.most)
    bottoms = np.minimum.accumulate(np.append(window.fewest, landed))
    # The first of equals has the higher bottom.
    best = int(np.argmin(tops - bottoms))
    return Window(int(bottoms[best]), int(tops[best]))


def most_in_common(problem: Problem) -> int:
    """A: the most epochs that all can do with the total, or more than it, among them."""

    def enough(epochs: int) -> bool:
        return int(problem.most_samples(epochs).sum()) >= problem.total

    # Up to there, everybody has time for its lower bound.
    high = int(problem.most_epochs(problem.lower).min())
    return -first(lambda epochs: enough(-epochs), -high, -1)


def least_in_common(problem: Problem) -> int:
    """B: the fewest epochs that none need exceed with the total, or less than it, among them."""

    def enough(epochs: int) -> bool:
        fewest = np.maximum(problem.lower, problem.most_samples(epochs + 1) + 1)
        return int(fewest.sum()) <= problem.total

    # From there on, nobody needs more samples than its upper bound.
    low = int(problem.most_epochs(problem.upper).max())
    return first(enough, low, int(problem.most_epochs(problem.lower).max()))


def first(holds: Callable[[int], bool], low: int, high: int) -> int:
    """The least number for which it holds, as it does for `high` and from the first one on."""
    while low < high:
        middle = (low + high) // 2
        if holds(middle):
            high = middle
        else:
            low = middle + 1
    return low
