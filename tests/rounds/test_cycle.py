"""One cycle: who gets which order, and what is made of the answers."""

from __future__ import annotations

import asyncio
from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from axon.allocation.equal import Equal, Fixed, Open
from axon.compression.codecs import codec
from axon.data.shards import Shards, draw_uniform
from axon.errors import AxonError, ConfigurationError
from axon.rounds.cycle import Cycle, Harvest, State
from axon.rounds.depot import Depot
from axon.rounds.events import CycleBegan, Event, LearnerSettled
from axon.rounds.settings import Run, Scheme
from axon.selection.random import Some
from axon.testbed import virtual
from axon.values import Declined, DeviceRecord, Order, Share, Timings, Vector
from tests.rounds.worlds import (
    DATASET,
    PARAMETERS,
    SHARD_SAMPLES,
    SHARDS,
    Behaviour,
    FakeFleet,
    good,
    run_of,
    update_for,
)

MODEL: Vector = np.arange(PARAMETERS, dtype=np.float32)


class Scene:
    """One cycle with fake learners, and what could be seen of it."""

    def __init__(self, run: Run | None = None, **scheme: Any) -> None:
        self.run = run or run_of()
        self.scheme = Scheme(**scheme)
        self.state = State(4, MODEL, {}, {"b": 0.25})
        stock = Shards(DATASET.train, SHARD_SAMPLES, seed=self.run.seed)
        self.depot = Depot(self.run.name, stock, draw_uniform, self.run.seed)
        self.events: list[Event] = []
        self.orders: dict[str, Order] = {}

    def play(self, **behaviours: Behaviour) -> Harvest:
        seen = {name: self._seen(behaviour) for name, behaviour in behaviours.items()}

        async def main() -> Harvest:
            fleet = FakeFleet(**seen)
            async with fleet.hosting(self.depot):
                cycle = Cycle(self.run, self.scheme, self.depot, self.state, self.events.append)
                return await cycle.run(fleet.peers)

        return virtual.run(main(), start=100.0)

    def _seen(self, behaviour: Behaviour) -> Behaviour:
        async def behave(order: Order, depot: Depot) -> object:
            self.orders[order.device] = order
            return await behaviour(order, depot)

        return behave


def later(delay_s: float, behaviour: Behaviour) -> Behaviour:
    async def behave(order: Order, depot: Depot) -> object:
        await asyncio.sleep(delay_s)
        return await behaviour(order, depot)

    return behave


def fetching(shards: int, behaviour: Behaviour) -> Behaviour:
    async def behave(order: Order, depot: Depot) -> object:
        await asyncio.sleep(0.125)
        depot.shards(order.run, order.cycle, order.ticket, shards)
        return await behaviour(order, depot)

    return behave


async def declining(order: Order, depot: Depot) -> object:
    return Declined(run=order.run, cycle=order.cycle, device=order.device, reason="no\ntime")


async def failing(order: Order, depot: Depot) -> object:
    raise AxonError("gone")


def test_an_order_says_all_that_a_learner_needs() -> None:
    scene = Scene(allocate=Equal(shards=6, passes=2))
    scene.play(a=good(1), b=good(2))
    order = scene.orders["b"]
    assert (order.run, order.cycle, order.device, order.seed) == ("run", 5, "b", 7)
    assert (order.share.shards, order.share.passes, order.cost.passes) == (3, 2, 2)
    assert (order.shards, order.shard_samples, order.deadline_s) == (SHARDS, SHARD_SAMPLES, 1.0)
    assert order.cost.model_bytes == MODEL.nbytes
    assert order.cost.shard_bytes == SHARD_SAMPLES * (4 * 4 + 8)
    assert (order.previous_s, scene.orders["a"].previous_s) == (0.25, None)


def test_vectors_weights_and_records_come_by_name_and_not_by_arrival() -> None:
    scene = Scene()
    harvest = scene.play(
        c=good(3, batches=5), a=later(0.5, good(1, batches=7)), b=later(0.2, good(2, batches=4))
    )
    assert [vector[0] for vector in harvest.vectors] == [1, 2, 3]
    assert harvest.weights == [7.0, 4.0, 5.0]
    assert harvest.batches == 16
    assert [record.device for record in harvest.devices] == ["a", "b", "c"]
    assert [record.answered_s for record in harvest.devices] == [0.5, 0.2, 0.0]


def test_who_fetched_nothing_is_refused_where_own_data_are_not_taken() -> None:
    scene = Scene(run_of(own_data=False))
    harvest = scene.play(a=good(1, batches=10**6), b=fetching(2, good(-1, batches=4)))
    ends = {record.device: (record.status, record.reason) for record in harvest.devices}
    assert ends["a"] == ("refused", "trained on data of its own, which this run does not take")
    assert (ends["b"], harvest.weights) == (("used", ""), [4.0])


def test_a_share_for_somebody_who_was_not_selected_is_a_mistake() -> None:
    def stray(members: object, situation: object) -> dict[str, Share]:
        return {"ghost": Share(shards=1)}

    with pytest.raises(ConfigurationError, match="ghost"):
        Scene(allocate=stray).play(a=good(1))


def test_every_kind_of_end_in_one_cycle() -> None:
    scene = Scene()
    harvest = scene.play(
        declined=declining,
        failed=failing,
        late=later(1.04, good(1, batches=9)),
        lost=later(2, good(1)),
        refused=good(1, batches=0),
        used=good(1),
    )
    ends = {record.device: (record.status, record.reason) for record in harvest.devices}
    assert ends == {
        "declined": ("declined", "no time"),
        "failed": ("failed", "AxonError: gone"),
        "late": ("late", "came after the deadline"),
        "lost": ("failed", "no answer by the deadline"),
        "refused": ("refused", "trained no batch"),
        "used": ("used", ""),
    }
    assert (len(harvest.vectors), harvest.weights) == (1, [2.0])
    late = harvest.devices[2]
    assert (late.batches, late.answered_s) == (9, 1.04)


def test_with_a_grace_the_deadline_cuts_nobody_off() -> None:
    scene = Scene(run_of(grace_s=2.0))
    harvest = scene.play(a=later(2.9, good(1)), b=later(3.04, good(1)), c=later(9, good(1)))
    assert [record.status for record in harvest.devices] == ["used", "late", "failed"]
    assert (scene.orders["a"].deadline_s, scene.orders["a"].grace_s) == (1.0, 2.0)


def test_a_record_tells_what_was_planned_fetched_and_done() -> None:
    timings = Timings(download_s=0.1, train_s=0.2)
    scene = Scene(allocate=Fixed({"a": 3}))
    harvest = scene.play(
        a=fetching(3, good(1, shards=3, samples=8, loss=0.12345678, halted=True, timings=timings))
    )
    assert harvest.devices == (
        DeviceRecord(
            device="a",
            status="used",
            planned_shards=3,
            shards=3,
            batches=2,
            samples=8,
            halted=True,
            loss=0.123457,
            fetched_s=0.125,
            answered_s=0.125,
            timings=timings,
        ),
    )


def test_a_failed_learner_is_recorded_with_what_it_fetched() -> None:
    harvest = Scene().play(a=fetching(2, failing), b=good(1))
    assert (harvest.devices[0].shards, harvest.devices[0].batches) == (2, 0)


@pytest.mark.parametrize(
    ("allocate", "fetched", "most"),
    [
        (Open(), 3, 6),
        (Open(passes=2), 3, 12),
        (Fixed({"a": 3}), 3, 6),
        (Fixed({"a": 3}), None, 6),
        (Fixed({"a": 3}), 1, 2),
    ],
)
def test_nobody_weighs_more_than_his_share(allocate: Any, fetched: int | None, most: int) -> None:
    def statuses(batches: int) -> str:
        behaviour = good(1, batches=batches)
        if fetched is not None:
            behaviour = fetching(fetched, behaviour)
        return Scene(allocate=allocate).play(a=behaviour).devices[0].status

    assert statuses(most) == "used"
    assert statuses(most + 1) == statuses(10**6) == "refused"


def test_a_member_without_a_share_sits_out_and_is_recorded() -> None:
    scene = Scene(allocate=Fixed({"a": 0, "b": 2}))
    harvest = scene.play(a=good(1), b=good(2), c=good(3))
    assert list(scene.orders) == ["b"]
    reason = "the allocator gave it no share"
    assert [harvest.devices[place] for place in (0, 2)] == [
        DeviceRecord(device=name, status="not needed", reason=reason, planned_shards=0)
        for name in "ac"
    ]
    assert (harvest.devices[1].status, len(harvest.vectors)) == ("used", 1)
    told = [event.record for event in scene.events if isinstance(event, LearnerSettled)]
    assert [record.device for record in told] == ["a", "c", "b"]


def test_told_shares_are_dealt_out_without_a_shard_twice() -> None:
    drawn: list[bytes] = []

    async def keeping(order: Order, depot: Depot) -> object:
        assert order.share.shards is not None
        samples = depot.shards(order.run, order.cycle, order.ticket, order.share.shards)
        drawn.extend(sample.tobytes() for sample in samples.inputs)
        return update_for(order, MODEL)

    Scene(allocate=Equal()).play(a=keeping, b=keeping, c=keeping)
    assert len(set(drawn)) == len(drawn) == SHARDS * SHARD_SAMPLES


def test_only_the_chosen_take_part_and_the_choice_is_the_cycles_own() -> None:
    def chosen(cycle: int) -> list[str]:
        scene = Scene(select=Some(count=2))
        scene.state = replace(scene.state, cycle=cycle)
        scene.play(**{name: good(1) for name in "abcdefgh"})
        return sorted(scene.orders)

    assert chosen(0) == chosen(0)
    assert len({tuple(chosen(cycle)) for cycle in range(6)}) > 1
    assert all(len(chosen(cycle)) == 2 for cycle in range(3))


def test_those_who_watch_hear_of_the_plan_and_then_of_everybody_once() -> None:
    scene = Scene()
    scene.play(a=later(0.5, good(1)), b=failing, c=later(9, good(1)))
    began, *settled = scene.events
    assert isinstance(began, CycleBegan)
    assert (began.plan.cycle, list(began.plan.shares)) == (5, ["a", "b", "c"])
    ends = [event.record for event in settled if isinstance(event, LearnerSettled)]
    assert [(end.device, end.status) for end in ends] == [
        ("b", "failed"),
        ("a", "used"),
        ("c", "failed"),
    ]


def test_a_loss_that_is_no_number_is_not_recorded() -> None:
    harvest = Scene().play(a=good(1, loss=float("nan")))
    assert (harvest.devices[0].status, harvest.devices[0].loss) == ("used", None)


def test_a_codec_is_undone_before_averaging() -> None:
    async def behave(order: Order, depot: Depot) -> object:
        assert order.codec == "half"
        payload = codec("half").encode(MODEL + 0.5, MODEL)
        return replace(update_for(order, MODEL), payload=payload)

    harvest = Scene(codec="half").play(a=behave)
    assert harvest.vectors[0].tolist() == (MODEL + 0.5).tolist()
