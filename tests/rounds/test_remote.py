"""The same orchestrator over a network in memory: names, partitions, and hostile learners."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import AsyncExitStack
from dataclasses import replace
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

from axon.allocation.equal import Equal
from axon.errors import ConfigurationError
from axon.rounds.events import CycleEnded, Event, LearnerProgress
from axon.rounds.orchestrator import Orchestrator
from axon.rounds.remote import INTRODUCTION_S
from axon.rounds.settings import Scheme
from axon.rpc.address import Address
from axon.rpc.discovery.mdns import Announcement
from axon.testbed import virtual
from axon.values import Order, RoundRecord
from tests.rounds.worlds import DATASET, NAMES, NANO, NetworkScene, address_of, update_for, world_of


def ends(record: RoundRecord) -> dict[str, tuple[str, str]]:
    return {end.device: (end.status, end.reason) for end in record.devices}


def statuses(record: RoundRecord) -> dict[str, str]:
    return {end.device: end.status for end in record.devices}


USED = dict.fromkeys(NAMES, "used")


def test_a_whole_run_gives_the_same_model_as_in_the_simulated_world() -> None:
    scene = NetworkScene(evaluate_every=1)
    records = scene.play()
    assert [statuses(record) for record in records] == [USED] * 3
    assert all(record.accuracy is not None for record in records)
    assert all(0.0 < record.duration_s < record.deadline_s for record in records)

    async def main(fleet: Any) -> list[RoundRecord]:
        scheme = Scheme(allocate=Equal(shards=6))
        return await Orchestrator(scene.run, DATASET, fleet, scheme).run()

    simulated = world_of(dict.fromkeys(NAMES, NANO)).run(main)
    assert [record.digest for record in simulated] == [record.digest for record in records]


def test_two_runs_are_the_same_in_every_record() -> None:
    assert NetworkScene().play() == NetworkScene().play()


def test_a_partition_of_the_network_costs_one_learner_and_one_cycle() -> None:
    scene = NetworkScene(cycles=4)

    def script(cycle: int) -> None:
        if cycle == 2:
            scene.network.partition("pi-1")
        if cycle == 3:
            scene.network.heal("pi-1")

    scene.script = script
    records = scene.play()
    assert statuses(records[0]) == USED
    assert ends(records[1]) == {
        "nano": ("used", ""),
        "pi-1": ("failed", "no answer by the deadline"),
        "pi-2": ("used", ""),
    }
    assert [statuses(record) for record in records[2:]] == [USED] * 2
    assert all(record.duration_s <= 1.1 * record.deadline_s for record in records)


def test_a_device_that_dies_in_the_middle_costs_its_own_contribution() -> None:
    scene = NetworkScene(cycles=2)

    def script(cycle: int) -> None:
        if cycle == 1:
            asyncio.get_running_loop().call_later(0.02, scene.network.crash, "pi-1")

    scene.script = script
    first, second = scene.play()
    assert ends(first)["pi-1"] == ("failed", "the connection was lost: pi-1 crashed")
    assert second.devices[1].reason.startswith("cannot be reached: nobody listens at")
    assert first.duration_s < 0.5


# --- names -------------------------------------------------------------------------------------


def test_devices_known_by_address_alone_say_their_names() -> None:
    scene = NetworkScene([address_of(name) for name in reversed(NAMES)])
    assert [statuses(record) for record in scene.play()] == [USED] * 3


def test_an_unreachable_device_is_recorded_and_taken_in_when_it_comes_up() -> None:
    scene = NetworkScene([address_of(name) for name in NAMES], cycles=3)

    async def main() -> list[RoundRecord]:
        scene.network.transport("pi-2")  # Its host is there, and nobody listens.
        async with AsyncExitStack() as stack:
            started: list[asyncio.Task[None]] = []

            async def start() -> None:
                await stack.enter_async_context(scene.served("pi-2"))

            def script(cycle: int) -> None:
                if cycle == 2:
                    started.append(asyncio.ensure_future(start()))

            scene.script = script
            records = await scene.main(["nano", "pi-1"])
            assert len(started) == 1
            return records

    first, second, third = virtual.run(main())
    where = str(Address.parse(address_of("pi-2")))
    assert list(statuses(first)) == [where, "nano", "pi-1"]
    assert statuses(first)[where] == "failed"
    assert ends(first)[where][1].startswith("cannot be reached: ")
    assert where in statuses(second)
    assert statuses(third) == USED


def test_a_silent_device_holds_a_cycle_up_for_two_seconds_at_most() -> None:
    scene = NetworkScene([address_of(name) for name in NAMES], cycles=1)

    async def main() -> float:
        scene.network.transport("pi-2")
        scene.network.partition("pi-2")
        loop = asyncio.get_running_loop()
        (record,) = await scene.main(["nano", "pi-1"])
        assert statuses(record)[address_of("pi-2")] == "failed"
        assert record.started_s == pytest.approx(INTRODUCTION_S)
        return loop.time()

    assert virtual.run(main()) < INTRODUCTION_S + 1.2


def test_devices_join_and_leave_between_cycles() -> None:
    scene = NetworkScene({"nano": address_of("nano")}, cycles=3)
    fleet = scene.fleet()

    def script(event: Event) -> None:
        if isinstance(event, CycleEnded):
            if event.record.cycle == 1:
                fleet.join("pi-1", address_of("pi-1"))
            if event.record.cycle == 2:
                fleet.leave("nano")

    async def main() -> list[RoundRecord]:
        async with scene.served("nano"), scene.served("pi-1"):
            return await Orchestrator(scene.run, DATASET, fleet, listen=script).run()

    records = virtual.run(main())
    assert [list(statuses(record)) for record in records] == [["nano"], ["nano", "pi-1"], ["pi-1"]]


def test_an_announced_device_takes_part_but_not_in_place_of_a_listed_one() -> None:
    scene = NetworkScene({"nano": address_of("nano")}, cycles=1)
    fleet = scene.fleet()

    def found(name: str, at: str, *functions: str) -> Announcement:
        return Announcement(
            name=name,
            address=Address.parse(address_of(at)),
            functions=functions,
            version="1",
            scheme="http",
        )

    directory: Any = SimpleNamespace(
        workers=(
            found("nano", "pi-2", "learner/train"),
            found("pi-1", "pi-1", "learner/train", "rpc/hello"),
            found("printer", "pi-2", "rpc/print"),
        )
    )

    async def main() -> list[RoundRecord]:
        fleet._directory = directory
        async with scene.served("nano"), scene.served("pi-1"), scene.served("pi-2"):
            return await Orchestrator(scene.run, DATASET, fleet).run()

    (record,) = virtual.run(main())
    assert statuses(record) == {"nano": "used", "pi-1": "used"}


def test_nobody_to_train_with() -> None:
    with pytest.raises(ConfigurationError, match="there is no learner to train with"):
        NetworkScene({}).play()


# --- hostile learners --------------------------------------------------------------------------


class Hostile:
    """Answers whatever it is told to."""

    def __init__(self, name: Any, train: Callable[[Order], Any]) -> None:
        self._described = name
        self._train = train

    async def describe(self) -> Any:
        if isinstance(self._described, BaseException):
            raise self._described
        if self._described is ...:
            await asyncio.Event().wait()
        return self._described

    async def train(self, order: Order) -> Any:
        answer = self._train(order)
        return await answer if asyncio.iscoroutine(answer) else answer


def fit(order: Order) -> Any:
    return update_for(order, np.zeros(10, np.float32))


@pytest.mark.parametrize(
    "described",
    [
        None,
        {},
        {"name": None},
        {"name": ""},
        {"name": 5},
        {"name": "x" * 10**4},
        {"name": "\x1b[2Jnano"},
        {"name": ["nano"]},
        ["name"],
        "nano",
        ValueError("no name"),
        ...,
    ],
    ids=lambda described: str(described)[:20].replace("\x1b", "ESC"),
)
def test_a_device_that_does_not_say_its_name_takes_part_under_its_address(described: Any) -> None:
    scene = NetworkScene([address_of(name) for name in NAMES], cycles=2)
    scene.services["pi-2"] = Hostile(described, lambda order: None)
    for record in scene.play():
        assert statuses(record) == {address_of("pi-2"): "refused", "nano": "used", "pi-1": "used"}


def test_nobody_takes_a_name_from_another() -> None:
    scene = NetworkScene([address_of(name) for name in NAMES], cycles=2)
    scene.services["pi-2"] = Hostile({"name": "nano"}, fit)
    for record in scene.play():
        assert statuses(record) == {
            "nano@nano:8000": "used",
            "nano@pi-2:8000": "used",
            "pi-1": "used",
        }


async def hang(order: Order) -> Any:
    await asyncio.Event().wait()


def fail(order: Order) -> Any:
    raise KeyError("\x1b[2J" + "x" * 10**5)


def time_out(order: Order) -> Any:
    raise TimeoutError("as if it were our own")


ANSWERS: dict[str, tuple[Callable[[Order], Any], str]] = {
    "nothing": (lambda order: None, "refused"),
    "text": (lambda order: "\0" * 100, "refused"),
    "an array": (lambda order: np.zeros(10, np.float32), "refused"),
    "the order": (lambda order: order, "refused"),
    "nested": (lambda order: {"a": [{"b": (1, None)}]}, "refused"),
    "an update of odd fields": (
        lambda order: replace(fit(order), payload=None, loss="x", timings=3),
        "refused",
    ),
    "a huge count": (lambda order: replace(fit(order), batches=1 << 63), "refused"),
    "a stale cycle": (lambda order: replace(fit(order), cycle=order.cycle - 1), "refused"),
    "objects": (
        lambda order: replace(fit(order), payload={"parameters": ["x"] * 10}),
        "refused",
    ),
    "NaN": (lambda order: update_for(order, np.full(10, np.nan, np.float32)), "refused"),
    "what cannot travel": (lambda order: object(), "failed"),
    "an error": (fail, "failed"),
    "a time-out": (time_out, "failed"),
    "silence": (hang, "failed"),
}


@pytest.mark.parametrize("kind", ANSWERS)
def test_garbage_costs_its_sender_alone(kind: str) -> None:
    train, status = ANSWERS[kind]
    scene = NetworkScene(cycles=2)
    scene.services["pi-1"] = Hostile({"name": "pi-1"}, train)
    for record in scene.play():
        assert statuses(record) == USED | {"pi-1": status}
        reason = ends(record)["pi-1"][1]
        assert 0 < len(reason) < 400
        assert reason.isprintable()
        assert record.duration_s <= 1.1 * record.deadline_s


@pytest.mark.parametrize(("grace_s", "status"), [(0.0, "failed"), (0.5, "used")])
def test_a_grace_is_given_over_the_network_too(grace_s: float, status: str) -> None:
    async def train(order: Order) -> Any:
        await asyncio.sleep(1.4)
        return fit(order)

    scene = NetworkScene(cycles=1, grace_s=grace_s)
    scene.services["pi-1"] = Hostile({"name": "pi-1"}, train)
    assert statuses(scene.play()[0]) == USED | {"pi-1": status}


class Generating:
    """Has a function of the right name that is a stream."""

    async def train(self, order: Order) -> AsyncIterator[int]:
        yield 1


class Misfit:
    """Has a function of the right name that takes something else."""

    async def train(self) -> int:
        return 1


class Nested:
    """Has a service where a function should be."""

    class _Inner:
        def more(self) -> int:
            return 1

    def __init__(self) -> None:
        self.train = self._Inner()


class Other:
    """Is no learner at all."""

    def weather(self) -> str:
        return "fine"


@pytest.mark.parametrize("kind", [Generating, Misfit, Nested, Other])
def test_a_worker_that_is_no_learner_has_failed(kind: type) -> None:
    scene = NetworkScene([address_of(name) for name in NAMES], cycles=2)
    scene.services["pi-1"] = kind()
    for record in scene.play():
        assert statuses(record) == {address_of("pi-1"): "failed", "nano": "used", "pi-2": "used"}


def test_progress_that_is_no_progress_is_not_passed_on() -> None:
    async def train(order: Order) -> Any:
        await asyncio.sleep(0.9)
        return fit(order)

    class Babbling(Hostile):
        async def watch(self, ticket: str) -> AsyncIterator[Any]:
            for value in (None, "x", (1,), (1, 2, 3), (2, 1), (-1, 5), (True, 5), (1.0, 2), [1, 2]):
                yield value

    scene = NetworkScene({"pi-1": address_of("pi-1")}, cycles=1)
    scene.services["pi-1"] = Babbling({"name": "pi-1"}, train)
    (record,) = scene.play("pi-1")
    assert statuses(record) == {"pi-1": "used"}
    told = [event for event in scene.events if isinstance(event, LearnerProgress)]
    assert told == [LearnerProgress("pi-1", 1, 2)]
