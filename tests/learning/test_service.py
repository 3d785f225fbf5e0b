"""A learner over the network: one order at a time, and nothing goes on that nobody waits for."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine
from contextlib import suppress
from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from axon import client
from axon.errors import RemoteError
from axon.learning.learner import Answer, Report, Source
from axon.learning.service import SERVICE, LearnerService
from axon.rpc.executors import Running, current
from axon.testbed import virtual
from axon.values import Capability, Declined, Order, Update
from axon.worker import Worker
from tests.learning.served import (
    FakeLearner,
    begun,
    both_transports,
    call,
    order_of,
    play,
    reason_of,
    update_of,
)
from tests.rpc.worlds import run, serving


def test_a_newer_order_of_the_run_takes_the_place_of_the_older() -> None:
    async def scene(service: LearnerService, learner: FakeLearner) -> None:
        older = call(service, order_of(1))
        await begun(learner, "run/1 began")
        assert service.describe()["busy"] is True
        newer = call(service, order_of(2))
        await begun(learner, "run/2 began")
        assert await older == Declined(
            run="run", cycle=1, device="pi", reason="a newer order took its place"
        )
        learner.release.set()
        assert isinstance(await newer, Update)
        assert service.describe()["busy"] is False

    learner = play(scene)
    assert learner.log == ["run/1 began", "run/1 stopped", "run/2 began", "run/2 done"]


@pytest.mark.parametrize("slow_to_stop_s", [0.0, 1.0])
def test_of_many_that_come_at_once_the_last_is_done_and_never_two(slow_to_stop_s: float) -> None:
    async def scene(service: LearnerService, learner: FakeLearner) -> None:
        calls = [call(service, order_of(1))]
        await begun(learner, "run/1 began")
        calls += [call(service, order_of(cycle)) for cycle in (2, 3, 4)]
        await begun(learner, "run/4 began")
        learner.release.set()
        *older, last = await asyncio.gather(*calls)
        assert {reason_of(answer) for answer in older} == {"a newer order took its place"}
        assert isinstance(last, Update)
        assert last.cycle == 4

    play(scene, slow_to_stop_s=slow_to_stop_s)


def test_another_run_has_to_wait() -> None:
    async def scene(service: LearnerService, learner: FakeLearner) -> None:
        first = call(service, order_of(1))
        await begun(learner, "run/1 began")
        other = order_of(5, run="other")
        assert await service.train(other) == Declined(
            run="other", cycle=5, device="pi", reason="busy with run run"
        )
        learner.release.set()
        assert isinstance(await first, Update)
        assert isinstance(await service.train(other), Update)

    assert play(scene).log == ["run/1 began", "run/1 done", "other/5 began", "other/5 done"]


def test_another_run_of_the_same_name_has_to_wait_too() -> None:
    async def scene(service: LearnerService, learner: FakeLearner) -> None:
        first = call(service, order_of(1, owner="a"))
        await begun(learner, "run/1 began")
        other = await service.train(order_of(2, owner="b"))
        assert reason_of(other) == "busy with run run"
        newer = call(service, order_of(3, owner="a"))
        await begun(learner, "run/3 began")
        learner.release.set()
        assert reason_of(await first) == "a newer order took its place"
        assert isinstance(await newer, Update)

    play(scene)


def test_an_order_for_another_device_disturbs_nobody() -> None:
    async def scene(service: LearnerService, learner: FakeLearner) -> None:
        first = call(service, order_of(1))
        await begun(learner, "run/1 began")
        with pytest.raises(ValueError, match="this is pi, not nano"):
            await service.train(order_of(2, device="nano"))
        learner.release.set()
        assert isinstance(await first, Update)

    play(scene)


def test_a_cancelled_call_ends_its_training_and_the_next_is_welcome() -> None:
    async def scene(service: LearnerService, learner: FakeLearner) -> None:
        first = call(service, order_of(1))
        await begun(learner, "run/1 began")
        first.cancel()
        with suppress(asyncio.CancelledError):
            await first
        assert first.cancelled()
        assert learner.log[-1] == "run/1 stopped"
        learner.release.set()
        assert isinstance(await service.train(order_of(1, run="other")), Update)

    play(scene, slow_to_stop_s=0.5)


def test_a_learner_that_raises_is_free_again() -> None:
    class Broken(FakeLearner):
        async def train(self, order: Order, source: Source, report: Report | None = None) -> Answer:
            raise ZeroDivisionError("its own")

    async def main() -> None:
        current.set(Running())
        service = LearnerService(Broken(), client.access())
        for run_name in ("run", "other"):
            with pytest.raises(ZeroDivisionError):
                await service.train(order_of(1, run=run_name))

    virtual.run(main())


def test_a_source_is_kept_for_an_orchestrator_and_let_go_for_the_next() -> None:
    async def scene(service: LearnerService, learner: FakeLearner) -> None:
        learner.release.set()
        for port in (1, 1, 2, 1):
            await service.train(order_of(1, source=f"127.0.0.1:{port}"))
        first, again, moved, back = learner.sources
        assert first is again
        assert len({id(source) for source in (first, moved, back)}) == 3

    play(scene)


# Benchmarks


def test_a_benchmark_is_an_order_like_any_other() -> None:
    async def scene(service: LearnerService, learner: FakeLearner) -> None:
        survey = asyncio.create_task(service.benchmark(order_of(0), False))
        await begun(learner, "run/0 began")
        assert service.describe()["busy"] is True
        other = order_of(0, run="other")
        assert reason_of(await service.benchmark(other, False)) == "busy with run run"
        assert reason_of(await service.train(other)) == "busy with run run"
        with pytest.raises(ValueError, match="this is pi, not nano"):
            await service.benchmark(order_of(0, device="nano"), False)
        training = call(service, order_of(1))
        await begun(learner, "run/1 began")
        assert reason_of(await survey) == "a newer order took its place"
        learner.release.set()
        assert isinstance(await training, Update)
        assert service.describe()["busy"] is False

    assert play(scene).log == ["run/0 began", "run/0 stopped", "run/1 began", "run/1 done"]


@both_transports
def test_a_capability_travels_only_where_it_is_asked_for(transport: str, loop: str) -> None:
    async def scene(remote: Any, learner: FakeLearner) -> None:
        learner.release.set()
        assert await remote.benchmark(order_of(0), False) is None
        told = await remote.benchmark(order_of(0), True)
        assert told == Capability(shards_per_s=2.0, bytes_per_s=3.0)

    play_remotely(transport, loop, scene)


def test_states_are_told_while_an_order_is_done() -> None:
    async def scene(service: LearnerService, learner: FakeLearner) -> None:
        first = call(service, order_of(1))
        await begun(learner, "run/1 began")
        told = service.states(["line"])
        assert isinstance(told, tuple)
        assert told[0].shards_per_s == {"line": 2.0}
        learner.release.set()
        assert isinstance(await first, Update)

    play(scene)


# Over the network


def play_remotely(
    transport: str, loop: str, scene: Callable[[Any, FakeLearner], Coroutine[Any, Any, None]]
) -> FakeLearner:
    async def main() -> FakeLearner:
        learner, worker = FakeLearner(), Worker("pi")
        service = LearnerService(learner, client.access())
        worker.service(service, SERVICE, executor="inline")
        async with serving(worker, transport) as world:
            stub = await world.stub()
            await scene(getattr(stub, SERVICE), learner)
        return learner

    done: FakeLearner = run(main, loop=loop)
    return done


@both_transports
def test_an_order_and_its_update_travel_and_progress_comes_back(transport: str, loop: str) -> None:
    reports: list[object] = []

    async def scene(remote: Any, learner: FakeLearner) -> None:
        assert (await remote.describe())["name"] == "pi"
        # Asked before the order is there: a question may overtake it.
        following = asyncio.ensure_future(_followed(remote.watch("t3"), reports))
        order = order_of(3, ticket="t3")
        waiting = asyncio.ensure_future(_awaited(remote.train.options(deadline_s=10.0)(order)))
        await begun(learner, "run/3 began")
        async with asyncio.timeout(10):
            while not reports:  # noqa: ASYNC110  (it comes over the network)
                await asyncio.sleep(0.001)
        learner.release.set()
        update, wanted = await waiting, update_of(order_of(3))
        assert replace(update, payload={}) == replace(wanted, payload={})
        np.testing.assert_array_equal(update.payload["parameters"], wanted.payload["parameters"])
        await following
        with pytest.raises(RemoteError, match="this is pi, not nano") as caught:
            await remote.train(order_of(1, device="nano"))
        assert isinstance(caught.value, ValueError)

    play_remotely(transport, loop, scene)
    assert [tuple(report) for report in reports] == [(1, 4)]  # type: ignore[arg-type]


async def _awaited(call: Any) -> Any:
    return await call


async def _followed(call: Any, reports: list[object]) -> None:
    async for report in call:
        # One by one: the test looks at them while they come.
        reports += [report]


@both_transports
def test_a_client_that_goes_away_stops_the_training(transport: str, loop: str) -> None:
    async def scene(remote: Any, learner: FakeLearner) -> None:
        waiting = asyncio.ensure_future(_awaited(remote.train(order_of(1))))
        await begun(learner, "run/1 began")
        waiting.cancel()
        await begun(learner, "run/1 stopped")

    assert play_remotely(transport, loop, scene).log == ["run/1 began", "run/1 stopped"]


@both_transports
def test_a_deadline_on_the_call_stops_the_training_too(transport: str, loop: str) -> None:
    async def scene(remote: Any, learner: FakeLearner) -> None:
        # Long enough that on a busy machine, too, the training begins before it.
        with pytest.raises(TimeoutError):
            await remote.train.options(deadline_s=1.0)(order_of(1))
        await begun(learner, "run/1 stopped")

    play_remotely(transport, loop, scene)
