"""One learner that lies about what it can do, in a run that goes by what it is told."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace

import numpy as np
import pytest

from axon.allocation.csa import StalenessAware
from axon.rounds.fleet import Peer, Report
from axon.rounds.orchestrator import Orchestrator
from axon.rounds.settings import Scheme, Survey
from axon.testbed.simulation import SimulatedFleet
from axon.values import Capability, Order, RoundRecord, Update
from tests.rounds.worlds import (
    DATASET,
    NANO,
    PI,
    SHARD_SAMPLES,
    SPEC,
    TamperedFleet,
    run_of,
    world_of,
)

HONEST = tuple(f"honest-{number}" for number in range(5))
MOST_PASSES, UPPER = 6, 5


@dataclass
class Liar:
    """Claims to be the quickest by far, and sends zeros with all the batches it could have done."""

    peer: Peer
    batches: Callable[[Order], int]

    async def benchmark(self, order: Order, disclose: bool) -> object:
        await self.peer.benchmark(order, disclose)
        return Capability(shards_per_s=1e14, bytes_per_s=1e14)

    async def train(self, order: Order, report: Report | None) -> object:
        # It does what is quickest, one pass, and fetches what it was told.
        quick = replace(order, share=replace(order.share, passes=1))
        answer = await self.peer.train(quick, report)
        assert isinstance(answer, Update)
        batches = self.batches(order)
        zeros = {"parameters": np.zeros_like(answer.payload["parameters"])}
        return replace(answer, payload=zeros, batches=batches, samples=batches * SPEC.batch_size)


class Infiltrated(TamperedFleet):
    """A simulated fleet with the liar in it."""

    def __init__(self, fleet: SimulatedFleet, batches: Callable[[Order], int]) -> None:
        super().__init__(fleet, {})
        self._batches = batches

    async def muster(self, cycle: int) -> Mapping[str, Peer]:
        peers = await super().muster(cycle)
        return {**peers, "liar": Liar(peers["liar"], self._batches)}


def all_it_may(order: Order) -> int:
    assert order.share.shards is not None
    return SPEC.batches(order.share.shards * order.shard_samples, order.share.passes)


def play(allocate: StalenessAware, batches: Callable[[Order], int]) -> list[RoundRecord]:
    """A few cycles with five honest learners and the liar."""
    devices = {**dict.fromkeys(HONEST, PI), "liar": NANO}

    async def main(fleet: SimulatedFleet) -> list[RoundRecord]:
        scheme = Scheme(allocate=allocate, survey=Survey(disclosed=True))
        run = run_of(cycles=3, deadline_s=3.0, own_data=False, evaluate_every=0)
        return await Orchestrator(run, DATASET, Infiltrated(fleet, batches), scheme).run()

    return world_of(devices).run(main)


@pytest.mark.parametrize("upper", [None, UPPER])
def test_the_weight_of_a_liar_is_bounded_by_its_shards_and_the_most_passes(
    upper: int | None,
) -> None:
    records = play(StalenessAware(upper=upper, most_passes=MOST_PASSES), all_it_may)
    for record in records:
        ends = {device.device: device for device in record.devices}
        assert {device.status for device in record.devices} == {"used"}
        liar = ends["liar"]
        assert liar.planned_shards is not None
        assert liar.planned_shards <= (upper or 20 - len(HONEST))
        assert liar.batches <= SPEC.batches(liar.planned_shards * SHARD_SAMPLES, MOST_PASSES)
        assert all(ends[name].batches > 0 for name in HONEST)
    if upper is not None:
        assert max(r.with_status("used")[-1].batches / r.batches for r in records) < 1 / 3


def test_who_says_to_have_done_more_than_his_share_is_refused() -> None:
    for record in play(StalenessAware(most_passes=MOST_PASSES), lambda o: all_it_may(o) + 1):
        assert [device.status for device in record.devices] == ["used"] * 5 + ["refused"]
        assert record.batches == sum(device.batches for device in record.with_status("used"))
