"""One trial: plans, the tasks side by side, and the five metrics."""

from __future__ import annotations

from dataclasses import replace

import pytest

from axon.allocation.med import Infeasible, MedProblem, allocate, believed
from axon.experiments.med_trial import (
    Planner,
    learnt,
    outcome,
    planned,
    relieved,
    tried,
)
from axon.experiments.med_world import Request, Trial, nano
from axon.experiments.mnist import SHARD_SAMPLES
from axon.values import DeviceRecord, RoundRecord, Status

ONE, TWO = Request("one", "twonn", 1, 20.0, 12), Request("two", "twonn", 2, 20.0, 8)
TRIAL = Trial(seed=5, requests=(ONE, TWO), learners=4, budget=300.0, cycles=2, device=nano())


def refused(problem: MedProblem) -> Infeasible:
    with pytest.raises(Infeasible) as found:
        allocate(problem)
    return found.value


def test_the_deadline_grows_that_has_to_grow_least() -> None:
    tight = replace(TRIAL, requests=(replace(ONE, deadline_s=0.05), TWO)).problem()
    reason = refused(tight)
    least = {one.task: one.value for one in reason.remedies if one.constraint == "deadline"}
    wider = relieved(tight, reason)
    assert wider.tasks[0].deadline_s == pytest.approx(least["one"])
    assert wider.tasks[1].deadline_s == pytest.approx(20.0)
    shares, relaxed = planned(tight)
    assert relaxed
    assert sum(shares["one"].values()) == 12


def test_the_budget_grows_where_no_deadline_helps() -> None:
    poor = replace(TRIAL, budget=1.0).problem()
    wider = relieved(poor, refused(poor))
    assert 1.0 < wider.budget < 30.0
    assert planned(wider)[1] is False


def test_the_ideal_knows_each_cycle_and_the_uncertain_one_draw() -> None:
    problem = TRIAL.problem()
    ideal, uncertain = Planner(TRIAL, "MMTT-Ideal"), Planner(TRIAL, "MMTT-Uncertain")
    for cycle in (1, 2):
        assert ideal.shares(cycle) == allocate(believed(problem, TRIAL.states(cycle))).shards
        assert uncertain.shares(cycle) == allocate(believed(problem, TRIAL.states(0))).shards
    assert (len(ideal.relaxed), len(uncertain.relaxed)) == (2, 1)


def test_the_ideal_s_cycles_last_what_it_planned() -> None:
    found = tried(TRIAL, "MMTT-Ideal")
    delays = [
        allocate(believed(TRIAL.problem(), TRIAL.states(cycle))).objective / 2 for cycle in (1, 2)
    ]
    # Which it could not know if the world drew other states than it was told.
    assert found.time_s == pytest.approx(sum(delays) / 2, rel=0.05)
    assert (found.satisfaction, found.fulfilment, found.dropped) == (100.0, 100.0, 0.0)
    assert found.occupancy > 80.0
    assert found == tried(TRIAL, "MMTT-Ideal")


def test_who_believes_too_much_is_halted_and_drops_data() -> None:
    slow = replace(TRIAL, requests=(replace(ONE, deadline_s=1.0), replace(TWO, deadline_s=1.0)))
    found = [tried(replace(slow, seed=seed), "MMTT-Uncertain") for seed in range(2)]
    assert max(one.dropped for one in found) > 5.0
    assert min(one.satisfaction for one in found) < 100.0
    assert all(one.time_s <= 1.0 for one in found)
    assert all(one.dropped == pytest.approx(100.0 - one.fulfilment) for one in found)


def record(run: str, devices: tuple[DeviceRecord, ...], took_s: float) -> RoundRecord:
    return RoundRecord(
        run=run,
        cycle=1,
        started_s=0.0,
        ended_s=took_s,
        deadline_s=20.0,
        devices=devices,
        batches=1,
    )


def served(
    name: str, shards: float, answered_s: float, *, status: Status = "used", halted: bool = False
) -> DeviceRecord:
    return DeviceRecord(
        device=name,
        status=status,
        samples=int(shards * SHARD_SAMPLES),
        halted=halted,
        answered_s=answered_s,
    )


def test_the_metrics_are_means_over_tasks() -> None:
    planner = Planner(TRIAL, "MED")
    planner.shares(1)
    records = [
        record("one", (served("a", 8, 10.0), served("b", 4, 5.0)), 10.0),
        record(
            "two", (served("c", 8, 20.0, halted=True), served("d", 8, 4.0, status="late")), 20.0
        ),
    ]
    found = outcome(TRIAL, records, planner)
    # Two passes over eight shards are sixteen, of which eight came in time.
    assert (found.time_s, found.satisfaction, found.relaxed) == (15.0, 50.0, 0.0)
    assert (found.fulfilment, found.dropped) == (75.0, 25.0)
    assert found.occupancy == pytest.approx((75.0 + 60.0) / 2)


def test_states_are_learnt_from_the_learners_own_cycles() -> None:
    known = learnt(TRIAL)
    assert set(known) == set(TRIAL.names)
    expected = TRIAL.problem()
    for learner, states in zip(expected.learners, known.values(), strict=True):
        assert sum(state.probability for state in states) == pytest.approx(1.0)
        true_s = sum(one.probability / one.shards_per_s["one"] for one in learner.states)
        found_s = sum(one.probability / one.shards_per_s["one"] for one in states)
        assert 0.2 < found_s / true_s < 3.0
    fastest = max(one.shards_per_s["one"] for one in known["nano-01"])
    assert fastest == pytest.approx(expected.learners[0].states[0].shards_per_s["one"], rel=0.1)
