"""What is known of the learners' speed: given beforehand, or told by the learners themselves.

Each learner estimates its own states from its own cycles, and tells them if it agrees. As long as
it has none, what it told in a survey stands for one state in which it always is. A learner that
tells neither cannot be planned for.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace

from axon.allocation.med import LearnerState
from axon.jobs.submission import Work
from axon.rounds.survey import Finding
from axon.rounds.telling import Telling
from axon.values import Capability


@dataclass(frozen=True, slots=True)
class Answers:
    """What came of asking learners."""

    findings: dict[tuple[str, str], Finding] = field(default_factory=dict)
    """Of surveys, by the kind of task and the learner."""
    tellings: dict[str, Telling] = field(default_factory=dict)
    """Of their states, by learner."""


class Knowledge:
    """The states of every learner, as far as they are known."""

    def __init__(self, given: Mapping[str, Sequence[LearnerState]] | None = None) -> None:
        self._given = dict(given or {})
        self.findings: dict[tuple[str, str], Finding] = {}
        """What came of surveys, by the kind of task and the learner."""
        self.tellings: dict[str, Telling] = {}
        """What came of asking for states, by learner."""

    def take(self, answers: Answers, *, learnt: bool = True) -> None:
        """Believe the newer answers; without what learners have `learnt` if that is not wanted."""
        self.findings.update(answers.findings)
        if learnt:
            self.tellings.update(answers.tellings)

    def knows(self, task: Work, learner: str) -> bool:
        """Whether the learner can be planned for on this task."""
        return self.states(learner, [task]) is not None

    def why_not(self, task: Work, learner: str) -> str:
        """Why it cannot, in its own words or ours."""
        finding = self.findings.get((task.kind, learner))
        if finding is None:
            return "has not been asked yet"
        return finding.reason or "does not tell what it can do"

    def states(self, learner: str, tasks: Sequence[Work]) -> tuple[LearnerState, ...] | None:
        """The learner's states with its rates for these tasks; None where one is not known.

        A task that it has only benchmarked itself on has one rate in all states: what is planned
        with is the expected time of each task by itself, which that does not change.
        """
        base = self._base(learner, tasks)
        complete = []
        for state in base:
            rates = {task.name: self._rate(state, task, learner) for task in tasks}
            known = {name: rate for name, rate in rates.items() if rate is not None}
            if len(known) < len(rates):
                return None
            complete.append(replace(state, shards_per_s=known))
        return tuple(complete) or None

    def _base(self, learner: str, tasks: Sequence[Work]) -> tuple[LearnerState, ...]:
        """The states with their probabilities and bandwidths, and rates by name or by kind."""
        if learner in self._given:
            return tuple(self._given[learner])
        telling = self.tellings.get(learner)
        learnt = tuple(
            LearnerState(one.probability, one.bytes_per_s, one.shards_per_s)
            for one in (() if telling is None else telling.states)
            if one.bytes_per_s is not None
        )
        if learnt:
            return learnt
        for task in tasks:
            told = self._told(task, learner)
            if told is not None:
                return (LearnerState(1.0, told.bytes_per_s, {}),)
        return ()

    def _rate(self, state: LearnerState, task: Work, learner: str) -> float | None:
        for name in (task.name, task.kind):
            if name in state.shards_per_s:
                return state.shards_per_s[name]
        told = self._told(task, learner)
        return None if told is None else told.shards_per_s

    def _told(self, task: Work, learner: str) -> Capability | None:
        finding = self.findings.get((task.kind, learner))
        return None if finding is None else finding.capability
