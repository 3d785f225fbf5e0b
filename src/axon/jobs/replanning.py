"""Planning anew at a boundary, with what is free: nobody's cycle is disturbed for it.

Free are the learners of tasks between two cycles, and those of no task. Tasks that wait are placed
as far as they fit, first come first served. One that fits beside nobody's boundary alone, though it
would if everything were planned together, makes the others wait for one another, once.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from dataclasses import replace

from axon.allocation.med import Infeasible
from axon.jobs.desk import Desk, Live
from axon.jobs.inquiry import Inquiry
from axon.jobs.knowledge import Answers
from axon.jobs.ledger import difference, summed, total
from axon.jobs.planner import Deal, Others, Planner
from axon.jobs.standing import Admission, Planning, Shares
from axon.jobs.submission import Work


class Replanner:
    """Decides which task has which learners."""

    def __init__(self, desk: Desk, begin: Callable[[Live], None]) -> None:
        self._desk = desk
        self._begin = begin
        self._planner = Planner(desk.rules, desk.knowledge)
        self._inquiry = Inquiry(desk)
        self._planning = asyncio.Lock()
        self._included: set[Live] = set()
        """The tasks of the plan that is being made, which must not begin a cycle meanwhile."""

    async def admit(self, work: Work) -> Admission:
        """Whether a task could be done beside those that run or wait."""
        desk = self._desk
        available = await desk.look()
        others = Others(
            running=[task.standing.work for task in desk.running],
            waiting=[task.standing.work for task in desk.waiting],
        )
        asked = self._inquiry.is_over(work, available)
        return await desk.fleet.aside(self._planner.admit, work, others, available, asked=asked)

    def may_begin(self, task: Live) -> bool:
        """Whether a task at its boundary may go on with the shares that it has."""
        return bool(task.shares) and not self._holding and task not in self._included

    @property
    def _holding(self) -> bool:
        return self._desk.affairs.holding

    def is_due(self, task: Live) -> bool:
        """Whether a task at its boundary is to be planned before it goes on."""
        desk = self._desk
        if self._planning.locked():
            return False
        if self._holding:
            return all(other.resting for other in desk.running)
        every, cycles = desk.rules.replan_every, task.cycle + 1 - task.standing.planned
        grown_old = every is not None and cycles >= every
        return task.standing.seen != desk.affairs.version or (bool(task.shares) and grown_old)

    async def replan(self) -> None:
        """Plan what is free, and let those who waited and are placed now begin."""
        desk = self._desk
        async with self._planning:
            await desk.look()
            begun = self._start()
            resting = [task for task in desk.running if task.resting]
            waiting = [task for task in desk.waiting if task.name in begun.waiting]
            self._included = {*resting, *waiting}
            try:
                free = self._free(resting)
                found = await self._inquiry.ask([*resting, *waiting], free, begun)
                deal = await self._deal(resting, waiting, free)
                apart = any(task not in resting for task in desk.running)
                self._adopt(deal, resting, waiting, begun.version, found)
                # Whoever was not placed with all tasks together will not be by waiting for it.
                holding = apart and (self._holding or await self._must_hold())
            finally:
                self._included = set()
                desk.affairs = replace(desk.affairs, planning=None)
            if holding != self._holding:
                desk.affairs = replace(desk.affairs, holding=holding)
                desk.keep()
        desk.bell.ring()

    def _start(self) -> Planning:
        """Note that a plan is being made; one that was when the manager died is made again."""
        desk, now_s = self._desk, self._desk.clock_s()
        begun = desk.affairs.planning
        if begun is None or begun.at_s != now_s:
            live = [task for task in desk.tasks.values() if not task.has_ended]
            begun = Planning(
                at_s=now_s,
                version=desk.affairs.version,
                waiting=tuple(task.name for task in desk.waiting),
                cycles=desk.affairs.cycles,
                kinds=tuple(sorted({task.standing.work.kind for task in live})),
            )
            desk.affairs = replace(desk.affairs, planning=begun)
            desk.keep()
        return begun

    def _free(self, resting: Sequence[Live]) -> list[str]:
        busy = {name for task in self._desk.running if task not in resting for name in task.shares}
        return [name for name in self._desk.affairs.available if name not in busy]

    # Dealing

    async def _deal(
        self, resting: Sequence[Live], waiting: Sequence[Live], free: Sequence[str]
    ) -> Deal | None:
        """The plan of those who rest and of as many who wait as fit; None changes nothing."""
        deal: Deal | None = None
        placed, left = list(resting), list(waiting)
        if resting:
            found = await self._planned(placed, free)
            if isinstance(found, Infeasible):
                kept, lacking = self._go_on(resting, found)
                free = [name for name in free if name not in kept]
                placed, left = [], [*lacking, *left]
            else:
                deal = found
        for task in left:
            placed = [one for one in placed if not one.has_ended]  # Cancelled meanwhile.
            if task.has_ended:
                continue
            found = await self._planned([*placed, task], free)
            if isinstance(found, Infeasible):
                self._put_off(task, found)
                await self._refuse_hopeless(task)
            else:
                deal = found
                placed.append(task)
        return deal

    async def _planned(self, tasks: Sequence[Live], free: Sequence[str]) -> Deal | Infeasible:
        desk = self._desk
        others = [task for task in desk.running if task not in tasks]
        reserved = summed(total(task.shares) for task in others)
        budget = difference(desk.rules.budget, reserved)
        works = [task.standing.work for task in tasks]
        try:
            return await desk.fleet.aside(self._planner.deal, works, free, budget)
        except Infeasible as problem:
            return problem

    def _go_on(
        self, resting: Sequence[Live], problem: Infeasible
    ) -> tuple[set[str], Sequence[Live]]:
        """Those whose learners are all there keep them; tells whom they keep, and who lacks some.

        A part of the shares would train a part of the data, and nobody would know.
        """
        kept: set[str] = set()
        lacking: list[Live] = []
        for task in resting:
            if task.has_ended:
                continue
            if self._is_whole(task):
                kept |= set(task.shares)
                task.standing = replace(task.standing, reason=f"planned as before: {problem}")
            else:
                task.shares = {}
                task.standing = replace(task.standing, seen=-1)
                lacking.append(task)
        return kept, lacking

    def _is_whole(self, task: Live) -> bool:
        """Whether its shares are all of its shards, on learners that are there."""
        dealt = sum(promise.shards for promise in task.shares.values())
        here = set(task.shares) <= set(self._desk.affairs.available)
        return here and dealt == task.standing.work.shards

    def _put_off(self, task: Live, problem: Infeasible) -> None:
        """Let a task wait, with the reason, unless it has ended while it was planned."""
        if task.has_ended:
            return
        running = {other.name for other in self._desk.running if other.resting}
        version, standing = self._desk.affairs.version, task.standing
        tried = running | (set(standing.tried) if standing.seen == version else set())
        task.shares = {}
        task.standing = replace(
            standing, state="waiting", reason=str(problem), tried=tuple(sorted(tried))
        )

    async def _refuse_hopeless(self, task: Live) -> None:
        """End a task that could not be done though it had all learners and all money for itself.

        One that has trained before waits for better times: they have been.
        """
        desk, work = self._desk, task.standing.work
        available = desk.affairs.available
        has_trained = task.at_work is not None or task.record is not None
        if has_trained or not self._inquiry.is_over(work, available):
            return
        alone = await desk.fleet.aside(self._planner.admit, work, Others(), available, asked=True)
        if alone.verdict == "refused" and task.is_waiting:
            task.standing = replace(task.standing, state="failed", reason=alone.reason)

    def _adopt(
        self,
        deal: Deal | None,
        resting: Sequence[Live],
        waiting: Sequence[Live],
        version: int,
        found: Answers,
    ) -> None:
        """Put a plan in force, all of it at once."""
        desk = self._desk
        begun: list[Live] = []
        for task in (*resting, *waiting):
            task.standing = replace(task.standing, seen=version)
        for name, shares in (deal.shares if deal is not None else {}).items():
            task = desk.tasks[name]
            if task.has_ended:
                continue  # Cancelled meanwhile.
            if task.at_work is None:
                begun.append(task)
            task.shares = shares
            task.standing = replace(
                task.standing, state="running", reason="", tried=(), planned=task.cycle + 1
            )
        if deal is not None:
            desk.sitting = dict(deal.sitting)
        desk.affairs = replace(desk.affairs, planning=None)
        changed = [*resting, *waiting]
        plans: dict[tuple[str, int], Shares] = {
            (task.name, task.cycle + 1): task.shares for task in changed if task.is_running
        }
        desk.keep(changed, plans, found)
        for task in begun:
            self._begin(task)

    # Waiting for one another

    async def _must_hold(self) -> bool:
        """Whether a task fits only if all are planned together, and so they must come together."""
        desk = self._desk
        names = {task.name for task in desk.running}
        for task in desk.waiting:
            stuck = names and names <= set(task.standing.tried)
            if not stuck or task.standing.seen != desk.affairs.version:
                continue
            works = [other.standing.work for other in (*desk.running, task)]
            available, budget = desk.affairs.available, desk.rules.budget
            try:
                await desk.fleet.aside(self._planner.check, works, available, budget)
            except Infeasible:
                continue
            return True
        return False
