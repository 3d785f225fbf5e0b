"""What staleness-aware allocation is checked against: every way to share the samples, tried."""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from random import Random

from axon.allocation.staleness import EpochTime, StalenessPlan

Rank = tuple[int, int, int]
"""Max staleness, fewest epochs with the sign turned, and the sum of staleness over all pairs."""


@dataclass(frozen=True)
class Case:
    """One problem."""

    times: tuple[EpochTime, ...]
    total: int
    period_s: float
    lower: int | tuple[int, ...] = 1
    upper: int | tuple[int, ...] | None = None

    @property
    def bounds(self) -> list[tuple[int, int]]:
        """Of each learner."""
        lower, upper = self.lower, self.total if self.upper is None else self.upper
        lows = [lower] * len(self.times) if isinstance(lower, int) else lower
        highs = [upper] * len(self.times) if isinstance(upper, int) else upper
        return list(zip(lows, highs, strict=True))


def seconds(time: EpochTime, epochs: int, samples: int) -> float:
    """Eq. 5, as anybody would write it."""
    return time.per_sample_epoch_s * epochs * samples + time.per_sample_s * samples + time.fixed_s


def most_epochs(time: EpochTime, samples: int, period_s: float) -> int:
    """Counted up one by one, from just below where they should be."""
    about = (period_s - time.fixed_s - time.per_sample_s * samples) / time.per_sample_epoch_s
    epochs = max(0, int(about / samples) - 3)
    assert epochs == 0 or seconds(time, epochs, samples) <= period_s
    while seconds(time, epochs + 1, samples) <= period_s:
        epochs += 1
    return epochs


def rank(epochs: Sequence[int]) -> Rank:
    """What plans are compared by."""
    apart = sum(abs(one - other) for one, other in itertools.combinations(epochs, 2))
    return max(epochs) - min(epochs), -min(epochs), apart


def every_split(case: Case, total: int) -> Iterator[tuple[int, ...]]:
    """Every way to share that total."""
    *others, (low, high) = case.bounds
    for counts in itertools.product(*(range(low, high + 1) for low, high in others)):
        if low <= total - sum(counts) <= high:
            yield *counts, total - sum(counts)


def every_plan(case: Case, total: int) -> Iterator[tuple[int, ...]]:
    """The epochs of every way in which everybody has time for one."""
    tables = [
        {count: most_epochs(time, count, case.period_s) for count in range(low, high + 1)}
        for time, (low, high) in zip(case.times, case.bounds, strict=True)
    ]
    for counts in every_split(case, total):
        epochs = tuple(table[count] for table, count in zip(tables, counts, strict=True))
        if min(epochs) >= 1:
            yield epochs


def best(case: Case) -> Rank | None:
    """The best rank of all plans, None where there is no plan."""
    return min((rank(epochs) for epochs in every_plan(case, case.total)), default=None)


def check(plan: StalenessPlan, case: Case) -> Rank:
    """Its rank, once everything a plan promises is seen to hold."""
    assert sum(plan.samples) == case.total
    assert all(
        low <= count <= high for count, (low, high) in zip(plan.samples, case.bounds, strict=True)
    )
    wanted = [
        most_epochs(time, count, case.period_s)
        for time, count in zip(case.times, plan.samples, strict=True)
    ]
    assert list(plan.epochs) == wanted
    assert min(wanted) >= 1
    found = rank(plan.epochs)
    pairs = max(1, len(wanted) * (len(wanted) - 1) // 2)
    assert plan.max_staleness == found[0]
    assert plan.average_staleness == found[2] / pairs
    return found


def cases(seed: int, count: int) -> Iterator[Case]:
    """Small problems of all kinds; about half of them have a solution."""
    random = Random(seed)
    for _ in range(count):
        learners = random.randint(1, 4)
        total = random.randint(learners, 14 if learners < 4 else 10)
        yield _case(random, learners, total)


def _case(random: Random, learners: int, total: int) -> Case:
    lower: int | tuple[int, ...] = random.randint(1, 2)
    upper: int | tuple[int, ...] | None = random.choice([None, random.randint(3, 9)])
    if random.random() < 0.5:
        lower = tuple(random.randint(1, 3) for _ in range(learners))
        if random.random() < 0.7:
            upper = tuple(low + random.randint(0, 6) for low in lower)
    # Half of them in whole numbers, where times meet the period exactly.
    whole = random.random() < 0.5
    period_s = float(random.randint(5, 80)) if whole else 10 ** random.uniform(0.5, 1.7)
    times = tuple(_whole(random) if whole else _real(random) for _ in range(learners))
    return Case(times, total, period_s, lower, upper)


def _whole(random: Random) -> EpochTime:
    return EpochTime(
        per_sample_epoch_s=float(random.randint(1, 5)),
        per_sample_s=float(random.randint(0, 2)),
        fixed_s=float(random.randint(0, 4)),
    )


def _real(random: Random) -> EpochTime:
    return EpochTime(
        per_sample_epoch_s=10 ** random.uniform(-1.5, 1.0),
        per_sample_s=random.choice([0.0, 0.05, 0.7]),
        fixed_s=random.random(),
    )
