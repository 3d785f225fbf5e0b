"""How the total is spread inside a window of epochs, so that learners differ the least on average.

The sum of |τ_i - τ_j| over all pairs is Σ n (K - n) over the steps between epochs, n being the
learners above a step. Every term is concave in n, so learners should keep together: as many as
possible on one level, the others on a second one. Which two levels, and which learners leave the
one for the other, is what is searched here; for a window one step wide that finds the optimum.
"""

from __future__ import annotations

import operator
from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np

from axon.allocation.epochs import Problem, Whole
from axon.allocation.windows import Window, first

DISTANCES = (0, 1, 2, 3, 4, 6, 8, 12, 16, 32, 64, 128, 256, 512, 1024)
"""How far from where the total would have all of them the levels of a wide window are tried."""

PAIRS = 20
"""Of levels, that are tried at most: more found nothing better in thousands of small cases."""

WORK = 100_000
"""Learners times pairs of levels that are tried at most, but for the nearest three."""


@dataclass(frozen=True, slots=True)
class Ranges:
    """A fewest and a most samples for each learner."""

    fewest: Whole
    most: Whole

    def reversed(self) -> Ranges:
        """With the signs turned, so that taking away becomes adding."""
        return Ranges(-self.most, -self.fewest)


def gather(problem: Problem, window: Window) -> Whole:
    """Samples of each learner within the window, the total in all, the least stale on average.

    The least of all where the window is at most one step wide, and of the plans on two levels that
    are tried where it is wider.
    """
    within = Ranges(*window.samples(problem))
    plans = list(_on_two_levels(problem, window, within))
    best = min(plans, key=lambda samples: pair_sum(problem.most_epochs(samples)))
    return even_out(problem, best)


def even_out(problem: Problem, samples: Whole) -> Whole:
    """The same epochs for everybody, but samples as even as they can be.

    Whoever has few underfits (section III of the paper), so nobody should without need.
    """
    epochs = problem.most_epochs(samples)
    level = _level(problem, epochs, Ranges(problem.lower, problem.upper))
    return even(level.fewest, level.most, problem.total)


def even(fewest: Whole, most: Whole, total: int) -> Whole:
    """Whole numbers between the bounds that add up to the total, as equal as they can be."""

    def exceeds(level: int) -> bool:
        return int(np.clip(level, fewest, most).sum()) > total

    # One beyond the greatest bound stands for "nothing exceeds it".
    level = first(exceeds, int(fewest.min()), int(most.max()) + 1) - 1
    numbers: Whole = np.clip(level, fewest, most)
    growing = np.flatnonzero((numbers == level) & (level < most))
    numbers[growing[: total - int(numbers.sum())]] += 1
    return numbers


def pair_sum(epochs: Whole) -> int:
    """Σ |τ_i - τ_j| over all pairs, exactly."""
    steps = np.diff(np.sort(epochs))
    places = np.flatnonzero(steps)
    weights = (places + 1) * (len(epochs) - 1 - places)
    # Python's whole numbers do not overflow.
    return sum(map(operator.mul, steps[places].tolist(), weights.tolist()))


def _on_two_levels(problem: Problem, window: Window, within: Ranges) -> Iterator[Whole]:
    """Plans in which all but one learner are as near as they can be to one of two levels.

    The sum over pairs is concave in the number that leave the first level, so only the two ends
    matter: as few as possible at the low level, or as few as possible at the high one.
    """
    near = {}
    for low, high in _pairs(problem, window, within):
        for level in (low, high):
            if level not in near:
                near[level] = _nearest(problem, level, within)
        yield _fewest_moved(near[high], near[low], problem.total)
        yield -_fewest_moved(near[low].reversed(), near[high].reversed(), -problem.total)


def _pairs(problem: Problem, window: Window, within: Ranges) -> list[tuple[int, int]]:
    """Pairs of levels between which the total lies, the closest together first."""

    def too_high(level: int) -> bool:
        return int(_nearest(problem, level, within).most.sum()) < problem.total

    # With all of them there they hold the total or more, and one higher they no longer do.
    middle = first(too_high, window.fewest, window.most + 1) - 1
    lows = [middle - far for far in DISTANCES if middle - far >= window.fewest]
    highs = [middle + 1 + far for far in DISTANCES if middle + 1 + far <= window.most]
    if not highs or int(_nearest(problem, middle, within).fewest.sum()) <= problem.total:
        highs.append(middle)
    pairs = sorted(((low, high) for low in lows for high in highs), key=lambda p: p[1] - p[0])
    return pairs[: max(3, min(PAIRS, WORK // len(problem.lower)))]


def _nearest(problem: Problem, level: int, within: Ranges) -> Ranges:
    """The samples with which each does the number of epochs nearest to a level."""
    above = np.clip(problem.most_samples(level), within.fewest, within.most)
    below = np.minimum(above + 1, within.most)
    over, under = problem.most_epochs(above), problem.most_epochs(below)
    epochs = np.where(abs(over - level) <= abs(under - level), over, under)
    return _level(problem, epochs, within)


def _level(problem: Problem, epochs: Whole, within: Ranges) -> Ranges:
    """All the samples with which each does so many epochs."""
    fewest = np.maximum(problem.most_samples(epochs + 1) + 1, within.fewest)
    return Ranges(fewest, np.minimum(problem.most_samples(epochs), within.most))


def _fewest_moved(here: Ranges, there: Ranges, total: int) -> Whole:
    """The total, with as few learners as possible moved up to `there`.

    Those that gain the most by it go first, so no smaller number of them could suffice. The last of
    them goes only as far as it must, which is beyond `here`, as those before it did not suffice; if
    nothing lies between the two levels, that is `there`.
    """
    gains = there.most - here.most
    missing = total - int(here.most.sum())
    if missing <= 0:
        return even(here.fewest, here.most, total)
    order = np.argsort(-gains, kind="stable")
    gained = np.cumsum(gains[order])
    last = int(np.searchsorted(gained, missing))
    samples = here.most.copy()
    samples[order[: last + 1]] = there.most[order[: last + 1]]
    samples[order[last]] -= int(gained[last]) - missing
    return samples
