"""Learners of a simulated world find out by themselves what their owners do with their devices."""

from __future__ import annotations

import asyncio
import math
from collections.abc import Sequence

import pytest

from axon.devices.states import StateEstimate
from axon.learning.evaluation import flops_per_sample
from axon.learning.experience import kind_of
from axon.learning.learner import PRIVATE
from axon.rounds.orchestrator import Orchestrator
from axon.rounds.settings import Run, Scheme
from axon.rpc.link import Link
from axon.seeds import stream
from axon.testbed import virtual
from axon.testbed.activity import STATES, Activity, contention, heated
from axon.testbed.catalogue import Device
from axon.testbed.simulation import Simulated, simulated
from axon.values import Declined
from tests.rounds.worlds import DATASET, SHARD_SAMPLES, run_of, sum_up

LINK = Link(latency_s=0.001, up_bytes_per_s=1e8, down_bytes_per_s=1e8, jitter_s=0.001)
DEVICES = {
    name: Device(
        kind="small", flops_per_s=1e11, batch_overhead_s=batch_s, memory_bytes=1 << 30, link=LINK
    )
    for name, batch_s in (("a", 0.004), ("b", 0.008))
}
HABITS = {name: heated(stream(5, "habits", name)) for name in DEVICES}


def world(activity: dict[str, Activity] | None = None, **options: object) -> Simulated:
    habits = HABITS if activity is None else activity
    return simulated(DEVICES, seed=3, trainer=sum_up, activity=habits, **options)  # type: ignore[arg-type]


def ran(made: Simulated, cycles: int) -> Run:
    run = run_of(cycles=cycles, deadline_s=20.0, evaluate_every=0)
    made.run(lambda fleet: Orchestrator(run, DATASET, fleet, Scheme()).run())
    return run


def told(made: Simulated, run: Run, name: str) -> tuple[StateEstimate, ...]:
    answer = made.fleet.learners[name].learner.states([kind_of(run.spec, SHARD_SAMPLES)])
    assert isinstance(answer, tuple)
    return answer


def truth_s(run: Run, name: str) -> float:
    """The expected time of a shard, by the owner's true habits."""
    batches = -(-SHARD_SAMPLES // run.spec.batch_size)
    each = flops_per_sample(run.spec)
    return math.fsum(
        HABITS[name].probabilities[state]
        * batches
        * contention(state).batch_s(DEVICES[name], each, run.spec.batch_size)
        for state in STATES
    )


def test_what_they_learn_approaches_the_truth() -> None:
    made = world()
    run = ran(made, 150)
    kind = kind_of(run.spec, SHARD_SAMPLES)
    for name in DEVICES:
        states = told(made, run, name)
        expected_s = math.fsum(one.probability / one.shards_per_s[kind] for one in states)
        assert expected_s == pytest.approx(truth_s(run, name), rel=0.15)
        # An owner's matrix beside every download makes it many times as long.
        most = max(one.bytes_per_s or 0.0 for one in states)
        slow = [one for one in states if (one.bytes_per_s or 0.0) < 0.3 * most]
        likely = math.fsum(one.probability for one in slow)
        assert likely == pytest.approx(HABITS[name].probabilities["downloading"], abs=0.15)
        busy = [one for one in states if one.shards_per_s[kind] < 1.0 / truth_s(run, name)]
        likely = math.fsum(one.probability for one in busy)
        assert likely == pytest.approx(HABITS[name].probabilities["training"], abs=0.15)


def test_one_that_is_always_idle_has_one_state() -> None:
    made = world({})
    run = ran(made, 12)
    (one,) = told(made, run, "a")
    batches = -(-SHARD_SAMPLES // run.spec.batch_size)
    (rate,) = one.shards_per_s.values()
    assert rate == pytest.approx(1 / (0.004 * batches), rel=0.01)


def test_a_snapshot_keeps_what_they_saw() -> None:
    made, again = world(), world()
    run = ran(made, 8)
    again.fleet.restore(made.fleet.snapshot())
    for name in DEVICES:
        assert told(again, run, name) == told(made, run, name)
    assert again.fleet.snapshot() == made.fleet.snapshot()


def test_they_tell_across_their_links_unless_they_are_private() -> None:
    made = world(private=("b",))
    run = ran(made, 3)
    kinds = [kind_of(run.spec, SHARD_SAMPLES)]

    async def main() -> tuple[Sequence[object], float]:
        tellers = await made.fleet.tellers(["b", "a", "stranger"], 4)
        answers = [await teller.states(kinds) for teller in tellers.values()]
        return answers, asyncio.get_running_loop().time()

    (public, private), took_s = virtual.run(main())
    assert public == told(made, run, "a")
    assert isinstance(private, Declined)
    assert private.reason == PRIVATE
    assert took_s >= 4 * LINK.latency_s
