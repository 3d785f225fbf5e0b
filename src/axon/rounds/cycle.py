"""One cycle: plan, dispatch, collect, aggregate. What it leaves is a value."""

from __future__ import annotations

import asyncio
import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace

from axon.compression.codecs import codec
from axon.policies import Situation
from axon.rounds.collect import Arrival, Collector
from axon.rounds.depot import Depot
from axon.rounds.events import CycleBegan, Event, LearnerProgress, LearnerSettled
from axon.rounds.fleet import Peer, Report
from axon.rounds.judge import Verdict, judge
from axon.rounds.settings import Run, Scheme
from axon.seeds import stream
from axon.values import DeviceRecord, Order, Plan, Share, TaskCost, Vector


@dataclass(frozen=True, slots=True)
class State:
    """The learning state between two cycles."""

    cycle: int
    parameters: Vector
    step_state: Mapping[str, Vector]
    previous_s: Mapping[str, float]
    """When each learner of the cycle before answered."""


@dataclass(frozen=True, slots=True)
class Harvest:
    """What a cycle brought in."""

    devices: tuple[DeviceRecord, ...]
    vectors: list[Vector]
    weights: list[float]
    """Batches trained, in the order of the vectors."""

    @property
    def batches(self) -> int:
        """Behind the average."""
        return int(sum(self.weights))


class Cycle:
    """One cycle of a run, from the plan to the harvest."""

    def __init__(
        self, run: Run, scheme: Scheme, depot: Depot, state: State, tell: Callable[[Event], None]
    ) -> None:
        self._run = run
        self._scheme = scheme
        self._depot = depot
        self._state = state
        self._tell = tell
        self._codec = codec(scheme.codec)
        self._number = state.cycle + 1
        self._began_s = asyncio.get_running_loop().time()

    async def run(self, peers: Mapping[str, Peer]) -> Harvest:
        """Give everybody their share and bring in what comes back in time."""
        plan = self._plan(tuple(peers))
        orders = {name: self._order(name, share) for name, share in plan.shares.items()}
        self._depot.publish(self._number, self._state.parameters, orders)
        self._tell(CycleBegan(plan))
        calls = {
            name: peers[name].train(order, self._report(name)) for name, order in orders.items()
        }
        collector = Collector(
            calls,
            lambda name, answer: self._judge(orders[name], answer),
            quorum=self._run.quorum,
            heard=lambda name, arrival: self._settled(orders[name], arrival),
        )
        arrivals = await collector.collect(self._run.deadline_s)
        return self._harvest(orders, arrivals)

    def _plan(self, members: tuple[str, ...]) -> Plan:
        run, scheme = self._run, self._scheme
        chosen = scheme.select(members, stream(run.seed, "select", self._number))
        situation = Situation(
            cycle=self._number,
            deadline_s=run.deadline_s,
            cost=self._cost(passes=1),
            shards=len(self._depot.stock),
        )
        shares = scheme.allocate(tuple(chosen), situation)
        return Plan(
            cycle=self._number,
            deadline_s=run.deadline_s,
            shares={name: shares[name] for name in sorted(shares) if shares[name].shards != 0},
        )

    def _cost(self, passes: int) -> TaskCost:
        return TaskCost(
            model_bytes=self._state.parameters.nbytes,
            shard_bytes=self._depot.stock.shard_bytes,
            passes=passes,
        )

    def _order(self, name: str, share: Share) -> Order:
        run = self._run
        return Order(
            run=run.name,
            cycle=self._number,
            device=name,
            spec=run.spec,
            share=share,
            cost=self._cost(share.passes),
            shard_samples=run.shard_samples,
            shards=len(self._depot.stock),
            deadline_s=run.deadline_s,
            seed=run.seed,
            codec=self._scheme.codec,
            previous_s=self._state.previous_s.get(name),
        )

    def _judge(self, order: Order, answer: object) -> Verdict:
        served = self._depot.served.get(order.device)
        # What it trained on its own data is its own affair; of ours it cannot have had more.
        most = None
        if served is not None:
            most = order.spec.batches(served * order.shard_samples, order.share.passes)
        return judge(
            answer,
            order,
            reference=self._state.parameters,
            codec=self._codec,
            most_batches=most,
        )

    def _report(self, name: str) -> Report:
        return lambda done, total: self._tell(LearnerProgress(name, done, total))

    def _settled(self, order: Order, arrival: Arrival) -> None:
        self._tell(LearnerSettled(self._record(order, arrival)))

    def _harvest(self, orders: Mapping[str, Order], arrivals: Mapping[str, Arrival]) -> Harvest:
        # By name, so that neither record nor sum depends on who answered first.
        devices = tuple(self._record(order, arrivals[name]) for name, order in orders.items())
        harvest = Harvest(devices, [], [])
        for name in orders:
            verdict = arrivals[name].verdict
            if verdict.vector is not None and verdict.update is not None:
                harvest.vectors.append(verdict.vector)
                harvest.weights.append(float(verdict.update.batches))
        return harvest

    def _record(self, order: Order, arrival: Arrival) -> DeviceRecord:
        verdict, update = arrival.verdict, arrival.verdict.update
        handed_s = self._depot.handed_s.get(order.device)
        known = DeviceRecord(
            device=order.device,
            status=verdict.status,
            reason=verdict.reason,
            planned_shards=order.share.shards,
            shards=self._depot.served.get(order.device, 0),
            fetched_s=None if handed_s is None else round(handed_s - self._began_s, 6),
            answered_s=arrival.answered_s,
        )
        if update is None:
            return known
        return replace(
            known,
            shards=update.shards,
            batches=update.batches,
            samples=update.samples,
            halted=update.halted,
            loss=round(update.loss, 6) if math.isfinite(update.loss) else None,
            timings=update.timings,
        )
