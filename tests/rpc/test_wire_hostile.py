"""What was never sent does no harm: any bytes give a value or a clean error."""

from __future__ import annotations

import datetime
import os
import pathlib
import struct
import threading
import tracemalloc
from collections.abc import Callable
from decimal import Decimal
from typing import Any
from uuid import UUID
from zoneinfo import ZoneInfo

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from axon.errors import CannotTravel, ProtocolError, TooLarge, VersionMismatch
from axon.rpc import wire
from axon.rpc.messages import Buffer
from axon.rpc.wire import codes


def joined(pieces: list[Buffer]) -> bytes:
    return b"".join(pieces)


def travel(value: object, **options: Any) -> Any:
    return wire.decode(joined(wire.encode(value)), **options)


def envelope(head: bytes, *buffers: bytes) -> bytes:
    body = struct.pack("<3sBIII", b"AXN", 1, len(head), len(buffers), 0)
    body += b"".join(struct.pack("<Q", len(buffer)) for buffer in buffers) + head
    for buffer in buffers:
        body += bytes(-len(body) % 64) + buffer
    return body


def tagged(code: int, payload: object) -> bytes:
    return msgspec.msgpack.encode(msgspec.msgpack.Ext(code, msgspec.msgpack.encode(payload)))


SAMPLES = [
    [["x" * 10], {"a": (1, 2.5)}],
    (b"y" * 5000, {(1,): {3}}, 2**80, memoryview(b"abc")),
    [datetime.datetime(2024, 1, 1, tzinfo=ZoneInfo("UTC")), Decimal(1), UUID(int=1), 1j, range(3)],
]


@pytest.mark.parametrize("sample", SAMPLES, ids=range(len(SAMPLES)))
def test_no_truncated_envelope_is_read(sample: object) -> None:
    body = joined(wire.encode(sample))
    for length in range(len(body)):
        with pytest.raises(ProtocolError):
            wire.decode(body[:length])
    with pytest.raises(ProtocolError):
        wire.decode(body + b"\0")


@pytest.mark.parametrize("sample", SAMPLES, ids=range(len(SAMPLES)))
def test_flipped_bytes_give_a_value_or_a_clean_error(sample: object) -> None:
    body = joined(wire.encode(sample))
    for position in range(min(len(body), 300)):
        for flip in (0x01, 0x0F, 0x80, 0xFF):
            damaged = bytearray(body)
            damaged[position] ^= flip
            survives(bytes(damaged))


def survives(body: bytes) -> None:
    try:
        wire.decode(body, types=wire.LOADED)
    except (ProtocolError, TooLarge):
        return


@given(st.binary(max_size=200))
@settings(max_examples=200, deadline=None)
def test_random_bytes_give_a_clean_error(data: bytes) -> None:
    with pytest.raises((ProtocolError, TooLarge)):
        wire.decode(data)
    survives(envelope(data))


@given(st.integers(0, 40), st.binary(max_size=60), st.binary(max_size=20))
@settings(max_examples=300, deadline=None)
def test_random_payloads_of_tags_give_a_clean_error(code: int, payload: bytes, raw: bytes) -> None:
    survives(envelope(msgspec.msgpack.encode(msgspec.msgpack.Ext(code, payload)), raw))


wrong_payloads = st.recursive(
    st.one_of(
        st.none(),
        st.booleans(),
        st.integers(-(2**63), 2**64 - 1),
        st.floats(),
        st.binary(max_size=16),
        st.sampled_from(["<f4", "|S3", "C", "bytes", "str", "float32", "names", "UTC", "a/../b"]),
        st.text(max_size=4),
    ),
    lambda inner: st.lists(inner, max_size=10) | st.dictionaries(st.text(max_size=2), inner),
    max_leaves=12,
)


@pytest.mark.slow
@given(st.integers(1, 24), wrong_payloads, st.binary(max_size=20))
@settings(max_examples=300, deadline=None)
def test_tags_with_the_wrong_parts_give_a_clean_error(
    code: int, payload: object, raw: bytes
) -> None:
    survives(envelope(tagged(code, payload), raw))
    survives(envelope(tagged(code, payload)))


@pytest.mark.parametrize(
    ("body", "error", "says"),
    [
        (b"", ProtocolError, "too short"),
        (b"HTTP/1.1 400 Bad Request", ProtocolError, "is not an envelope"),
        (b"AXN\x02" + bytes(12), VersionMismatch, "version 2, this side reads 1"),
        (struct.pack("<3sBIII", b"AXN", 1, 1, 0, 7) + b"\xc0", ProtocolError, "not an envelope"),
        (struct.pack("<3sBIII", b"AXN", 1, 2**32 - 1, 0, 0), TooLarge, "send numbers as arrays"),
        (struct.pack("<3sBIII", b"AXN", 1, 1, 2**32 - 1, 0), ProtocolError, "not an envelope"),
        (struct.pack("<3sBIII", b"AXN", 1, 9, 0, 0) + b"\xc0", ProtocolError, "came as 17"),
        (struct.pack("<3sBIIIQ", b"AXN", 1, 1, 1, 0, 2**60) + b"\xc0", ProtocolError, "not fit"),
        (struct.pack("<3sBIIIQ", b"AXN", 1, 1, 1, 0, 2**64 - 1) + b"\xc0", ProtocolError, "fit"),
        (envelope(b"\xc0", b"abc"), ProtocolError, "1 buffers belong to no value"),
        (envelope(b"\xc0\xc0"), ProtocolError, "malformed"),
        (envelope(b"\xdd\xff\xff\xff\xff"), ProtocolError, "malformed"),
        (envelope(b"\xa1\xff"), ProtocolError, "malformed"),
        (envelope(tagged(99, 1)), ProtocolError, "code 99"),
        (envelope(tagged(codes.SET, [[]])), ProtocolError, "unhashable"),
        (envelope(b"\x81" + tagged(codes.SET, []) + b"\x01"), ProtocolError, "hashable"),
        (envelope(tagged(codes.BUFFER, ["bytes", 0])), ProtocolError, "buffer 0 does not"),
        (envelope(tagged(codes.BUFFER, ["bytes", -1]), b"a"), ProtocolError, "buffer -1"),
        (envelope(tagged(codes.BUFFER, ["bytes", False]), b"a"), ProtocolError, "False"),
        (envelope(tagged(codes.BUFFER, ["list", 0]), b"a"), ProtocolError, "'list'"),
        (envelope(tagged(codes.BUFFER, ["str", 0]), b"\xff"), ProtocolError, "malformed"),
        (envelope(tagged(codes.CONSTANT, "exit")), ProtocolError, "malformed"),
        (envelope(tagged(codes.DECIMAL, 1.5)), ProtocolError, "not a decimal"),
        (envelope(tagged(codes.DATETIME, [2024] * 10)), ProtocolError, "malformed"),
    ],
)
def test_malformed_bodies(body: bytes, error: type[Exception], says: str) -> None:
    with pytest.raises(error, match=says):
        wire.decode(body)


def test_a_buffer_named_twice_is_malformed() -> None:
    reference = tagged(codes.BUFFER, ["bytes", 0])
    with pytest.raises(ProtocolError, match="named before"):
        wire.decode(envelope(b"\x92" + reference + reference, b"abc"))


def test_padding_that_is_not_zero_is_malformed() -> None:
    body = bytearray(joined(wire.encode(memoryview(b"abc"))))
    body[-4] = 1
    with pytest.raises(ProtocolError, match="does not fit"):
        wire.decode(body)


def test_an_int_longer_than_the_limit_is_malformed() -> None:
    longest = 1 << (8 * codes.BIG_INT_BYTES - 2)
    assert travel(longest) == longest
    ext = msgspec.msgpack.Ext(codes.BIG_INT, bytes(codes.BIG_INT_BYTES + 1))
    with pytest.raises(ProtocolError, match="an int of"):
        wire.decode(envelope(msgspec.msgpack.encode(ext)))


def test_a_head_over_the_limit_is_too_large() -> None:
    body = joined(wire.encode(["x" * 100]))
    assert wire.decode(body, max_head_bytes=len(body) - 16) == ["x" * 100]
    with pytest.raises(TooLarge, match="is over the limit of 50"):
        wire.decode(body, max_head_bytes=50)


def test_buffers_do_not_count_towards_the_limit_of_the_head() -> None:
    assert len(travel(bytes(1 << 20), max_head_bytes=100)) == 1 << 20


@pytest.mark.parametrize(
    "body",
    [
        struct.pack("<3sBIIIQ", b"AXN", 1, 1, 1, 0, 2**60) + b"\xc0",
        struct.pack("<3sBIII", b"AXN", 1, 2**24, 2**24, 0) + b"\xc0",
        envelope(b"\xdd\xff\xff\xff\xff" * 50),
        envelope(b"\xdb\xff\xff\xff\xff"),
        envelope(tagged(codes.ARRAY, ["|u1", [2**60], "C", 0]), b"a"),
        envelope(tagged(codes.ARRAY, ["|V2147483647", [2**30], "C", 0]), b"a"),
    ],
)
def test_a_claimed_length_allocates_nothing(body: bytes) -> None:
    survives(body)
    tracemalloc.start()
    try:
        with pytest.raises(ProtocolError):
            wire.decode(body)
        assert tracemalloc.get_traced_memory()[1] < 100_000
    finally:
        tracemalloc.stop()


@pytest.mark.parametrize("byte", [b"\x91", b"\x81\x01"])
def test_a_head_nested_beyond_the_stack_is_malformed(byte: bytes) -> None:
    with pytest.raises(ProtocolError, match="nested too deep"):
        wire.decode(envelope(byte * 100_000 + b"\xc0"))


TOWER: object = 1
for _ in range(10):
    TOWER = (TOWER,)


def test_tags_nested_beyond_the_limit_are_malformed() -> None:
    body = joined(wire.encode(TOWER))
    assert wire.decode(body, max_depth=10) == TOWER
    with pytest.raises(ProtocolError, match="nested more than 9 deep"):
        wire.decode(body, max_depth=9)


class Sneaky:
    """Unpickling this makes a folder."""

    def __init__(self, folder: pathlib.Path) -> None:
        self.folder = folder

    def __reduce__(self) -> tuple[Callable[[str], None], tuple[str]]:
        return os.mkdir, (str(self.folder),)


def test_pickle_is_read_only_where_both_sides_opted_in(tmp_path: pathlib.Path) -> None:
    trap = tmp_path / "sprung"
    with pytest.raises(CannotTravel, match="Sneaky cannot travel"):
        wire.encode([Sneaky(trap)])
    body = joined(wire.encode([Sneaky(trap)], pickling=True))
    with pytest.raises(ProtocolError, match="a pickled object arrived"):
        wire.decode(body, types=wire.LOADED)
    assert not trap.exists()
    assert wire.decode(body, pickling=True) == [None]
    assert trap.exists()


def test_pickling_carries_what_has_no_other_form() -> None:
    value = {"path": pathlib.PurePosixPath("/a"), "pair": (1, 2)}
    body = joined(wire.encode(value, pickling=True))
    assert wire.decode(body, pickling=True) == value
    with pytest.raises(CannotTravel, match="cannot be pickled"):
        wire.encode(threading.Lock(), pickling=True)
    with pytest.raises(ProtocolError, match="cannot be read"):
        wire.decode(envelope(tagged(codes.PICKLED, 0), b"cos\nnothing\n."), pickling=True)


def test_a_zone_the_receiver_does_not_know_keeps_its_instant() -> None:
    parts = [2024, 7, 1, 12, 0, 0, 0, 0, 3_600_000_000, "Nowhere/Atlantis"]
    arrived = wire.decode(envelope(tagged(codes.DATETIME, parts)))
    assert arrived == datetime.datetime(2024, 7, 1, 11, tzinfo=datetime.UTC)


def test_a_zone_the_receiver_knows_otherwise_keeps_its_instant() -> None:
    parts = [2024, 7, 1, 12, 0, 0, 0, 0, 7_200_000_000, "Europe/London"]
    arrived = wire.decode(envelope(tagged(codes.DATETIME, parts)))
    assert arrived == datetime.datetime(2024, 7, 1, 10, tzinfo=datetime.UTC)
