"""A learner over the network: one order at a time, and nothing goes on that nobody waits for."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine
from contextlib import suppress
from dataclasses import dataclass, field, replace
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

from axon import client
from axon.errors import RemoteError, TooLarge
from axon.learning.learner import Answer, Report, Source
from axon.learning.service import SERVICE, LearnerService, RemoteSource
from axon.rounds.depot import Depot
from axon.rounds.remote import DepotService
from axon.rpc.executors import Running, current
from axon.testbed import virtual
from axon.values import Declined, Order, Samples, Share, TaskCost, TaskSpec, Update
from axon.worker import Worker
from tests.rpc.worlds import run, serving

SPEC = TaskSpec(net="twonn", inputs=(4,), classes=3)
both_transports = pytest.mark.parametrize(
    ("transport", "loop"), [("memory", "virtual"), ("http", "uvloop")]
)


def order_of(cycle: int = 1, **changes: Any) -> Order:
    made = Order(
        run="run",
        cycle=cycle,
        device="pi",
        spec=SPEC,
        share=Share(shards=1),
        cost=TaskCost(model_bytes=4, shard_bytes=4),
        shard_samples=1,
        shards=1,
        deadline_s=10.0,
        seed=0,
        source="127.0.0.1:9",
    )
    return replace(made, **changes)


@dataclass
class FakeLearner:
    """Trains until it is let go, reports as it begins, and notes what became of every order."""

    name: str = "pi"
    log: list[str] = field(default_factory=list)
    sources: list[Source] = field(default_factory=list)
    release: asyncio.Event = field(default_factory=asyncio.Event)
    at_work: int = 0
    slow_to_stop_s: float = 0.0

    async def train(self, order: Order, source: Source, report: Report | None = None) -> Answer:
        self.at_work += 1
        assert self.at_work == 1, "two orders at once"
        label = f"{order.run}/{order.cycle}"
        self.log.append(f"{label} began")
        self.sources.append(source)
        assert report is not None
        report(1, 4)
        try:
            await self.release.wait()
        except asyncio.CancelledError:
            await asyncio.sleep(self.slow_to_stop_s)
            self.log.append(f"{label} stopped")
            raise
        finally:
            self.at_work -= 1
        self.log.append(f"{label} done")
        return update_of(order)


def update_of(order: Order) -> Update:
    return Update(
        run=order.run,
        cycle=order.cycle,
        device=order.device,
        payload={"parameters": np.arange(3, dtype=np.float32)},
        shards=1,
        batches=2,
        samples=3,
        loss=0.5,
    )


def reason_of(answer: object) -> str:
    assert isinstance(answer, Declined), answer
    return answer.reason


Scene = Callable[[LearnerService, FakeLearner], Coroutine[Any, Any, None]]


def play(scene: Scene, **changes: Any) -> FakeLearner:
    """Act out a scene with the service itself, in virtual time, as if every task were a call."""

    async def main() -> FakeLearner:
        learner = FakeLearner(**changes)
        current.set(Running())
        await scene(LearnerService(learner, client.access()), learner)
        return learner

    return virtual.run(main())


async def begun(learner: FakeLearner, entry: str) -> None:
    async with asyncio.timeout(10):
        while entry not in learner.log:  # noqa: ASYNC110  (a fake has no event for each order)
            await asyncio.sleep(0.001)


def call(service: LearnerService, order: Order) -> asyncio.Task[Update | Declined]:
    return asyncio.create_task(service.train(order))


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
        with pytest.raises(TimeoutError):
            await remote.train.options(deadline_s=0.2)(order_of(1))
        await begun(learner, "run/1 stopped")

    play_remotely(transport, loop, scene)


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
