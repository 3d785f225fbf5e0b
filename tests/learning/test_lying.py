"""Learners that wear an attack: what they send, in virtual time, over a network, in a run."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import pytest

from axon import client
from axon.attacks import Attack, Drop, InnerProduct, LabelFlip, Random, Reversed, SignFlip, Stale
from axon.compression.codecs import codec
from axon.errors import ConfigurationError
from axon.learning.learner import Abilities, Answer, Learner
from axon.learning.lying import REMEMBERED_RUNS, Lying, poisoned
from axon.learning.service import LearnerService
from axon.testbed.virtual import run
from axon.values import Capability, Declined, Job, Order, Samples, Trained, Update, Vector
from tests.learning.errands import MODEL, SlowSource, SteadyCompute, order_of, samples_of, update_of
from tests.rounds.worlds import NAMES, NetworkScene, learner


@dataclass
class Counting:
    """Changes every parameter by the number of the cycle, so that answers tell when they were."""

    async def train(
        self, job: Job, *, until_s: float, report: Callable[[int, int], None] | None = None
    ) -> Trained:
        _, *names = job.stream
        cycle = names[1]
        return Trained(parameters=job.start + np.float32(cycle), batches=1, samples=10, loss=0.5)


def liar(attack: Attack, seed: int = 7, **abilities: Any) -> Lying:
    return Lying(Learner("pi", Counting(), Abilities(**abilities)), attack, seed)


def answers(lying: Lying, *orders: Order) -> list[Answer]:
    async def main() -> list[Answer]:
        return [await lying.train(order, SlowSource(1e6)) for order in orders]

    return run(main())


def sent_by(lying: Lying, *orders: Order) -> list[Vector]:
    """The differences to the model that training started from, as an orchestrator reads them."""
    told = map(update_of, answers(lying, *orders))
    return [
        codec(order.codec).decode(update.payload, MODEL) - MODEL
        for order, update in zip(orders, told, strict=True)
    ]


def cycles(*numbers: int, **changes: Any) -> list[Order]:
    return [order_of(3, cycle=number, **changes) for number in numbers]


@pytest.mark.parametrize("name", ["plain", "half"])
@pytest.mark.parametrize(("attack", "wanted"), [(Reversed(), -200.0), (SignFlip(), -2.0)])
def test_an_attack_acts_on_what_training_changed(attack: Attack, wanted: float, name: str) -> None:
    (sent,) = sent_by(liar(attack), *cycles(2, codec=name))
    np.testing.assert_allclose(sent, np.full(MODEL.shape, wanted), rtol=2**-11)


def test_all_else_in_the_answer_is_as_it_was() -> None:
    (order,) = cycles(2)
    honest = Learner("pi", Counting())
    (lie,) = answers(liar(Reversed()), order)
    (truth,) = answers(honest, order)  # type: ignore[arg-type]
    assert isinstance(lie, Update)
    assert isinstance(truth, Update)
    assert replace(lie, payload={}) == replace(truth, payload={})


def test_stale_is_behind_from_the_second_cycle_on_and_each_run_has_its_own_past() -> None:
    lying = liar(Stale(steps=2))
    sent = sent_by(lying, *cycles(1, 2, 3, 4), *cycles(9, run="other"), *cycles(5))
    assert [float(each[0]) for each in sent] == [1, 1, 1, 2, 9, 3]


def test_what_a_liar_remembers_can_be_kept_and_is_bounded() -> None:
    before, after = liar(Stale(steps=2)), liar(Stale(steps=2))
    sent_by(before, *cycles(1, 2))
    sent_by(after, *cycles(7))
    after.take_up(before.keep())
    assert [float(each[0]) for each in sent_by(after, *cycles(3, 4))] == [1, 2]
    for number in range(2 * REMEMBERED_RUNS):
        sent_by(before, *cycles(1, run=f"run {number}"))
    assert len(before.keep()) == REMEMBERED_RUNS
    forgetful = liar(Reversed())
    sent_by(forgetful, *cycles(1))
    assert forgetful.keep() == ()


def test_a_past_of_another_size_is_of_another_model() -> None:
    lying = liar(Stale(steps=2))
    sent_by(lying, *cycles(1))
    lying._past["run", ""].appendleft(np.ones(3, np.float32))
    assert float(sent_by(lying, *cycles(2))[0][0]) == 1.0


def test_noise_depends_on_the_seed_the_run_the_cycle_and_the_device_alone() -> None:
    first, second = sent_by(liar(Random()), *cycles(1, 2))
    (again,) = sent_by(liar(Random()), *cycles(2))
    assert second.tobytes() == again.tobytes()
    others = [
        sent_by(liar(Random(), seed=8), *cycles(2)),
        sent_by(liar(Random()), *cycles(2, run="other")),
        sent_by(liar(Random()), *cycles(2, seed=8)),
        [first],
    ]
    for (other,) in others:
        assert (other != second).mean() > 0.9


def test_who_drops_its_answer_is_silent_until_it_is_called_off() -> None:
    async def main() -> float:
        task = asyncio.ensure_future(liar(Drop()).train(order_of(3), SlowSource(1e6)))
        await asyncio.sleep(3600.0)
        assert not task.done()
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
        return asyncio.get_running_loop().time()

    assert run(main()) == 3600.0


def test_what_is_declined_is_no_lie() -> None:
    (answer,) = answers(liar(Reversed(), memory_bytes=10), order_of(3))
    assert isinstance(answer, Declined)


def test_labels_are_flipped_in_shards_and_in_data_of_its_own() -> None:
    def trained_on(attack: Attack, data: Samples | None) -> Samples:
        compute = SteadyCompute(0.01)
        lying = Lying(Learner("pi", compute, Abilities(data=data)), attack, 7)
        update_of(*answers(lying, order_of(2)))
        return compute.jobs[-1].samples

    fetched = samples_of(40)
    np.testing.assert_array_equal(trained_on(LabelFlip(), None).labels, 2 - fetched.labels)
    np.testing.assert_array_equal(trained_on(Reversed(), None).labels, fetched.labels)
    own = samples_of(30)
    np.testing.assert_array_equal(
        trained_on(LabelFlip(), poisoned(own, LabelFlip(), 3)).labels, 2 - own.labels
    )
    assert poisoned(own, Reversed()) is own


def test_what_came_of_flipped_labels_is_sent_in_every_bit() -> None:
    (lie,) = answers(liar(LabelFlip()), *cycles(2))
    assert update_of(lie).payload["parameters"].tobytes() == (MODEL + np.float32(2)).tobytes()


def test_too_many_classes_for_the_task_are_declined() -> None:
    (answer,) = answers(liar(LabelFlip(classes=2)), order_of(3))
    assert isinstance(answer, Declined)
    assert "labels from 0 to 1 round, got 0 to 2" in answer.reason


def test_a_learner_cannot_wear_what_it_cannot_know_enough_for() -> None:
    with pytest.raises(ConfigurationError, match=r"InnerProduct .*axon reproduce byz-attacks"):
        liar(InnerProduct())


def test_of_its_pace_it_tells_the_truth() -> None:
    order = replace(order_of(3), cycle=0)
    honest = Learner("pi", SteadyCompute(0.01))
    lying = Lying(Learner("pi", SteadyCompute(0.01)), Reversed(), 7)
    told, lie = (run(one.benchmark(order, SlowSource(1e6), True)) for one in (honest, lying))
    assert isinstance(told, Capability)
    assert told == lie
    assert lying.states(["a"]) == honest.states(["a"])


@pytest.mark.parametrize(("attack", "status"), [(Reversed(), "used"), (Drop(), "failed")])
def test_a_liar_on_the_network_is_one_among_the_others(attack: Attack, status: str) -> None:
    scene = NetworkScene(cycles=2)
    name = NAMES[-1]
    access = client.access(transport=scene.transport(name), reconnect_s=0.0)
    scene.services[name] = LearnerService(Lying(learner(name), attack, 7), access)
    for record in scene.play():
        statuses = {device.device: device.status for device in record.devices}
        assert statuses == dict.fromkeys(NAMES[:-1], "used") | {name: status}
