"""Asking learners for their states, of which each estimates its own, and judging what they tell.

Nothing is planned with what a learner tells before it passed here: it may be broken or lying.
"""

from __future__ import annotations

import math
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import cast

from axon.devices.states import StateEstimate
from axon.learning.pace import FASTEST
from axon.rounds.collect import Collector
from axon.rounds.fleet import Tells
from axon.rounds.judge import Verdict, shortened
from axon.rounds.survey import SLOWEST
from axon.values import Declined, check_whole

ASK_S = 2.0
"""How long those who were asked may take to answer: they have to measure nothing for it."""

MOST_STATES = 16

MOST_DOUBLINGS = 16

OFF = 1e-6
"""How far from 1 the probabilities of all states may add up."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Telling:
    """What came of asking one learner for its states."""

    states: tuple[StateEstimate, ...] = ()
    """Nothing as long as it has not trained, or does not tell."""
    reason: str = ""
    """Why it told nothing the last time, in its own words or ours."""
    cycle: int
    """Before which it was last asked."""
    misses: int = 0
    """How often in a row it did not answer as wanted."""

    def __post_init__(self) -> None:
        check_whole("cycle", self.cycle, least=1)
        check_whole("misses", self.misses, least=0)

    def is_due(self, cycle: int, every: int) -> bool:
        """Whether to ask again: after so many cycles, or twice, 4 times as many after misses."""
        return cycle - self.cycle >= every << min(self.misses, MOST_DOUBLINGS)


async def ask_states(
    tellers: Mapping[str, Tells],
    kinds: Sequence[str],
    before: Mapping[str, Telling],
    cycle: int,
) -> dict[str, Telling]:
    """What each of them tells before that cycle, given what came of asking them before."""
    told: dict[str, tuple[StateEstimate, ...]] = {}

    def judge(name: str, answer: object) -> Verdict:
        verdict, states = judged(answer, kinds)
        if verdict.status == "used":
            told[name] = states
        return verdict

    calls = {name: tellers[name].states(kinds) for name in sorted(tellers)}
    arrivals = await Collector(calls, judge).collect(ASK_S)
    tellings = {}
    for name in calls:
        if name in told:
            tellings[name] = Telling(states=told[name], cycle=cycle)
        else:
            tellings[name] = _missed(arrivals[name].verdict, before.get(name), cycle)
    return tellings


def judged(answer: object, kinds: Collection[str]) -> tuple[Verdict, tuple[StateEstimate, ...]]:
    """Whether an answer tells states, and those with probabilities that add up to 1 exactly."""
    if isinstance(answer, Declined):
        return Verdict("declined", shortened(answer.reason)), ()
    if type(answer) not in (tuple, list):
        return Verdict("refused", f"answered with {type(answer).__name__}, no states"), ()
    assert isinstance(answer, (tuple, list))
    if len(answer) > MOST_STATES:
        return Verdict("refused", f"has {len(answer)} states, at most {MOST_STATES}"), ()
    problem = next(filter(None, (_absurd(one, kinds) for one in answer)), "") or _uneven(answer)
    if problem:
        return Verdict("refused", problem), ()
    total = math.fsum(one.probability for one in answer)
    return Verdict("used"), tuple(
        replace(one, probability=one.probability / total) for one in answer
    )


def _absurd(state: object, kinds: Collection[str]) -> str:
    """What is wrong with one state; types first, as anything may have come."""
    if type(state) is not StateEstimate:
        return f"told {type(state).__name__}, no state"
    if not _is_within(state.probability, 0.0, 1.0):
        return f"probability must be from 0 to 1, got {shortened(state.probability)}"
    rates = state.shards_per_s
    if type(rates) is not dict or len(rates) > len(kinds):
        return "shards_per_s must have a rate for each kind of task that was asked about"
    for kind in rates:
        if type(kind) is not str or kind not in kinds:
            return f"tells of {shortened(kind)}, and was not asked about it"
    bandwidth = () if state.bytes_per_s is None else (state.bytes_per_s,)
    for rate in (*bandwidth, *rates.values()):
        if not _is_within(rate, SLOWEST, FASTEST):
            return f"rates must be from {SLOWEST:g} to {FASTEST:g} a second, got {shortened(rate)}"
    return ""


def _uneven(states: Sequence[StateEstimate]) -> str:
    """What is wrong with them taken together."""
    if not states:
        return ""
    total = math.fsum(one.probability for one in states)
    if abs(total - 1.0) > OFF:
        return f"probabilities of states must add up to 1, got {total:g}"
    if len({(one.bytes_per_s is None, frozenset(one.shards_per_s)) for one in states}) > 1:
        return "tells other rates of one state than of another"
    return ""


def _is_within(value: object, least: float, most: float) -> bool:
    return type(value) in (int, float) and least <= cast(float, value) <= most


def _missed(verdict: Verdict, before: Telling | None, cycle: int) -> Telling:
    """One who does not answer is taken for what it last told; one who declines is not."""
    before = before or Telling(cycle=cycle)
    states = () if verdict.status == "declined" else before.states
    return Telling(states=states, reason=verdict.reason, cycle=cycle, misses=before.misses + 1)
