"""What a learner fetches over the network, and what it does not take."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

from axon import client
from axon.errors import TooLarge
from axon.learning.service import RemoteSource
from axon.rounds.depot import Depot
from axon.rounds.remote import DepotService
from axon.values import Samples, TaskCost
from axon.worker import Worker
from tests.learning.served import both_transports, order_of
from tests.rpc.worlds import run, serving


@both_transports
def test_a_remote_source_fetches_what_the_depot_hands_out(transport: str, loop: str) -> None:
    class Stock:
        shard_bytes = 1

        def __len__(self) -> int:
            return 2

        def take(self, numbers: Any) -> Samples:
            return Samples(np.full((len(numbers), 4), 5, np.uint8), np.arange(len(numbers)), 0.5)

    async def main() -> None:
        depot = Depot("run", Stock(), lambda shards, count, _: np.arange(count), 0)  # type: ignore[arg-type]
        depot.publish(3, np.arange(6, dtype=np.float32), {"pi": "pi"})
        worker = Worker("orchestrator")
        worker.service(DepotService(depot), "depot", executor="inline")
        async with serving(worker, transport) as world:
            cost = TaskCost(model_bytes=24, shard_bytes=12)
            order = order_of(3, source=str(world.address), cost=cost)
            source = RemoteSource(order, client.access(**world.access))
            np.testing.assert_array_equal(await source.model("run", 3), np.arange(6))
            samples = await source.shards("run", 3, "pi", 2)
            assert (samples.inputs.tolist(), samples.scale) == ([[5] * 4] * 2, 0.5)
            assert samples.inputs.dtype == np.uint8
            with pytest.raises(ValueError, match="cycle 2 is not under way"):
                await source.model("run", 2)

    run(main, loop=loop)


# A depot that answers with something else than was announced

FLAT = np.zeros(1, np.float32)
ONE = Samples(np.zeros((1, 4), np.uint8), np.zeros(1, np.int64))
THREE = np.zeros(3, np.intp)
MEGABYTE = np.zeros(1 << 20, np.uint8)


def fetch(name: str, answer: object, transport: str = "memory", loop: str = "virtual") -> object:
    """What a learner gets that was told of a model of 4 bytes and shards of one sample."""
    depot = SimpleNamespace(model=lambda *_: answer, shards=lambda *_: answer)

    async def main() -> object:
        worker = Worker("orchestrator")
        worker.service(DepotService(depot), "depot", executor="inline")  # type: ignore[arg-type]
        async with serving(worker, transport) as world:
            order = order_of(1, source=str(world.address))
            source = RemoteSource(order, client.access(**world.access))
            if name == "model":
                return await source.model("run", 1)
            return await source.shards("run", 1, "ticket", 2)

    return run(main, loop=loop)


@pytest.mark.parametrize(
    ("name", "answer", "complaint"),
    [
        ("model", None, "must be 4 bytes of float32, got a value of type NoneType"),
        ("model", FLAT.reshape(1, 1), r"got 4 bytes of float32 in shape \(1, 1\)"),
        ("model", FLAT.view(np.int32), r"got 4 bytes of int32 in shape \(1,\)"),
        ("model", np.zeros(2, np.float32), r"got 8 bytes of float32 in shape \(2,\)"),
        ("shards", FLAT, "2 shards must be arrays of samples, got 4 bytes of float32"),
        ("shards", Samples([0], [0]), "got a value of type Samples"),  # type: ignore[arg-type]
        ("shards", ONE.take(THREE), "2 shards have at most 2 samples in 8 bytes, got 3 in 36"),
        ("shards", Samples(MEGABYTE[None, :70_000], ONE.labels), "got 1 in 70008"),
    ],
)
def test_what_the_order_did_not_announce_is_refused(name: str, answer: Any, complaint: str) -> None:
    with pytest.raises(ValueError, match=complaint):
        fetch(name, answer)


@both_transports
@pytest.mark.parametrize("name", ["model", "shards"])
def test_an_answer_that_is_far_too_large_is_cut_off(name: str, transport: str, loop: str) -> None:
    with pytest.raises(TooLarge, match=r"the answer has 10\d+ bytes, this client takes 131072"):
        fetch(name, MEGABYTE, transport, loop)
