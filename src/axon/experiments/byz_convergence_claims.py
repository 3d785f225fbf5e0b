"""What GARFIELD says of Fig. 3.4, held against what was found."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from math import nan
from statistics import fmean

from axon.experiments import paired
from axon.experiments.byzantine_world import Course, last
from axon.experiments.result import ABOVE_ZERO, Claim, Side, judged
from axon.intervals import Interval, mean_interval
from axon.report.tables import shown

VANILLA, CRASH, PEERS = "vanilla", "crash-tolerant", "decentralised"
RESILIENT = ("SSMW", "MSMW", "MSMW synchronous", PEERS)
LEVEL = 85.0
"""Per cent of accuracy to which steps are counted."""
LOSS, CRASH_LOSS, MORE_STEPS = 2.0, 0.5, 1.0
"""Points that resilience may cost, points that count as none, and per cent of steps."""


@dataclass(frozen=True, slots=True)
class Found:
    """The repeats of every system, from the same seeds."""

    courses: Mapping[str, Sequence[Course]]

    def lost(self, system: str) -> list[float]:
        """How many points a system ends below vanilla, repeat by repeat."""
        pairs = zip(last(self.courses[VANILLA]), last(self.courses[system]), strict=True)
        return [free - own for free, own in pairs]

    def steps(self, system: str) -> list[float | None]:
        """After how many steps each repeat was at the level; None where it never was."""
        return [course.steps_to(LEVEL) for course in self.courses[system]]

    def more_steps(self, system: str) -> Interval | None:
        """Per cent of steps beyond those of crash-tolerant; None where a run did not get there."""
        own = [each for each in self.steps(system) if each is not None]
        other = [each for each in self.steps(CRASH) if each is not None]
        if len(own) < len(self.courses[system]) or len(other) < len(own):
            return None
        less = paired.cut(own, other)
        return Interval(-less.value, -less.high, -less.low)


def claims_of(found: Found) -> tuple[Claim, ...]:
    """Every sentence of the paper about the figure."""
    return (
        *(_accurate(found, system) for system in RESILIENT),
        _no_loss(found),
        *(_as_soon(found, system) for system in RESILIENT),
        _biggest(found),
    )


def shown_steps(steps: Sequence[float | None]) -> str:
    """The mean over the repeats that got there, and how many did where not all."""
    reached = [each for each in steps if each is not None]
    if not reached:
        return "never"
    told = shown(mean_interval(reached)) if len(reached) > 1 else shown(reached[0])
    return told if len(reached) == len(steps) else f"{told} ({len(reached)}/{len(steps)})"


def _accurate(found: Found, system: str) -> Claim:
    return judged(
        f"{system} ends at most {LOSS:g} points below {VANILLA}",
        mean_interval(found.lost(system)),
        Side(most=LOSS),
        paper="up to 10",
        unit="points below",
        why=f"{_end(found, system)} % against {_end(found, VANILLA)} %",
    )


def _no_loss(found: Found) -> Claim:
    return judged(
        f"{CRASH} ends no lower than {VANILLA}, to {CRASH_LOSS:g} points",
        mean_interval(found.lost(CRASH)),
        Side(most=CRASH_LOSS),
        paper="no loss",
        unit="points below",
        why=f"{_end(found, CRASH)} % against {_end(found, VANILLA)} %",
    )


def _as_soon(found: Found, system: str) -> Claim:
    more = found.more_steps(system)
    return judged(
        f"{system} takes at most {MORE_STEPS:g} % more steps to {LEVEL:g} % than {CRASH}",
        Interval(nan, -float("inf"), float("inf")) if more is None else more,
        Side(most=MORE_STEPS),
        paper="less than 1",
        unit="% more steps",
        why=f"steps: {shown_steps(found.steps(system))} against {shown_steps(found.steps(CRASH))}",
    )


def _biggest(found: Found) -> Claim:
    """Beside whichever other system loses most on average."""
    lost = {system: found.lost(system) for system in (*RESILIENT, CRASH)}
    others = [system for system in lost if system != PEERS]
    next_one = max(others, key=lambda system: fmean(lost[system]))
    return judged(
        f"{PEERS} and asynchronous loses the most",
        paired.difference(lost[PEERS], lost[next_one]),
        ABOVE_ZERO,
        paper="biggest loss",
        unit=f"points more than {next_one}",
        why=", ".join(f"{name} loses {shown(mean_interval(each))}" for name, each in lost.items()),
    )


def _end(found: Found, system: str) -> str:
    return shown(mean_interval(last(found.courses[system])))
