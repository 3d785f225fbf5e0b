"""One task's life: planned, run cycle by cycle, paid for, and ended."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping, Sequence
from contextlib import aclosing
from dataclasses import dataclass, replace

from axon.errors import AxonError, QuorumNotReached
from axon.jobs.desk import Desk, Live
from axon.jobs.replanning import Replanner
from axon.jobs.standing import State
from axon.policies import Situation
from axon.rounds.checkpoint import Checkpoint, Store
from axon.rounds.events import Event
from axon.rounds.fleet import Fleet
from axon.rounds.orchestrator import Orchestrator
from axon.rounds.settings import Scheme
from axon.values import DeviceRecord, RoundRecord, Share


@dataclass(frozen=True, slots=True, eq=False)
class Dealt:
    """Allocates what the plan in force says."""

    task: Live

    def __call__(
        self,
        members: Sequence[str],
        situation: Situation,  # noqa: ARG002  (part of the seam)
    ) -> Mapping[str, Share]:
        """The shares of those members whom the plan names."""
        passes = self.task.standing.work.passes
        return {
            name: Share(shards=promise.shards, passes=passes)
            for name, promise in self.task.shares.items()
            if name in members
        }


class Remembering:
    """A part of the fleet that is not restored when its run is taken up.

    The manager has done so for everybody at once when it was started, and a run that is taken up
    later, after a cycle that brought nothing, must not undo what has happened to its learners.
    """

    def __init__(self, part: Fleet) -> None:
        self.hosting = part.hosting
        self.muster = part.muster
        self.aside = part.aside
        self.snapshot = part.snapshot

    def restore(self, snapshot: str) -> None:
        """Nothing: they remember."""


class Clocked:
    """A store that takes a run up at the time it is now, not at that of its last checkpoint.

    Between the two the run may have waited for a plan, or tried a cycle that brought nothing; its
    clock counts both, whether or not the manager was killed meanwhile.
    """

    def __init__(self, store: Store, clock_s: Callable[[], float]) -> None:
        self.name = store.name
        self.begin = store.begin
        self.amend = store.amend
        self.settings = store.settings
        self.save = store.save
        self.lead = store.lead
        self.beat = store.beat
        self.leadership = store.leadership
        self.records = store.records
        self.runs = store.runs
        self.close = store.close
        self._latest = store.latest
        self._clock_s = clock_s

    def latest(self, run: str) -> Checkpoint | None:
        """See `Store.latest`."""
        saved = self._latest(run)
        return None if saved is None else replace(saved, clock_s=self._clock_s())


class Career:
    """Runs one task to its end, whatever that is."""

    def __init__(self, desk: Desk, replanner: Replanner, task: Live) -> None:
        self._desk = desk
        self._replanner = replanner
        self._task = task

    async def run(self) -> None:
        """All cycles that are left; a cycle that brings nothing is tried again, a few times."""
        try:
            while not await self._cycles():
                pass
        except AxonError as error:
            self.end("failed", str(error))
        else:
            self.end("done", self._shortfall())

    def end(self, state: State, reason: str = "") -> None:
        """Let go of the learners and the money."""
        desk, task = self._desk, self._task
        desk.ledger.release(task.name)
        task.resting, task.shares, task.prepared = False, {}, None
        # Of a real fleet there is nothing to remember; of another, those in no cycle now.
        fleet = desk.fleet.snapshot() and desk.fleet.part(lambda: ()).snapshot()
        task.standing = replace(
            task.standing,
            state=state,
            reason=reason,
            ended=desk.moment(task.cycle),
            fleet=fleet,
        )
        desk.change()
        desk.keep([task])
        desk.bell.ring()

    def _shortfall(self) -> str:
        """What is to be said of a task that has trained less than it was to."""
        task = self._task
        wanted, trained = task.standing.work.shards * task.cycle, self._desk.ledger.paid(task.name)
        if trained >= wanted:
            return ""
        return f"trained {trained} of {wanted} shards in {task.cycle} cycles"

    async def _cycles(self) -> bool:
        """Run cycles until there are none left; False where one brought nothing."""
        task, desk = self._task, self._desk
        assert task.prepared is not None, "a task that has ended has no career"
        prepared = task.prepared
        orchestrator = Orchestrator(
            prepared.run,
            prepared.dataset,
            Remembering(desk.fleet.part(lambda: task.shares)),
            Scheme(allocate=Dealt(task)),
            store=Clocked(desk.store, lambda: desk.clock_s() - task.standing.zero_s),
            listen=self._tell if desk.listen is not None else None,
        )
        try:
            async with aclosing(orchestrator.cycles()) as cycles:
                while task.cycle < prepared.run.cycles:
                    await self._ready()
                    self._ended(await anext(cycles))
        except QuorumNotReached as error:
            self._missed(error)
            return False
        return True

    async def _ready(self) -> None:
        """Wait until the next cycle may begin: planned, and within the budget."""
        desk, task = self._desk, self._task
        begun = task.standing.begun
        if begun is not None and begun.cycle == task.cycle + 1 and task.shares:
            # It had begun when the manager was killed, so nothing is left to decide.
            await desk.until(begun.at_s)
        else:
            await desk.until(self._rested_s())
            await self._rest()
            begun = desk.moment(task.cycle + 1)
        desk.ledger.reserve(task.name, task.cycle + 1, task.shares)
        # Before anything is saved a run begins its clock with its first cycle, however often.
        zero_s = desk.clock_s() if task.record is None else task.standing.zero_s
        task.standing = replace(task.standing, begun=begun, zero_s=zero_s)
        desk.keep([task])

    def _rested_s(self) -> float:
        """Up to when an earlier manager has let it rest: to the plan it was making, if it was."""
        planning, ended = self._desk.affairs.planning, self._task.standing.ended
        return max(0.0 if ended is None else ended.at_s, 0.0 if planning is None else planning.at_s)

    async def _rest(self) -> None:
        """Be planned anew if something has changed, and wait until there is a plan."""
        desk, task, replanner = self._desk, self._task, self._replanner
        task.resting = True
        desk.bell.ring()
        try:
            while True:
                await desk.look()
                if replanner.is_due(task):
                    await replanner.replan()
                if replanner.may_begin(task):
                    return
                await desk.bell.heard()
        finally:
            task.resting = False

    def _ended(self, record: RoundRecord) -> None:
        desk, task = self._desk, self._task
        desk.ledger.settle(task.name, record.cycle, desk.trained(task, record))
        desk.heard(task, record)
        moment = desk.moment(record.cycle)
        task.standing = replace(task.standing, ended=moment, misses=0)
        desk.keep([task])

    def _missed(self, error: QuorumNotReached) -> None:
        """Nobody's update came: leave out who failed, and plan anew, unless it was once too often.

        Raises the error then.
        """
        desk, task = self._desk, self._task
        desk.ledger.release(task.name)
        misses = task.standing.misses + 1
        if misses >= desk.rules.attempts:
            raise error
        devices = error.answers if isinstance(error.answers, tuple) else ()
        desk.note_missing([one for one in devices if isinstance(one, DeviceRecord)])
        desk.affairs = replace(desk.affairs, cycles=desk.affairs.cycles + 1)
        task.standing = replace(task.standing, misses=misses, seen=-1, begun=None)
        desk.keep([task])

    def _tell(self, event: Event) -> None:
        if self._desk.listen is not None:
            self._desk.listen(self._task.name, event)


async def ended(work: asyncio.Task[None]) -> None:
    """Call a career off, and wait until its cycle has been."""
    work.cancel()
    await asyncio.wait([work])
