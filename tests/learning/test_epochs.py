"""A learner of a run that is led by one orchestrator after another: only the newest is served."""

from __future__ import annotations

import asyncio

import pytest

from axon.errors import ConfigurationError
from axon.learning.service import FORGOTTEN_S, MOST_RUNS, MOST_TAKEOVERS, LearnerService
from axon.values import Update
from tests.learning.served import FakeLearner, begun, call, order_of, play, reason_of

REPLACED = "epoch 2 leads run run, this order is of epoch 1"


def test_an_order_of_a_newer_leader_takes_the_place_of_what_is_being_done() -> None:
    async def scene(service: LearnerService, learner: FakeLearner) -> None:
        older = call(service, order_of(5, epoch=1))
        await begun(learner, "run/5 began")
        # The cycle that the new leader found saved may be an earlier one.
        newer = call(service, order_of(4, epoch=2))
        await begun(learner, "run/4 began")
        assert reason_of(await older) == "a newer order took its place"
        learner.release.set()
        assert isinstance(await newer, Update)

    play(scene)


@pytest.mark.parametrize("busy", [True, False])
def test_an_order_of_an_older_leader_is_declined_and_disturbs_nobody(busy: bool) -> None:
    async def scene(service: LearnerService, learner: FakeLearner) -> None:
        newer = call(service, order_of(4, epoch=2))
        await begun(learner, "run/4 began")
        if not busy:
            learner.release.set()
            await newer
        assert reason_of(await service.train(order_of(5, epoch=1))) == REPLACED
        answer = await service.benchmark(order_of(0, epoch=1), True)
        assert reason_of(answer) == REPLACED
        learner.release.set()
        assert isinstance(await newer, Update)
        assert isinstance(await service.train(order_of(5, epoch=2)), Update)

    play(scene)


def test_one_that_waited_is_declined_if_a_newer_leader_came_meanwhile() -> None:
    async def scene(service: LearnerService, learner: FakeLearner) -> None:
        first = call(service, order_of(1, epoch=1))
        await begun(learner, "run/1 began")
        second = call(service, order_of(2, epoch=1))
        await asyncio.sleep(0.5)
        third = call(service, order_of(2, epoch=2))
        learner.release.set()
        assert reason_of(await first) == "a newer order took its place"
        assert reason_of(await second) == REPLACED
        assert isinstance(await third, Update)

    play(scene, slow_to_stop_s=1.0)


def test_runs_of_other_owners_have_leaders_of_their_own() -> None:
    async def scene(service: LearnerService, learner: FakeLearner) -> None:
        learner.release.set()
        assert isinstance(await service.train(order_of(1, owner="a", epoch=7)), Update)
        for order in (order_of(1, owner="b", epoch=1), order_of(1), order_of(1, run="other")):
            assert isinstance(await service.train(order), Update)
        assert "epoch 7" in reason_of(await service.train(order_of(2, owner="a", epoch=6)))

    play(scene)


def test_leaders_of_a_few_runs_are_remembered_those_heard_of_last() -> None:
    async def scene(service: LearnerService, learner: FakeLearner) -> None:
        learner.release.set()
        for number in range(MOST_RUNS + 1):
            await service.train(order_of(1, run=f"run-{number}", epoch=2))
            await service.train(order_of(1, run="run-0", epoch=2))
            assert len(service._epochs) <= MOST_RUNS
        for run, served in (("run-0", False), ("run-2", False), ("run-1", True)):
            answer = await service.train(order_of(2, run=run, epoch=1))
            assert isinstance(answer, Update) is served

    play(scene)


@pytest.mark.parametrize("seen", [0, 3])
def test_an_epoch_that_no_run_can_have_reached_changes_nothing(seen: int) -> None:
    async def scene(service: LearnerService, learner: FakeLearner) -> None:
        learner.release.set()
        if seen:
            await service.train(order_of(1, epoch=seen))
        for lie in (2**63, seen + MOST_TAKEOVERS + 1):
            reason = reason_of(await service.train(order_of(1, epoch=lie)))
            assert reason == f"epoch {lie} is too far above epoch {seen} to be believed"
        assert isinstance(await service.train(order_of(1, epoch=seen + 1)), Update)
        # As when a learner joins a run after many takeovers.
        assert isinstance(await service.train(order_of(2, epoch=seen + 20_000)), Update)

    play(scene)


def test_whoever_lied_about_an_epoch_is_forgotten_though_the_leader_goes_on_asking() -> None:
    async def scene(service: LearnerService, learner: FakeLearner) -> None:
        learner.release.set()
        await service.train(order_of(1, epoch=MOST_TAKEOVERS))
        for _ in range(9):
            await asyncio.sleep(FORGOTTEN_S / 10)
            assert "leads run run" in reason_of(await service.train(order_of(1, epoch=2)))
        await asyncio.sleep(FORGOTTEN_S / 10)
        assert isinstance(await service.train(order_of(1, epoch=2)), Update)
        assert reason_of(await service.train(order_of(1, epoch=1))) == REPLACED

    play(scene)


def test_an_order_that_takes_long_is_no_silence() -> None:
    async def scene(service: LearnerService, learner: FakeLearner) -> None:
        newer = call(service, order_of(1, epoch=2))
        await asyncio.sleep(2 * FORGOTTEN_S)
        assert reason_of(await service.train(order_of(1, epoch=1))) == REPLACED
        learner.release.set()
        assert isinstance(await newer, Update)
        assert reason_of(await service.train(order_of(1, epoch=1))) == REPLACED

    play(scene)


@pytest.mark.parametrize("epoch", [-1, 1.5, None, "2"])
def test_an_epoch_is_a_whole_number(epoch: int) -> None:
    with pytest.raises(ConfigurationError, match="epoch must be a whole number"):
        order_of(1, epoch=epoch)
