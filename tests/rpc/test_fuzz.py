"""Whatever bytes arrive, a worker gives clean answers or none, and goes on."""

from __future__ import annotations

import asyncio
import json
import logging
from collections.abc import AsyncIterator, Iterator
from contextlib import contextmanager, suppress
from itertools import pairwise
from typing import Any

import httptools
import pytest
from hypothesis import HealthCheck, example, given, settings
from hypothesis import strategies as st

from axon.errors import AxonError, CallError
from axon.rpc import frames, wire
from axon.rpc.limits import Limits
from axon.rpc.loops import new_event_loop
from axon.rpc.messages import Request, Response
from axon.rpc.replies import raise_for
from axon.worker import Serving, Worker
from tests.rpc.raw import PING, Answers, Peer, connected, request

AXON = {b"content-type": wire.CONTENT_TYPE}
LIMITS = Limits(max_header_bytes=4096, max_body_bytes=1 << 20, header_s=5.0, stall_s=5.0)
few = settings(
    max_examples=150, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture]
)


def make_worker() -> Worker:
    worker = Worker("fuzzed")

    @worker.rpc(executor="inline")
    def echo(value: Any = None) -> Any:
        return value

    @worker.rpc(executor="inline")
    def add(left: int, right: float = 1.0) -> float:
        return left + right

    @worker.rpc()
    async def count(most: int) -> AsyncIterator[int]:
        for number in range(min(most, 3)):
            yield number

    return worker


class Fuzzed:
    """A worker served on a loop of its own, between whose turns hypothesis runs."""

    def __init__(self) -> None:
        self.runner = asyncio.Runner(loop_factory=new_event_loop)
        self._context = make_worker().serving(port=0, limits=LIMITS)
        self.serving: Serving = self.runner.run(self._context.__aenter__())

    def close(self) -> None:
        self.runner.run(self._context.__aexit__(None, None, None))
        self.runner.close()

    def send(self, *parts: bytes) -> Answers:
        """What the worker says to these bytes, read strictly; raises what is not HTTP."""
        return self.runner.run(self._send(parts))

    async def _send(self, parts: tuple[bytes, ...]) -> Answers:
        answers = Answers()
        async with asyncio.timeout(20), connected(self.serving.address) as peer:
            try:
                await peer.send(*parts)
                await _read(peer, answers, timeout_s=0.01)
                peer.writer.write_eof()  # Ends a request that is not whole.
                await _read(peer, answers, timeout_s=10.0)
            except ConnectionError:
                return answers
        return answers

    def ping(self) -> None:
        async def ask() -> int:
            async with asyncio.timeout(10), connected(self.serving.address) as peer:
                await peer.send(PING)
                return (await peer.get())[0].status

        assert self.runner.run(ask()) == 200


async def _read(peer: Peer, answers: Answers, *, timeout_s: float) -> None:
    with suppress(TimeoutError):
        async with asyncio.timeout(timeout_s):
            while data := await peer.reader.read(1 << 16):
                answers.feed(data)


@pytest.fixture(scope="module")
def fuzzed() -> Iterator[Fuzzed]:
    target = Fuzzed()
    yield target
    target.close()


class _Errors(logging.Handler):
    def __init__(self) -> None:
        super().__init__(logging.ERROR)
        self.seen: list[str] = []

    def emit(self, record: logging.LogRecord) -> None:
        self.seen.append(record.getMessage())


@contextmanager
def no_errors() -> Iterator[None]:
    """Nothing is logged as an error, here or by the event loop."""
    handler = _Errors()
    logging.getLogger().addHandler(handler)
    try:
        yield
    finally:
        logging.getLogger().removeHandler(handler)
    assert handler.seen == []


def check(fuzzed: Fuzzed, *parts: bytes) -> None:
    with no_errors():
        answers = fuzzed.send(*parts)
        for answer in answers.whole:
            assert answer.status in (200, 202) or 400 <= answer.status < 600, answer
            assert answer.status != 500 or b"axon-error" in answer.headers, answer
        fuzzed.ping()


def envelope(value: object) -> bytes:
    return b"".join(bytes(piece) for piece in wire.encode(value))


VALID = [
    PING,
    request(),
    request(b"/rpc/echo", b'{"value": [1, 2.5, "x"]}'),
    request(b"/rpc/echo", envelope([[{"a": (1, b"x" * 200)}], {}]), headers=AXON),
    request(b"/rpc/add", envelope([[3], {"right": 4}]), headers=AXON),
    request(b"/rpc/count", envelope([[3], {}]), headers=AXON),
    request(b"/rpc/count", b"[3]"),
    request(b"/rpc/add", b"[1, 2]", headers={b"axon-deadline": b"5", b"axon-accept": b"progress"}),
    request(headers={b"axon-mode": b"duplex", b"axon-call": b"c1", b"axon-reply-to": b"http:1"}),
    request(b"/_axon/calls/c1?wait=0.01", b"", method=b"GET"),
    request(b"/_axon/calls/c1", b"", method=b"DELETE"),
    request(b"/_axon/metrics", b"", method=b"GET"),
    b"POST /rpc/echo HTTP/1.1\r\ntransfer-encoding: chunked\r\n\r\n3\r\n[1]\r\n0\r\nt: 1\r\n\r\n",
]
POISON = [b"\0", b"\r\n", b"\r\n\r\n", b" ", b":", b"\xff" * 8, b"9" * 20, b"-1", b"HTTP/1.1",
          b"chunked", b"content-length: 7\r\n", b"transfer-encoding: chunked\r\n", b"../", b"%00",
          b"__class__", b"expect: 100-continue\r\n", b"connection: upgrade\r\nupgrade: x\r\n",
          b"connection: close\r\n", b"nan", b"1e999", b"[" * 2000, b"\xdd\xff\xff\xff\xff",
          b"\xc9\xff\xff\xff\xff\x01", b"\x91" * 3000]  # fmt: skip


@st.composite
def mutated(draw: st.DrawFn) -> bytes:
    """One or two valid requests with a few things done to them."""
    data = bytearray(b"".join(draw(st.lists(st.sampled_from(VALID), min_size=1, max_size=2))))
    for _ in range(draw(st.integers(1, 4))):
        place = draw(st.integers(0, len(data)))
        length = draw(st.integers(0, 40))
        match draw(st.sampled_from(["flip", "cut", "insert", "poison", "double", "remove"])):
            case "flip" if place < len(data):
                data[place] ^= 1 << draw(st.integers(0, 7))
            case "cut":
                del data[place:]
            case "insert":
                data[place:place] = draw(st.binary(max_size=40))
            case "poison":
                data[place:place] = draw(st.sampled_from(POISON))
            case "double":
                data[place:place] = data[place : place + length]
            case _:
                del data[place : place + length]
    return bytes(data)


@few
@given(data=st.binary(max_size=2000))
@example(data=b"")
@example(data=b"\r\n" * 1000)
def test_random_bytes(fuzzed: Fuzzed, data: bytes) -> None:
    check(fuzzed, data)


@pytest.mark.slow
@settings(few, max_examples=400)
@given(data=mutated(), cut=st.integers(0, 400))
def test_mutated_requests(fuzzed: Fuzzed, data: bytes, cut: int) -> None:
    check(fuzzed, data[:cut], data[cut:])


ODD_HEADERS = ["axon-deadline", "axon-mode", "axon-call", "axon-reply-to", "axon-accept",
               "axon-worker", "axon-auth", "axon-client", "content-type", "content-encoding",
               "accept-encoding", "expect", "connection", "host", "content-length",
               "transfer-encoding", "upgrade"]  # fmt: skip
ODD_VALUES = st.one_of(
    st.text(st.characters(min_codepoint=33, max_codepoint=255), max_size=40).map(
        lambda text: text.encode("latin-1")
    ),
    st.sampled_from([b"http:99999", b"http:\xb2", b"http:" + b"9" * 400, b"duplex", b"progress",
                     b"nan", b"inf", b"-0", b"1e999", b"zstd", b"application/axon",
                     b"application/json", b"application/python-pickle", b"chunked", b"x" * 200,
                     b"memory:80", b"http:0", b"../../x", b"'; drop"]),
)  # fmt: skip


@pytest.mark.slow
@settings(few, max_examples=300)
@given(
    headers=st.dictionaries(st.sampled_from(ODD_HEADERS).map(str.encode), ODD_VALUES, max_size=5),
    target=st.sampled_from([b"/rpc/echo", b"/rpc/add", b"/rpc/count", b"/_axon/calls/c1/cancel"]),
    body=st.sampled_from([b"", b"[1]", b"{}", b"\x28\xb5\x2f\xfd\x00", envelope([[1], {}])]),
)
@example(headers={b"axon-mode": b"duplex", b"axon-call": b"c9", b"axon-reply-to": b"http:\xb2"},
         target=b"/rpc/echo", body=b"[1]")  # fmt: skip
def test_odd_headers(
    fuzzed: Fuzzed, headers: dict[bytes, bytes], target: bytes, body: bytes
) -> None:
    check(fuzzed, request(target, body, headers=headers))


json_values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=10),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(max_size=6), inner),
    max_leaves=10,
)


@pytest.mark.slow
@few
@given(value=json_values, target=st.sampled_from([b"/rpc/echo", b"/rpc/add", b"/rpc/count"]))
@example(value={"args": 1, "kwargs": {}}, target=b"/rpc/echo")
@example(value=[10**30], target=b"/rpc/add")
def test_any_json_as_arguments(fuzzed: Fuzzed, value: object, target: bytes) -> None:
    check(fuzzed, request(target, json.dumps(value).encode()))


@pytest.mark.slow
@few
@given(data=st.data())
def test_mutated_envelopes(fuzzed: Fuzzed, data: st.DataObject) -> None:
    body = bytearray(envelope([[{"a": [1, 2.5, (None, b"x")], "b": {1, 2}}], {}]))
    for _ in range(data.draw(st.integers(1, 3))):
        place = data.draw(st.integers(0, len(body) - 1))
        body[place] = data.draw(st.integers(0, 255))
    check(fuzzed, request(b"/rpc/echo", bytes(body), headers=AXON))


# The stream of frames, as a client reads it


async def _pieces(data: bytes, cuts: list[int]) -> AsyncIterator[bytes]:
    places = sorted({0, len(data), *(cut % (len(data) + 1) for cut in cuts)})
    for start, end in pairwise(places):
        yield data[start:end]


def unpacked(data: bytes, cuts: list[int]) -> list[tuple[frames.Kind, bytes]]:
    async def read() -> list[tuple[frames.Kind, bytes]]:
        stream = frames.unpack(_pieces(data, cuts), max_bytes=1000, seal=None)
        return [(kind, bytes(envelope)) async for kind, envelope in stream]

    with asyncio.Runner() as runner:
        return runner.run(read())


some_frames = st.lists(
    st.tuples(st.sampled_from([frames.Kind.ITEM, frames.Kind.PROGRESS]), st.binary(max_size=60)),
    max_size=5,
)


@settings(few, max_examples=60)
@given(items=some_frames, cuts=st.lists(st.integers(0, 10_000), max_size=8), rest=st.binary())
def test_frames_come_back_however_they_are_cut(
    items: list[tuple[frames.Kind, bytes]], cuts: list[int], rest: bytes
) -> None:
    whole = [*items, (frames.Kind.RESULT, b"end")]
    packed = b"".join(
        bytes(piece) for kind, body in whole for piece in frames.pack(kind, [body], None)
    )
    assert unpacked(packed + rest, cuts) == whole


@settings(few, max_examples=100)
@given(data=st.binary(max_size=300), cuts=st.lists(st.integers(0, 300), max_size=5))
@example(data=b"\xff" * 8, cuts=[])
@example(data=b"\xe9\x03\0\0\0\0\0\0", cuts=[])
def test_any_bytes_as_frames(data: bytes, cuts: list[int]) -> None:
    with suppress(CallError):  # Anything else is a finding.
        unpacked(data, cuts)


@settings(few, max_examples=100)
@given(
    status=st.integers(400, 599),
    described=st.one_of(json_values, st.dictionaries(
        st.sampled_from(["code", "message", "hint", "type", "module", "notes", "traceback"]),
        json_values | st.sampled_from(["remote", "builtins", "KeyError", "deadline"]),
    )),
    kind=st.sampled_from([wire.CONTENT_TYPE, b"application/json", b""]),
)  # fmt: skip
def test_any_described_error_raises_one_of_ours(status: int, described: Any, kind: bytes) -> None:
    response = Response(status, {b"content-type": kind}, (envelope(described),))
    with pytest.raises(AxonError) as caught:
        raise_for(response)
    assert isinstance(str(caught.value), str)


def test_the_checks_can_fail(fuzzed: Fuzzed) -> None:
    with pytest.raises(AssertionError), no_errors():
        logging.getLogger("axon.http").error("noticed")
    with pytest.raises(httptools.HttpParserError):
        Answers().feed(b"not an answer\r\n\r\n")
    broken = fuzzed.serving.dispatcher
    handle = broken.handle

    def fail(asked: Request) -> Response:
        raise ZeroDivisionError

    broken.handle = fail  # type: ignore[method-assign, assignment]
    try:
        with pytest.raises(AssertionError):
            check(fuzzed, request())
    finally:
        broken.handle = handle  # type: ignore[method-assign]
