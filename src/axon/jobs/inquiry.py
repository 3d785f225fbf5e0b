"""Asking free learners at a boundary what a plan needs to know of them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from axon.data.shards import Shards, draw_uniform
from axon.jobs.desk import Desk, Live
from axon.jobs.knowledge import Answers
from axon.jobs.standing import Planning
from axon.jobs.submission import Prepared, Work
from axon.learning.experience import MOST_KINDS
from axon.rounds.depot import Depot
from axon.rounds.settings import Survey
from axon.rounds.survey import Finding, Surveyor
from axon.rounds.telling import Telling, ask_states


class Inquiry:
    """Asks learners for the states that they know of, and lets them benchmark what they do not."""

    def __init__(self, desk: Desk) -> None:
        self._desk = desk
        self._survey = Survey(shards=desk.rules.benchmark_shards, disclosed=True)

    def is_over(self, work: Work, learners: Sequence[str]) -> bool:
        """Whether there is nobody left to ask about that task for now."""
        cycles = self._desk.affairs.cycles
        return all(self._is_asked(work, name, cycles) for name in learners)

    async def ask(self, tasks: Sequence[Live], free: Sequence[str], planning: Planning) -> Answers:
        """What those who are free tell, for a plan of these tasks."""
        answers, cycles = Answers(), planning.cycles
        if self._desk.rules.learns and tasks:
            answers.tellings.update(await self._told(free, planning.kinds, cycles + 1))
            self._desk.knowledge.take(answers)
        for task in tasks:
            work = task.standing.work
            asked = [name for name in free if not self._is_asked(work, name, cycles)]
            if asked and task.prepared is not None:
                found = await self._surveyed(task.prepared, asked, cycles + 1)
                answers.findings.update({(work.kind, name): one for name, one in found.items()})
                self._desk.knowledge.take(answers)
        return answers

    async def _told(
        self, free: Sequence[str], kinds: Sequence[str], cycle: int
    ) -> dict[str, Telling]:
        """The states of those whose turn it is; the others are taken for what they told before."""
        desk = self._desk
        known, every = desk.knowledge.tellings, desk.rules.ask_every
        due = [name for name in free if name not in known or known[name].is_due(cycle, every)]
        if not due:
            return {}
        tellers = await desk.fleet.tellers(due, cycle)
        # Of more kinds than fit into one question the benchmarks have to do.
        return await ask_states(tellers, kinds[:MOST_KINDS], known, cycle)

    def _is_asked(self, work: Work, learner: str, cycles: int) -> bool:
        knowledge = self._desk.knowledge
        if knowledge.knows(work, learner):
            return True
        finding = knowledge.findings.get((work.kind, learner))
        return finding is not None and not finding.is_due(self._survey, cycles + 1)

    async def _surveyed(
        self, task: Prepared, asked: Sequence[str], cycle: int
    ) -> dict[str, Finding]:
        """What came of letting learners benchmark themselves on a task that they are new to."""
        desk, kind = self._desk, task.work.kind
        # Under another name than the run's own, whose depot may be open at the same time.
        run = replace(task.run, name=f"{task.run.name}/benchmark")
        stock = Shards(task.dataset.train, run.shard_samples, seed=run.seed)
        depot = Depot(run.name, stock, draw_uniform, run.seed)
        known = desk.knowledge.findings
        before = {name: known[kind, name] for name in asked if (kind, name) in known}
        part = desk.fleet.part(lambda: asked)
        async with part.hosting(depot):
            peers = await part.muster(cycle)
            surveyor = Surveyor(run, self._survey, depot, owner=run.name)
            return await surveyor.ask(peers, task.model, before, cycle)
