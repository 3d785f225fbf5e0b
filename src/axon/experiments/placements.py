"""The learners of Mohammad and Sorour's experiments: placed at random around an access point.

Indoors, over 802.11-type links, within 50 m, about half of them laptops and half small boards. Its
table of the channel is in another paper and its bounds on a learner's samples are nowhere: what
`axon.allocation.link` and `Setup` have instead is assumed.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Literal

from axon.allocation.link import (
    DESKTOP_HZ,
    MICROCONTROLLER_HZ,
    MNIST,
    LearningTask,
    Radio,
    epoch_time,
    gain_at,
)
from axon.allocation.staleness import EpochTime, StalenessPlan, allocate, eta
from axon.errors import ConfigurationError
from axon.experiments.settings import Settings
from axon.intervals import Interval, mean_interval
from axon.seeds import stream

NEAREST_M = 1.0
"""No node sits in the antenna."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Setup:
    """The numbers of the experiment."""

    samples: int = 60_000
    task: LearningTask = MNIST
    radius_m: float = 50.0
    clocks_hz: tuple[float, ...] = (DESKTOP_HZ, MICROCONTROLLER_HZ)
    """The learners' clocks, in turn."""
    least_share: float = 0.1
    most_share: float = 2.0
    """Assumed: a learner gets from a tenth of to twice the samples of an equal share."""

    def bounds(self, learners: int) -> tuple[int, int]:
        """The fewest and the most samples that one of so many learners may get (7f)."""
        share = self.samples / learners
        most = min(float(self.samples), self.most_share * share)
        return max(1, math.floor(self.least_share * share)), math.ceil(most)


def placed(setup: Setup, learners: int, seed: int, placement: int) -> tuple[EpochTime, ...]:
    """What an epoch costs each of so many learners in one random placement.

    The first learners of a placement are the same whatever their number, so that a curve over the
    number adds learners and does not exchange them.
    """
    chance = stream(seed, "placement", placement).random(learners)
    times = []
    for at, drawn in enumerate(chance):
        # The root spreads the nodes evenly over the disc, not along its radius.
        distance_m = max(NEAREST_M, setup.radius_m * math.sqrt(drawn))
        clock_hz = setup.clocks_hz[at % len(setup.clocks_hz)]
        times.append(epoch_time(Radio(gain=gain_at(distance_m)), setup.task, clock_hz))
    return tuple(times)


SCHEMES: Mapping[str, Literal["exact", "relaxed", "sai"] | None] = {
    "exact": "exact",
    "relaxed": "relaxed",
    "SAI": "sai",
    "ETA": None,
}
"""The allocations that are compared, and how `allocate` calls them; ETA is `eta`."""


def plan(
    scheme: str, times: Sequence[EpochTime], setup: Setup, period_s: float
) -> StalenessPlan | None:
    """The scheme's plan; None where the samples do not fit into the period."""
    lower, upper = setup.bounds(len(times))
    method = SCHEMES[scheme]
    try:
        if method is None:
            return eta(times, total=setup.samples, period_s=period_s)
        return allocate(
            times,
            total=setup.samples,
            period_s=period_s,
            lower=lower,
            upper=upper,
            method=method,
        )
    except ConfigurationError:
        return None


@dataclass(frozen=True, slots=True)
class Found:
    """Every plan of every placement, by period, number of learners and scheme."""

    plans: dict[tuple[float, int, str], tuple[StalenessPlan | None, ...]]

    @property
    def learners(self) -> tuple[int, ...]:
        """The numbers of learners that were tried, ascending."""
        return tuple(sorted({count for _, count, _ in self.plans}))

    def feasible(self, period_s: float, count: int, scheme: str) -> list[StalenessPlan]:
        """The plans of the placements in which there was one."""
        return [each for each in self.plans[period_s, count, scheme] if each is not None]

    def most(self, period_s: float, count: int, scheme: str) -> Interval | None:
        """The maximum staleness, averaged over the placements; None where it never fits."""
        plans = self.feasible(period_s, count, scheme)
        return mean_interval([each.max_staleness for each in plans]) if plans else None

    def average(self, period_s: float, count: int, scheme: str) -> Interval | None:
        """The average staleness (Eq. 13), averaged over the placements."""
        plans = self.feasible(period_s, count, scheme)
        return mean_interval([each.average_staleness for each in plans]) if plans else None

    def placements(self) -> list[Placement]:
        """The same by the placement."""
        count = min(len(plans) for plans in self.plans.values())
        return [
            Placement({key: each for key, plans in self.plans.items() if (each := plans[at])})
            for at in range(count)
        ]


@dataclass(frozen=True, slots=True)
class Placement:
    """The plans of one placement, where there is one, by period, number of learners and scheme.

    Plans of the same learners resemble one another, so what is said of a placement is one number,
    and intervals are over placements.
    """

    plans: Mapping[tuple[float, int, str], StalenessPlan]

    def curve(self, period_s: float, scheme: str) -> list[StalenessPlan]:
        """The scheme's plans for one period, by the number of learners, ascending."""
        counts = sorted(
            count for period, count, name in self.plans if (period, name) == (period_s, scheme)
        )
        return [self.plans[period_s, count, scheme] for count in counts]

    def of(self, scheme: str) -> list[StalenessPlan]:
        """All of the scheme's plans."""
        return [each for (_, _, name), each in self.plans.items() if name == scheme]

    def pairs(self, one: str, other: str) -> list[tuple[StalenessPlan, StalenessPlan]]:
        """Both schemes' plans for each problem that both of them solved."""
        return [
            (mine, self.plans[period_s, count, other])
            for (period_s, count, scheme), mine in self.plans.items()
            if scheme == one and (period_s, count, other) in self.plans
        ]


def measure(
    setup: Setup,
    learners: Sequence[int],
    periods_s: Sequence[float],
    placements: int,
    settings: Settings,
) -> Found:
    """Every scheme's plan for these numbers of learners and these periods."""
    plans: dict[tuple[float, int, str], tuple[StalenessPlan | None, ...]] = {}
    for count in learners:
        settings.progress(f"{count} learners in {placements} placements")
        places = [placed(setup, count, settings.seed, at) for at in range(placements)]
        for period_s in periods_s:
            for scheme in SCHEMES:
                plans[period_s, count, scheme] = tuple(
                    plan(scheme, times, setup, period_s) for times in places
                )
    return Found(plans)
