"""The states of a device, learnt from how long its own cycles took.

    states = States().seen(Observation(task="mnist", shards_per_s=2.1, bytes_per_s=9e6))
    states.usual()      # how likely each state is in the long run, and the rates in it
    states.predict()    # how likely each is in the next cycle, after the last one

A device is found, cycle by cycle, in one of a few states (idle, training or downloading for its
owner), each with a training rate for every task and a bandwidth: chapter 4 of D. J. Mays, "Data
Allocation and Benchmarking in Parallelized Mobile Edge Learning", MSc thesis, Queen's University,
2023. Which states there are and how many is told by nobody, so they are estimated.

What is planned with is an expected time, the sum of probability / rate over the states (Eq. 4.3).
A rate is therefore one over the mean of the times seen, never a mean of rates, which would promise
too much. For a single task the sum is then the mean time seen, whichever states were found and
however few cycles there are. Only accidents do not count: cycles unlike all others, fewer than one
in thirty, which would otherwise drag along every plan until they are forgotten.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, replace

import numpy as np

from axon.devices import mixture
from axon.errors import ConfigurationError
from axon.values import check_positive, check_whole

_PRIOR_CHANGES = 1.0
"""As many changes out of each state are taken as seen, to states as they usually are."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Observation:
    """What a device saw of itself in one cycle; None where there was nothing to be seen."""

    task: str
    shards_per_s: float | None
    """For one pass."""
    bytes_per_s: float | None

    def __post_init__(self) -> None:
        if not isinstance(self.task, str) or not 0 < len(self.task) <= 1000:
            raise ConfigurationError("task of an observation must be a short text")
        if self.shards_per_s is None and self.bytes_per_s is None:
            raise ConfigurationError("an observation needs at least one of its two rates")
        for name in ("shards_per_s", "bytes_per_s"):
            if getattr(self, name) is not None:
                check_positive(name, getattr(self, name))


@dataclass(frozen=True, slots=True, kw_only=True)
class StateEstimate:
    """One state of a device, as far as its cycles tell."""

    probability: float
    bytes_per_s: float | None
    """None as long as no download was seen."""
    shards_per_s: Mapping[str, float]
    """For one pass, by task: every task that was seen to train, in this state or another."""


@dataclass(frozen=True, slots=True, kw_only=True)
class States:
    """The cycles that a device remembers, from which its states are estimated.

    The newest count most, since owners change their habits and devices get warm: the weight of a
    cycle halves with every `half_life` that come after it, and of more than `window` the oldest
    is forgotten.
    """

    observations: tuple[Observation, ...] = ()
    """In the order of the cycles."""
    window: int = 200
    half_life: float | None = 100.0
    """In cycles; None lets all that are remembered count alike."""

    def __post_init__(self) -> None:
        check_whole("window", self.window, least=1)
        if self.half_life is not None:
            check_positive("half_life", self.half_life)
        object.__setattr__(self, "observations", tuple(self.observations[-self.window :]))

    def seen(self, observation: Observation) -> States:
        """The same after one more cycle."""
        return replace(self, observations=(*self.observations, observation))

    def usual(self) -> tuple[StateEstimate, ...]:
        """The states, fastest first, with the part of the cycles in which each is found.

        It is the stationary distribution, also where an owner stays in a state for a while: use it
        to plan many cycles, or one of which nobody knows when it will be. Nothing before the first
        cycle; one state until there are enough to tell two apart.
        """
        if not self.observations:
            return ()
        cycles = self._points()
        found = mixture.fit(cycles)
        return self._estimates(cycles, found, found.probabilities)

    def predict(self) -> tuple[StateEstimate, ...]:
        """The same states, as likely as they are in the next cycle after the last one seen.

        Differs from `usual` only where states were seen to depend on the one before, by Schwarz's
        criterion on the changes from cycle to cycle.
        """
        if not self.observations:
            return ()
        cycles = self._points()
        found = mixture.fit(cycles)
        return self._estimates(cycles, found, _after_last(cycles, found))

    def _points(self) -> mixture.Points:
        tasks = self._tasks()
        rates = [
            [math.nan if rate is None else rate for rate in (one.shards_per_s, one.bytes_per_s)]
            for one in self.observations
        ]
        ages = np.arange(len(rates) - 1, -1, -1)
        return mixture.points(
            [tasks[one.task] for one in self.observations],
            np.array(rates).T,
            np.exp2(-ages / (self.half_life or math.inf)),
        )

    def _tasks(self) -> dict[str, int]:
        """Their numbers, by name and not by their first cycle: when they came changes nothing."""
        names = sorted({one.task for one in self.observations})
        return {name: number for number, name in enumerate(names)}

    def _estimates(
        self, cycles: mixture.Points, found: mixture.Fit, probabilities: mixture.Array
    ) -> tuple[StateEstimate, ...]:
        rates = mixture.rates(cycles, found)
        often = cycles.sums(np.ones((len(self.observations), 1)))[0, :, :, 0]
        # A state has one bandwidth: that of the tasks' downloads as often as each was seen.
        bandwidth = often[1].sum() / (often[1][:, None] / rates[1]).sum(axis=0).clip(1e-300)
        trained = {name: rates[0, n] for name, n in self._tasks().items() if often[0, n]}
        order = np.argsort(-found.borrowed.mean(axis=1).sum(axis=0), kind="stable")
        return tuple(
            StateEstimate(
                probability=float(probabilities[state]),
                bytes_per_s=float(bandwidth[state]) if often[1].any() else None,
                shards_per_s={name: float(rate[state]) for name, rate in trained.items()},
            )
            for state in order
        )


def _after_last(cycles: mixture.Points, found: mixture.Fit) -> mixture.Array:
    """How likely each state is in the cycle after the last one."""
    usual, parts = found.probabilities, found.parts
    changes = (parts[:-1] * cycles.weights[1:, None]).T @ parts[1:]
    total = changes.sum()
    out_of, into = changes.sum(axis=1, keepdims=True), changes.sum(axis=0)
    alone = out_of * into / max(total, 1e-300)
    happened = changes > 1e-9
    gain = (changes[happened] * np.log(changes[happened] / alone[happened])).sum()
    if gain <= 0.5 * (len(usual) - 1) ** 2 * math.log(max(total, 1.0)):
        return usual
    follow = (changes + _PRIOR_CHANGES * usual) / (out_of + _PRIOR_CHANGES)
    # As far as the last cycle was an accident, it tells nothing of the next.
    last = parts[-1] + (1.0 - parts[-1].sum()) * usual
    return np.asarray(last @ follow)
