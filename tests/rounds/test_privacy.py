"""What DAB lets out: a whole run is recorded, and nothing in it tells how quick a learner is."""

from __future__ import annotations

import asyncio
import bisect
import json
import re
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, fields, is_dataclass
from typing import Any, TypeVar

import numpy as np
import pytest

from axon import client
from axon.allocation.csa import StalenessAware
from axon.allocation.dab import shard_bound
from axon.allocation.equal import Open
from axon.devices.states import StateEstimate
from axon.errors import ConnectionLost
from axon.learning.compute import REPORT_EVERY_S
from axon.learning.learner import Abilities, Answer, Learner, Report, Source
from axon.learning.pace import Pace
from axon.learning.service import LearnerService
from axon.policies import Compute
from axon.rounds.settings import Scheme, Survey
from axon.rpc import frames, wire
from axon.rpc.address import Address
from axon.rpc.link import Link
from axon.rpc.messages import Buffer, Request, Response
from axon.testbed import virtual
from axon.testbed.charged import ChargedCompute, JobPool
from axon.values import (
    Capability,
    Declined,
    Job,
    Order,
    Samples,
    TaskCost,
    Trained,
    Update,
    Vector,
)
from tests.rounds.worlds import NAMES, PARAMETERS, SHARD_SAMPLES, NetworkScene, sum_up

T = TypeVar("T")

DAB = Scheme(allocate=Open(passes=2), survey=Survey(shards=4))
CSA = Scheme(allocate=StalenessAware(), survey=Survey(shards=4, disclosed=True))
# Chosen so that no setting, count or loss lies near a secret by mere chance: with other numbers one
# in a few hundred does, another one each time, where a leak would show in every message.
LINKS = {
    name: Link(latency_s=0.0213, up_bytes_per_s=each, down_bytes_per_s=each)
    for name, each in zip(NAMES, (57_119.0, 43_711.0, 31_413.0), strict=True)
}
BATCH_S = dict(zip(NAMES, (0.01433, 0.02351, 0.03319), strict=True))
NEAR = 1e-3
TELLING = ("Capability", "Timings", "StateEstimate")
FRAME_HEAD_BYTES = 8


# --- the transcript ----------------------------------------------------------------------------


@dataclass
class Message:
    """What crossed the network one way, as bytes."""

    target: str
    headers: Mapping[bytes, bytes]
    body: bytes

    async def values(self) -> list[Any]:
        """Everything it says, by the product's own decoders."""
        kind = self.headers.get(b"content-type", b"")
        if not self.body:
            return []
        if kind == frames.CONTENT_TYPE:
            return [wire.decode(each, types=wire.LOADED) for each in await self._frames()]
        if kind == wire.CONTENT_TYPE:
            return [wire.decode(self.body, types=wire.LOADED)]
        return [json.loads(self.body)]

    async def _frames(self) -> list[bytearray]:
        found: list[bytearray] = []
        with suppress(ConnectionLost):  # Whoever follows progress leaves before the stream's end.
            async for _, each in frames.unpack(_once(self.body), max_bytes=1 << 20, seal=None):
                found.append(each)
        assert sum(FRAME_HEAD_BYTES + len(each) for each in found) == len(self.body)
        return found


async def _once(body: bytes) -> AsyncIterator[Buffer]:
    yield body


class RecordingTransport:
    """A transport in memory that keeps all that is sent through it and all that comes back."""

    def __init__(self, inner: Any, kept: list[Message]) -> None:
        self._inner = inner
        self._kept = kept
        self.scheme = inner.scheme
        self.listen = inner.listen
        self.host_towards = inner.host_towards
        self.close = inner.close

    async def exchange(self, address: Address, request: Request) -> Response:
        target = request.target.decode()
        self._kept.append(Message(target, dict(request.headers), b"".join(request.body)))
        response: Response = await self._inner.exchange(address, request)
        answer = Message(target, dict(response.headers), b"".join(response.body))
        self._kept.append(answer)
        if response.stream is not None:
            response.stream = self._tapped(response.stream, answer)
        return response

    async def _tapped(
        self, stream: AsyncIterator[Buffer], answer: Message
    ) -> AsyncIterator[Buffer]:
        async for piece in stream:
            answer.body += bytes(piece)
            yield piece


# --- what learners know of themselves ------------------------------------------------------------


@dataclass
class Secrets:
    """Every number that a learner could work out its speed from, or that tells it."""

    found: list[float] = field(default_factory=list)

    def allocate(self, capability: Capability, cost: TaskCost, deadline_s: float) -> int:
        shards_per_s = capability.shards_per_s
        self.found += [shards_per_s, shards_per_s * SHARD_SAMPLES, capability.bytes_per_s]
        return shard_bound(capability, cost, deadline_s)

    async def timed(self, work: Awaitable[T]) -> T:
        loop = asyncio.get_running_loop()
        began_s = loop.time()
        result = await work
        self.found.append(loop.time() - began_s)
        return result

    def note(self, pace: Pace) -> None:
        """What a benchmark found, whether or not anybody uses it."""
        self.found += [pace.training.fixed_s, pace.link.fixed_s, *pace.link.rates]
        for rate in pace.training.rates:
            self.found += [rate, rate / SHARD_SAMPLES]

    def numbers(self) -> set[float]:
        known = {number for number in self.found if number > 0.0}
        return known | {1.0 / number for number in known}


@dataclass
class TimedCompute:
    """A device's compute, whose times are kept, and which tells its progress as a real one does."""

    inner: Compute
    secrets: Secrets
    batch_s: float

    async def train(
        self, job: Job, *, until_s: float, report: Callable[[int, int], None] | None = None
    ) -> Trained:
        telling = asyncio.ensure_future(self._tell(job, report))
        try:
            return await self.secrets.timed(self.inner.train(job, until_s=until_s))
        finally:
            telling.cancel()

    async def _tell(self, job: Job, report: Callable[[int, int], None] | None) -> None:
        """How far it is, every so often, to whoever may hear it."""
        if report is None:
            return
        loop = asyncio.get_running_loop()
        began_s = loop.time()
        while True:
            done = int((loop.time() - began_s) / self.batch_s)
            report(min(done, job.batches), job.batches)
            await asyncio.sleep(REPORT_EVERY_S)


@dataclass
class TimedSource:
    """A learner's source, whose times are kept."""

    inner: Source
    secrets: Secrets

    async def model(self, run: str, cycle: int) -> Vector:
        return await self.secrets.timed(self.inner.model(run, cycle))

    async def shards(self, run: str, cycle: int, ticket: str, count: int) -> Samples:
        return await self.secrets.timed(self.inner.shards(run, cycle, ticket, count))


class Watched:
    """A learner all of whose measurements the test knows."""

    def __init__(self, name: str, secrets: Secrets, *, discloses: bool = True) -> None:
        self.name = name
        self._secrets = secrets
        charged = ChargedCompute(JobPool(sum_up), lambda spec, size: BATCH_S[name])
        abilities = Abilities(allocate=secrets.allocate, discloses=discloses)
        compute = TimedCompute(charged, secrets, BATCH_S[name])
        self._learner = Learner(name, compute, abilities)

    async def train(self, order: Order, source: Source, report: Report | None = None) -> Answer:
        timed = TimedSource(source, self._secrets)
        return await self._secrets.timed(self._learner.train(order, timed, report))

    async def benchmark(
        self, order: Order, source: Source, disclose: bool
    ) -> Capability | Declined | None:
        timed = TimedSource(source, self._secrets)
        answer = await self._secrets.timed(self._learner.benchmark(order, timed, disclose))
        self._secrets.note(self._learner.pace_of(order.spec))
        return answer

    def states(self, kinds: Sequence[str]) -> tuple[StateEstimate, ...] | Declined:
        for one in self._learner.experience.states(kinds):
            self._secrets.found += [one.bytes_per_s or 0.0, *one.shards_per_s.values()]
        return self._learner.states(kinds)


class Transcript(NetworkScene):
    """A run over a network that is overheard."""

    def __init__(self, scheme: Scheme, *, discloses: bool = True) -> None:
        super().__init__(cycles=3, deadline_s=1.7, grace_s=0.9, own_data=False)
        self.scheme = scheme
        self.kept: list[Message] = []
        self.secrets = {name: Secrets() for name in NAMES}
        for name in NAMES:
            access = client.access(transport=self.transport(name), reconnect_s=0.0)
            watched = Watched(name, self.secrets[name], discloses=discloses)
            self.services[name] = LearnerService(watched, access)
        self.links = LINKS
        self.records = self.play()

    def transport(self, name: str) -> RecordingTransport:
        return RecordingTransport(self.network.transport(name), self.kept)

    def values(self) -> list[Any]:
        """What every message said in its body and in its head, one list a message."""
        return virtual.run(self._decoded())

    async def _decoded(self) -> list[Any]:
        return [[*await each.values(), each.target, _texts(each.headers)] for each in self.kept]


def _texts(headers: Mapping[bytes, bytes]) -> dict[str, str]:
    return {name.decode(): value.decode("latin-1") for name, value in headers.items()}


# --- looking for them --------------------------------------------------------------------------


def parts(value: object) -> Iterator[object]:
    """A value and everything in it, but for the model and the samples, which everybody has."""
    yield value
    if is_dataclass(value) and not isinstance(value, (Samples, type)):
        for each in fields(value):
            yield from parts(getattr(value, each.name))
    elif isinstance(value, Mapping):
        for key, each in value.items():
            yield from parts(key)
            yield from parts(each)
    elif isinstance(value, (list, tuple, set, frozenset)):
        for each in value:
            yield from parts(each)
    elif isinstance(value, np.ndarray) and not (
        value.dtype == np.float32 and value.shape == (PARAMETERS,)
    ):
        yield from value.reshape(-1).tolist()


NUMBER = re.compile(r"(?<![\w.])\d+(?:\.\d+)?(?:e[+-]?\d+)?(?![\w.])")


def numbers(value: object) -> Iterator[float]:
    """Every number in it, also those written out in a text."""
    for part in parts(value):
        if isinstance(part, str):
            yield from map(float, NUMBER.findall(part))
        elif isinstance(part, (int, float, np.number)) and not isinstance(part, bool):
            yield float(part)


def progress(transcript: Transcript) -> list[str]:
    """Where messages tell how far a learner is: counts that come over time tell its rate."""
    return [
        f"{message.target}: progress {value}"
        for message, said in zip(transcript.kept, transcript.values(), strict=True)
        if "watch" in message.target
        for value in said[:-2]
        if len(list(numbers(value))) >= 2
    ]


def leaks(transcript: Transcript) -> list[str]:
    """Where a message says something that only a learner can know of itself."""
    secret = sorted(
        number for secrets in transcript.secrets.values() for number in secrets.numbers()
    )
    found = progress(transcript)
    for message, said in zip(transcript.kept, transcript.values(), strict=True):
        kinds = [type(each).__name__ for each in parts(said)]
        found += [f"{message.target}: {k}" for k in kinds if k in TELLING]
        for number in numbers(said):
            near = bisect.bisect_left(secret, number * (1 - NEAR))
            if near < len(secret) and secret[near] <= number * (1 + NEAR):
                found.append(f"{message.target}: {number} is {secret[near]}")
    return found


@pytest.fixture(scope="module")
def dab() -> Transcript:
    return Transcript(DAB)


@pytest.fixture(scope="module")
def csa() -> Transcript:
    return Transcript(CSA)


def test_all_of_a_run_was_overheard(dab: Transcript) -> None:
    assert len(dab.values()) == len(dab.kept)
    calls = {target.partition("?")[0].strip("/") for target in _targets(dab)}
    assert {
        "depot/model",
        "depot/shards",
        "learner/benchmark",
        "learner/train",
        "learner/watch",
    } <= calls
    said = [part for each in dab.values() for part in parts(each)]
    assert sum(isinstance(part, Update) for part in said) == 9
    assert sum(isinstance(part, Order) for part in said) == 12
    for record in dab.records:
        assert [device.status for device in record.devices] == ["used"] * 3
    shards = [device.shards for device in dab.records[-1].devices]
    assert shards == sorted(shards, reverse=True)
    assert shards[0] > shards[2]


def _targets(transcript: Transcript) -> set[str]:
    return {message.target for message in transcript.kept}


def test_dab_lets_out_nothing_about_a_learner(dab: Transcript) -> None:
    for secrets in dab.secrets.values():
        # A benchmark and three cycles leave a good many numbers to look for.
        assert len(secrets.numbers()) > 40
    assert leaks(dab) == []


def test_csa_lets_out_what_dab_keeps(csa: Transcript) -> None:
    found = leaks(csa)
    kinds = {leak.rpartition(": ")[2] for leak in found}
    assert {"Capability", "Timings"} <= kinds
    # One after the other, as the batches are done.
    assert len({each for each in kinds if each.startswith("progress")}) > 9
    # And by its number, not by the name of its type alone.
    assert any("benchmark" in leak and " is " in leak for leak in found)
