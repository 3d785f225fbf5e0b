"""Only classes the receiver already has are built, whatever name a peer writes."""

from __future__ import annotations

import dataclasses
import enum
import functools
import gc
import sys
import types
import weakref
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Annotated, Any, Generic, Literal, NamedTuple, NewType, Optional, TypeVar

import msgspec
import pytest

from axon.errors import CannotTravel, ProtocolError
from axon.rpc import wire
from axon.rpc.wire import LOADED, REGISTERED, Types, codes
from axon.rpc.wire import types as wire_types

T = TypeVar("T")


@pytest.fixture(autouse=True)
def _clean_memory(monkeypatch: pytest.MonkeyPatch) -> None:
    """Each test starts with nothing registered and nothing sent."""
    monkeypatch.setattr(wire_types, "_registered", {})
    monkeypatch.setattr(wire_types, "_sent", {})


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


def test_an_unknown_class_says_what_to_do() -> None:
    with pytest.raises(ProtocolError) as caught:
        travel(Point(1.0), types=Types())
    message = str(caught.value)
    assert f"class {__name__}.Point is not known on this side" in message
    assert "annotate the parameter" in message
    assert "axon.register" in message


def test_registering_makes_a_class_known_to_every_receiver() -> None:
    before = Types()
    assert wire.register(Point) is Point
    assert travel(Point(1.0), types=before) == Point(1.0)
    assert travel(Point(1.0), types=REGISTERED) == Point(1.0)
    with pytest.raises(CannotTravel, match="not a data class"):
        wire.register(int)


def made(name: str, module: str) -> Any:
    """A data class with one field, as if defined in a module of that name."""
    kind = dataclasses.make_dataclass(name, ["n"])
    kind.__module__ = module
    return kind


def worker_side() -> types.ModuleType:
    """A worker's module with its own `Point`, as if it were another program."""
    source = """
from __future__ import annotations
import dataclasses, functools

@dataclasses.dataclass
class Point:
    x: float
    y: float

def length(point):
    return abs(complex(point.x, point.y))

class Service:
    def length(self, point):
        return 1.0
    def __call__(self, point):
        return 2.0

def noted(function):
    @functools.wraps(function)
    def inner(*args):
        return function(*args)
    return inner
"""
    module = types.ModuleType("worker_app")
    sys.modules["worker_app"] = module
    try:
        exec(source, vars(module))
    finally:
        del sys.modules["worker_app"]
    return module


def test_a_class_of_the_functions_module_is_found_by_its_name() -> None:
    module = worker_side()
    arrived = travel(Point(3.0, 4.0), types=Types.visible_from(module.length))
    assert type(arrived) is module.Point
    assert module.length(arrived) == 5.0


@pytest.mark.parametrize(
    "wrap",
    [
        lambda m: functools.partial(functools.partial(m.length, 1), 2),
        lambda m: m.Service().length,
        lambda m: m.Service.length,
        lambda m: m.Service(),
        lambda m: m.noted(m.length),
    ],
)
def test_wrapped_functions_see_what_the_inner_one_sees(wrap: Callable[[Any], Any]) -> None:
    module = worker_side()
    arrived = travel(Point(3.0, 4.0), types=Types.visible_from(wrap(module)))
    assert type(arrived) is module.Point


def test_the_exact_class_is_preferred_to_one_of_the_same_name() -> None:
    module = worker_side()
    both = Types(classes=frozenset({module.Point, Point}))
    assert type(travel(Point(1.0), types=both)) is Point
    with pytest.raises(ProtocolError, match=r"could be .*Point or worker_app\.Point"):
        wire.decode(record("elsewhere", "Point", {"x": 1, "y": 2}), types=both)


def test_classes_defined_after_the_function_are_seen() -> None:
    module = worker_side()
    visible = Types.visible_from(module.length)
    late = made("Late", "worker_app")
    vars(module)["Late"] = late
    assert type(wire.decode(record("m", "Late", {"n": 1}), types=visible)) is late


def test_a_class_sent_before_comes_back_by_name() -> None:
    module = worker_side()
    returned = body_of(module.Point(1.0, 2.0))
    wire_types._sent.clear()
    with pytest.raises(ProtocolError, match="not known"):
        wire.decode(returned, types=LOADED)
    wire_types.remember_sent(Point)
    assert wire.decode(returned, types=LOADED) == Point(1.0, 2.0)
    with pytest.raises(ProtocolError, match="not known"):
        wire.decode(returned, types=REGISTERED)


def test_encoding_remembers_what_was_sent() -> None:
    kind = made("Fresh", "somewhere")
    body_of(kind(1))
    assert type(wire.decode(record("other", "Fresh", {"n": 1}), types=LOADED)) is kind


def test_sending_keeps_no_class_alive() -> None:
    kind = made("Passing", "somewhere")
    body_of(kind(1))
    gone = weakref.ref(kind)
    del kind
    gc.collect()
    assert gone() is None


@pytest.fixture
def broken_module() -> Iterator[str]:
    """A name that could be imported, but is not."""
    name = "this"
    sys.modules.pop(name, None)
    yield name
    sys.modules.pop(name, None)


def test_a_name_never_imports_a_module(broken_module: str) -> None:
    with pytest.raises(ProtocolError, match="not known"):
        wire.decode(record(broken_module, "s", {}), types=LOADED)
    assert broken_module not in sys.modules


@pytest.mark.parametrize(
    ("module", "qualname"),
    [
        ("os", "system"),
        ("subprocess", "Popen"),
        ("builtins", "object"),
        (__name__, "Point.__class__"),
        (__name__, "Point.__init__"),
        (__name__, "__builtins__"),
        (__name__, "dataclasses.Field"),
        (__name__, "Alias"),
        (__name__, ""),
        ("", "Point"),
    ],
)
def test_only_data_classes_at_their_own_name_are_built(module: str, qualname: str) -> None:
    with pytest.raises(ProtocolError, match="not known"):
        wire.decode(record(module, qualname, {}), types=LOADED)


Alias = Frozen


def test_types_join() -> None:
    module = worker_side()
    joined = Types.visible_from(module.length) | Types(classes=frozenset({Pair})) | Types()
    assert type(wire.decode(record("m", "Point", {"x": 1, "y": 2}), types=joined)) is module.Point
    assert travel(Pair(1), types=joined) == Pair(1)
    assert not joined.with_loaded
    assert (joined | LOADED).with_loaded


def test_types_do_not_change() -> None:
    with pytest.raises(dataclasses.FrozenInstanceError):
        Types().classes = frozenset()  # type: ignore[misc]


Name = NewType("Name", Point)
Bound = TypeVar("Bound", bound=Pair)


def test_annotations_make_classes_visible() -> None:
    def function(
        plain: Point,
        many: Sequence[dict[str, Frozen]],
        perhaps: Optional[Colour],  # noqa: UP045 - both spellings are met
        either: int | Checked,
        noted: Annotated[Packet, "note"],
        generic: Node[Outer.Inner],
        bound: Bound,
        renamed: Name,
        literal: Literal["Mode"],
        broken: NoSuchThing,  # type: ignore[name-defined]  # noqa: F821
    ) -> Level:
        return Level.LOW

    found = Types.visible_from(function).classes
    wanted = {Point, Frozen, Colour, Checked, Packet, Node, Outer.Inner, Pair, Level}
    assert found == wanted


def test_local_classes_are_seen_where_the_function_uses_them() -> None:
    @dataclass
    class Local:
        n: int

    def function(item: Local) -> object:
        return Local(item.n)

    assert Types.visible_from(function).classes == {Local}
    assert travel(Local(1), types=Types.visible_from(function)) == Local(1)


def test_a_class_sees_what_its_constructor_sees() -> None:
    class Service:
        def __init__(self, point: Point) -> None:
            self.point = point

    assert Types.visible_from(Service).classes == {Point}


def test_a_name_not_bound_yet_is_passed_over() -> None:
    def function(item: Point) -> object:
        return Later(item.x)

    assert Types.visible_from(function).classes == {Point}

    @dataclass
    class Later:
        n: float

    assert Types.visible_from(function).classes == {Point, Later}


def test_recursive_hints_end() -> None:
    def function(tree: Node[Node[int]], again: list[Node[int]]) -> None: ...

    assert Types.visible_from(function).classes == {Node}


def test_a_client_is_told_to_import_what_it_does_not_know() -> None:
    with pytest.raises(ProtocolError, match="import the module that defines it"):
        wire.decode(record("elsewhere", "Missing", {}), types=LOADED)
    assert Types.loaded() is LOADED


def test_things_without_a_scope_see_nothing() -> None:
    assert Types.visible_from(len).classes == frozenset()
