"""What GARFIELD says of Fig. 3.5, and what is known of its rules, held against what was found."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from axon.experiments import paired
from axon.experiments.byzantine_world import Course, last
from axon.experiments.result import Claim, Side, judged
from axon.intervals import mean_interval
from axon.report.tables import shown

NONE, DROP, MEAN = "none", "drop", "mean"
LOUD = ("random", "reversed")
"""The attacks of the paper's figure."""
BASELINES, OURS = ("vanilla", "crash-tolerant"), "MSMW"
LOSS = 2.0
"""Points that MSMW may lose to an attack."""
BORNE = 5.0
"""Points that a rule may lose, in every repeat, for an attack to count as borne."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Found:
    """The repeats of every system and of every rule, under every attack."""

    systems: Mapping[tuple[str, str], Sequence[Course]]
    """By system and attack."""
    rules: Mapping[tuple[str, int, str], Sequence[Course]]
    """By rule, the number of workers that lie, and attack."""
    workers: int
    classes: int

    @property
    def near_chance(self) -> float:
        """Per cent that a model which has learnt nothing is below: twice what a guess is worth."""
        return 200.0 / self.classes

    @property
    def common(self) -> int:
        """How many liars every rule was tried with."""
        return min(lying for _, lying, _ in self.rules)

    def robust(self, *, most: bool) -> list[tuple[str, int]]:
        """The robust rules, with the liars all have in common or with the most each allows."""
        rules = dict.fromkeys(rule for rule, _, _ in self.rules if rule != MEAN)
        counts = {rule: [f for name, f, _ in self.rules if name == rule] for rule in rules}
        return [(rule, max(each) if most else self.common) for rule, each in counts.items()]

    def lost(self, rule: str, lying: int, attack: str) -> float:
        """The most points that a rule lost to an attack, against nobody lying from that seed."""
        free = last(self.rules[rule, lying, NONE])
        hit = last(self.rules[rule, lying, attack])
        return max(one - other for one, other in zip(free, hit, strict=True))

    def not_borne(self, rule: str, lying: int) -> list[str]:
        """The attacks that cost a rule more than a little."""
        attacks = [name for rule_, f, name in self.rules if (rule_, f) == (rule, lying)]
        return [name for name in attacks if self.lost(rule, lying, name) > BORNE]


def claims_of(found: Found) -> tuple[Claim, ...]:
    """The paper's sentences about its two attacks, what silence does, and what rules promise."""
    return (
        *(_fails(found, system, attack) for attack in LOUD for system in BASELINES),
        *(_learns(found, attack) for attack in LOUD),
        *(_stops(found, system) for system in BASELINES),
        _learns(found, DROP),
        *(_borne(found, attack, most=most) for most in (False, True) for attack in LOUD),
        *(_mean_fails(found, attack) for attack in LOUD),
    )


def _fails(found: Found, system: str, attack: str) -> Claim:
    ends = last(found.systems[system, attack])
    return judged(
        f"{system} fails to learn under {attack}",
        mean_interval(ends),
        Side(most=found.near_chance),
        paper="fails",
        unit="% in the end",
        why=f"without an attack it comes to {_mean(found, system, NONE)} %; a guess is right in "
        f"{shown(found.near_chance / 2)} %",
    )


def _learns(found: Found, attack: str) -> Claim:
    """That MSMW is as good as when nobody lies, from the same seeds."""
    free, hit = (last(found.systems[OURS, each]) for each in (NONE, attack))
    return judged(
        f"{OURS} loses at most {LOSS:g} points to {attack}",
        paired.difference(free, hit),
        Side(most=LOSS),
        paper="normal, high accuracy" if attack in LOUD else None,
        unit="points below nobody lying",
        why=f"{_mean(found, OURS, attack)} % against {_mean(found, OURS, NONE)} %",
    )


def _stops(found: Found, system: str) -> Claim:
    courses = found.systems[system, DROP]
    stopped = sum(bool(course.failure) for course in courses)
    return Claim(
        claim=f"one silent worker stops {system}, which waits for all",
        paper=None,
        measured=float(stopped),
        unit=f"of {len(courses)} runs stopped",
        holds=stopped == len(courses),
        why=f"{_mean(found, system, DROP)} % in the end",
    )


def _borne(found: Found, attack: str, *, most: bool) -> Claim:
    """That a rule keeps what it promises for f rows that are anything."""
    rules = found.robust(most=most)
    lost = {rule: found.lost(rule, lying, attack) for rule, lying in rules}
    failing = [f"{rule} loses {shown(points)}" for rule, points in lost.items() if points > BORNE]
    who = "as many as it allows" if most else f"{found.common}"
    return Claim(
        claim=f"every robust rule bears {attack} from {who} of {found.workers} workers",
        paper=None,
        measured=float(len(rules) - len(failing)),
        unit=f"of {len(rules)} rules lose at most {BORNE:g} points",
        holds=not failing,
        why="; ".join(failing) or f"the most that is lost is {shown(max(lost.values()))} points",
    )


def _mean_fails(found: Found, attack: str) -> Claim:
    best = max(last(found.rules[MEAN, found.common, attack]))
    return Claim(
        claim=f"the mean does not bear {attack} from {found.common} of {found.workers} workers",
        paper=None,
        measured=best,
        unit="% at best in the end",
        holds=best <= found.near_chance,
        why=f"a guess is right in {shown(found.near_chance / 2)} %",
    )


def _mean(found: Found, system: str, attack: str) -> str:
    return shown(mean_interval(last(found.systems[system, attack])))
