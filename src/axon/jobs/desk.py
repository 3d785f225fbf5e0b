"""What a manager has before it: the tasks, the learners, the money, and the clock."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace

from axon.jobs.knowledge import Answers, Knowledge
from axon.jobs.ledger import Ledger, trained_shards
from axon.jobs.queue import Queue
from axon.jobs.standing import ENDED, Affairs, Moment, Rules, Shares, Standing
from axon.jobs.submission import Prepared
from axon.rounds.checkpoint import Store
from axon.rounds.events import Event
from axon.rounds.fleet import SharedFleet
from axon.values import DeviceRecord, RoundRecord

Listen = Callable[[str, Event], None]


@dataclass(slots=True, eq=False)
class Live:
    """A task in this process's memory."""

    standing: Standing
    prepared: Prepared | None = None
    """None once it has ended."""
    shares: Shares = field(default_factory=dict)
    """The plan in force."""
    resting: bool = False
    """Between two cycles, so that its learners may be planned anew."""
    record: RoundRecord | None = None
    """Of its last cycle."""
    accuracy: float | None = None
    """When it was last tested."""
    at_work: asyncio.Task[None] | None = None

    @property
    def name(self) -> str:
        return self.standing.name

    @property
    def cycle(self) -> int:
        """How many of its cycles have ended."""
        return 0 if self.record is None else self.record.cycle

    @property
    def is_running(self) -> bool:
        return self.standing.state == "running"

    @property
    def is_waiting(self) -> bool:
        return self.standing.state == "waiting"

    @property
    def has_ended(self) -> bool:
        return self.standing.state in ENDED


class Bell:
    """Wakes everybody who waits for something to change."""

    def __init__(self) -> None:
        self._waiting: list[asyncio.Future[None]] = []

    def ring(self) -> None:
        """Wake them, in the order in which they came."""
        waiting, self._waiting = self._waiting, []
        for one in waiting:
            if not one.done():
                one.set_result(None)

    async def heard(self) -> None:
        """Wait until it rings."""
        one: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._waiting.append(one)
        await one


class Desk:
    """All that careers and plans share; what of it must survive is kept in the queue."""

    def __init__(
        self,
        fleet: SharedFleet,
        store: Store,
        queue: Queue,
        rules: Rules,
        knowledge: Knowledge,
        listen: Listen | None = None,
    ) -> None:
        self.fleet = fleet
        self.store = store
        self.queue = queue
        self.rules = rules
        self.knowledge = knowledge
        self.listen = listen
        self.ledger = Ledger(rules.budget)
        self.tasks: dict[str, Live] = {}
        self.affairs = Affairs()
        self.bell = Bell()
        self.sitting: dict[str, str] = {}
        """Learners that could not be planned for, with the reason."""
        self.shift_s = 0.0
        """From the loop's clock to the manager's, which goes on after a restart."""
        self._looking = asyncio.Lock()
        self._missing: dict[str, tuple[int, int]] = {}
        """How often a learner failed in a row, and until how many cycles it is left out for it."""

    # The clock

    def clock_s(self) -> float:
        """The manager's time."""
        return asyncio.get_running_loop().time() + self.shift_s

    async def until(self, at_s: float) -> None:
        """Wait for that time, if it is to come: what happened then is about to happen again."""
        left_s = at_s - self.clock_s()
        if left_s > 0.0:
            loop = asyncio.get_running_loop()
            moment = loop.create_future()
            # At the very float, which now plus what is left is not.
            timer = loop.call_at(at_s - self.shift_s, moment.set_result, None)
            try:
                await moment
            finally:
                timer.cancel()

    def moment(self, cycle: int) -> Moment:
        """Now, numbered."""
        self.affairs = replace(self.affairs, numbered=self.affairs.numbered + 1)
        return Moment(cycle=cycle, at_s=self.clock_s(), number=self.affairs.numbered)

    # The tasks

    @property
    def running(self) -> list[Live]:
        """Those with cycles to do and learners to do them."""
        return [task for task in self.tasks.values() if task.is_running]

    @property
    def waiting(self) -> list[Live]:
        """Those who have come and are not placed yet, first come first served."""
        now_s = self.clock_s()
        tasks = [task for task in self.tasks.values() if task.is_waiting]
        return [task for task in tasks if task.standing.arrived_s <= now_s]

    def change(self) -> None:
        """A task or a learner came or went: whoever comes to a boundary is to be planned anew."""
        affairs = self.affairs
        self.affairs = replace(affairs, version=affairs.version + 1, changed_s=self.clock_s())

    def keep(
        self,
        tasks: Iterable[Live] = (),
        plans: Mapping[tuple[str, int], Shares] | None = None,
        answers: Answers | None = None,
    ) -> None:
        """Write down where these tasks stand, with the affairs of all."""
        standings = [task.standing for task in tasks]
        self.queue.keep(standings, plans, answers, self.affairs)

    # The learners

    async def look(self) -> tuple[str, ...]:
        """Who is there and answers; that somebody came or went is a change."""
        async with self._looking:
            here = await self.fleet.roster()
        cycles = self.affairs.cycles
        if not self.running:
            # No cycle would count their time down, and a task may wait for the very ones.
            self._missing = {name: (times, 0) for name, (times, _) in self._missing.items()}
        missing = {name for name, (_, until) in self._missing.items() if until > cycles}
        # Where all are missing they are tried all the same: no cycle would ever end otherwise.
        available = tuple(name for name in here if name not in missing) or tuple(here)
        if available != self.affairs.available:
            self.affairs = replace(self.affairs, available=available)
            self.change()
        return available

    def heard(self, task: Live, record: RoundRecord) -> None:
        """Take note of the record of a cycle, newly ended or read again."""
        self.affairs = replace(self.affairs, cycles=self.affairs.cycles + 1)
        self.note_missing(record.devices)
        task.record = record
        if record.accuracy is not None:
            task.accuracy = record.accuracy

    def note_missing(self, devices: Sequence[DeviceRecord]) -> None:
        """A learner that did not answer is left out for 2 cycles, then 4, then 8, of any task."""
        for device in devices:
            times, _ = self._missing.pop(device.device, (0, 0))
            if device.status == "failed":
                again = self.affairs.cycles + 2 ** min(times + 1, 16)
                self._missing[device.device] = (times + 1, again)

    def trained(self, task: Live, record: RoundRecord) -> dict[str, int]:
        """The shards of a cycle that are paid for, by learner."""
        work = task.standing.work
        return trained_shards(record, shard_samples=work.shard_samples, passes=work.passes)
