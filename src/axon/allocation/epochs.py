"""How long samples and epochs take a learner, and, the other way round, how many fit in a period.

Everything is decided by one expression in floating point, C² τ d + C¹ d + C⁰ from left to right
(Eq. 5 of Mohammad and Sorour). Rounding keeps the order of numbers, so it never falls as τ or d
grows, and "the most that fit" has one answer, which is the same for whoever checks it.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from axon.errors import ConfigurationError
from axon.values import check_amount, check_positive, check_whole

Whole = NDArray[np.int64]
Real = NDArray[np.float64]
Those = slice | NDArray[np.intp]
Count = int | Whole

LIMIT = 2**53
"""Whole numbers beyond it are not floating-point numbers any more."""

ALL = slice(None)


class Infeasible(ConfigurationError):
    """The period and the bounds leave no plan: only `least` to `most` samples are within reach.

    They are those of one `learner`, counted from 0, or of all together where that is None.
    """

    def __init__(
        self, message: str, *, least: int, most: int, learner: int | None = None, hint: str
    ) -> None:
        super().__init__(message, hint=hint)
        self.least = least
        self.most = most
        self.learner = learner


def taken_s(each: Real, once: Real, fixed: Real, epochs: Count, samples: Count) -> Real:
    """How long so many epochs of so many samples take: the one expression."""
    return each * epochs * samples + once * samples + fixed


@dataclass(frozen=True, slots=True, kw_only=True)
class EpochTime:
    """What samples and epochs cost one learner: τ epochs of d samples take C² τ d + C¹ d + C⁰."""

    per_sample_epoch_s: float
    """C²: training."""
    per_sample_s: float = 0.0
    """C¹: fetching the sample."""
    fixed_s: float = 0.0
    """C⁰: the model, there and back."""

    def __post_init__(self) -> None:
        check_positive("per_sample_epoch_s", self.per_sample_epoch_s)
        check_amount("per_sample_s", self.per_sample_s)
        check_amount("fixed_s", self.fixed_s)

    def once_s(self, samples: int) -> float:
        """How long one epoch of so many samples takes, with all that belongs to it."""
        each, once = np.asarray(self.per_sample_epoch_s), np.asarray(self.per_sample_s)
        return float(taken_s(each, once, np.asarray(self.fixed_s), epochs=1, samples=samples))


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Problem:
    """All learners at once: their times and bounds as arrays, and what they are to share.

    `pose` makes one that has a solution: every learner can do `lower` and `upper` samples once
    within the period, and the total lies between the two sums.
    """

    per_sample_epoch_s: Real
    per_sample_s: Real
    fixed_s: Real
    lower: Whole
    upper: Whole
    total: int
    period_s: float
    cap: int = LIMIT
    """Nobody does more epochs, whatever the time. That leaves epochs to fall as samples grow, which
    is all that the search counts on."""

    def most_samples(self, epochs: Count, those: Those = ALL) -> Whole:
        """The most samples, up to `upper`, of which so many epochs fit; 0 where not one does."""
        each, once, fixed = self._times(those)
        with np.errstate(all="ignore"):  # Beyond all numbers is beyond the period, too.
            guess = (self.period_s - fixed) / (each * epochs + once)
            found = _largest(
                lambda samples: taken_s(each, once, fixed, epochs, samples) <= self.period_s,
                guess,
                self.upper[those],
            )
        return np.where(np.asarray(epochs) > self.cap, 0, found)

    def most_epochs(self, samples: Whole, those: Those = ALL) -> Whole:
        """The most epochs of so many samples that fit, up to the cap; 0 where not one does."""
        each, once, fixed = self._times(those)
        with np.errstate(all="ignore"):
            guess = (self.period_s - fixed - once * samples) / (each * samples)
            found = _largest(
                lambda epochs: taken_s(each, once, fixed, epochs, samples) <= self.period_s,
                guess,
                np.full_like(samples, min(self.cap, LIMIT)),
            )
        if (found == LIMIT).any():
            raise ConfigurationError(
                f"per_sample_epoch_s of {each[found.argmax()]:g} leaves time for more epochs than "
                f"can be counted in a period of {self.period_s:g} s",
                hint="bound them with most_epochs",
            )
        return found

    def _times(self, those: Those) -> tuple[Real, Real, Real]:
        return self.per_sample_epoch_s[those], self.per_sample_s[those], self.fixed_s[those]


def _largest(fits: Callable[[Whole], NDArray[np.bool_]], guess: Real, most: Whole) -> Whole:
    """The largest numbers from 0 to `most` that fit, each searched for from its guess.

    Nearly always a guess is right and two looks show it. It can be far off where the rounding of a
    large fixed time swallows small ones, hence strides that double and a bisection at the end.
    """
    # A guess may be no number or infinite: these two bring it between the bounds all the same.
    low = np.fmin(np.fmax(guess, 0.0), most).astype(np.int64)
    stride = 1
    while (over := (low > 0) & ~fits(low)).any():
        low = np.where(over, np.maximum(low - stride, 0), low)
        stride *= 2
    high, stride = low + 1, 1
    while (under := (high <= most) & fits(high)).any():
        low = np.where(under, high, low)
        high = np.where(under, high + stride, high)
        stride *= 2
    high = np.minimum(high, most + 1)
    while (high - low > 1).any():
        middle = (low + high) // 2
        fitting = fits(middle)
        low, high = np.where(fitting, middle, low), np.where(fitting, high, middle)
    return low


def pose(
    times: Sequence[EpochTime],
    *,
    total: int,
    period_s: float,
    lower: int | Sequence[int],
    upper: int | Sequence[int] | None,
    most_epochs: int | None = None,
) -> Problem:
    """The problem in arrays, once it is clear that it has a solution.

    Raises `Infeasible` otherwise, with the learner that has no time for its least share, or with
    the totals that are within reach. The period may be infinite.
    """
    check_whole("total", total, least=1)
    if most_epochs is not None:
        check_whole("most_epochs", most_epochs, least=1)
    least, most = _bounds(times, lower, upper)
    problem = Problem(
        per_sample_epoch_s=np.array([time.per_sample_epoch_s for time in times], np.float64),
        per_sample_s=np.array([time.per_sample_s for time in times], np.float64),
        fixed_s=np.array([time.fixed_s for time in times], np.float64),
        lower=np.array(least, np.int64),
        upper=np.array(most, np.int64),
        total=total,
        period_s=float(period_s),
        cap=LIMIT if most_epochs is None else most_epochs,
    )
    return _reachable(problem)


def _reachable(problem: Problem) -> Problem:
    """The same with upper bounds that can be reached; raises unless the total can be as well."""
    held = problem.most_samples(1)
    short = np.flatnonzero(held < problem.lower)
    if short.size:
        raise Infeasible(
            f"learner {short[0]} cannot do 1 epoch of {problem.lower[short[0]]} samples within "
            f"{problem.period_s:g} s, at most of {held[short[0]]}",
            least=0,
            most=int(held[short[0]]),
            learner=int(short[0]),
            hint="give it a longer period or a smaller lower bound, or leave it out",
        )
    least, most = sum(problem.lower.tolist()), sum(held.tolist())
    if not least <= problem.total <= most:
        span = f"within {problem.period_s:g} s" if problem.period_s < math.inf else "in any time"
        raise Infeasible(
            f"total must be from {least} to {most}, which {len(held)} learners can do {span}, "
            f"got {problem.total}",
            least=least,
            most=most,
            hint="change the total, the period or the bounds",
        )
    if problem.total > 2**62 // len(held):  # Sums over all learners must stay whole numbers.
        raise ConfigurationError(
            f"total must be at most {2**62 // len(held)} for {len(held)} learners, "
            f"got {problem.total}"
        )
    # Nobody can have more than there is.
    return replace(problem, upper=np.minimum(held, problem.total))


def _bounds(
    times: Sequence[EpochTime], lower: int | Sequence[int], upper: int | Sequence[int] | None
) -> tuple[list[int], list[int]]:
    """A lower and an upper bound for each learner, checked."""
    if not times:
        raise ConfigurationError("times must be those of at least 1 learner, got none")
    for number, time in enumerate(times):
        if not isinstance(time, EpochTime):
            raise ConfigurationError(
                f"times of learner {number} must be an EpochTime, got {time!r}"
            )
    least = _each("lower", lower, len(times))
    most = _each("upper", LIMIT if upper is None else upper, len(times))
    most = [min(bound, LIMIT) for bound in most]
    for number, (few, many) in enumerate(zip(least, most, strict=True)):
        if few > many:
            raise ConfigurationError(
                f"upper of learner {number} must be at least its lower of {few}, got {many}"
            )
    return least, most


def _each(name: str, bound: int | Sequence[int], learners: int) -> list[int]:
    """One bound for all of them, or one for each."""
    if isinstance(bound, int):
        check_whole(name, bound, least=1)
        return [bound] * learners
    if isinstance(bound, str) or not isinstance(bound, Sequence) or len(bound) != learners:
        raise ConfigurationError(
            f"{name} must be a whole number, or one for each of {learners} learners, got {bound!r}"
        )
    for number, value in enumerate(bound):
        check_whole(f"{name} of learner {number}", value, least=1)
    return list(bound)
