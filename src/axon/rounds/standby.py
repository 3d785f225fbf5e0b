"""An orchestrator that is ready to lead a run, and does once whoever leads it shows no life.

    standby = Standby(run, dataset, fleet, scheme, store=store)
    records = await standby.run()

Any number of them may watch one run over the store that all of them reach. They compare no clocks:
each counts on its own how long the beats of the leader have stood still. Which of them leads, the
store decides; whoever was replaced finds out at its next beat, or when it saves.
"""

from __future__ import annotations

import asyncio
import os
import secrets
import socket
from collections.abc import Callable
from dataclasses import dataclass, field

from axon.data.datasets import Dataset
from axon.errors import StoreSilent
from axon.learning.evaluation import evaluate
from axon.rounds.checkpoint import Store
from axon.rounds.events import Event, StandsBy, StoreLost, TookOver
from axon.rounds.fleet import Fleet
from axon.rounds.leadership import HEARTBEAT_S, Leadership, check_claim
from axon.rounds.lease import Lease
from axon.rounds.orchestrator import Orchestrator
from axon.rounds.settings import Run, Scheme
from axon.values import RoundRecord, Vector

PATIENCE = 1.7
"""Heartbeats without a sign of life after which the leader counts as dead. What is missing to two
is for looking, and for leading."""
UNLED = 10.0
"""Heartbeats after which a run that has begun, and that nobody has led or advanced, is led by one
that stands by: whoever began it has died before it came to lead. It mostly leads within seconds."""
LOOK = 0.1
"""Heartbeats between two looks."""
LONGEST_LOOK = 0.5
"""As many heartbeats count, at most, for the time from one look to the next. Whoever could not look
for longer, asleep or without its store, gives the leader time to be seen again."""


def own_name() -> str:
    """What an orchestrator calls itself where nobody named it; no other is called the same."""
    return f"{socket.gethostname()[:100]}:{os.getpid()}:{secrets.token_hex(2)}"


@dataclass(frozen=True, slots=True, kw_only=True)
class Candidacy:
    """Under which conditions an orchestrator comes to lead a run."""

    holder: str = field(default_factory=own_name)
    """A name that no other has."""
    heartbeat_s: float = HEARTBEAT_S
    """How often it shows that it lives, if it is the first to lead; else as often as that one."""
    eager: bool = False
    """Whether it leads a run that nobody ever has. One that is not waits for the first to do so,
    `UNLED` heartbeats of its own."""

    def __post_init__(self) -> None:
        check_claim(self.holder, self.heartbeat_s)


class Standby:
    """Waits with everything at hand, leads when it must, and ends with the run."""

    def __init__(
        self,
        run: Run,
        dataset: Dataset,
        fleet: Fleet,
        scheme: Scheme | None = None,
        *,
        store: Store,
        candidacy: Candidacy | None = None,
        listen: Callable[[Event], None] | None = None,
        prepare: Callable[[], None] | None = None,
    ) -> None:
        """`prepare` is called beside the loop once this one leads, before it advances anything, and
        again where the store was silent meanwhile."""
        self._run = run
        self._dataset = dataset
        self._fleet = fleet
        self._store = store
        self._candidacy = candidacy or Candidacy()
        self._tell = listen
        self._prepare = prepare
        self._orchestrator = Orchestrator(run, dataset, fleet, scheme, store=store, listen=listen)
        self._parameters: Vector | None = None
        self._silent = False
        self._has_claimed = False

    @property
    def parameters(self) -> Vector:
        """The global model as it stands."""
        parameters = self._parameters
        return self._orchestrator.parameters if parameters is None else parameters

    async def run(self) -> list[RoundRecord]:
        """The records of the whole run, whoever led it.

        Raises `Superseded` when another comes to lead instead, and whatever ends an orchestrator.
        """
        await self._fleet.aside(self._warm_up)
        led = await self._awaited()
        lease = Lease(self._store, self._run.name, led, self._fleet, self._tell)
        if self._leads(led):
            await lease.during(self._lead(led, lease))
        else:
            latest = await lease.reach(self._store.latest, self._run.name)
            self._parameters = None if latest is None else latest.parameters
        return await lease.reach(self._store.records, self._run.name)

    async def _lead(self, led: Leadership, lease: Lease) -> None:
        if self._prepare is not None:
            await lease.reach(self._prepare)
        self._say(TookOver(led.epoch, led.holder, led.cycles))
        await self._orchestrator.run(lease)

    def _warm_up(self) -> None:
        """Do once what takes long only the first time: torch loads much when it is first used."""
        evaluate(self._run.spec, self.parameters, self._dataset.test.take(slice(0, 1)))

    async def _awaited(self) -> Leadership:
        """Who leads once this one does, or once the run is over."""
        loop, silent_s = asyncio.get_running_loop(), 0.0
        looked_s, seen = loop.time(), None
        while True:
            found, now_s = await self._look(), loop.time()
            if found is None or seen is None or found.mark != seen.mark:
                silent_s = 0.0
            else:
                silent_s += min(now_s - looked_s, LONGEST_LOOK * found.heartbeat_s)
            looked_s = now_s
            if found is not None:
                if found.cycles < self._run.cycles and self._is_time(found, silent_s):
                    found = await self._claim(found)
                if self._leads(found) or found.cycles >= self._run.cycles:
                    return found
                self._watch(found, seen)
                seen = found
            await asyncio.sleep(LOOK * (seen or Leadership()).heartbeat_s)

    def _leads(self, found: Leadership) -> bool:
        # The name alone proves nothing: whoever bore it before may be asleep, and wake up.
        return self._has_claimed and found.holder == self._candidacy.holder

    def _is_time(self, found: Leadership, silent_s: float) -> bool:
        if not found.epoch:
            # What has cycles that nobody led was begun by one that nobody should stand by.
            is_left = not found.cycles and silent_s >= UNLED * self._candidacy.heartbeat_s
            return self._candidacy.eager or is_left
        return silent_s >= PATIENCE * found.heartbeat_s

    async def _look(self) -> Leadership | None:
        """How the run stands; None where it is unknown, or the store silent."""
        try:
            found = await self._fleet.aside(self._store.leadership, self._run.name)
        except StoreSilent as error:
            self._miss(error)
            return None
        self._silent = False
        return found

    async def _claim(self, seen: Leadership) -> Leadership:
        """How the run stands after this one has wanted to lead it."""
        self._has_claimed = True
        heartbeat_s = seen.heartbeat_s if seen.epoch else self._candidacy.heartbeat_s
        try:
            return await self._fleet.aside(
                self._store.lead,
                self._run.name,
                self._candidacy.holder,
                heartbeat_s=heartbeat_s,
                after=seen,
            )
        except StoreSilent as error:
            # It may lead all the same, which the next look tells.
            self._miss(error)
            return seen

    def _watch(self, found: Leadership, seen: Leadership | None) -> None:
        if seen is None or found.epoch != seen.epoch:
            self._say(StandsBy(found))

    def _miss(self, error: StoreSilent) -> None:
        if not self._silent:
            self._say(StoreLost(str(error)))
        self._silent = True

    def _say(self, event: Event) -> None:
        if self._tell is not None:
            self._tell(event)
