"""Orchestrators that stand by one run, in virtual time, and what may befall each of them."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import ParamSpec, TypeVar

from axon.errors import StoreSilent
from axon.rounds.checkpoint import Checkpoint, Store
from axon.rounds.depot import Depot
from axon.rounds.events import Event
from axon.rounds.settings import Run
from axon.rounds.sqlite import SqliteStore
from axon.rounds.standby import Candidacy, Standby
from axon.values import Order, RoundRecord
from tests.rounds.worlds import DATASET, FakeFleet, good, run_of

P = ParamSpec("P")
T = TypeVar("T")

HEARTBEAT_S = 1.0
STEP = 0.5
"""By so much each cycle moves every parameter."""


@dataclass
class Ledger:
    """What all orchestrators together have saved, and in whose name."""

    saved: list[tuple[int, int]] = field(default_factory=list)
    """Epoch and cycle, in the order in which the store took them."""
    events: list[tuple[float, str, Event]] = field(default_factory=list)

    def when(self, kind: type[Event], name: str) -> list[float]:
        return [at_s for at_s, who, event in self.events if who == name and isinstance(event, kind)]


class Line:
    """A store as one orchestrator reaches it."""

    def __init__(self, store: Store, ledger: Ledger) -> None:
        self._store = store
        self._ledger = ledger
        self.state = "whole"
        """`cut` lets nothing through; `deaf` loses the next answer, to what was done."""
        self.name = store.name
        self.begin = self._linked(store.begin)
        self.amend = self._linked(store.amend)
        self.settings = self._linked(store.settings)
        self.lead = self._linked(store.lead)
        self.beat = self._linked(store.beat)
        self.leadership = self._linked(store.leadership)
        self.latest = self._linked(store.latest)
        self.records = self._linked(store.records)
        self.runs = self._linked(store.runs)
        self.close = store.close
        self._save = self._linked(self._noted)

    def save(self, checkpoint: Checkpoint, record: RoundRecord, epoch: int | None = None) -> None:
        self._save(checkpoint, record, epoch)

    def _noted(self, checkpoint: Checkpoint, record: RoundRecord, epoch: int | None) -> None:
        self._store.save(checkpoint, record, epoch)
        led = self._store.leadership(checkpoint.run)
        assert led is not None
        assert led.epoch == epoch == record.epoch, "only who leads saves"
        self._ledger.saved.append((led.epoch, checkpoint.cycle))

    def _linked(self, function: Callable[P, T]) -> Callable[P, T]:
        def call(*args: P.args, **kwargs: P.kwargs) -> T:
            if self.state == "cut":
                raise StoreSilent("the link is cut")
            answer = function(*args, **kwargs)
            if self.state == "deaf":
                self.state = "whole"
                raise StoreSilent("the answer is lost")
            return answer

        return call


class HeldFleet(FakeFleet):
    """Learners of one orchestrator that may be stopped where it is."""

    resumed: asyncio.Event | None = None

    async def aside(self, function: Callable[P, T], *args: P.args, **kwargs: P.kwargs) -> T:
        while self.resumed is not None:
            await self.resumed.wait()
        return function(*args, **kwargs)


class Actor:
    """One orchestrator as the world treats it."""

    def __init__(
        self,
        name: str,
        scene: Scene,
        *,
        eager: bool = False,
        prepare: Callable[[], None] | None = None,
    ) -> None:
        self.name = name
        self.line = Line(scene.store, scene.ledger)
        self.fleet = HeldFleet(a=scene.learner, b=scene.learner)
        self._ledger = scene.ledger
        standby = Standby(
            scene.run,
            DATASET,
            self.fleet,
            store=self.line,
            candidacy=Candidacy(holder=name, heartbeat_s=HEARTBEAT_S, eager=eager),
            listen=self._hear,
            prepare=prepare,
        )
        self.standby = standby
        self.task = asyncio.create_task(standby.run(), name=name)

    def kill(self) -> None:
        """It is gone: nothing of what it does while it is cancelled gets out."""
        self.line.state = "cut"
        self.task.cancel()

    def pause(self) -> None:
        if self.fleet.resumed is None:
            self.fleet.resumed = asyncio.Event()

    def resume(self) -> None:
        resumed, self.fleet.resumed = self.fleet.resumed, None
        if resumed is not None:
            resumed.set()

    def link(self, state: str) -> None:
        self.line.state = state

    def _hear(self, event: Event) -> None:
        at_s = asyncio.get_running_loop().time()
        self._ledger.events.append((at_s, self.name, event))


class Scene:
    """One run in one store, and learners that take a while over each cycle."""

    def __init__(self, cycles: int = 6, took_s: float = 0.6) -> None:
        self.run: Run = run_of(cycles=cycles, evaluate_every=0)
        # Kept in memory by a name that SQLite knows.
        self.store = SqliteStore(Path(":memory:"))
        self.store.begin(self.run.name, "{}")
        self.ledger = Ledger()
        self._took_s = took_s
        self._learn = good(STEP)

    async def learner(self, order: Order, depot: Depot) -> object:
        answer = await self._learn(order, depot)
        await asyncio.sleep(self._took_s)
        return answer

    def check(self) -> None:
        """Every cycle was saved once, and nobody saved after somebody newer led."""
        epochs, cycles = zip(*self.ledger.saved, strict=True)
        assert list(cycles) == list(range(1, self.run.cycles + 1))
        assert list(epochs) == sorted(epochs)
        records = self.store.records(self.run.name)
        assert [(record.epoch, record.cycle) for record in records] == self.ledger.saved
