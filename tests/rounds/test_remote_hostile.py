"""Learners over the network that answer with too much, or under the names of others."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager, suppress
from functools import partial
from types import SimpleNamespace
from typing import Any, cast

import numpy as np
import pytest
import zstandard

from axon import client
from axon.errors import AxonError, ConfigurationError, QuorumNotReached
from axon.learning.service import SERVICE
from axon.rounds.collect import reason_of
from axon.rounds.depot import Depot
from axon.rounds.events import CycleEnded, Event, LearnerProgress
from axon.rounds.orchestrator import Orchestrator
from axon.rounds.remote import INTRODUCTION_S, RemoteFleet
from axon.rounds.remote_peer import RemotePeer
from axon.rpc import wire
from axon.rpc.address import Address
from axon.rpc.calling import callers
from axon.testbed import virtual
from axon.values import Declined, Order, RoundRecord
from axon.worker import Worker
from tests.rounds.test_remote import Hostile, ends, fit, statuses
from tests.rounds.worlds import DATASET, NAMES, NetworkScene, address_of, order_of
from tests.rpc.worlds import run

USED = dict.fromkeys(NAMES, "used")
MIB = 1 << 20

# --- answers that are too large, over sockets --------------------------------------------------

PROFILE = {
    "protocols": [wire.VERSION],
    "name": "pi-1",
    "boot": "b",
    "version": "1",
    "functions": {f"{SERVICE}/train": {"kind": "coroutine", "doc": "", "signature": None}},
}
OK = b"HTTP/1.1 200 OK\r\ncontent-type: application/axon\r\n"


class RawLearner:
    """Answers an order with bytes of the test's choosing, for as long as they are taken."""

    def __init__(self, head: bytes, piece: bytes = b"", times: int = 0) -> None:
        self._head = head
        self._piece = piece
        self._times = times
        self.sent_bytes = 0

    async def answer(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        with suppress(ConnectionError, asyncio.IncompleteReadError):
            while (await reader.readuntil(b"\r\n\r\n")).startswith(b"GET"):
                body = json.dumps(PROFILE).encode()
                writer.write(b"HTTP/1.1 200 OK\r\ncontent-length: %d\r\n\r\n" % len(body) + body)
            writer.write(self._head)
            for _ in range(self._times):
                writer.write(self._piece)
                await writer.drain()
                self.sent_bytes += len(self._piece)
        writer.close()

    @asynccontextmanager
    async def listening(self) -> AsyncIterator[Address]:
        async with await asyncio.start_server(self.answer, "127.0.0.1", 0) as server:
            yield Address("127.0.0.1", server.sockets[0].getsockname()[1])


def bomb() -> RawLearner:
    packed = zstandard.ZstdCompressor().compress(bytes(64 * MIB))
    return RawLearner(
        OK + b"content-encoding: zstd\r\ncontent-length: %d\r\n\r\n" % len(packed), packed, 1
    )


RAW: dict[str, tuple[Callable[[], RawLearner], str]] = {
    "a gigabyte": (
        lambda: RawLearner(OK + b"content-length: 1000000000\r\n\r\n", bytes(MIB), 1000),
        "TooLarge: the answer has 1000000000 bytes, this client takes 1048656",
    ),
    "without an end": (
        lambda: RawLearner(
            OK + b"transfer-encoding: chunked\r\n\r\n",
            b"10000\r\n" + bytes(1 << 16) + b"\r\n",
            9999,
        ),
        "TooLarge: the answer has 1",
    ),
    "a bomb": (bomb, "ProtocolError: the answer is compressed, which nobody asked for"),
}


@pytest.mark.parametrize("kind", RAW)
def test_an_answer_is_not_read_beyond_what_an_update_can_be(kind: str) -> None:
    make, complaint = RAW[kind]

    async def main() -> None:
        learner = make()
        async with learner.listening() as where:
            peer = RemotePeer("pi-1", where, client.access(reconnect_s=0.0), "http://127.0.0.1:1")
            with pytest.raises(AxonError) as caught:
                await peer.train(order_of(deadline_s=30.0), None)
        assert reason_of(caught.value).startswith(complaint)
        # What the sockets hold was sent as well.
        assert learner.sent_bytes < 16 * MIB

    run(main, loop="uvloop")


# --- the same in whole runs --------------------------------------------------------------------

LARGE: dict[str, Callable[[Order], Any]] = {
    "an array": lambda order: np.zeros(2 * MIB, np.uint8),
    "structure": lambda order: [0] * 100_000,
    "an error": lambda order: _raise("x" * MIB),
}


def _raise(text: str) -> None:
    error = ValueError(text)
    for _ in range(8):
        error.add_note(text)
    raise error


@pytest.mark.parametrize("kind", LARGE)
def test_a_large_answer_costs_its_sender_alone(kind: str) -> None:
    scene = NetworkScene(cycles=2)
    scene.services["pi-1"] = Hostile({"name": "pi-1"}, LARGE[kind])
    for record in scene.play():
        assert statuses(record) == USED | {"pi-1": "failed"}
        assert ends(record)["pi-1"][1].startswith("TooLarge: ")


def test_a_name_that_comes_with_much_else_is_not_heard() -> None:
    scene = NetworkScene([address_of(name) for name in NAMES], cycles=1)
    scene.services["pi-1"] = Hostile({"name": "pi-1", "more": "x" * 70_000}, lambda order: None)
    (record,) = scene.play()
    assert statuses(record) == {address_of("pi-1"): "refused", "nano": "used", "pi-2": "used"}


def test_progress_that_is_too_large_is_not_passed_on() -> None:
    class Loud(Hostile):
        async def watch(self, ticket: str) -> AsyncIterator[Any]:
            yield (1, 2)
            yield np.zeros(MIB, np.uint8)
            yield (2, 2)

    async def train(order: Order) -> Any:
        await asyncio.sleep(0.9)
        return fit(order)

    scene = NetworkScene({"pi-1": address_of("pi-1")}, cycles=1)
    scene.services["pi-1"] = Loud({"name": "pi-1"}, train)
    (record,) = scene.play("pi-1")
    assert statuses(record) == {"pi-1": "used"}
    told = [event for event in scene.events if isinstance(event, LearnerProgress)]
    assert told == [LearnerProgress("pi-1", 1, 2)]


def test_learners_are_reached_by_the_same_connections_in_every_cycle() -> None:
    scene = NetworkScene([address_of(name) for name in NAMES], cycles=4)
    ways: list[int] = []

    def script(cycle: int) -> None:
        ways.append(len(callers._callers[asyncio.get_running_loop()]))

    scene.script = script
    scene.play()
    # From the second cycle on there is the orchestrator's for words and its for updates, and each
    # learner's for the model and the shards, which are of one class of sizes here.
    assert ways[1:] == [2 + len(NAMES)] * 3


# --- names -------------------------------------------------------------------------------------


def test_each_of_two_namesakes_is_ordered_by_its_name_and_recorded_by_its_place() -> None:
    scene = NetworkScene([address_of(name) for name in NAMES], cycles=2)
    ordered: list[str] = []

    def train(order: Order) -> Any:
        ordered.append(order.device)
        return Declined(run=order.run, cycle=order.cycle, device=order.device, reason="not I")

    scene.services["pi-2"] = Hostile({"name": "nano"}, train)
    for record in scene.play():
        assert ends(record) == {
            "nano@nano:8000": ("used", ""),
            "nano@pi-2:8000": ("declined", "not I"),
            "pi-1": ("used", ""),
        }
    assert ordered == ["nano", "nano"]


def test_a_namesake_answers_for_nobody_else() -> None:
    scene = NetworkScene([address_of(name) for name in NAMES], cycles=1)

    def train(order: Order) -> Any:
        answer = fit(order)
        object.__setattr__(answer, "device", "pi-1")
        return answer

    scene.services["pi-2"] = Hostile({"name": "nano"}, train)
    (record,) = scene.play()
    assert ends(record)["nano@pi-2:8000"] == ("refused", "answered as pi-1, not nano@pi-2:8000")


def test_who_is_listed_by_name_keeps_it() -> None:
    scene = NetworkScene([address_of("pi-1"), address_of("pi-2")], cycles=2)
    scene.services["pi-2"] = Hostile({"name": "nano"}, fit)
    fleet = scene.fleet()
    fleet.join("nano", address_of("nano"))

    async def main() -> list[RoundRecord]:
        async with scene.served("nano"), scene.served("pi-1"), scene.served("pi-2"):
            return await Orchestrator(scene.run, DATASET, fleet).run()

    for record in virtual.run(main()):
        assert statuses(record) == {"nano": "used", "nano@pi-2:8000": "used", "pi-1": "used"}


@pytest.mark.parametrize(
    "name",
    [address_of("nano"), "nano:8000", "NANO:8000", "x@nano:8000", "x" * 201, "a\nb", ""],
)
def test_an_address_of_the_fleet_is_nobodys_name(name: str) -> None:
    scene = NetworkScene([address_of(each) for each in NAMES], cycles=1)
    scene.services["pi-2"] = Hostile({"name": name}, fit)
    (record,) = scene.play("pi-1", "pi-2")
    # The one whose name it would be is not there, and is told apart all the same.
    assert statuses(record) == {
        address_of("nano"): "failed",
        address_of("pi-2"): "used",
        "pi-1": "used",
    }


def test_one_that_came_to_its_name_by_saying_it_can_be_left_out() -> None:
    scene = NetworkScene([address_of(name) for name in NAMES], cycles=2)
    fleet = scene.fleet()

    def script(event: Event) -> None:
        if isinstance(event, CycleEnded):
            fleet.leave("pi-1")

    async def main() -> list[RoundRecord]:
        async with scene.served("nano"), scene.served("pi-1"), scene.served("pi-2"):
            return await Orchestrator(scene.run, DATASET, fleet, listen=script).run()

    first, second = virtual.run(main())
    assert (list(statuses(first)), list(statuses(second))) == (list(NAMES), ["nano", "pi-2"])


# --- devices that are looked for ---------------------------------------------------------------


def look_for(monkeypatch: pytest.MonkeyPatch, hosts: str) -> None:
    """Let the network tell of those hosts, and of nobody by multicast."""
    monkeypatch.setenv("AXON_HOSTS", hosts)
    monkeypatch.setattr(client, "watch", partial(client.watch, interfaces=()))


def test_the_first_cycle_waits_for_a_first_learner(monkeypatch: pytest.MonkeyPatch) -> None:
    async def main() -> None:
        others, worker = Worker("printer"), Worker("pi-1")
        worker.service(Hostile({"name": "pi-1"}, fit), SERVICE, executor="inline")
        options: dict[str, Any] = {"announce": False, "grace_s": 0.0}
        async with (
            others.serving(port=0, **options) as one,
            worker.serving(port=0, **options) as at,
        ):
            look_for(monkeypatch, f"127.0.0.1:{one.address.port},127.0.0.1:{at.address.port}")
            fleet = RemoteFleet(discover=True)
            async with asyncio.timeout(INTRODUCTION_S), fleet.hosting(cast(Depot, object())):
                assert [*await fleet.muster(1)] == ["pi-1"]

    run(main, loop="uvloop")


def test_nobody_is_waited_for_longer_than_that(monkeypatch: pytest.MonkeyPatch) -> None:
    look_for(monkeypatch, "")
    scene = NetworkScene((), cycles=1)
    fleet = scene.fleet()
    fleet._discover = True

    async def main() -> float:
        with pytest.raises(ConfigurationError, match="there is no learner to train with"):
            await Orchestrator(scene.run, DATASET, fleet).run()
        return asyncio.get_running_loop().time()

    assert virtual.run(main()) == pytest.approx(INTRODUCTION_S)


def announced(*names: str) -> Any:
    """A directory in which the hosts of the network go by those names."""
    return SimpleNamespace(
        workers=tuple(
            client.Announcement(
                name=name,
                address=Address.parse(address_of(where)),
                functions=(f"{SERVICE}/train",),
                version="1",
                scheme="http",
            )
            for name, where in zip(names, NAMES, strict=False)
        )
    )


def test_that_everybody_has_left_is_a_quorum_not_reached() -> None:
    scene = NetworkScene((), cycles=2)
    fleet = scene.fleet()
    seen: list[dict[str, str]] = []

    def script(event: Event) -> None:
        if isinstance(event, CycleEnded):
            seen.append(statuses(event.record))
            fleet._directory = announced()

    async def main() -> None:
        fleet._directory = announced("nano", "nano")
        scene.services["pi-1"] = Hostile({"name": "nano"}, fit)
        async with scene.served("nano"), scene.served("pi-1"):
            await Orchestrator(scene.run, DATASET, fleet, listen=script).run()

    with pytest.raises(QuorumNotReached, match="wanted 1 answers, got 0"):
        virtual.run(main())
    # And of those who announce the same name, neither takes the other's place.
    assert seen == [{"nano@nano:8000": "used", "nano@pi-1:8000": "used"}]
