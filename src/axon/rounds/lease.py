"""The leadership of a run as its holder has it: beaten for while the work lasts, lost for good.

    lease = Lease(store, run.name, store.lead(run.name, holder), fleet)
    records = await lease.during(orchestrator.run(lease))

What keeps two leaders apart is the store alone: it saves nothing of an epoch that no longer leads.
The beats say only that the holder is alive. They come from a task on the orchestrator's own loop,
so that one whose loop hangs is replaced as well; what takes long is computed beside the loop.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine
from contextlib import suppress
from typing import Any, ParamSpec, TypeVar

from axon.errors import AxonError, CheckpointConflict, StoreSilent
from axon.report.records import to_line
from axon.rounds.checkpoint import Checkpoint, Store
from axon.rounds.events import Event, StoreLost
from axon.rounds.fleet import Fleet
from axon.rounds.leadership import Leadership, check_begun, check_epoch
from axon.values import RoundRecord

P = ParamSpec("P")
T = TypeVar("T")

AGAIN = 0.5
"""The part of a heartbeat after which a silent store is asked again."""


class Lease:
    """A run that this orchestrator leads until somebody else does."""

    def __init__(
        self,
        store: Store,
        run: str,
        held: Leadership,
        fleet: Fleet,
        tell: Callable[[Event], None] | None = None,
    ) -> None:
        self.epoch = held.epoch
        self.owner = held.owner
        self._store = store
        self._run = run
        self._heartbeat_s = held.heartbeat_s
        self._fleet = fleet
        self._tell = tell
        self._silent = False

    async def during(self, work: Coroutine[Any, Any, T]) -> T:
        """What the work gives; it is called off, and `Superseded` raised, once another leads."""
        loop = asyncio.get_running_loop()
        working, beating = loop.create_task(work), loop.create_task(self._beat())
        try:
            await asyncio.wait([working, beating], return_when=asyncio.FIRST_COMPLETED)
            if not working.done():
                await _end(working)
                beating.result()
            await self._check(working)
            return working.result()
        finally:
            await _end(working, beating)

    async def save(self, checkpoint: Checkpoint, record: RoundRecord) -> None:
        """Save a cycle, for as long as it takes to reach the store; `Superseded` if it is in vain.

        Until then nothing goes on: an orchestrator without its store advances no run.
        """
        await self.reach(self._save, checkpoint, record)

    async def reach(self, function: Callable[P, T], *args: P.args, **kwargs: P.kwargs) -> T:
        """What a function of the store gives, asked again and again while the store is silent."""
        while True:
            try:
                found = await self._fleet.aside(function, *args, **kwargs)
            except StoreSilent as error:
                if self._tell is not None and not self._silent:
                    self._tell(StoreLost(str(error)))
                self._silent = True
                await asyncio.sleep(AGAIN * self._heartbeat_s)
            else:
                self._silent = False
                return found

    def _save(self, checkpoint: Checkpoint, record: RoundRecord) -> None:
        try:
            self._store.save(checkpoint, record, self.epoch)
        except CheckpointConflict:
            # An earlier attempt may have been kept though its answer was lost. Whoever leads saves
            # alone, so that only this cycle of this epoch can be there, and it is there once.
            kept = self._store.records(self._run)[-1:]
            if [to_line(each) for each in kept] != [to_line(record)]:
                raise

    async def _check(self, working: asyncio.Task[Any]) -> None:
        """Raise `Superseded` for what failed because another leads: learners may hear of it first.

        Where the store is silent the failure is all that is known.
        """
        error = None if working.cancelled() else working.exception()
        if isinstance(error, AxonError):
            with suppress(StoreSilent):
                found = await self._fleet.aside(self._store.leadership, self._run)
                check_epoch(self._run, check_begun(self._run, found), self.epoch)

    async def _beat(self) -> None:
        """Show that the holder lives, until it turns out that it no longer leads."""
        loop = asyncio.get_running_loop()
        due_s = loop.time()
        while True:
            # By the clock: a beat that took long must not put off all that follow.
            due_s = max(due_s + self._heartbeat_s, loop.time())
            await asyncio.sleep(due_s - loop.time())
            await self.reach(self._store.beat, self._run, self.epoch)


async def _end(*tasks: asyncio.Task[Any]) -> None:
    for task in tasks:
        task.cancel()
    await asyncio.wait(tasks)
    for task in tasks:
        # Looked at, so that asyncio does not report as lost that both heard of the same end.
        if not task.cancelled():
            task.exception()
