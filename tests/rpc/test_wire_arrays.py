"""Arrays arrive bit for bit, and their memory is never copied on the way."""

from __future__ import annotations

import tracemalloc
from collections.abc import Callable
from typing import Any

import msgspec
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra import numpy as hn

from axon.errors import CannotTravel, ProtocolError
from axon.rpc import wire
from axon.rpc.messages import Buffer
from axon.rpc.wire import codes

Array = np.ndarray[Any, np.dtype[Any]]


def joined(pieces: list[Buffer]) -> bytearray:
    return bytearray(b"".join(pieces))


def travel(value: object) -> Any:
    return wire.decode(joined(wire.encode(value)))


def crafted(code: int, payload: object, *buffers: bytes) -> bytes:
    head = msgspec.msgpack.encode(msgspec.msgpack.Ext(code, msgspec.msgpack.encode(payload)))
    return bytes(joined(wire._pack(head, buffers)))


def same(left: Array, right: Array) -> bool:
    """Equal in type, shape and bits, where bits count; the gaps in a structure do not."""
    if left.dtype != right.dtype or left.shape != right.shape:
        return False
    if left.dtype.names is not None:
        return all(same(left[name], right[name]) for name in left.dtype.names)
    return np.ascontiguousarray(left).tobytes() == np.ascontiguousarray(right).tobytes()


NESTED = np.dtype(
    {
        "names": ["b", "a"],
        "formats": [np.dtype([("x", ">i2"), ("y", "U3", (2, 2))]), "<f8"],
        "offsets": [16, 3],
        "itemsize": 100,
    }
)
DTYPES: list[Any] = [
    *("?", "b", "B", "h", "H", "i", "I", "q", "Q", "e", "f", "d", "g", "F", "D", "G"),
    *(">i4", ">f8", ">c16", ">U4", "S5", "U5", "V7", "M8[ns]", "M8[D]", "m8[25us]", ">M8[ms]"),
    [("a", "i4"), ("b", "f8", (3,))],
    np.dtype([("a", "i1"), ("b", "f8")], align=True),
    NESTED,
]


@pytest.mark.parametrize("dtype", DTYPES, ids=str)
def test_arrays_of_every_dtype_arrive(dtype: Any) -> None:
    kind = np.dtype(dtype)
    source = np.frombuffer(np.arange(6 * kind.itemsize, dtype=np.uint8) % 2, kind)
    for array in (source, source.reshape(2, 3), source[:0], source[0:1].reshape(()), source[::2]):
        arrived = travel([array])[0]
        assert type(arrived) is np.ndarray
        assert same(arrived, array)
    assert arrived.dtype.isalignedstruct == kind.isalignedstruct


numeric = hn.arrays(
    hn.scalar_dtypes() | hn.array_dtypes(max_size=3), hn.array_shapes(min_dims=0, min_side=0)
)


@given(numeric, st.booleans())
@settings(max_examples=100, deadline=None)
def test_whatever_array_is_sent_arrives(array: Array, turned: bool) -> None:
    sent = array.T if turned else array
    assert same(travel(sent), sent)


@pytest.mark.parametrize(
    "make",
    [
        lambda a: a,
        lambda a: np.asfortranarray(a),
        lambda a: a.T,
        lambda a: a[::2, ::-1],
        lambda a: np.broadcast_to(a[0], (5, 4)),
        lambda a: a.view(np.matrix),
        lambda a: a.byteswap().view(">f8"),
    ],
)
def test_any_order_of_memory_arrives(make: Callable[[Array], Array]) -> None:
    array = make(np.arange(12.0).reshape(3, 4))
    arrived = travel(array)
    assert same(arrived, np.asarray(array))
    assert arrived.flags.f_contiguous == array.flags.f_contiguous


@pytest.mark.parametrize("order", ["C", "F"])
def test_contiguous_arrays_are_not_copied_on_leaving(order: Any) -> None:
    array = np.ones((30, 40), order=order)
    pieces = wire.encode({"a": [array]})
    assert any(np.shares_memory(np.frombuffer(piece, np.uint8), array) for piece in pieces)


def test_arrays_are_not_copied_on_arrival() -> None:
    body = joined(wire.encode((np.arange(1000), "x", np.ones(3, np.float32))))
    first, _, second = wire.decode(body)
    memory = np.frombuffer(body, np.uint8)
    for array in (first, second):
        assert np.shares_memory(array, memory)
        offset = array.ctypes.data - memory.ctypes.data
        assert offset % 64 == 0
    first[0] = 77
    assert wire.decode(body)[0][0] == 77


def test_arrays_can_be_written_where_the_body_can() -> None:
    body = joined(wire.encode(np.arange(3)))
    assert wire.decode(body).flags.writeable
    assert not wire.decode(bytes(body)).flags.writeable
    readonly = np.arange(3)
    readonly.flags.writeable = False
    assert travel(readonly).flags.writeable


def test_a_large_array_needs_no_memory_to_leave_and_arrive() -> None:
    array = np.zeros(1 << 24, np.float32)
    body = joined(wire.encode(array))
    tracemalloc.start()
    try:
        wire.encode([array, {"again": array.reshape(4096, 4096)}])
        wire.decode(body)
        assert tracemalloc.get_traced_memory()[1] < 64_000
    finally:
        tracemalloc.stop()


@pytest.mark.parametrize(
    "scalar",
    [
        np.float64(-0.0),
        np.float16(1.5),
        np.longdouble(1) / 3,
        np.int8(-3),
        np.uint64(2**64 - 1),
        np.bool_(True),
        np.complex64(1 + 2j),
        np.datetime64("2024-01-01T00:00:00.123456789"),
        np.datetime64("NaT", "ns"),
        np.timedelta64(5, "s"),
        np.str_("héllo\0"),
        np.str_(""),
        np.bytes_(b"ab\0\0"),
        np.bytes_(b""),
        np.zeros(1, [("a", "i4"), ("b", "S3")])[0],
    ],
    ids=repr,
)
def test_scalars_arrive_as_scalars(scalar: Any) -> None:
    arrived = travel([scalar])[0]
    assert type(arrived) is type(scalar)
    assert arrived.dtype == scalar.dtype
    assert repr(arrived) == repr(scalar)


@pytest.mark.parametrize("parts", [["<f4", "four"], ["<f4", b"abc"], ["S", "x"], ["U", b"x"]])
def test_scalars_that_lie_are_malformed(parts: list[object]) -> None:
    with pytest.raises(ProtocolError):
        wire.decode(crafted(codes.ARRAY_SCALAR, parts))


def test_dtypes_themselves_arrive() -> None:
    for dtype in map(np.dtype, DTYPES):
        assert travel(dtype) == dtype


def test_dicts_may_have_scalars_for_keys() -> None:
    assert travel({np.int64(3): 1}) == {3: 1}
    assert type(next(iter(travel({np.int64(3): 1})))) is np.int64


@pytest.mark.parametrize(
    ("array", "says"),
    [
        (np.array([1, "a", None], dtype=object), "value['x']: an array of dtype object"),
        (np.zeros(2, [("a", "i4"), ("b", "O")]), "value['x']: an array of dtype"),
        (np.zeros(2, [((5, "a"), "i4")]), "a field titled 5 cannot travel"),
        (np.ma.masked_array([1, 2], [False, True]), "send array.data and array.mask"),
    ],
)
def test_arrays_that_cannot_travel_say_so(array: Array, says: str) -> None:
    with pytest.raises(CannotTravel) as caught:
        wire.encode({"x": array})
    assert says in str(caught.value)


def test_variable_length_strings_cannot_travel() -> None:
    string_dtype = getattr(np.dtypes, "StringDType", None)
    if string_dtype is None:
        pytest.skip("numpy before 2.0 has no such dtype")
    with pytest.raises(CannotTravel, match="cannot travel"):
        wire.encode(np.array(["a", "bc"], dtype=string_dtype()))


@pytest.mark.parametrize(
    "parts",
    [
        ["|O8", [1], "C", 0],
        ["object", [1], "C", 0],
        ["<f4,<f4", [1], "C", 0],
        ["<f8", [2], "C", 0],
        ["<f8", [-1], "C", 0],
        ["<f8", [True], "C", 0],
        ["<f8", 1, "C", 0],
        ["<f8", [2**63, 2**63], "C", 0],
        ["<f8", [1] * 100, "C", 0],
        ["<f3", [1], "C", 0],
        ["<f16:7", [], "C", 0],
        [8, [1], "C", 0],
        [["<f4", [2], 3], [1], "C", 0],
        [{"names": ["a"]}, [1], "C", 0],
        [
            {
                "names": ["a"],
                "formats": ["|O8"],
                "offsets": [0],
                "titles": [None],
                "itemsize": 8,
                "aligned": False,
            },
            [1],
            "C",
            0,
        ],
        [
            {
                "names": ["a"],
                "formats": ["<f8"],
                "offsets": [4],
                "titles": [None],
                "itemsize": 8,
                "aligned": False,
            },
            [1],
            "C",
            0,
        ],
        ["<f8", [1], "C", 1],
        ["<f8", [1], "C"],
    ],
    ids=str,
)
def test_arrays_that_lie_are_malformed(parts: list[object]) -> None:
    with pytest.raises(ProtocolError):
        wire.decode(crafted(codes.ARRAY, parts, bytes(8)))


def test_long_doubles_of_another_machine_are_told_apart() -> None:
    nmant = np.finfo(np.longdouble).nmant
    name = np.dtype(np.longdouble).str
    size = np.dtype(np.longdouble).itemsize
    good = crafted(codes.ARRAY, [f"{name}:{nmant}", [1], "C", 0], bytes(size))
    assert wire.decode(good) == np.longdouble(0)
    other = crafted(codes.ARRAY, [f"{name}:{nmant + 1}", [1], "C", 0], bytes(size))
    with pytest.raises(ProtocolError, match="send float64"):
        wire.decode(other)
