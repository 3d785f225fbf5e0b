"""A learner beside its owner: what the owner does is part of what the device finds of itself."""

from __future__ import annotations

import asyncio
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

from axon.data.synthetic import synthetic
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
    order = Order(
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
    return asyncio.run(learner.benchmark(order, Source(), disclose)), fetched


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
