"""Several tasks at once on one fleet, each an ordinary run on learners of its own.

    async with Manager.opened(fleet, "jobs.sqlite", Rules(budget=money(300))) as manager:
        await manager.submit(Submission(name="a", task="threenn", dataset="mnist", ...))
        await manager.settled()

Tasks come and go; what is free at a boundary is planned anew by MED. In the simulated world the
same submissions at the same times give the same records and the same ledger, byte for byte.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from contextlib import AsyncExitStack, asynccontextmanager, closing, suppress
from dataclasses import replace
from pathlib import Path

from axon.allocation.med import LearnerState
from axon.errors import AxonError, ConfigurationError
from axon.jobs.career import Career, ended
from axon.jobs.desk import Desk, Listen, Live
from axon.jobs.knowledge import Knowledge
from axon.jobs.ledger import Ledger, summed, total
from axon.jobs.queue import Queue, plan_in_force
from axon.jobs.replanning import Replanner
from axon.jobs.standing import Admission, Rules, Standing, TaskView
from axon.jobs.submission import Prepared, Submission, prepare
from axon.rounds.checkpoint import Checkpoint, open_store
from axon.rounds.fleet import SharedFleet

LOOK_S = 5.0
"""How often the fleet is looked at while a task waits for learners."""


class Manager:
    """Takes tasks in, and sees to it that each has learners, money and an end."""

    def __init__(
        self, desk: Desk, *, make: Callable[[Submission], Prepared] = prepare, patient: bool = True
    ) -> None:
        self._desk = desk
        self._make = make
        self._patient = patient
        self._replanner = Replanner(desk, self._begin)
        self._group: asyncio.TaskGroup | None = None
        self._is_settled = asyncio.Event()

    @staticmethod
    @asynccontextmanager
    async def opened(
        fleet: SharedFleet,
        path: str | Path,
        rules: Rules,
        *,
        given: Mapping[str, Sequence[LearnerState]] | None = None,
        listen: Listen | None = None,
        make: Callable[[Submission], Prepared] = prepare,
    ) -> AsyncIterator[Manager]:
        """A manager at work for as long as the block lasts, on what is kept in that file.

        `given` are the states of learners that are known beforehand, with rates by task.
        """
        async with AsyncExitStack() as stack:
            store = stack.enter_context(closing(open_store(Path(path))))
            queue = stack.enter_context(closing(Queue(Path(path))))
            await stack.enter_async_context(fleet.watching())
            desk = Desk(fleet, store, queue, rules, Knowledge(given), listen)
            manager = Manager(desk, make=make, patient=not fleet.snapshot())
            await stack.enter_async_context(manager.at_work())
            yield manager

    @property
    def ledger(self) -> Ledger:
        """What was reserved, paid and released."""
        return self._desk.ledger

    @property
    def sitting(self) -> Mapping[str, str]:
        """Learners that were left out of the last plan because they tell too little."""
        return dict(self._desk.sitting)

    @property
    def is_settled(self) -> bool:
        """Whether nothing runs, and nothing that waits can begin as things are."""
        return self._is_settled.is_set()

    async def settled(self) -> None:
        """Wait until nothing runs, and nothing that waits can begin as things are."""
        await self._is_settled.wait()

    @asynccontextmanager
    async def at_work(self) -> AsyncIterator[None]:
        """Take up what is kept, and go on with it for as long as the block lasts."""
        try:
            async with asyncio.TaskGroup() as group:
                self._group = group
                await self._take_up()
                arrivals = group.create_task(self._place_arrivals())
                try:
                    yield
                finally:
                    works = [task.at_work for task in self._desk.tasks.values()]
                    for work in [arrivals, *(work for work in works if work is not None)]:
                        work.cancel()
        except BaseExceptionGroup as group:
            if len(group.exceptions) > 1:
                raise
            # One error is nobody's group.
            raise group.exceptions[0] from None

    # What requesters may ask for

    async def submit(self, submission: Submission) -> Admission:
        """Take a task in, unless it is sure that it cannot be done; the answer says which."""
        desk = self._desk
        self._check_name(submission.name)
        prepared = await desk.fleet.aside(self._make, submission)
        admission = await self._replanner.admit(prepared.work)
        if admission.verdict == "refused":
            return admission
        self._check_name(submission.name)  # Another of that name may have come meanwhile.
        standing = Standing(
            submission=submission,
            work=prepared.work,
            place=len(desk.tasks) + 1,
            arrived_s=desk.clock_s(),
            reason=admission.reason,
        )
        desk.tasks[submission.name] = task = Live(standing, prepared)
        self._is_settled.clear()
        desk.change()
        desk.keep([task])
        desk.bell.ring()
        return admission

    async def cancel(self, name: str) -> None:
        """End a task now; its cycle under way is called off, and those before it stay."""
        if not isinstance(name, str):
            raise ConfigurationError(f"a task is cancelled by its name, got {name!r:.100}")
        desk, task = self._desk, self._desk.tasks.get(name)
        if task is None:
            known = ", ".join(desk.tasks) or "none"
            raise ConfigurationError(f"there is no task {name!r}", hint=f"known are {known}")
        if task.has_ended:
            raise ConfigurationError(f"task {name!r} is {task.standing.state} already")
        if task.at_work is not None:
            await ended(task.at_work)
        if not task.has_ended:
            Career(desk, self._replanner, task).end("cancelled")

    def tasks(self) -> list[TaskView]:
        """Every task, in the order in which they came."""
        return [self._view(task) for task in self._desk.tasks.values()]

    def _view(self, task: Live) -> TaskView:
        return TaskView(
            name=task.name,
            state=task.standing.state,
            cycle=task.cycle,
            cycles=task.standing.submission.cycles,
            accuracy=task.accuracy,
            learners={name: promise.shards for name, promise in sorted(task.shares.items())},
            spent=self._desk.ledger.spent(task.name),
            reason=task.standing.reason,
        )

    def _check_name(self, name: str) -> None:
        desk = self._desk
        if name in desk.tasks or desk.store.settings(name) is not None:
            raise ConfigurationError(
                f"there is a task {name!r} already", hint="give the new one another name"
            )

    # Beginning, and beginning again

    def _begin(self, task: Live) -> None:
        """Start a task's career."""
        assert self._group is not None, "a manager begins tasks while it is at work"
        career = Career(self._desk, self._replanner, task)
        task.at_work = self._group.create_task(career.run())

    async def _place_arrivals(self) -> None:
        """Plan for tasks that wait, as soon as something changes that may let them begin."""
        desk = self._desk
        planning = desk.affairs.planning
        await desk.until(desk.affairs.changed_s if planning is None else planning.at_s)
        while True:
            await desk.look()
            while any(task.standing.seen != desk.affairs.version for task in desk.waiting):
                await self._replanner.replan()
            if desk.running:
                self._is_settled.clear()
            else:
                self._is_settled.set()
            await self._hear()

    async def _hear(self) -> None:
        # Where time is virtual nothing comes by itself, and looking out for it would never end.
        limit_s = LOOK_S if self._patient and self._desk.waiting else None
        with suppress(TimeoutError):
            async with asyncio.timeout(limit_s):
                await self._desk.bell.heard()

    async def _take_up(self) -> None:
        """Go on with the tasks that are kept, each from where its last cycle began or ended."""
        desk = self._desk
        kept = desk.queue.affairs()
        desk.affairs = replace(kept, cycles=0)
        desk.knowledge.take(desk.queue.answers(), learnt=desk.rules.learns)
        for standing in desk.queue.standings():
            desk.tasks[standing.name] = Live(standing)
        self._read_again()
        desk.affairs = kept
        self._take_rules(self._restore())
        await self._prepare_again()
        self._check_budget()
        for task in sorted(desk.running, key=_when):
            self._begin(task)

    async def _prepare_again(self) -> None:
        """Load the data of the tasks that go on; one whose data are gone has failed."""
        desk = self._desk
        for task in desk.tasks.values():
            if task.has_ended:
                continue
            try:
                task.prepared = await desk.fleet.aside(self._make, task.standing.submission)
            except AxonError as error:
                Career(desk, self._replanner, task).end("failed", str(error))

    def _read_again(self) -> None:
        """Note and pay from the records what a manager before this one noted and paid."""
        desk, found = self._desk, []
        for task in desk.tasks.values():
            plans = desk.queue.plans(task.name)
            records = desk.store.records(task.name)
            found += [(task.standing.zero_s + one.ended_s, task, one) for one in records]
            for one in records:
                shares = plan_in_force(plans, one.cycle)
                desk.ledger.recall(task.name, one.cycle, shares, desk.trained(task, one))
            if task.is_running:
                task.shares = plan_in_force(plans, len(records) + 1)
        for _, task, record in sorted(found, key=lambda each: each[0]):
            desk.heard(task, record)

    def _take_rules(self, latest_s: float) -> None:
        """Other rules than before are a change, from when the last thing happened on."""
        desk = self._desk
        if desk.tasks and desk.affairs.rules != desk.rules:
            desk.change()
            # The plan that was being made is one by the old rules.
            desk.affairs = replace(desk.affairs, changed_s=latest_s, planning=None)
        desk.affairs = replace(desk.affairs, rules=desk.rules)

    def _restore(self) -> float:
        """Give the world back what it has to remember, and the clock its time; tells the latest."""
        desk = self._desk
        kept = []
        planning = desk.affairs.planning
        latest_s = max(desk.affairs.changed_s, 0.0 if planning is None else planning.at_s)
        for task in desk.tasks.values():
            standing = task.standing
            saved = None if task.has_ended else desk.store.latest(task.name)
            text = standing.fleet if saved is None else saved.fleet
            kept.append((_kept(standing, saved), text))
            latest_s = max(latest_s, _when(task)[0])
        for _, text in sorted(kept):
            if text:
                desk.fleet.restore(text)
        if self._patient:
            # Real time goes on by itself, and nobody waits for what is past.
            desk.shift_s = latest_s - asyncio.get_running_loop().time()
        return latest_s

    def _check_budget(self) -> None:
        """Where there is less money than before, the last tasks have to be planned anew."""
        desk, kept = self._desk, []
        for task in desk.running:
            kept.append(total(task.shares))
            if summed(kept) > desk.rules.budget:
                kept.pop()
                task.shares = {}
                task.standing = replace(task.standing, seen=-1, begun=None)


def _kept(standing: Standing, saved: Checkpoint | None) -> tuple[float, int]:
    """When it was written down what the world remembers of a task's learners: when it ended.

    It may have rested since, while others trained with learners that it knew from before.
    """
    ended, begun = standing.ended, standing.begun
    if ended is not None and (saved is None or saved.cycle == ended.cycle):
        return ended.at_s, ended.number
    if saved is None:
        return standing.arrived_s, 0
    # Killed between the two: the checkpoint was there, and the end was not noted here.
    return standing.zero_s + saved.clock_s, 0 if begun is None else begun.number


def _when(task: Live) -> tuple[float, int]:
    """When something last happened to a task."""
    moments = [one for one in (task.standing.begun, task.standing.ended) if one is not None]
    latest = max(moments, key=lambda one: one.number, default=None)
    return (task.standing.arrived_s, 0) if latest is None else (latest.at_s, latest.number)
