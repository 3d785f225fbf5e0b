"""JSON says the same in JSON's own words, and what comes back is fitted to annotations."""

from __future__ import annotations

import datetime
import enum
import json
import math
from collections import OrderedDict, deque
from dataclasses import dataclass, field
from decimal import Decimal
from typing import Any, NamedTuple
from uuid import UUID

import msgspec
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from axon.errors import BadArguments, CannotTravel, ProtocolError
from axon.rpc.wire import convert, from_json, to_json


def strictly(text: bytes) -> Any:
    """Read by another reader, one that takes no NaN."""

    def refuse(name: str) -> None:
        raise AssertionError(f"{name} is not JSON")

    return json.loads(text, parse_constant=refuse)


@dataclass
class Point:
    x: float
    y: float = 0.0

    def __post_init__(self) -> None:
        if self.x < 0:
            raise AssertionError("x is negative")


@dataclass
class Path:
    points: list[Point] = field(default_factory=list)


class Pair(NamedTuple):
    left: int
    right: int


class Packet(msgspec.Struct, rename="camel", tag="packet"):
    first_name: str
    data: int | msgspec.UnsetType = msgspec.UNSET


class Colour(enum.Enum):
    RED = (1, 2)


class Level(enum.IntEnum):
    LOW = 1


CASES: list[tuple[object, object]] = [
    (None, None),
    ([True, 1, 1.5, "é"], [True, 1, 1.5, "é"]),
    ([math.nan, math.inf, -math.inf], [None, None, None]),
    ({"a": math.nan}, {"a": None}),
    (2**70, 2**70),
    ([-(2**64), 2**64 - 1], [-(2**64), 2**64 - 1]),
    (b"hi", "aGk="),
    (bytearray(b"hi"), "aGk="),
    (memoryview(b"hi"), "aGk="),
    ((1, (2,)), [1, [2]]),
    ({1}, [1]),
    (frozenset({"a"}), ["a"]),
    (deque([1, range(3)]), [1, [0, 1, 2]]),
    (OrderedDict(b=1, a=2), {"b": 1, "a": 2}),
    ({1: 2, None: 3, (4, 5): 6, False: 7}, {"1": 2, "false": 7, "null": 3, "[4,5]": 6}),
    ({Level.LOW: 1, 2.5: Colour.RED}, {"1": 1, "2.5": [1, 2]}),
    (1 - 2j, [1, -2]),
    (Point(1.0), {"x": 1, "y": 0}),
    (Path([Point(1.0, math.inf)]), {"points": [{"x": 1, "y": None}]}),
    (Pair(1, 2), [1, 2]),
    (Packet("ann"), {"type": "packet", "firstName": "ann"}),
    (Level.LOW, 1),
    (datetime.datetime(2024, 1, 2, 3, 4, 5, 6), "2024-01-02T03:04:05.000006"),
    (datetime.datetime(2024, 1, 2, tzinfo=datetime.UTC), "2024-01-02T00:00:00+00:00"),
    (datetime.date(2024, 1, 2), "2024-01-02"),
    (datetime.time(1, 2), "01:02:00"),
    (datetime.timedelta(days=1, seconds=2), "P1DT2S"),
    (Decimal("1.10"), "1.10"),
    (UUID(int=1), "00000000-0000-0000-0000-000000000001"),
    (np.arange(4).reshape(2, 2), [[0, 1], [2, 3]]),
    (np.array([[1.5, math.nan]], np.float32), [[1.5, None]]),
    (np.float32(0.5), 0.5),
    (np.int64(3), 3),
    (np.longdouble(0.5), 0.5),
    (np.array([1 + 2j]), [[1, 2]]),
    (np.array(5), 5),
    (np.array(["2024-01-01"], "M8[D]"), ["2024-01-01"]),
    (np.array([1, 2], "m8[s]"), ["PT1S", "PT2S"]),
    (np.array([b"hi"]), ["aGk="]),
    (np.array(["hi"]), ["hi"]),
    (np.zeros(1, [("a", "i4"), ("b", "f8")]), [[0, 0.0]]),
    (np.array([1, None], dtype=object), [1, None]),
    (np.ma.masked_array([1, 2], [False, True]), [1, None]),
    (np.dtype("f4"), "float32"),
    (np.str_("a"), "a"),
]


def name_of(value: object) -> str:
    # Not where in memory it is, which is another place in every process.
    return "memoryview" if isinstance(value, memoryview) else repr(value)[:30]


@pytest.mark.parametrize(("value", "wanted"), CASES, ids=name_of)
def test_values_in_the_words_of_json(value: object, wanted: object) -> None:
    assert strictly(to_json(value)) == wanted
    assert strictly(to_json({"in": [value]})) == {"in": [wanted]}


trees = st.recursive(
    st.one_of(
        st.none(), st.booleans(), st.integers(), st.floats(allow_nan=False, allow_infinity=False),
        st.text(),
    ),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(), inner, max_size=4),
    max_leaves=10,
)  # fmt: skip


@given(trees)
@settings(max_examples=150, deadline=None)
def test_json_values_come_back_as_they_went(value: object) -> None:
    text = to_json(value)
    assert strictly(text) == value
    assert from_json(text) == value
    assert from_json(memoryview(text)) == value


def test_tensors_become_lists() -> None:
    torch = pytest.importorskip("torch")
    for tensor, wanted in (
        (torch.ones(2, 2, dtype=torch.bfloat16), [[1, 1], [1, 1]]),
        (torch.tensor([math.nan, 1.0]).requires_grad_(), [None, 1]),
        (torch.tensor([1 + 2j]).conj(), [[1, -2]]),
        (torch.eye(2).to_sparse(), [[1, 0], [0, 1]]),
        (torch.tensor([0.5]).to(torch.float8_e5m2), [0.5]),
        (torch.tensor(3), 3),
        (torch.float32, "torch.float32"),
        (torch.Size([1, 2]), [1, 2]),
    ):
        assert strictly(to_json(tensor)) == wanted
    with pytest.raises(CannotTravel, match="meta"):
        to_json(torch.empty(1, device="meta"))


@pytest.mark.parametrize(
    ("value", "says"),
    [
        ({"a": [object()]}, r"value\['a'\]\[0\]: object cannot travel"),
        (["\ud800"], r"value\[0\]: a str with a lone surrogate"),
        ({"\ud800": 1}, "lone surrogate"),
        (10**5000, "bits cannot travel as JSON"),
        (Path([len]), r"value\.points\[0\]: builtin_function_or_method"),  # type: ignore[list-item]
    ],
    ids=range(5),
)
def test_values_without_words_in_json(value: object, says: str) -> None:
    with pytest.raises(CannotTravel, match=says):
        to_json(value)


def test_structures_without_end_are_refused() -> None:
    ring: list[object] = []
    ring.append({"again": ring})
    with pytest.raises(CannotTravel, match=r"value\[0\]\['again'\]: contains itself"):
        to_json(ring)


@pytest.mark.parametrize(
    "body",
    [b"", b"{", b"NaN", b"[1,]", b"\xff", b'"\xff"', b"[" * 100_000, b"1" * 10_000, b"{} {}"],
    ids=lambda body: repr(body[:8]),
)
def test_what_is_not_json_is_malformed(body: bytes) -> None:
    with pytest.raises(ProtocolError, match="not JSON"):
        from_json(body)


@given(st.binary(max_size=60))
@settings(max_examples=200, deadline=None)
def test_random_bytes_are_json_or_malformed(body: bytes) -> None:
    try:
        value = from_json(body)
    except ProtocolError:
        return
    assert from_json(to_json(value)) == value


@pytest.mark.parametrize(
    ("value", "annotation", "wanted"),
    [
        (1, int, 1),
        ("5", int, 5),
        (3, float, 3.0),
        ([1, 2], tuple[int, int], (1, 2)),
        ([1], set[int], {1}),
        ({"x": 1, "y": "2"}, Point, Point(1.0, 2.0)),
        ({"points": [{"x": 1}]}, Path, Path([Point(1.0)])),
        ([1, 2], Pair, Pair(1, 2)),
        ({"type": "packet", "firstName": "a"}, Packet, Packet("a")),
        (1, Level, Level.LOW),
        ("aGk=", bytes, b"hi"),
        ("2024-01-02", datetime.date, datetime.date(2024, 1, 2)),
        ([1, -2], complex, 1 - 2j),
        (3, complex, 3 + 0j),
        (None, int | None, None),
        ({"a": 1}, Any, {"a": 1}),
        ([1, 2], int | np.ndarray, [1, 2]),
        ("x", "no such annotation", "x"),
    ],
    ids=lambda value: str(value)[:30],
)
def test_data_is_fitted_to_annotations(value: object, annotation: Any, wanted: object) -> None:
    converted = convert(value, annotation)
    assert converted == wanted
    assert type(converted) is type(wanted)


def test_lists_become_arrays_where_arrays_are_wanted() -> None:
    array = convert([[1, 2], [3, 4]], np.ndarray)
    assert array.tolist() == [[1, 2], [3, 4]]
    assert array.dtype == np.int64
    assert convert(array, np.ndarray) is array
    inside = convert({"a": [1.5]}, dict[str, np.ndarray[Any, np.dtype[np.float64]]])
    assert inside["a"].dtype == np.float64
    assert type(convert(3, np.float32)) is np.float32


def test_lists_become_tensors_where_tensors_are_wanted() -> None:
    torch = pytest.importorskip("torch")
    assert torch.equal(convert([[1.0]], torch.Tensor), torch.tensor([[1.0]]))
    with pytest.raises(BadArguments):
        convert("words", torch.Tensor)


class Opaque:
    """A class no data can describe."""


@pytest.mark.parametrize(
    ("value", "annotation"),
    [
        ("x", int),
        (None, int),
        ({"y": 1}, Point),
        ({"x": -1}, Point),
        ([1, 2, 3], tuple[int, int]),
        (7, Level),
        ({"a": 1}, Opaque),
        ([{"a": 1}], np.ndarray),
        ([[1], [2, 3]], np.ndarray),
        ("one", complex),
        ([1, 2, 3], complex),
    ],
)
def test_data_that_does_not_fit_is_refused(value: object, annotation: Any) -> None:
    with pytest.raises(BadArguments):
        convert(value, annotation)
