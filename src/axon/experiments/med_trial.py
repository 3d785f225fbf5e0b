"""One trial of the MED experiments: plan, run all tasks at once in one world, and measure.

Every task has an orchestrator of its own, on the learners that the plan gives it, and all begin
their next cycle together: only so can MMTT-Ideal, which plans every cycle anew, send a learner to
another task.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Collection, Mapping, Sequence
from contextlib import AsyncExitStack, aclosing
from dataclasses import dataclass, replace
from functools import partial
from statistics import fmean
from typing import Literal, TypeAlias, get_args

from axon.allocation.equal import Equal
from axon.allocation.med import Infeasible, LearnerState, MedProblem, allocate, believed
from axon.devices.states import Observation, States
from axon.experiments.med_world import (
    PATIENT_S,
    Request,
    Trial,
    rates_of,
    unchanged,
)
from axon.experiments.runs import simulate, untrained
from axon.policies import Situation
from axon.rounds.fleet import Fleet
from axon.rounds.orchestrator import Orchestrator
from axon.rounds.settings import Scheme
from axon.seeds import derive
from axon.testbed.simulation import SimulatedFleet, SimulatedLearner, simulated
from axon.values import DeviceRecord, RoundRecord, Share

Way: TypeAlias = Literal["MMTT-Ideal", "MED", "MMTT-Uncertain", "MED, learnt"]
WAYS: tuple[Way, ...] = get_args(Way)

PAST_CYCLES = 30
"""From so many cycles of its own a learner's states are learnt."""
LIMIT_S = 60.0
"""For one plan, by the wall clock: never reached, or results would hang on this machine."""

Shares: TypeAlias = Mapping[str, Mapping[str, int]]
"""By task, then by learner."""
Known: TypeAlias = Mapping[str, Sequence[LearnerState]]
Divide: TypeAlias = Callable[[Callable[[], Collection[str]]], Fleet]
"""Makes a fleet of those learners whom a function names."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Outcome:
    """The five metrics of one trial, averaged over its tasks and cycles, and how it was planned."""

    time_s: float
    satisfaction: float
    """In per cent of the tasks, each cycle counted for itself; so the others."""
    fulfilment: float
    dropped: float
    occupancy: float
    relaxed: float
    """Plans for which a deadline or the budget had to be relaxed, in per cent."""


def planned(problem: MedProblem) -> tuple[Shares, bool]:
    """The best plan; where there is none, that with the least relaxation, and that it is so."""
    try:
        return allocate(problem, time_limit_s=LIMIT_S).shards, False
    except Infeasible as reason:
        return allocate(relieved(problem, reason), time_limit_s=LIMIT_S).shards, True


def relieved(problem: MedProblem, reason: Infeasible) -> MedProblem:
    """The problem with the one deadline longer that has to grow least, or all that have to.

    Where no deadline would help, with a larger budget. Only plans are made so: learners halt at the
    deadline as it is.
    """
    deadlines = {task.name: task.deadline_s for task in problem.tasks}
    longer = {
        remedy.task: remedy.value
        for remedy in reason.remedies
        if remedy.constraint == "deadline" and remedy.task is not None
    }
    budgets = [each.value for each in reason.remedies if each.constraint == "budget"]
    if longer and not reason.together:
        least = min(longer, key=lambda name: longer[name] / deadlines[name])
        longer, budgets = {least: longer[least]}, []
    if not longer and not budgets:
        raise reason
    tasks = [
        replace(task, deadline_s=longer.get(task.name, task.deadline_s) * (1.0 + 1e-9))
        for task in problem.tasks
    ]
    budget = max(budgets, default=problem.budget)
    return replace(problem, tasks=tasks, budget=budget * (1.0 + 1e-9))


class Planner:
    """What a way plans for each cycle of a trial."""

    def __init__(self, trial: Trial, way: Way, known: Known | None = None) -> None:
        self._trial = trial
        self._way = way
        self._problem = trial.problem(known if way == "MED, learnt" else None)
        self._fixed: Shares | None = None
        self.relaxed: list[bool] = []
        """For each plan that was made."""

    def shares(self, cycle: int) -> Shares:
        """Who trains how much of what in that cycle."""
        if self._way == "MMTT-Ideal":
            return self._plan(believed(self._problem, self._trial.states(cycle)))
        if self._fixed is None:
            problem = self._problem
            if self._way == "MMTT-Uncertain":
                problem = believed(problem, self._trial.states(0))
            self._fixed = self._plan(problem)
        return self._fixed

    def _plan(self, problem: MedProblem) -> Shares:
        shares, relaxed = planned(problem)
        self.relaxed.append(relaxed)
        return shares


def tried(trial: Trial, way: Way, known: Known | None = None) -> Outcome:
    """One trial in the simulated world."""
    planner = Planner(trial, way, known)
    world = simulated(
        trial.devices,
        seed=trial.seed,
        activity={name: trial.habit(name) for name in trial.names},
        trainer=untrained,
    )
    records = world.run(
        lambda fleet: side_by_side(trial, planner, lambda members: Serving(fleet, members))
    )
    return outcome(trial, records, planner)


class Serving:
    """Some learners of a simulated fleet, found in a cycle's states whichever task they serve.

    A `SimulatedPart` draws other chances for every run, and so nobody could know a learner's state
    before it is known what it serves, as MMTT-Ideal does.
    """

    def __init__(self, fleet: SimulatedFleet, members: Callable[[], Collection[str]]) -> None:
        self._fleet = fleet
        self._members = members
        self.hosting = fleet.hosting
        self.aside = fleet.aside
        self.snapshot = fleet.snapshot
        self.restore = fleet.restore

    async def muster(self, cycle: int) -> Mapping[str, SimulatedLearner]:
        """Who serves now."""
        here = {name: self._fleet.learners[name] for name in sorted(self._members())}
        for learner in here.values():
            learner.begin(self._fleet.seed, cycle)
        return here


@dataclass(frozen=True, slots=True)
class Dealt:
    """Allocates what the present plan says."""

    request: Request
    shares: Shares

    def __call__(
        self,
        members: Sequence[str],
        situation: Situation,  # noqa: ARG002  (part of the seam)
    ) -> dict[str, Share]:
        """A share for each member."""
        counts = self.shares[self.request.name]
        return {name: Share(shards=counts[name], passes=self.request.passes) for name in members}


async def side_by_side(
    trial: Trial, planner: Planner, divide: Divide, *, averages: bool = False
) -> list[RoundRecord]:
    """All cycles of all tasks; updates are averaged only where something is trained."""
    present: dict[str, Mapping[str, int]] = {}
    records: list[RoundRecord] = []
    async with AsyncExitStack() as stack:
        runs = []
        for request in trial.requests:
            part = divide(partial(present.__getitem__, request.name))
            scheme = Scheme(allocate=Dealt(request, present))
            scheme = scheme if averages else replace(scheme, aggregate=unchanged)
            run = request.run(trial.seed, trial.cycles)
            cycles = Orchestrator(run, request.dataset, part, scheme).cycles()
            runs.append(await stack.enter_async_context(aclosing(cycles)))
        for cycle in range(1, trial.cycles + 1):
            present.update(planner.shares(cycle))
            records += await asyncio.gather(*(anext(run) for run in runs))
    return records


def outcome(trial: Trial, records: Sequence[RoundRecord], planner: Planner) -> Outcome:
    """The metrics of some cycles."""
    samples = {request.name: request.samples for request in trial.requests}
    fulfilment = fmean(
        100.0 * sum(one.samples for one in record.with_status("used")) / samples[record.run]
        for record in records
    )
    return Outcome(
        time_s=fmean(record.duration_s for record in records),
        satisfaction=fmean(100.0 * all(map(_done, record.devices)) for record in records),
        fulfilment=fulfilment,
        dropped=100.0 - fulfilment,
        occupancy=fmean(100.0 * _occupancy(record) for record in records),
        relaxed=100.0 * fmean(planner.relaxed),
    )


def _done(learner: DeviceRecord) -> bool:
    """Whether it did all of its share in time."""
    return learner.status == "used" and not learner.halted


def _occupancy(record: RoundRecord) -> float:
    """The part of the cycle that its learners were busy with it."""
    busy_s = [one.answered_s or record.duration_s for one in record.devices]
    return fmean(min(1.0, each_s / record.duration_s) for each_s in busy_s)


def learnt(trial: Trial) -> dict[str, tuple[LearnerState, ...]]:
    """What the learners know of their states after some cycles of each task in equal shares.

    They are cycles of other chances than those of the trial.
    """
    each = -(-PAST_CYCLES // len(trial.requests))
    pasts = [_past(trial, request, each) for request in trial.requests]
    seen = dict.fromkeys(trial.names, States())
    for records in zip(*pasts, strict=True):
        for request, record in zip(trial.requests, records, strict=True):
            for device in record.devices:
                rates = rates_of(request, device)
                if rates is None:
                    continue
                observation = Observation(
                    task=request.name,
                    shards_per_s=rates.shards_per_s,
                    bytes_per_s=rates.bytes_per_s,
                )
                seen[device.device] = seen[device.device].seen(observation)
    return {name: _states(states) for name, states in seen.items()}


def _past(trial: Trial, request: Request, cycles: int) -> tuple[RoundRecord, ...]:
    seed = derive(trial.seed, "past", request.name)
    run = replace(request.run(seed, cycles), deadline_s=PATIENT_S)
    scheme = Scheme(allocate=Equal(passes=request.passes), aggregate=unchanged)
    activity = {name: trial.habit(name) for name in trial.names}
    return simulate(
        run, request.dataset, trial.devices, scheme, trainer=untrained, activity=activity
    )


def _states(states: States) -> tuple[LearnerState, ...]:
    return tuple(
        LearnerState(found.probability, found.bytes_per_s, found.shards_per_s)
        for found in states.usual()
        if found.bytes_per_s is not None
    )
