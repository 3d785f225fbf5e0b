"""Many cycles: muster, survey, run one, aggregate, evaluate, record, checkpoint; until it is done.

    orchestrator = Orchestrator(run, dataset, fleet)
    records = await orchestrator.run()

The orchestrator knows no world: it is handed a fleet, and reads the loop's clock.
"""

from __future__ import annotations

import asyncio
import math
import secrets
from collections.abc import AsyncGenerator, Callable, Mapping, Sequence
from contextlib import aclosing
from dataclasses import replace

from axon.data.datasets import Dataset
from axon.data.shards import Shards
from axon.errors import AxonError, CheckpointConflict, QuorumNotReached
from axon.learning.evaluation import evaluate
from axon.learning.nets import initial
from axon.report.frames import Records
from axon.report.records import digest
from axon.rounds.checkpoint import Checkpoint, Store
from axon.rounds.collect import NO_ANSWER
from axon.rounds.cycle import Cycle, Harvest, State
from axon.rounds.depot import Depot
from axon.rounds.events import CycleEnded, Event, SurveyBegan, SurveyEnded
from axon.rounds.fleet import Fleet, Peer
from axon.rounds.judge import is_finite
from axon.rounds.leadership import check_epoch
from axon.rounds.lease import Lease
from axon.rounds.settings import Run, Scheme
from axon.rounds.survey import Surveyor, to_ask
from axon.values import DeviceRecord, RoundRecord, Vector


class Orchestrator:
    """Runs cycles on a fleet until the run is done."""

    def __init__(
        self,
        run: Run,
        dataset: Dataset,
        fleet: Fleet,
        scheme: Scheme | None = None,
        *,
        store: Store | None = None,
        listen: Callable[[Event], None] | None = None,
    ) -> None:
        self._run = run
        self._dataset = dataset
        self._fleet = fleet
        self._scheme = scheme or Scheme()
        self._needed = self._scheme.needed(run.quorum)
        self._store = store
        self._tell = listen
        stock = Shards(dataset.train, run.shard_samples, seed=run.seed)
        self._depot = Depot(run.name, stock, self._scheme.sample, run.seed)
        self._owner = secrets.token_hex(8)
        self._lease: Lease | None = None
        self._zero_s = 0.0
        self._state = State(0, initial(run.spec, run.seed), {}, {})

    @property
    def parameters(self) -> Vector:
        """The global model as it stands."""
        return self._state.parameters

    async def run(self, lease: Lease | None = None) -> Records:
        """Run every cycle that is left, and give their records.

        Raises `QuorumNotReached` when a cycle fails; what came before it is saved. A run that
        others stand by needs the lease of whoever leads it: `Superseded` is raised without.
        """
        async with aclosing(self.cycles(lease)) as cycles:
            return Records([record async for record in cycles])

    async def cycles(self, lease: Lease | None = None) -> AsyncGenerator[RoundRecord, None]:
        """The cycles that are left, one by one, each recorded and saved before it is given."""
        self._lease = lease
        await self._take_up()
        async with self._fleet.hosting(self._depot):
            while self._state.cycle < self._run.cycles:
                yield await self._cycle()

    async def _take_up(self) -> None:
        """Start where the newest checkpoint ends, if there is one."""
        self._zero_s = asyncio.get_running_loop().time()
        if self._store is None:
            return
        saved = await self._latest(self._store)
        if saved is None:
            # One that is led has begun.
            if self._lease is None and self._store.settings(self._run.name) is None:
                self._store.begin(self._run.name, "{}")
            return
        self._check(saved)
        self._zero_s -= saved.clock_s
        self._owner = saved.owner or self._owner
        self._fleet.restore(saved.fleet)
        self._state = State(
            saved.cycle, saved.parameters, saved.step_state, saved.previous_s, saved.findings
        )

    async def _latest(self, store: Store) -> Checkpoint | None:
        """The newest checkpoint, for whoever may go on from it."""
        name, lease = self._run.name, self._lease
        if lease is not None:
            self._owner = lease.owner
            return await lease.reach(store.latest, name)
        led = store.leadership(name)
        if led is not None:
            check_epoch(name, led, None)
        return store.latest(name)

    def _check(self, saved: Checkpoint) -> None:
        """A run goes on only as what it was: its seed names all that it draws."""
        run, size = self._run, self._state.parameters.size
        if saved.seed != run.seed:
            raise CheckpointConflict(
                f"run {run.name} was begun with seed {saved.seed}, not {run.seed}"
            )
        if saved.parameters.size != size:
            raise CheckpointConflict(
                f"run {run.name} has a model of {saved.parameters.size} parameters, "
                f"{run.spec.net} has {size}"
            )

    async def _cycle(self) -> RoundRecord:
        run, number = self._run, self._state.cycle + 1
        peers = await self._fleet.muster(number)
        await self._survey(peers, number)
        started_s = self._clock_s()
        marks = (self._owner, self._epoch or 0)
        cycle = Cycle(run, self._scheme, self._depot, self._state, self._tell, *marks)
        harvest = await cycle.run(peers)
        ended_s = self._clock_s()
        if len(harvest.vectors) < self._needed:
            raise QuorumNotReached(
                wanted=self._needed,
                got=len(harvest.vectors),
                answers=harvest.devices,
                hint=self._shortage(harvest.devices),
            )
        self._state = await self._fleet.aside(self._advance, harvest)
        accuracy, loss = await self._evaluate(number)
        record = RoundRecord(
            run=run.name,
            cycle=number,
            started_s=round(started_s, 6),
            ended_s=round(ended_s, 6),
            deadline_s=run.deadline_s,
            devices=harvest.devices,
            batches=harvest.batches,
            accuracy=accuracy,
            loss=loss,
            digest=await self._fleet.aside(digest, self._state.parameters),
            epoch=self._epoch,
        )
        await self._save(record, tuple(peers))
        if self._tell is not None:
            self._tell(CycleEnded(record))
        return record

    async def _survey(self, peers: Mapping[str, Peer], number: int) -> None:
        """Ask those who have not told yet what the scheme wants to know; no part of any cycle."""
        survey, state = self._scheme.survey, self._state
        if survey is None:
            return
        asked = to_ask(peers, state.findings, survey, number, self._needed)
        if not asked:
            return
        if self._tell is not None:
            self._tell(SurveyBegan(tuple(asked)))
        marks = (self._owner, self._epoch or 0)
        surveyor = Surveyor(self._run, survey, self._depot, *marks)
        found = await surveyor.ask(asked, state.parameters, state.findings, number)
        self._state = replace(state, findings={**state.findings, **found})
        if self._tell is not None:
            self._tell(SurveyEnded(found))

    def _shortage(self, devices: Sequence[DeviceRecord]) -> str:
        """Why a cycle came to too few updates, for one line."""
        told, least = [_reasons(devices)], self._scheme.least
        if least > (self._run.quorum or 1):
            told.insert(0, f"{self._scheme.aggregate} works with {least} updates at least")
        return "; ".join(filter(None, told))

    def _advance(self, harvest: Harvest) -> State:
        state = self._state
        aggregate = self._scheme.aggregate(harvest.vectors, harvest.weights)
        parameters, step_state = self._scheme.step(state.parameters, aggregate, state.step_state)
        self._check_model(parameters)
        took_s = {device.device: self._took_s(device) for device in harvest.devices}
        known = {name: each_s for name, each_s in took_s.items() if each_s is not None}
        return State(state.cycle + 1, parameters, step_state, known, state.findings)

    def _check_model(self, parameters: Vector) -> None:
        """Stop before a broken model is saved and handed to everybody."""
        wanted = self._state.parameters
        fits = parameters.dtype == wanted.dtype and parameters.shape == wanted.shape
        if fits and is_finite(parameters):
            return
        found = "numbers that are not finite"
        if not fits:
            found = f"{parameters.dtype} of shape {parameters.shape}"
        raise AxonError(
            f"{self._scheme.aggregate} and {self._scheme.step} gave {found}, "
            f"wanted {wanted.dtype} of shape {wanted.shape}"
        )

    def _took_s(self, device: DeviceRecord) -> float | None:
        """How long a learner's update took to come, as it is told next time.

        How soon a learner declined says nothing of the way back.
        """
        if device.status in ("used", "late"):
            return device.answered_s
        gave_up = device.status == "failed" and device.reason == NO_ANSWER
        return math.inf if gave_up else None

    async def _evaluate(self, cycle: int) -> tuple[float | None, float | None]:
        if not self._run.evaluates(cycle):
            return None, None
        accuracy, loss = await self._fleet.aside(
            evaluate, self._run.spec, self._state.parameters, self._dataset.test
        )
        return round(accuracy, 6), round(loss, 6)

    async def _save(self, record: RoundRecord, members: tuple[str, ...]) -> None:
        if self._store is None:
            return
        state = self._state
        checkpoint = Checkpoint(
            run=self._run.name,
            cycle=state.cycle,
            parameters=state.parameters,
            step_state=dict(state.step_state),
            previous_s=dict(state.previous_s),
            findings=dict(state.findings),
            clock_s=self._clock_s(),
            members=members,
            owner=self._owner,
            fleet=self._fleet.snapshot(),
            seed=self._run.seed,
        )
        if self._lease is not None:
            await self._lease.save(checkpoint, record)
        else:
            await self._fleet.aside(self._store.save, checkpoint, record)

    @property
    def _epoch(self) -> int | None:
        return None if self._lease is None else self._lease.epoch

    def _clock_s(self) -> float:
        return asyncio.get_running_loop().time() - self._zero_s


def _reasons(devices: Sequence[DeviceRecord], most: int = 8) -> str:
    """Why those who were not used were not, for one line."""
    failed = [each for each in devices if each.status != "used"]
    told = [f"{each.device}: {each.reason or each.status}" for each in failed[:most]]
    if len(failed) > most:
        told.append(f"and {len(failed) - most} more")
    return "; ".join(told)
