"""The paper's two ways to least staleness, kept to compare with: relaxed, and suggest and improve.

Both begin with the problem in real numbers (Eq. 8), where a learner with d samples does
τ(d) = (T - C⁰ - C¹ d) / (C² d) epochs. That is not convex, and the paper hands it to a general
solver. It does not need one: as τ falls when d grows, the low end of a window of epochs is possible
up to some number and the high end from some number on, each whatever the other one is, so two
bisections find the global optimum.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from axon.allocation.epochs import Problem, Real, Whole
from axon.allocation.levels import even, pair_sum


def relaxed(problem: Problem) -> Whole:
    """The optimum in real numbers, rounded down, the rest going to the largest fractions."""
    return apportion(optimum(problem), problem)


def suggest_and_improve(problem: Problem) -> Whole:
    """What stationarity suggests, rounded down, improved for as long as a step helps."""
    return _improve(problem, apportion(suggestion(problem), problem))


def optimum(problem: Problem) -> Real:
    """Samples in real numbers with which the greatest difference in epochs is least.

    Where the bounds hold some learners apart, many plans share the optimum: all between the ends of
    the window. Solvers that come from the inside end in between, and so does this one.
    """
    quick, slow = epochs_of(problem, problem.lower), epochs_of(problem, problem.upper)
    fewest = _last(lambda epochs: _total(problem, epochs) >= problem.total, 1.0, quick.min())
    most = -_last(
        lambda epochs: _total(problem, -epochs) <= problem.total, -quick.max(), -slow.max()
    )
    lo, hi = _samples(problem, most), _samples(problem, fewest)
    between = hi.sum() - lo.sum()
    part = np.clip((problem.total - lo.sum()) / between, 0.0, 1.0) if between > 0.0 else 1.0
    found: Real = lo + part * (hi - lo)
    return found


def suggestion(problem: Problem) -> Real:
    """The stationary point: Eq. 15 and 16 with the bounds of Eq. 8f.

    Every learner is at one of its bounds or at a number of epochs that all those in between have in
    common; there is one such number with which the samples add up to the total.
    """
    quick = epochs_of(problem, problem.lower)
    common = _last(lambda epochs: _total(problem, epochs) >= problem.total, 1.0, quick.max())
    return _samples(problem, common)


def apportion(wanted: Real, problem: Problem) -> Whole:
    """Whole numbers near those wanted, within the bounds, that add up to the total.

    Rounded down, then one more for the largest fractions; what is still missing or too much, where
    bounds or rounding took it, is spread evenly.
    """
    floors = np.clip(np.floor(wanted), problem.lower, problem.upper).astype(np.int64)
    order = np.argsort(-(wanted - floors), kind="stable")
    order = order[floors[order] < problem.upper[order]]
    floors[order[: max(0, problem.total - int(floors.sum()))]] += 1
    if int(floors.sum()) <= problem.total:
        return even(floors, problem.upper, problem.total)
    return even(problem.lower, floors, problem.total)


def epochs_of(problem: Problem, samples: Whole | Real) -> Real:
    """τ(d) in real numbers; at least 1, which fits wherever rounding says that it does."""
    with np.errstate(over="ignore"):
        spare = problem.period_s - problem.fixed_s - problem.per_sample_s * samples
        return np.maximum(spare / (problem.per_sample_epoch_s * samples), 1.0)


def _samples(problem: Problem, epochs: float) -> Real:
    """d(τ) in real numbers, within the bounds."""
    with np.errstate(over="ignore"):
        slope = problem.per_sample_epoch_s * epochs + problem.per_sample_s
        wanted = (problem.period_s - problem.fixed_s) / slope
        return np.clip(wanted, problem.lower, problem.upper)


def _total(problem: Problem, epochs: float) -> float:
    return float(_samples(problem, epochs).sum())


def _last(holds: Callable[[float], bool], low: float, high: float) -> float:
    """The greatest number for which it holds, as it does for `low` and up to the last one."""
    if holds(high):
        return high
    while low < (middle := low + (high - low) / 2) < high:
        if holds(middle):
            low = middle
        else:
            high = middle
    return low


def _improve(problem: Problem, samples: Whole) -> Whole:
    """Samples go from who does the fewest epochs to who does the most, while that helps."""
    epochs = problem.most_epochs(samples)
    while (better := _step(problem, samples, epochs)) is not None:
        samples, epochs = better
    return samples


def _step(problem: Problem, samples: Whole, epochs: Whole) -> tuple[Whole, Whole] | None:
    """The samples and epochs after a step that helps, None where none does.

    It helps where the greatest difference in epochs falls, or stays and the average one falls. Who
    is at a bound can take or give nothing, so the next one does.
    """
    takers, givers = samples < problem.upper, samples > problem.lower
    if not takers.any() or not givers.any():
        return None
    most = np.flatnonzero(takers & (epochs == epochs[takers].max()))
    fewest = np.flatnonzero(givers & (epochs == epochs[givers].min()))
    # With so many samples more a learner does fewer epochs, with so many fewer it does more.
    falls = problem.most_samples(epochs[most], most) + 1 - samples[most]
    rises = samples[fewest] - problem.most_samples(epochs[fewest] + 1, fewest)
    pair = np.array([most[falls.argmin()], fewest[rises.argmin()]])
    if pair[0] == pair[1]:
        return None
    best, least = None, _score(epochs)
    for amount in (falls.min(), rises.min()):
        taken, left = samples[pair] + np.array([amount, -amount])
        if taken > problem.upper[pair[0]] or left < problem.lower[pair[1]]:
            continue
        trial, trial_epochs = samples.copy(), epochs.copy()
        trial[pair] = taken, left
        trial_epochs[pair] = problem.most_epochs(trial[pair], pair)
        if (score := _score(trial_epochs)) < least:
            best, least = (trial, trial_epochs), score
    return best


def _score(epochs: Whole) -> tuple[int, int]:
    return int(epochs.max() - epochs.min()), pair_sum(epochs)
