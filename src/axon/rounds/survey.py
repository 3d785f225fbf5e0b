"""Before a learner's first cycle: it benchmarks itself and, where it is asked and agrees, tells.

The first survey comes before cycle 1, then one before every fifth cycle, in which all are asked at
once who are new, and those again who did not answer as wanted, the latter at longer and longer
distances. It ends when all of them have answered, or with the deadline. Of a run whose cycles last
for the deadline, surveys therefore take less than a fifth of the time, even if somebody mute joins
before every cycle. Meanwhile a newcomer that nobody has asked takes part where nothing is to be
told, as it finds out in its first cycle; otherwise it waits.
"""

from __future__ import annotations

import secrets
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Literal

from axon.learning.pace import FASTEST
from axon.rounds.collect import Collector
from axon.rounds.depot import Depot
from axon.rounds.fleet import Peer
from axon.rounds.judge import Verdict, shortened
from axon.rounds.settings import Run, Survey
from axon.values import Capability, Declined, Order, Share, TaskCost, Vector, check_whole

SLOWEST = 1e-9
"""No device is beyond this and `FASTEST`, in shards or bytes a second; a quotient with them is
still finite."""

EVERY = 5
"""Cycles from one survey to the next."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Finding:
    """What came of asking one learner."""

    status: Literal["told", "benchmarked", "declined", "failed"]
    reason: str = ""
    """Why it told nothing, in its own words or ours."""
    capability: Capability | None = None
    cycle: int
    """Before which it was last asked."""
    times: int = 1
    """How often it was asked."""

    def __post_init__(self) -> None:
        check_whole("cycle", self.cycle, least=1)
        check_whole("times", self.times, least=1)

    def is_enough(self, survey: Survey) -> bool:
        """Whether nothing is left to ask."""
        return self.status == "told" or (self.status == "benchmarked" and not survey.disclosed)

    def is_due(self, survey: Survey, cycle: int) -> bool:
        """Whether to ask again before that cycle: after 1 cycle, then 2, then 4, and so on."""
        # So many bits has a number of at least 2 ** (times - 1).
        return not self.is_enough(survey) and (cycle - self.cycle).bit_length() >= self.times


def to_ask(
    peers: Mapping[str, Peer],
    findings: Mapping[str, Finding],
    survey: Survey,
    cycle: int,
    needed: int = 1,
) -> dict[str, Peer]:
    """Those who are new, and those whose turn it is again; nobody where it is not time for it.

    It always is where fewer than are `needed` have told: without them the cycle would fail.
    """
    told = len(known(findings, survey).keys() & peers.keys())
    if (cycle - 1) % EVERY and not (survey.disclosed and told < needed):
        return {}
    return {
        name: peer
        for name, peer in peers.items()
        if name not in findings or findings[name].is_due(survey, cycle)
    }


def known(findings: Mapping[str, Finding], survey: Survey | None) -> dict[str, Capability]:
    """The capabilities that the scheme asked for and was told."""
    if survey is None or not survey.disclosed:
        return {}
    told = ((name, finding.capability) for name, finding in findings.items())
    return {name: capability for name, capability in told if capability is not None}


class Surveyor:
    """Asks some learners at once, and judges what they answer."""

    def __init__(
        self, run: Run, survey: Survey, depot: Depot, owner: str = "", epoch: int = 0
    ) -> None:
        self._run = run
        self._survey = survey
        self._depot = depot
        self._owner = owner
        self._epoch = epoch

    async def ask(
        self, peers: Mapping[str, Peer], model: Vector, before: Mapping[str, Finding], cycle: int
    ) -> dict[str, Finding]:
        """What each of them answers before that cycle, given what came of asking them before."""
        orders = {name: self._order(name, model) for name in sorted(peers)}
        self._depot.publish(0, model, {order.ticket: name for name, order in orders.items()})
        disclosed = self._survey.disclosed
        calls = {name: peers[name].benchmark(order, disclosed) for name, order in orders.items()}
        told: dict[str, Capability] = {}

        def judge(name: str, answer: object) -> Verdict:
            verdict, capability = judged(answer, disclosed=disclosed)
            if capability is not None:
                told[name] = capability
            return verdict

        arrivals = await Collector(calls, judge).collect(self._run.deadline_s)
        findings = {}
        for name in orders:
            times = before[name].times + 1 if name in before else 1
            verdict = arrivals[name].verdict
            findings[name] = _finding(verdict, told.get(name), cycle=cycle, times=times)
        return findings

    def _order(self, name: str, model: Vector) -> Order:
        run, stock = self._run, self._depot.stock
        return Order(
            run=run.name,
            cycle=0,
            device=name,
            spec=run.spec,
            share=Share(shards=min(self._survey.shards, len(stock))),
            cost=TaskCost(model_bytes=model.nbytes, shard_bytes=stock.shard_bytes),
            shard_samples=run.shard_samples,
            shards=len(stock),
            deadline_s=run.deadline_s,
            seed=run.seed,
            owner=self._owner,
            epoch=self._epoch,
            ticket=secrets.token_hex(8),
        )


def judged(answer: object, *, disclosed: bool) -> tuple[Verdict, Capability | None]:
    """Whether an answer is one that was asked for; nothing of it is believed before."""
    if isinstance(answer, Declined):
        return Verdict("declined", shortened(answer.reason)), None
    if not disclosed:
        if answer is None:
            return Verdict("used"), None
        # Also a capability: what was not asked for is not kept.
        problem = f"answered with {type(answer).__name__}, and was asked to tell nothing"
        return Verdict("refused", problem), None
    if answer is None:
        return Verdict("declined", "does not tell what it can do"), None
    if not isinstance(answer, Capability):
        return Verdict("refused", f"answered with {type(answer).__name__}, no capability"), None
    problem = _absurd(answer)
    return (Verdict("refused", problem), None) if problem else (Verdict("used"), answer)


def _absurd(capability: Capability) -> str:
    for name in ("shards_per_s", "bytes_per_s"):
        value = getattr(capability, name)
        # The type first: anything may have come, and not everything can be compared.
        if type(value) not in (int, float) or not SLOWEST <= value <= FASTEST:
            return (
                f"{name} must be a number from {SLOWEST:g} to {FASTEST:g}, got {shortened(value)}"
            )
    return ""


def _finding(verdict: Verdict, capability: Capability | None, *, cycle: int, times: int) -> Finding:
    if capability is not None:
        return Finding(status="told", capability=capability, cycle=cycle, times=times)
    # One that came a little after the deadline has benchmarked itself all the same.
    if verdict.status in ("used", "late"):
        return Finding(status="benchmarked", cycle=cycle, times=times)
    status: Literal["declined", "failed"] = "declined" if verdict.status == "declined" else "failed"
    return Finding(status=status, reason=verdict.reason, cycle=cycle, times=times)
