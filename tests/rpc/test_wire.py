"""What is sent is what arrives, in the envelope it should have."""

from __future__ import annotations

import datetime
import math
import os
import struct
from collections import Counter, OrderedDict, defaultdict, deque
from collections.abc import Callable
from decimal import Decimal
from uuid import UUID
from zoneinfo import ZoneInfo

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from axon.rpc import wire
from axon.rpc.messages import Buffer
from tests.rpc.travels import joined, same, travel

UTC = datetime.UTC

plain_scalars = st.one_of(
    st.none(), st.booleans(), st.integers(), st.floats(), st.text(), st.binary()
)
hashables = st.one_of(
    plain_scalars.filter(lambda value: value == value),
    st.decimals(allow_nan=False),
    st.uuids(),
    st.dates(),
    st.datetimes(),
    st.timedeltas(),
    st.frozensets(st.integers()),
    st.tuples(st.text(), st.integers()),
)
scalars = st.one_of(
    hashables,
    st.floats(),
    st.complex_numbers(),
    st.times(),
    st.datetimes(timezones=st.timezones()),
    st.builds(bytearray, st.binary()),
    st.builds(range, st.integers(), st.integers(), st.integers(min_value=1)),
    st.builds(slice, st.integers() | st.none(), st.text()),
    st.just(...),
)
trees = st.recursive(
    scalars,
    lambda inner: st.one_of(
        st.lists(inner, max_size=4),
        st.lists(inner, max_size=4).map(tuple),
        st.dictionaries(st.text() | st.integers(), inner, max_size=4),
        st.dictionaries(hashables, inner, max_size=4),
        st.sets(hashables, max_size=4),
    ),
    max_leaves=12,
)


@given(trees)
@settings(max_examples=200, deadline=None)
def test_whatever_is_sent_arrives_with_its_type_and_value(value: object) -> None:
    assert same(travel(value), value)


@pytest.mark.parametrize(
    "value",
    [
        None,
        True,
        False,
        0,
        -1,
        2**63 - 1,
        -(2**63),
        2**64 - 1,
        2**64,
        -(2**63) - 1,
        10**400,
        -(10**400),
        [1, 2**64, {"a": -(2**70)}],
        {2**64: 1, 2: 3},
        0.0,
        -0.0,
        math.inf,
        -math.inf,
        math.nan,
        complex(-0.0, math.nan),
        "",
        "héllo \U0001f600",
        "x" * 4096,
        "x" * 4097,
        "é" * 5000,
        b"",
        b"x" * 4096,
        b"x" * 4097,
        bytearray(),
        bytearray(b"x" * 4097),
        [],
        {},
        (),
        set(),
        frozenset(),
        ((), [()], {"a": ((1,),)}),
        [True, 1, 1.0],
        {True: "bool", 2: "int", 3.5: "float", None: 0, b"b": 1},
        {(1, 2): [3], frozenset({4}): {5}},
        {"x" * 5000: 1},
        {"b": 1, "a": 2},
        datetime.datetime(2024, 2, 29, 23, 59, 59, 999999),
        datetime.datetime(1, 1, 1),
        datetime.datetime(2024, 10, 27, 1, 30, tzinfo=ZoneInfo("Europe/London"), fold=1),
        datetime.datetime(2024, 1, 1, tzinfo=UTC),
        datetime.datetime(
            2024, 1, 1, tzinfo=datetime.timezone(datetime.timedelta(seconds=-3601, microseconds=5))
        ),
        datetime.date(2024, 2, 29),
        datetime.time(1, 2, 3, 4),
        datetime.time(1, 2, tzinfo=UTC),
        datetime.time(1, 2, tzinfo=ZoneInfo("Asia/Tokyo")),
        datetime.timedelta(days=-1, microseconds=1),
        Decimal("1.10"),
        Decimal("-Infinity"),
        UUID(int=5),
        slice(None, 3, (1,)),
        range(0, 10**30, 3),
        ...,
        NotImplemented,
        msgspec.UNSET,
    ],
    ids=lambda value: f"{type(value).__name__}-{str(value)[:20]}",
)
def test_edges_of_each_type_arrive_exactly(value: object) -> None:
    arrived = travel(value)
    assert same(arrived, value)
    assert same(travel([value, (value,)]), [value, (value,)])


def test_the_fold_and_zone_of_a_datetime_survive() -> None:
    sent = datetime.datetime(2024, 10, 27, 1, 30, tzinfo=ZoneInfo("Europe/London"), fold=1)
    arrived = travel(sent)
    assert arrived.fold == 1
    assert arrived.tzinfo is sent.tzinfo
    assert arrived.utcoffset() == sent.utcoffset()


class Metres(int):
    def __int__(self) -> int:
        raise AssertionError("the number itself is sent, not what the class says of it")


class Name(str):
    __slots__ = ()

    def __str__(self) -> str:
        return "something else"


def test_subclasses_of_builtins_arrive_as_what_they_extend() -> None:
    counts = defaultdict(list, {"a": [1]})
    moved = OrderedDict([("a", 1), ("b", 2)])
    moved.move_to_end("a")
    sent = [Metres(5), Name("ann"), counts, moved, Counter("aab"), deque([1, (2,)])]
    wanted = [5, "ann", {"a": [1]}, {"b": 2, "a": 1}, {"a": 2, "b": 1}, [1, (2,)]]
    assert same(travel(sent), wanted)


def test_one_object_held_twice_arrives_as_two() -> None:
    shared = [1]
    first, second = travel([shared, shared, (shared,)])[:2]
    assert first == second == [1]
    assert first is not second


def test_a_memoryview_arrives_without_a_copy() -> None:
    for size in (5, 5000):
        source = bytearray(os.urandom(size))
        pieces = wire.encode([memoryview(source)])
        assert any(isinstance(piece, memoryview) and piece.obj is source for piece in pieces)
        body = bytearray(joined(pieces))
        (arrived,) = wire.decode(body)
        assert isinstance(arrived, memoryview)
        assert arrived == source
        body[-1] ^= 1
        assert arrived[-1] == source[-1] ^ 1


def test_other_shapes_of_memoryview_arrive_flat() -> None:
    grid = memoryview(bytes(range(12))).cast("B", (3, 4))
    assert travel(grid) == bytes(range(12))
    assert travel(memoryview(bytes(range(12)))[::2]) == bytes(range(0, 12, 2))
    assert travel(memoryview(b"")) == b""


def test_long_bytes_are_not_copied_on_leaving() -> None:
    data = bytes(5000)
    growing = bytearray(5000)
    pieces = wire.encode([data, growing])
    assert any(piece is data for piece in pieces)
    assert any(isinstance(piece, memoryview) and piece.obj is growing for piece in pieces)


def test_the_layout_of_an_envelope() -> None:
    body = joined(wire.encode([b"a" * 5000, memoryview(b"xyz")]))
    magic, version, head, count, reserved = struct.unpack_from("<3sBIII", body)
    assert (magic, version, count, reserved) == (b"AXN", wire.VERSION, 2, 0)
    assert struct.unpack_from("<2Q", body, 16) == (5000, 3)
    first = -(-(32 + head) // 64) * 64
    second = -(-(first + 5000) // 64) * 64
    assert not any(body[32 + head : first])
    assert body[first : first + 5000] == b"a" * 5000
    assert not any(body[first + 5000 : second])
    assert body[second:] == b"xyz"


def test_a_plain_value_is_its_msgpack_behind_sixteen_bytes() -> None:
    assert joined(wire.encode([1, "a"])) == b"AXN\x01\x04\0\0\0\0\0\0\0\0\0\0\0\x92\x01\xa1a"


def test_the_pieces_of_a_long_head_are_not_joined() -> None:
    pieces = wire.encode([0.5] * 100_000)
    assert [len(piece) for piece in pieces] == [16, 900_005]
    assert wire.decode(joined(pieces)) == [0.5] * 100_000


@pytest.mark.parametrize("wrap", [bytes, bytearray, memoryview, lambda b: memoryview(b).cast("b")])
def test_any_buffer_can_be_a_body(wrap: Callable[[bytes], Buffer]) -> None:
    value = [1, (2, "x" * 5000)]
    assert wire.decode(wrap(joined(wire.encode(value)))) == value


def test_long_plain_lists_are_not_walked(monkeypatch: pytest.MonkeyPatch) -> None:
    from axon.rpc.wire import writer

    looks = []
    original = writer.is_plain

    def counting(value: object, depth: int = 0) -> bool:
        looks.append(value)
        return original(value, depth)

    monkeypatch.setattr(writer, "is_plain", counting)
    monkeypatch.setattr(wire, "is_plain", counting)
    numbers = [0.5] * 10_000
    for value in (numbers, {"rows": [[1, 2.5, None]] * 1000}, ["word"] * 1000, [[numbers], {}]):
        looks.clear()
        assert travel(value) == value
        assert len(looks) < 10


def test_a_long_list_beside_a_tag_is_not_copied_into_another() -> None:
    from axon.rpc.wire.writer import Writer

    numbers = [0.5] * 1000
    written = Writer(pickling=False, exact=False).write([numbers, (1,)])
    assert isinstance(written, list)
    assert written[0] is numbers


def test_a_long_list_of_something_else_is_written_as_such() -> None:
    pairs = [(n, str(n)) for n in range(20)]
    assert same(travel(pairs), pairs)
    mixed: list[object] = [1, "a", 2.5, [3], {"b": 4}] * 5
    assert same(travel(mixed), mixed)
    assert same(travel(["x" * 5000] * 20), ["x" * 5000] * 20)
