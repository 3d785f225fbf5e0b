"""One cycle: plan, dispatch, collect, aggregate. What it leaves is a value."""

from __future__ import annotations

import asyncio
import math
import secrets
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field

from axon.compression.codecs import codec
from axon.errors import ConfigurationError
from axon.policies import Situation
from axon.rounds.collect import Arrival, Collector
from axon.rounds.depot import Depot
from axon.rounds.events import CycleBegan, Event, LearnerProgress, LearnerSettled
from axon.rounds.fleet import Peer, Report
from axon.rounds.judge import Verdict, judge
from axon.rounds.settings import Run, Scheme
from axon.rounds.survey import Finding, known
from axon.seeds import stream
from axon.values import DeviceRecord, Order, Plan, Share, Status, TaskCost, Update, Vector


@dataclass(frozen=True, slots=True)
class State:
    """The learning state between two cycles."""

    cycle: int
    parameters: Vector
    step_state: Mapping[str, Vector]
    previous_s: Mapping[str, float]
    """When each learner of the cycle before answered."""
    findings: Mapping[str, Finding] = field(default_factory=dict)
    """What came of asking learners before their first cycle."""


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
        self,
        run: Run,
        scheme: Scheme,
        depot: Depot,
        state: State,
        tell: Callable[[Event], None] | None = None,
        owner: str = "",
        epoch: int = 0,
    ) -> None:
        self._run = run
        self._scheme = scheme
        self._depot = depot
        self._state = state
        self._owner = owner
        self._epoch = epoch
        self._tell = tell
        self._codec = codec(scheme.codec)
        self._number = state.cycle + 1
        self._began_s = asyncio.get_running_loop().time()

    async def run(self, peers: Mapping[str, Peer]) -> Harvest:
        """Give everybody their share and bring in what comes back in time."""
        chosen = self._select(tuple(peers))
        plan = self._plan(chosen)
        idle = self._idle(chosen, plan)
        costs = {passes: self._cost(passes) for passes in _passes(plan)}
        orders = {
            name: self._order(name, share, costs[share.passes])
            for name, share in plan.shares.items()
        }
        tickets = {order.ticket: name for name, order in orders.items()}
        told = {name: share.shards for name, share in plan.shares.items()}
        self._depot.publish(self._number, self._state.parameters, tickets, told)
        if self._tell is not None:
            self._tell(CycleBegan(plan))
            for record in idle:
                self._tell(LearnerSettled(record))
        calls = {
            name: peers[name].train(order, self._report(name)) for name, order in orders.items()
        }
        collector = Collector(
            calls,
            lambda name, answer: self._judge(orders[name], answer),
            quorum=self._run.quorum,
            heard=self._settling(orders),
        )
        arrivals = await collector.collect(self._run.deadline_s, self._run.grace_s)
        return self._harvest(orders, arrivals, idle)

    def _select(self, members: tuple[str, ...]) -> tuple[str, ...]:
        random = stream(self._run.seed, "select", self._number)
        return tuple(self._scheme.select(members, random))

    def _plan(self, chosen: tuple[str, ...]) -> Plan:
        run, scheme = self._run, self._scheme
        situation = Situation(
            cycle=self._number,
            deadline_s=run.deadline_s,
            cost=self._cost(passes=1),
            shards=len(self._depot.stock),
            capabilities=known(self._state.findings, scheme.survey),
        )
        shares = scheme.allocate(chosen, situation)
        strangers = sorted(set(shares) - set(chosen))
        if strangers:
            raise ConfigurationError(
                f"the allocator gave a share to {', '.join(strangers)}, who was not selected"
            )
        return Plan(
            cycle=self._number,
            deadline_s=run.deadline_s,
            shares={name: shares[name] for name in sorted(shares) if shares[name].shards != 0},
        )

    def _idle(self, chosen: Sequence[str], plan: Plan) -> list[DeviceRecord]:
        """Records of those who were selected and got no share."""
        left_out = [name for name in chosen if name not in plan.shares]
        return [self._idle_record(name) for name in left_out]

    def _idle_record(self, name: str) -> DeviceRecord:
        survey, finding = self._scheme.survey, self._state.findings.get(name)
        status: Status = "not needed"
        reason = "the allocator gave it no share"
        if survey is not None and survey.disclosed:
            if finding is None:
                reason = "survey: not yet asked what it can do"
            elif not finding.is_enough(survey):
                status = "failed" if finding.status == "failed" else "declined"
                reason = f"survey: {finding.reason}"
        return DeviceRecord(device=name, status=status, reason=reason, planned_shards=0)

    def _cost(self, passes: int) -> TaskCost:
        return TaskCost(
            model_bytes=self._state.parameters.nbytes,
            shard_bytes=self._depot.stock.shard_bytes,
            passes=passes,
        )

    def _order(self, name: str, share: Share, cost: TaskCost) -> Order:
        run = self._run
        return Order(
            run=run.name,
            cycle=self._number,
            device=name,
            spec=run.spec,
            share=share,
            cost=cost,
            shard_samples=run.shard_samples,
            shards=len(self._depot.stock),
            deadline_s=run.deadline_s,
            grace_s=run.grace_s,
            seed=run.seed,
            codec=self._scheme.codec,
            owner=self._owner,
            epoch=self._epoch,
            ticket=secrets.token_hex(8),
            previous_s=self._state.previous_s.get(name),
        )

    def _judge(self, order: Order, answer: object) -> Verdict:
        fetched = order.device in self._depot.served
        if isinstance(answer, Update) and not fetched and not self._run.own_data:
            return Verdict("refused", "trained on data of its own, which this run does not take")
        return judge(
            answer,
            order,
            reference=self._state.parameters,
            codec=self._codec,
            most_batches=self._most_batches(order),
        )

    def _most_batches(self, order: Order) -> int | None:
        """What a learner can have trained: no more than it was told to, nor than it fetched.

        Nobody else knows how much data of its own a learner has that was left to decide.
        """
        bounds = (order.share.shards, self._depot.served.get(order.device))
        shards = min((bound for bound in bounds if bound is not None), default=None)
        if shards is None:
            return None
        return order.spec.batches(shards * order.shard_samples, order.share.passes)

    def _report(self, name: str) -> Report | None:
        tell = self._tell
        # Nobody listens: then nobody needs to be told, and a learner need not report.
        return tell and (lambda done, total: tell(LearnerProgress(name, done, total)))

    def _settling(self, orders: Mapping[str, Order]) -> Callable[[str, Arrival], None] | None:
        tell = self._tell
        return tell and (
            lambda name, arrival: tell(LearnerSettled(self._record(orders[name], arrival)))
        )

    def _harvest(
        self,
        orders: Mapping[str, Order],
        arrivals: Mapping[str, Arrival],
        idle: Sequence[DeviceRecord],
    ) -> Harvest:
        # By name, so that neither record nor sum depends on who answered first.
        devices = [self._record(order, arrivals[name]) for name, order in orders.items()]
        devices = sorted([*devices, *idle], key=lambda record: record.device)
        harvest = Harvest(tuple(devices), [], [])
        for name in orders:
            verdict = arrivals[name].verdict
            if verdict.vector is not None and verdict.update is not None:
                harvest.vectors.append(verdict.vector)
                harvest.weights.append(float(verdict.update.batches))
        return harvest

    def _record(self, order: Order, arrival: Arrival) -> DeviceRecord:
        verdict, update = arrival.verdict, arrival.verdict.update
        handed_s = self._depot.handed_s.get(order.device)
        fetched_s = None if handed_s is None else round(handed_s - self._began_s, 6)
        if update is None:
            return DeviceRecord(
                device=order.device,
                status=verdict.status,
                reason=verdict.reason,
                planned_shards=order.share.shards,
                shards=self._depot.served.get(order.device, 0),
                fetched_s=fetched_s,
                answered_s=arrival.answered_s,
            )
        return DeviceRecord(
            device=order.device,
            status=verdict.status,
            reason=verdict.reason,
            planned_shards=order.share.shards,
            shards=self._depot.served.get(order.device, update.shards),
            batches=update.batches,
            samples=update.samples,
            halted=update.halted,
            loss=round(update.loss, 6) if math.isfinite(update.loss) else None,
            fetched_s=fetched_s,
            answered_s=arrival.answered_s,
            timings=update.timings,
        )


def _passes(plan: Plan) -> set[int]:
    return {share.passes for share in plan.shares.values()}
