"""A learner beside its owner: what the owner does is part of what the device finds of itself."""

from __future__ import annotations

import asyncio
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

from axon.data.synthetic import synthetic
from axon.learning.experience import kind_of
from axon.learning.learner import Abilities
from axon.learning.nets import initial
from axon.learning.tasks import default_spec
from axon.rpc.link import Link
from axon.testbed.activity import Activity, State, random_matrix
from axon.testbed.catalogue import Device
from axon.testbed.stressed import EmulatedLearner
from axon.values import Capability, Declined, Order, Samples, Share, TaskCost, Vector

DATASET = synthetic(samples=200, features=4, classes=2, seed=1)
SPEC = default_spec("twonn", (4,), 2, batch_size=4)
MODEL = initial(SPEC, 0)
MATRIX = random_matrix(np.random.default_rng(0))
IDLE = Device(kind="here", flops_per_s=1e9, batch_overhead_s=0.0, memory_bytes=1 << 30, link=Link())

ORDER = Order(
    run="run",
    cycle=0,
    device="pi",
    spec=SPEC,
    share=Share(shards=4),
    cost=TaskCost(model_bytes=MODEL.nbytes, shard_bytes=8 * 24),
    shard_samples=8,
    shards=20,
    deadline_s=20.0,
    seed=7,
)


class Source:
    """Hands out the model and shards of 8 samples at once."""

    async def model(self, run: str, cycle: int) -> Vector:
        return MODEL

    async def shards(self, run: str, cycle: int, ticket: str, count: int) -> Samples:
        return DATASET.train.take(slice(0, 8 * count))


def benchmarked(state: State, *, disclose: bool = True, **abilities: Any) -> tuple[object, int]:
    """What a learner answers, and how often its owner downloaded meanwhile."""
    fetched = 0

    async def fetch() -> NDArray[Any]:
        nonlocal fetched
        fetched += 1
        return MATRIX

    learner = EmulatedLearner(
        "pi",
        IDLE,
        Abilities(**abilities),
        paced=False,
        activity=Activity({state: 1.0}),
        fetch=fetch,
    )
    return asyncio.run(learner.benchmark(ORDER, Source(), disclose)), fetched


@pytest.mark.parametrize(("state", "is_shared"), [("idle", False), ("downloading", True)])
def test_a_benchmark_shares_the_link_with_an_owner_who_downloads(
    state: State, is_shared: bool
) -> None:
    answer, fetched = benchmarked(state)
    assert isinstance(answer, Capability)
    assert (fetched > 0) == is_shared


def test_it_tells_only_when_it_is_asked_and_agrees() -> None:
    assert benchmarked("idle", disclose=False)[0] is None
    assert isinstance(benchmarked("idle", discloses=False)[0], Declined)


def test_it_tells_the_states_that_it_saw_beside_its_owner() -> None:
    learner = EmulatedLearner("pi", IDLE, Abilities(), paced=False)
    kinds = [kind_of(SPEC, ORDER.shard_samples)]
    assert learner.states(kinds) == ()
    asyncio.run(learner.train(replace(ORDER, cycle=1), Source()))
    told = learner.states(kinds)
    assert isinstance(told, tuple)
    assert set(told[0].shards_per_s) == set(kinds)


def test_what_each_part_of_a_benchmark_took_is_remembered() -> None:
    learner = EmulatedLearner("pi", IDLE, Abilities(), paced=False)
    asyncio.run(learner.benchmark(ORDER, Source(), disclose=False))
    # One batch, then a quarter of the four shards, half of them, and all.
    assert [samples for samples, _ in learner.stopwatch.points] == [4.0, 8.0, 16.0, 32.0]
    assert all(took_s > 0.0 for _, took_s in learner.stopwatch.points)


def test_products_last_as_long_as_on_the_device() -> None:
    device = replace(IDLE, flops_per_s=2 * 512**3 / 0.03)
    found = EmulatedLearner("pi", device, Abilities()).flops(repeats=5)
    assert 0.3 * device.flops_per_s < found < 1.05 * device.flops_per_s
