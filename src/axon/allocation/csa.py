"""CSA, centralised staleness-aware allocation: an orchestrator that knows everybody deals out.

U. Mohammad and S. Sorour, "Adaptive Task Allocation for Asynchronous Federated Mobile Edge
Learning"; what DAB is compared with in its thesis, section 3.4. The mathematics is in
`axon.allocation.staleness`; a shard stands for the paper's sample.

CSA trusts what it is told: whoever claims to be quick gets more shards and more passes, and with
them more weight in the average. `BEYOND`, `upper` and `most_passes` bound that and do not end it;
DAB has no need to be told anything. Against what is wrong with the updates themselves, robust
aggregation is the answer, not an allocation.
"""

from __future__ import annotations

import statistics
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Literal, get_args

from axon.allocation import staleness
from axon.allocation.equal import equal_split
from axon.allocation.staleness import EpochTime, Infeasible
from axon.errors import ConfigurationError
from axon.policies import Situation
from axon.values import Capability, Share, TaskCost, check_whole

Method = Literal["exact", "relaxed", "sai", "synchronous", "eta"]

BEYOND = 1000.0
"""Times the median of all that told: what is told beyond is planned as that much. A learner that
is quicker in truth ends early, which harms nobody. The lower of two medians counts; a learner that
alone told anything is compared with nobody, and most of them lying are believed."""


def epoch_time(capability: Capability, cost: TaskCost) -> EpochTime:
    """How long a learner takes, from what it told: C2 to train, C1 to fetch, C0 for the models."""
    return EpochTime(
        per_sample_epoch_s=1.0 / capability.shards_per_s,
        per_sample_s=cost.shard_bytes / capability.bytes_per_s,
        fixed_s=2 * cost.model_bytes / capability.bytes_per_s,
    )


def bounded(told: Mapping[str, Capability]) -> dict[str, Capability]:
    """What each told, but no more than `BEYOND` times the median of them."""
    if not told:
        return {}
    shards_per_s = BEYOND * statistics.median_low(each.shards_per_s for each in told.values())
    bytes_per_s = BEYOND * statistics.median_low(each.bytes_per_s for each in told.values())
    return {
        name: Capability(
            shards_per_s=min(each.shards_per_s, shards_per_s),
            bytes_per_s=min(each.bytes_per_s, bytes_per_s),
        )
        for name, each in told.items()
    }


@dataclass(frozen=True, slots=True)
class StalenessAware:
    """So many shards and passes for each learner that all end by the deadline, hardly stale.

    The amount of data is fixed: `total` shards a cycle, or all there are, `lower` to `upper` of
    them for each learner. What the deadline leaves over beyond one pass goes into more passes over
    the same shards. Where it does not suffice for one, all are dealt out nevertheless, so that one
    pass each ends as soon as it can: the cycle is late, as the thesis found of CSA.

    Members that have told no capability get no share. Nor do those that could not do even `lower`
    shards by the deadline, unless nobody could; and where the total is too small for everybody to
    have `lower`, the quickest get them.

    `method` "synchronous" gives everybody the same number of passes, and "eta" the same number of
    shards; both are there to compare with.
    """

    total: int | None = None
    lower: int = 1
    upper: int | None = None
    method: Method = "exact"
    slack: float = 0.05
    """The part of the deadline that is planned for nothing: a capability tells no latency, and the
    last batch of a pass is smaller than the others but not as much quicker. The paper has none."""
    most_passes: int = 100
    """Of a share. It also bounds the weight that a liar can have: so many passes over its shards,
    of which `upper` bounds the number. The paper has none."""

    def __post_init__(self) -> None:
        check_whole("lower", self.lower, least=1)
        check_whole("most_passes", self.most_passes, least=1)
        if self.total is not None:
            check_whole("total", self.total, least=1)
        if self.upper is not None:
            check_whole("upper", self.upper, least=self.lower)
        if isinstance(self.slack, bool) or not 0.0 <= self.slack < 1.0:
            raise ConfigurationError(f"slack must be at least 0 and below 1, got {self.slack!r}")
        if self.method not in get_args(Method):
            known = ", ".join(get_args(Method))
            raise ConfigurationError(f"no method is called {self.method!r}", hint=f"known: {known}")

    def __call__(self, members: Sequence[str], situation: Situation) -> dict[str, Share]:
        """A share for each member that has told what it can do and can do its part in time."""
        told = bounded(situation.capabilities)
        times = {name: epoch_time(told[name], situation.cost) for name in members if name in told}
        total = situation.shards if self.total is None else self.total
        # No learner may hold a shard twice.
        upper = min(self.upper or situation.shards, situation.shards)
        lower = min(self.lower, upper, total)
        if not times or lower == 0:
            return {}
        period_s = situation.deadline_s * (1.0 - self.slack)
        times = _able(times, lower=lower, most=total // lower, period_s=period_s)
        bounds = {"total": min(total, upper * len(times)), "lower": lower, "upper": upper}
        plans = self._plan(tuple(times.values()), bounds, period_s)
        return {
            name: Share(shards=shards, passes=passes)
            for name, (shards, passes) in zip(times, plans, strict=True)
        }

    def _plan(
        self, times: Sequence[EpochTime], bounds: Mapping[str, int], period_s: float
    ) -> list[tuple[int, int]]:
        """The shards and the passes of each."""
        if self.method == "eta":
            return self._eta(times, bounds["total"], period_s)
        within = {"most_epochs": self.most_passes, **bounds}
        try:
            if self.method == "synchronous":
                plan = staleness.synchronous(times, period_s=period_s, **within)
            else:
                plan = staleness.allocate(times, period_s=period_s, method=self.method, **within)
        except Infeasible:
            # The bounds fit one another, so it is the period that is too short.
            plan = staleness.shortest(times, **bounds)
        return list(zip(plan.samples, plan.epochs, strict=True))

    def _eta(
        self, times: Sequence[EpochTime], total: int, period_s: float
    ) -> list[tuple[int, int]]:
        """As many shards for each, and as many passes as each can do with them, at least one."""
        counts = equal_split(total, [str(place) for place in range(len(times))]).values()
        return [
            (count, self._passes(time, count, period_s))
            for time, count in zip(times, counts, strict=True)
        ]

    def _passes(self, time: EpochTime, shards: int, period_s: float) -> int:
        most = self.most_passes
        try:
            plan = staleness.eta([time], total=shards, period_s=period_s, most_epochs=most)
        except Infeasible:
            # Not even one by the deadline, which is then missed.
            return 1
        return plan.epochs[0]


def _able(
    times: Mapping[str, EpochTime], *, lower: int, most: int, period_s: float
) -> dict[str, EpochTime]:
    """Those who can do the least share in time, or everybody where nobody can, `most` of them."""
    least_s = {name: time.once_s(lower) for name, time in times.items()}
    able = [name for name in times if least_s[name] <= period_s] or list(times)
    chosen = set(sorted(able, key=least_s.__getitem__)[:most])
    return {name: times[name] for name in times if name in chosen}
