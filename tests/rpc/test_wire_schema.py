"""Data classes travel as names and fields, and are built by their own constructors."""

from __future__ import annotations

import enum
from collections import namedtuple
from dataclasses import InitVar, dataclass, field
from typing import Any, Generic, NamedTuple, TypeVar

import msgspec
import pytest

from axon.errors import CannotTravel, ProtocolError
from axon.rpc import wire
from axon.rpc.wire import LOADED, Types, codes, types

T = TypeVar("T")


@pytest.fixture(autouse=True)
def _clean_memory(monkeypatch: pytest.MonkeyPatch) -> None:
    """Each test starts with nothing registered and nothing sent."""
    monkeypatch.setattr(types, "_registered", {})
    monkeypatch.setattr(types, "_sent", {})


def body_of(value: object) -> bytes:
    return b"".join(wire.encode(value))


def travel(value: object, types: Types = LOADED) -> Any:
    return wire.decode(body_of(value), types=types)


def record(module: object, qualname: object, fields: object, code: int = codes.RECORD) -> bytes:
    ext = msgspec.msgpack.Ext(code, msgspec.msgpack.encode([module, qualname, fields]))
    return b"".join(wire._pack(msgspec.msgpack.encode(ext), ()))


@dataclass
class Point:
    x: float
    y: float = 0.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Frozen:
    name: str
    points: tuple[Point, ...]
    total: float = field(init=False, default=-1.0)


@dataclass
class Node(Generic[T]):
    value: T
    next: Node[T] | None = None


@dataclass
class Checked:
    share: float
    label: str = field(init=False)

    def __post_init__(self) -> None:
        if not 0 <= self.share <= 1:
            raise ValueError(f"share must be in [0, 1], got {self.share}")
        self.label = "made"


class Pair(NamedTuple):
    left: int
    right: object = None


Loose = namedtuple("Loose", ["a", "b"])


class Packet(msgspec.Struct, frozen=True, kw_only=True, rename="camel", tag=True):
    first_name: str
    inner: Packet | None = None
    data: bytes | msgspec.UnsetType = msgspec.UNSET


class Outer:
    @dataclass
    class Inner:
        n: int


class Colour(enum.Enum):
    RED = (255, 0, 0)
    ROT = RED
    GREEN = (0, 255, 0)


class Level(enum.IntEnum):
    LOW = 1


class Mode(enum.StrEnum):
    FAST = "fast"


class Right(enum.Flag):
    READ = enum.auto()
    WRITE = enum.auto()
    BOTH = READ | WRITE


class Bits(enum.IntFlag):
    ONE = 1
    TWO = 2


VALUES = [
    Point(1.0, 2.0),
    Frozen(name="a", points=(Point(1), Point(2))),
    Node[object]((1, {2}), Node[object]([3])),
    Checked(0.5),
    Pair(1, (2, Pair(3))),
    Loose(1, {"b": Loose(2, 3)}),
    Packet(first_name="ann", inner=Packet(first_name="bob", data=b"x")),
    Outer.Inner(3),
    Colour.RED,
    Colour.ROT,
    Level.LOW,
    Mode.FAST,
    Right.READ,
    Right.BOTH,
    Right(0),
    Bits.ONE | Bits.TWO,
    Bits(64),
    {Colour.GREEN: [Level.LOW], Frozen(name="k", points=()): 1},
]


@pytest.mark.parametrize("value", VALUES, ids=lambda value: repr(value)[:30])
def test_data_classes_arrive_as_themselves(value: object) -> None:
    arrived = travel([value])[0]
    assert arrived == value
    assert type(arrived) is type(value)
    assert repr(arrived) == repr(value)


def test_fields_outside_the_constructor_arrive_as_they_were() -> None:
    frozen = Frozen(name="a", points=())
    object.__setattr__(frozen, "total", 7.0)
    assert travel(frozen).total == 7.0
    checked = Checked(0.5)
    checked.label = "changed"
    assert travel(checked).label == "changed"


def test_only_fields_travel() -> None:
    point = Point(1.0)
    point.extra = 5  # type: ignore[attr-defined]
    assert not hasattr(travel(point), "extra")


def test_a_class_checks_itself_on_arrival() -> None:
    body = record(__name__, "Checked", {"share": 3, "label": "x"})
    with pytest.raises(ProtocolError, match=r"ValueError: share must be in \[0, 1\], got 3"):
        wire.decode(body, types=LOADED)


def test_fields_that_do_not_fit_are_named() -> None:
    body = record(__name__, "Point", {"x": 1, "z": 2})
    with pytest.raises(ProtocolError, match=r"Point lacks y and does not know z"):
        wire.decode(body, types=LOADED)
    with pytest.raises(ProtocolError, match=r"Point does not know __class__"):
        wire.decode(record(__name__, "Point", {"x": 1, "y": 2, "__class__": 3}), types=LOADED)
    with pytest.raises(ProtocolError, match="not a class with fields"):
        wire.decode(record(__name__, "Point", [1, 2]), types=LOADED)


def test_a_kind_that_does_not_fit_is_refused() -> None:
    with pytest.raises(ProtocolError, match="not a class with fields"):
        wire.decode(record(__name__, "Colour", {}), types=LOADED)
    with pytest.raises(ProtocolError, match="not an enum"):
        wire.decode(record(__name__, "Point", "x", codes.ENUM), types=LOADED)
    with pytest.raises(ProtocolError, match="named by two strings"):
        wire.decode(record(1, ["Point"], {}), types=LOADED)


@pytest.mark.parametrize(
    ("name", "key"),
    [("Colour", "BLUE"), ("Colour", "__class__"), ("Colour", 1), ("Right", 64), ("Level", None)],
)
def test_members_that_do_not_exist_are_refused(name: str, key: object) -> None:
    with pytest.raises(ProtocolError, match=f"{name} has no"):
        wire.decode(record(__name__, name, key, codes.ENUM), types=LOADED)


@dataclass
class Seeded:
    size: int
    seed: InitVar[int]

    def __post_init__(self, seed: int) -> None:
        self.size += seed


def test_a_class_that_cannot_be_built_again_does_not_leave() -> None:
    with pytest.raises(CannotTravel, match=r"Seeded cannot be built again: .* needs seed"):
        wire.encode([Seeded(1, 2)])


def test_a_field_never_set_is_named() -> None:
    point = Point(1.0)
    del point.x
    with pytest.raises(CannotTravel, match=r"value\[0\]: .*Point has a field that was never set"):
        wire.encode([point])
