"""A mixture of states, fitted to the logarithms of what a device was seen to do.

Two things are seen of every cycle, how fast it trained and how fast it downloaded, either of which
may be missing. Noise on a rate multiplies it, so a state is a level on the logarithm of each, the
noise about it normal and the same in all states. A level belongs to a task as well,

    level[task, state] ~ Normal(base[task] + slowdown[state], spread^2),

so a task that was never seen in a state borrows that state's slowdown from those that were. A task
whose cycles do not tell in which state they were keeps its own mean time in all of them: to take
the usual state for granted would make the slow cycles slower still.

The levels are found by expectation maximisation from splits of the states found before; the number
of states is the one with the most evidence, the likelihood less what each level costs (Schwarz's
criterion, with the observations behind that level for their number).
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

Array = NDArray[np.float64]

MOST_STATES = 4
CYCLES_PER_STATE = 3
"""So many cycles must have been seen for each state that is looked for."""
RAREST = 1.0 / 30.0
"""What happens more rarely is an accident and no state. One cycle out of fewer than 30 may well be
a state, so until then there are no accidents."""

_LEAST_NOISE = 0.05
_USUAL_NOISE = 0.1
_NOISE_TRUST = 4.0
"""As many observations of the usual noise are taken as seen before the first."""
# One over the variances of logarithms, by axis: training, downloading. Tasks differ in how fast
# they train by any factor, in what a state does to that by a factor of e; they share one link.
_BASE_TRUST = np.array([10.0, 0.5])[:, None, None] ** -2
_LEVEL_VARIANCE = np.array([1.0, 0.3])[:, None, None] ** 2
_LEVEL_TRUST = 1.0 / _LEVEL_VARIANCE
_SLOWDOWN_TRUST = 10.0**-2
_ACCIDENT = 0.01
_ACCIDENT_DENSITY = 0.1
"""Accidents are spread evenly over a factor of e^10."""
_MOST_STEPS = 8
"""More would only share out cycles between states too many, which moves no mean time."""
_SETTLED = 0.05
_MOST_TRIES = 2
"""Cuts that are tried for one more state; the best one may have cut off mere accidents."""
_LARGEST_LOG = 700.0
"""What a float can hold, with room for the sum of some hundreds."""


@dataclass(frozen=True, slots=True)
class Points:
    """What was seen, ready for the fit: axis 0 is training, axis 1 downloading."""

    tasks: NDArray[np.intp]
    logs: Array
    """2 x cycles, from the centre, with 0 where nothing was seen."""
    seen: NDArray[np.bool_]
    """2 x cycles."""
    centre: Array
    """The mean logarithm on each axis; sums of squares from it keep their digits."""
    weights: Array
    """How much each cycle counts, at most 1."""
    design: Array
    """Cycles x (3 x 2 x tasks): 1, the logarithm and its square, each in the column of its axis and
    task, so that one product gives every sum and another every likelihood."""

    @property
    def total(self) -> float:
        """How many cycles of full weight they amount to."""
        return float(self.weights.sum())

    def sums(self, parts: Array) -> Array:
        """3 x 2 x tasks x states: how many, their sum and that of their squares."""
        states = parts.shape[1]
        return (self.design.T @ (parts * self.weights[:, None])).reshape(3, 2, -1, states)


def points(tasks: Sequence[int], rates: Array, weights: Array) -> Points:
    """Cycles by the number of their task and their two rates, NaN for one that was not seen."""
    seen = np.isfinite(rates)
    logs = np.log(np.where(seen, rates, 1.0))
    centre = logs.sum(axis=1) / np.maximum(seen.sum(axis=1), 1)
    logs = np.where(seen, logs - centre[:, None], 0.0)
    numbers = np.asarray(tasks, dtype=np.intp)
    own = numbers == np.arange(numbers.max() + 1)[:, None]
    columns = np.stack([seen, logs, logs**2])[:, :, None, :] * own
    design = columns.reshape(-1, len(numbers)).T
    return Points(numbers, logs, seen, centre, weights, np.ascontiguousarray(design))


@dataclass(frozen=True, slots=True)
class Fit:
    """States and how well they explain what was seen."""

    probabilities: Array
    borrowed: Array
    """2 x tasks x states: the level that a task would have by the slowdowns of the states."""
    levels: Array
    """The same, by what was seen of the task itself as far as it was."""
    trust: Array
    """How many observations stand behind each level."""
    noise: Array
    """Variance on each axis."""
    parts: Array
    """Cycles x states: how much of each cycle belongs to each state; an accident to none."""
    evidence: float = -np.inf


def fit(cycles: Points) -> Fit:
    """The states with the most evidence."""
    most = min(MOST_STATES, max(1, int(cycles.total) // CYCLES_PER_STATE))
    current = best = _settle(cycles, np.ones((len(cycles.tasks), 1)))
    for states in range(2, most + 1):
        for labels in _splits(cycles, current)[:_MOST_TRIES]:
            tried = _settle(cycles, np.eye(states)[labels])
            if tried.evidence > -np.inf:
                break
        else:
            return best
        current = tried
        best = max(best, current, key=lambda one: one.evidence)
    return best


def rates(cycles: Points, found: Fit) -> Array:
    """2 x tasks x states: one over the mean of the times seen, or as borrowed where none was."""
    noise = found.noise[:, None, None]
    weighed = found.parts * cycles.weights[:, None] * cycles.seen[:, :, None]
    slower = _exp(found.levels[:, cycles.tasks] - cycles.logs[:, :, None]) * weighed
    own = cycles.tasks == np.arange(found.levels.shape[1])[:, None]
    # Where little was seen, times are as much longer than the time at the level as they are in all:
    # noise in a logarithm makes the mean time longer than the time at the mean logarithm.
    usual = slower.sum(axis=(1, 2)) / found.trust.sum(axis=(1, 2)).clip(1e-300)
    usual = np.where(usual > 0.0, usual, 1.0)[:, None, None]
    belief = noise * _LEVEL_TRUST
    longer = (own @ slower + belief * usual) / (found.trust + belief)
    return _exp(found.levels + cycles.centre[:, None, None] - np.log(longer))


def _exp(logs: Array) -> Array:
    return np.asarray(np.exp(np.clip(logs, -_LARGEST_LOG, _LARGEST_LOG)))


def _settle(cycles: Points, parts: Array) -> Fit:
    """Expectation maximisation from parts until the likelihood settles."""
    noise = np.full(2, _USUAL_NOISE**2)
    before = -np.inf
    for _ in range(_MOST_STEPS):
        found = _maximised(cycles, parts, noise)
        parts, likelihood = _expected(cycles, found)
        noise = found.noise
        if likelihood - before < _SETTLED:
            break
        before = likelihood
    found = _maximised(cycles, parts, noise)
    return replace(found, evidence=_evidence(cycles, found, likelihood))


def _maximised(cycles: Points, parts: Array, before: Array) -> Fit:
    """The most likely states, given which cycle belongs to which and the noise so far."""
    trust, sums, squares = cycles.sums(parts)
    noise = before[:, None, None]
    borrowed = _borrowed(trust, sums, noise)
    precision = trust / noise + _LEVEL_TRUST
    levels = (sums / noise + borrowed * _LEVEL_TRUST) / precision
    off = squares - 2.0 * levels * sums + levels**2 * trust
    # Each level was chosen by the same cycles, and takes up to one of them from the count.
    count = (trust - trust / (precision * noise)).sum(axis=(1, 2)) + _NOISE_TRUST
    variance = (off.sum(axis=(1, 2)) + _NOISE_TRUST * _USUAL_NOISE**2) / count
    occurrences = cycles.weights @ parts
    return Fit(
        probabilities=occurrences / occurrences.sum(),
        borrowed=borrowed,
        levels=levels,
        trust=trust,
        noise=np.maximum(variance, _LEAST_NOISE**2),
        parts=parts,
    )


def _borrowed(trust: Array, sums: Array, noise: Array) -> Array:
    """Each task's base plus each state's slowdown, by least squares over the levels seen."""
    means = sums / np.maximum(trust, 1e-300)
    certain = trust / (noise + trust * _LEVEL_VARIANCE)
    # The means are taken against the middle of all, since tasks are bound to it and not to zero.
    middle = (certain * means).sum(axis=(1, 2)) / np.maximum(certain.sum(axis=(1, 2)), 1e-300)
    means = means - middle[:, None, None]
    # The bases follow from the slowdowns; put in, they leave as many equations as states.
    part = certain / (certain.sum(axis=2, keepdims=True) + _BASE_TRUST)
    matrix = -certain.transpose(0, 2, 1) @ part
    diagonal = np.arange(trust.shape[2])
    matrix[:, diagonal, diagonal] += certain.sum(axis=1) + _SLOWDOWN_TRUST
    alone = (part * means).sum(axis=2, keepdims=True)
    right = (certain * (means - alone)).sum(axis=1)
    slowdown = np.linalg.solve(matrix, right[:, :, None]).transpose(0, 2, 1)
    base = alone - (part * slowdown).sum(axis=2, keepdims=True)
    return np.asarray(middle[:, None, None] + base + slowdown)


def _expected(cycles: Points, found: Fit) -> tuple[Array, float]:
    """How much of each cycle belongs to each state, and the likelihood of it all."""
    noise = found.noise[:, None, None]
    variance = noise + 1.0 / (found.trust / noise + _LEVEL_TRUST)
    slope = found.levels / variance
    constant = -0.5 * (found.levels * slope + np.log(2 * np.pi * variance))
    factors = np.stack([constant, slope, -0.5 / variance])
    joint = cycles.design @ factors.reshape(-1, len(found.probabilities))
    joint += np.log(np.maximum(found.probabilities, 1e-300))
    highest = joint.max(axis=1)
    accident = np.zeros_like(highest)
    if cycles.total >= 1.0 / RAREST:
        # Thinner still where noise is wide, or all would be accidents rather than one wide state.
        density = _ACCIDENT_DENSITY / np.maximum(1.0, np.sqrt(found.noise))
        log_accident = math.log(_ACCIDENT) + np.log(density) @ cycles.seen
        highest = np.maximum(highest, log_accident)
        accident = np.exp(log_accident - highest)
    odds = np.exp(joint - highest[:, None])
    total = odds.sum(axis=1) + accident
    return odds / total[:, None], float((np.log(total) + highest) @ cycles.weights)


def _evidence(cycles: Points, found: Fit, likelihood: float) -> float:
    """The likelihood, less what it cost to choose the levels and the probabilities."""
    states = len(found.probabilities)
    if states > 1 and (cycles.weights @ found.parts).min() < RAREST * cycles.total:
        return -np.inf
    ratio = _LEVEL_VARIANCE / found.noise[:, None, None]
    levels = np.log1p(found.trust * ratio).sum()
    levels += ((found.levels - found.borrowed) ** 2 * _LEVEL_TRUST).sum()
    return likelihood - 0.5 * float(levels) - 0.5 * (states - 1) * float(np.log(cycles.total))


def _splits(cycles: Points, found: Fit) -> list[NDArray[np.intp]]:
    """Each cycle's state after one more was cut from another on one axis: the best cuts first."""
    states = len(found.probabilities)
    labels: NDArray[np.intp] = found.parts.argmax(axis=1)
    cuts = []
    for axis in range(2):
        weights = cycles.weights * cycles.seen[axis]
        off = cycles.logs[axis] - found.levels[axis][cycles.tasks, labels]
        squares = weights @ off**2
        for state in range(states):
            (members,) = np.nonzero((labels == state) & cycles.seen[axis])
            members = members[np.argsort(off[members], kind="stable")]
            gain, at = _cut(off[members], weights[members], RAREST * cycles.total)
            if gain > 1e-9:
                # More likely as the noise shrinks to what is left, less as there are two to choose.
                left = max(squares - gain, weights.sum() * _LEAST_NOISE**2)
                likelier = 0.5 * weights.sum() * np.log(squares / left)
                likelier -= _entropy(weights[members[:at]].sum(), weights[members[at:]].sum())
                cuts.append((likelier, members[:at]))
    cuts.sort(key=lambda one: -one[0])
    return [_relabelled(labels, members, states) for _, members in cuts]


def _entropy(one: float, other: float) -> float:
    """What it costs to say of so many cycles to which of two states each belongs."""
    return one * math.log((one + other) / one) + other * math.log((one + other) / other)


def _relabelled(
    labels: NDArray[np.intp], members: NDArray[np.intp], state: int
) -> NDArray[np.intp]:
    changed = labels.copy()
    changed[members] = state
    return changed


def _cut(ordered: Array, weights: Array, least: float) -> tuple[float, int]:
    """Where to cut ascending numbers so that they lie closest to two means, and what is gained."""
    if not len(ordered):
        return 0.0, 0
    mass, sums = np.cumsum(weights), np.cumsum(weights * ordered)
    (cuts,) = np.nonzero((mass >= least) & (mass[-1] - mass >= least))
    if not len(cuts):
        return 0.0, 0
    left, rest = mass[cuts], sums[-1] - sums[cuts]
    gain = sums[cuts] ** 2 / left + rest**2 / (mass[-1] - left) - sums[-1] ** 2 / mass[-1]
    best = int(gain.argmax())
    return float(gain[best]), int(cuts[best]) + 1
