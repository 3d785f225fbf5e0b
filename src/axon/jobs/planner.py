"""From tasks and free learners to shares: MED, with exact money."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from decimal import Decimal

from axon.allocation.med import Infeasible, MedLearner, MedPlan, MedProblem, Remedy, allocate
from axon.allocation.med.subsets import MOST_LEARNERS
from axon.jobs.knowledge import Knowledge
from axon.jobs.ledger import Promise, summed, total
from axon.jobs.standing import Admission, Rules, Shares
from axon.jobs.submission import Work

_HAIR = 1e-9
_MOMENT_S = 1e-3


@dataclass(frozen=True, slots=True)
class Deal:
    """Who trains what, and who cannot be planned for."""

    shares: Mapping[str, Shares]
    """By task."""
    sitting: Mapping[str, str]
    """Learners that tell too little to be planned for, with the reason."""


@dataclass(frozen=True, slots=True)
class Others:
    """The tasks beside which one comes."""

    running: Sequence[Work] = ()
    waiting: Sequence[Work] = ()


@dataclass(frozen=True, slots=True)
class Planner:
    """Plans some tasks on some learners within an amount of money."""

    rules: Rules
    knowledge: Knowledge

    def deal(self, tasks: Sequence[Work], learners: Sequence[str], budget: Decimal) -> Deal:
        """The shares with the least expected delays; raises `Infeasible`, with what it would take.

        A learner is planned with when it is known how quick it is at every one of the tasks.
        """
        known, sitting = self._known(tasks, learners)
        return Deal(self._shares(tasks, known, budget), sitting)

    def check(self, tasks: Sequence[Work], learners: Sequence[str], budget: Decimal) -> None:
        """Raise `Infeasible` where there is no plan; quicker than finding a good one."""
        known, _ = self._known(tasks, learners)
        # Of few learners all groups are tried before anything that the limit could end.
        limit_s = _MOMENT_S if len(known) <= MOST_LEARNERS else self.rules.time_limit_s
        self._solved(tasks, known, float(budget), limit_s)

    def _known(
        self, tasks: Sequence[Work], learners: Sequence[str]
    ) -> tuple[list[MedLearner], dict[str, str]]:
        """The learners that can be planned for, and why the others cannot."""
        states = {name: self.knowledge.states(name, tasks) for name in learners}
        known = [
            MedLearner(name, float(self.rules.price_of(name)), found)
            for name, found in states.items()
            if found is not None
        ]
        sitting = {
            name: self._silence(name, tasks) for name, found in states.items() if found is None
        }
        if len(known) < len(tasks):
            raise _too_few(tasks, known, sitting)
        return known, sitting

    def admit(
        self, task: Work, others: Others, learners: Sequence[str], *, asked: bool
    ) -> Admission:
        """Whether a task can be done beside the others; `asked` says that all learners were.

        One that could not even be done by itself is refused, unless somebody who has not told yet
        how quick it is may be quick enough.
        """
        budget = self.rules.budget
        try:
            self.check([task], learners, budget)
        except Infeasible as problem:
            if asked:
                return Admission(verdict="refused", reason=str(problem))
            reason = "learners benchmark themselves on it first"
            return Admission(verdict="waiting", reason=reason)
        ahead = list(others.running)
        for more, where in ((), "beside what runs"), (others.waiting, "behind what waits"):
            ahead += more
            try:
                self.check([*ahead, task], learners, budget)
            except Infeasible as problem:
                return Admission(verdict="waiting", reason=f"{where}: {problem}")
        return Admission(verdict="admitted")

    def _shares(
        self, tasks: Sequence[Work], learners: Sequence[MedLearner], budget: Decimal
    ) -> dict[str, dict[str, Promise]]:
        amount, limit_s = float(budget), self.rules.time_limit_s
        shares = self._promised(self._solved(tasks, learners, amount, limit_s))
        if summed(map(total, shares.values())) > budget:
            # A budget of more digits than a float has may have been rounded up on its way.
            amount -= 2.0 * _HAIR * (1.0 + amount)
            shares = self._promised(self._solved(tasks, learners, max(0.0, amount), limit_s))
        return shares

    def _solved(
        self, tasks: Sequence[Work], learners: Sequence[MedLearner], budget: float, limit_s: float
    ) -> MedPlan:
        problem = MedProblem(
            [task.request for task in tasks], learners, budget, self.rules.least_shards
        )
        return allocate(problem, time_limit_s=limit_s)

    def _promised(self, plan: MedPlan) -> dict[str, dict[str, Promise]]:
        return {
            task: {
                name: Promise(shards=shards, price=self.rules.price_of(name))
                for name, shards in sorted(counts.items())
            }
            for task, counts in plan.shards.items()
        }

    def _silence(self, learner: str, tasks: Sequence[Work]) -> str:
        unknown = [task for task in tasks if not self.knowledge.knows(task, learner)]
        return self.knowledge.why_not((unknown or list(tasks))[0], learner)


def _too_few(
    tasks: Sequence[Work], known: Sequence[MedLearner], sitting: Mapping[str, str]
) -> Infeasible:
    silent = "".join(f"; {name}: {reason}" for name, reason in sorted(sitting.items())[:4])
    return Infeasible(
        f"{len(tasks)} tasks need a learner each, and {len(known)} are free and tell how quick "
        f"they are{silent}",
        remedies=[Remedy("learners", len(tasks))],
        proven=True,
    )
