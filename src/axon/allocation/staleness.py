"""Who trains how many samples for how many epochs, so that updates are as little stale as possible.

U. Mohammad and S. Sorour, "Adaptive Task Allocation for Asynchronous Federated Mobile Edge
Learning". All learners work for the same period T; learner k trains d_k samples for as many whole
epochs τ_k as fit, C² τ d + C¹ d + C⁰ <= T, and the staleness of two learners is the difference of
their epochs (Eq. 6). The greatest is made least, then the number of epochs largest, then the
average staleness (Eq. 13) small: the least of all where the epochs differ by 1 at most, and the
least of the plans on two levels that are tried where they differ by more, which is nearly that.

    allocate([EpochTime(per_sample_epoch_s=0.002), ...], total=60_000, period_s=15.0)
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Literal

import numpy as np

from axon.allocation.epochs import EpochTime as EpochTime  # noqa: PLC0414  (part of this face)
from axon.allocation.epochs import Infeasible as Infeasible  # noqa: PLC0414  (so is this)
from axon.allocation.epochs import Problem, Whole, pose
from axon.allocation.levels import even, even_out, gather, pair_sum
from axon.allocation.relaxation import apportion, relaxed, suggest_and_improve
from axon.allocation.windows import first, most_in_common, narrowest
from axon.errors import ConfigurationError
from axon.values import check_positive, check_whole

Method = Literal["exact", "relaxed", "sai"]
Bound = int | Sequence[int]


@dataclass(frozen=True, slots=True, kw_only=True)
class StalenessPlan:
    """How many samples and epochs each learner does, in the order of the learners."""

    samples: tuple[int, ...]
    epochs: tuple[int, ...]
    max_staleness: int
    average_staleness: float
    """The mean over all pairs of learners (Eq. 13); 0 for a single one."""


def allocate(
    times: Sequence[EpochTime],
    *,
    total: int,
    period_s: float,
    lower: Bound = 1,
    upper: Bound | None = None,
    most_epochs: int | None = None,
    method: Method = "exact",
) -> StalenessPlan:
    """The least stale way to train the total within the period, `lower` to `upper` samples each.

    Nobody does more than `most_epochs`, even with time for more; the paper has no such bound.

    "exact" finds the least staleness there is. "relaxed" and "sai" are the paper's: the optimum in
    real numbers, rounded; and what its stationary point suggests, improved step by step. Raises
    `Infeasible` where no plan exists, with the totals that would be within reach.
    """
    if method not in METHODS:
        raise ConfigurationError(f"method must be one of {', '.join(METHODS)}, got {method!r}")
    check_positive("period_s", period_s)
    problem = pose(
        times, total=total, period_s=period_s, lower=lower, upper=upper, most_epochs=most_epochs
    )
    samples = METHODS[method](problem)
    return _plan(samples, problem.most_epochs(samples))


def synchronous(
    times: Sequence[EpochTime],
    *,
    total: int,
    period_s: float,
    lower: Bound = 1,
    upper: Bound | None = None,
    most_epochs: int | None = None,
) -> StalenessPlan:
    """The same number of epochs for all, the largest that fits, to compare with.

    Each is given the same part of what it can hold beyond its lower bound, so that quick and slow
    have the same part of it to spare.
    """
    check_positive("period_s", period_s)
    problem = pose(
        times, total=total, period_s=period_s, lower=lower, upper=upper, most_epochs=most_epochs
    )
    epochs = most_in_common(problem)
    held = problem.most_samples(epochs)
    spare = held - problem.lower
    part = (total - int(problem.lower.sum())) / max(1, int(spare.sum()))
    samples = apportion(problem.lower + part * spare, replace(problem, upper=held))
    return _plan(samples, np.full_like(samples, epochs))


def eta(
    times: Sequence[EpochTime], *, total: int, period_s: float, most_epochs: int | None = None
) -> StalenessPlan:
    """Equal task allocation: as many samples for all, the first having one more, to compare with.

    Each does the most epochs that fit; raises `Infeasible` where one has no time for any.
    """
    check_positive("period_s", period_s)
    check_whole("total", total, least=max(1, len(times)))
    each, over = divmod(total, max(1, len(times)))
    counts = [each + (number < over) for number in range(len(times))]
    problem = pose(
        times, total=total, period_s=period_s, lower=counts, upper=counts, most_epochs=most_epochs
    )
    return _plan(problem.lower, problem.most_epochs(problem.lower))


def shortest(
    times: Sequence[EpochTime], *, total: int, lower: Bound = 1, upper: Bound | None = None
) -> StalenessPlan:
    """One epoch for all, over as soon as it can be: for where no period is given, or none suffices.

    The least period is found among all floating-point numbers, so it is the least there is; within
    it the samples are as even as they can be.
    """
    problem = pose(times, total=total, period_s=math.inf, lower=lower, upper=upper)

    def within(bits: int) -> Problem:
        return replace(problem, period_s=float(np.int64(bits).view(np.float64)))

    def suffices(bits: int) -> bool:
        held = within(bits).most_samples(1)
        return bool((held >= problem.lower).all()) and int(held.sum()) >= total

    # Read as whole numbers, the bits of numbers from 0 to infinity are in the same order as they.
    bits = first(suffices, 0, int(np.float64(math.inf).view(np.int64)))
    samples = even(problem.lower, within(bits).most_samples(1), total)
    return _plan(samples, np.ones_like(samples))


def _exact(problem: Problem) -> Whole:
    window = narrowest(problem)
    samples = gather(problem, window)
    if window.width <= 1:
        return samples
    # Of wide windows `gather` does not promise the best, but neither of these shall beat it.
    others = [even_out(problem, method(problem)) for method in (relaxed, suggest_and_improve)]
    return min((samples, *others), key=lambda each: _rank(problem.most_epochs(each)))


def _rank(epochs: Whole) -> tuple[int, int, int]:
    """What plans are compared by: staleness, fewest epochs, average staleness."""
    return int(epochs.max() - epochs.min()), -int(epochs.min()), pair_sum(epochs)


METHODS: Mapping[Method, Callable[[Problem], Whole]] = {
    "exact": _exact,
    "relaxed": relaxed,
    "sai": suggest_and_improve,
}


def _plan(samples: Whole, epochs: Whole) -> StalenessPlan:
    pairs = len(epochs) * (len(epochs) - 1) // 2
    return StalenessPlan(
        samples=tuple(samples.tolist()),
        epochs=tuple(epochs.tolist()),
        max_staleness=int(epochs.max() - epochs.min()),
        average_staleness=pair_sum(epochs) / max(1, pairs),
    )
