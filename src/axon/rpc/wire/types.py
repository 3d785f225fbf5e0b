"""Which classes a receiver is willing to build.

The wire carries data, never code: the sender writes a class's name, the receiver looks the name up
among classes it already has. It never imports a module because a peer named it.
"""

from __future__ import annotations

import functools
import inspect
import sys
import types
import typing
import weakref
from collections.abc import Callable, Iterable, Iterator, Mapping, MutableMapping
from dataclasses import dataclass, field
from typing import Any, TypeVar

from axon.errors import CannotTravel, ProtocolError
from axon.rpc.wire.refusals import type_name
from axon.rpc.wire.schema import is_data_class, is_record

T = TypeVar("T")
Table = dict[str, MutableMapping[str, type]]
"""Classes by qualified name, then by module."""

_registered: Table = {}
# What this process has sent may come back. Weak, so that sending keeps no class alive.
_sent: Table = {}


def register(cls: type[T]) -> type[T]:
    """Let every receiver in this process build this data class; returns it, for use as a decorator.

    Raises `CannotTravel` when it is not a dataclass, `msgspec.Struct`, `NamedTuple` or `Enum`.
    """
    if not is_data_class(cls):
        raise CannotTravel(f"{cls!r} is not a data class", hint="make it a dataclass")
    _registered.setdefault(cls.__qualname__, {})[cls.__module__] = cls
    return cls


def remember_sent(kind: type) -> None:
    """Note that this process sent instances of a class, so that results may bring them back."""
    modules = _sent.setdefault(kind.__qualname__, weakref.WeakValueDictionary())
    modules[kind.__module__] = kind


@dataclass(frozen=True, slots=True, eq=False)
class Types:
    """The data classes one receiver builds; registered ones are always among them.

    A class is found by module and qualified name; failing that by qualified name alone, because the
    `Point` of a client's `__main__` is the `Point` of the worker's module.
    """

    classes: frozenset[type] = frozenset()
    scopes: tuple[Mapping[str, object], ...] = ()
    """Globals whose data classes are taken too, also those defined after this was made."""
    with_loaded: bool = False
    """Whether anything sent before, or at that name in a module already loaded, will do."""
    _table: Table = field(init=False, repr=False, default_factory=dict)

    def __post_init__(self) -> None:
        found = [kind for scope in self.scopes for kind in _data_classes(scope)]
        object.__setattr__(self, "_table", _index([*found, *self.classes]))

    @classmethod
    def visible_from(cls, function: Callable[..., Any] | type) -> Types:
        """What a function can see: classes in its annotations, and data classes of its module."""
        inner = _unwrapped(function)
        scope = getattr(inner, "__globals__", {})
        local = _closure(inner)
        found = set(_data_classes(local))
        seen: dict[int, object] = {}
        for hint in _hints(inner, scope, local):
            _collect(hint, found, seen)
        return cls(classes=frozenset(found), scopes=(scope,))

    @classmethod
    def loaded(cls) -> Types:
        """What a client takes from a worker it chose: anything it has loaded or has sent itself."""
        return LOADED

    def __or__(self, other: Types) -> Types:
        known = {id(scope) for scope in self.scopes}
        return Types(
            classes=self.classes | other.classes,
            scopes=self.scopes + tuple(new for new in other.scopes if id(new) not in known),
            with_loaded=self.with_loaded or other.with_loaded,
        )

    def find(self, module: object, qualname: object) -> type:
        """The class of that name, or `ProtocolError` saying how to make it known."""
        if not isinstance(module, str) or not isinstance(qualname, str):
            raise ProtocolError("a class is named by two strings")
        tables = (
            [self._table, _registered, _sent] if self.with_loaded else [self._table, _registered]
        )
        for table in tables:
            kind = table.get(qualname, {}).get(module)
            if kind is not None:
                return kind
        kind = _in_loaded_module(module, qualname) if self.with_loaded else None
        return self._find_by_name(tables, module, qualname) if kind is None else kind

    def _find_by_name(self, tables: list[Table], module: str, qualname: str) -> type:
        later = _index(kind for scope in self.scopes for kind in _data_classes(scope))
        for table in (*tables, later):
            candidates = list(table.get(qualname, {}).values())
            if len(candidates) > 1:
                names = " or ".join(sorted(type_name(kind) for kind in candidates))
                raise ProtocolError(
                    f"class {module}.{qualname} could be {names} here",
                    hint="send the class from the module the worker has it from",
                )
            if candidates:
                return candidates[0]
        raise ProtocolError(
            f"class {module}.{qualname} is not known on this side",
            hint="import the module that defines it, or axon.register a class of that name"
            if self.with_loaded
            else "annotate the parameter with it, import it in the function's module, "
            "or axon.register it",
        )


def _index(kinds: Iterable[type]) -> Table:
    table: Table = {}
    for kind in kinds:
        table.setdefault(kind.__qualname__, {})[kind.__module__] = kind
    return table


def _data_classes(scope: Mapping[str, object]) -> Iterator[type]:
    # A copy: another thread may be importing into the module.
    for value in list(scope.values()):
        if isinstance(value, type) and is_data_class(value):
            yield value


def _in_loaded_module(module: str, qualname: str) -> type | None:
    """The data class at exactly that place; `vars` alone is used, so no module's code can run."""
    found: object = sys.modules.get(module)
    if not isinstance(found, types.ModuleType):
        return None
    for part in qualname.split("."):
        if part.startswith("__") or not isinstance(found, types.ModuleType | type):
            return None
        found = vars(found).get(part)
    if isinstance(found, type) and is_data_class(found) and found.__qualname__ == qualname:
        return found
    return None


def _unwrapped(function: Any) -> Any:
    """The plain function inside partials, methods, wrappers, callable objects and classes."""
    while isinstance(function, functools.partial):
        function = function.func
    function = inspect.unwrap(function)
    function = getattr(function, "__func__", function)
    if isinstance(function, type):
        # Of this very class, so no subclass with another signature is meant.
        return inspect.unwrap(function.__init__)  # type: ignore[misc]
    if not hasattr(function, "__globals__"):
        return inspect.unwrap(type(function).__call__)
    return function


def _closure(function: Any) -> dict[str, object]:
    names = getattr(getattr(function, "__code__", None), "co_freevars", ())
    cells = getattr(function, "__closure__", None) or ()
    found = {}
    for name, cell in zip(names, cells, strict=True):
        try:
            found[name] = cell.cell_contents
        except ValueError:
            # A name bound only after this moment; it holds nothing yet.
            continue
    return found


def _hints(holder: Any, scope: Mapping[str, Any], local: Mapping[str, Any]) -> Iterator[object]:
    """The annotations that can be resolved, one by one so that a bad one spoils no other."""
    try:
        annotations = dict(getattr(holder, "__annotations__", None) or {})
    except NameError:
        # Where annotations are evaluated late, one unknown name fails them all.
        return
    for name, annotation in annotations.items():
        alone = types.SimpleNamespace(__annotations__={name: annotation})
        try:
            resolved = typing.get_type_hints(alone, dict(scope), dict(local), include_extras=True)
        except Exception:  # noqa: S112 - an annotation is the author's code and may raise anything
            continue
        yield resolved[name]


def _collect(hint: object, found: set[type], seen: dict[int, object]) -> None:
    """Add the data classes a type hint speaks of, through generics, unions, aliases and fields."""
    if id(hint) in seen:
        return
    # The hint is kept with its id, or another might be given the same one.
    seen[id(hint)] = hint
    parts = [*typing.get_args(hint), typing.get_origin(hint)]
    if isinstance(hint, type):
        if is_data_class(hint):
            found.add(hint)
            parts += _field_hints(hint) if is_record(hint) else []
    else:
        parts += [getattr(hint, name, None) for name in ("__supertype__", "__value__", "__bound__")]
    for part in parts:
        if part is not None:
            _collect(part, found, seen)


def _field_hints(kind: type) -> list[object]:
    hints: list[object] = []
    for owner in kind.__mro__:
        scope = vars(sys.modules.get(owner.__module__, types.ModuleType("nowhere")))
        hints += _hints(owner, scope, {kind.__name__: kind})
    return hints


REGISTERED = Types()
LOADED = Types(with_loaded=True)
