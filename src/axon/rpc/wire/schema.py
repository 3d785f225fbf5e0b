"""Data classes as schemas: taken apart into named fields, put together again by their constructor.

A data class is a dataclass, a `msgspec.Struct`, a `NamedTuple` or an `Enum`. What travels is its
fields and nothing else: attributes set beside them stay behind.
"""

from __future__ import annotations

import dataclasses
import enum
import inspect
import weakref
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import msgspec

from axon.errors import ProtocolError
from axon.rpc.wire.refusals import Stuck, type_name


@dataclass(frozen=True, slots=True)
class Schema:
    """The fields of one data class, as they travel."""

    names: tuple[str, ...]
    late: frozenset[str]
    """Fields the constructor does not take; they are set on the finished instance."""
    untold: tuple[str, ...]
    """What the constructor insists on and no field holds, so that it cannot be called again."""


# Weak, so that classes made at run time can go when their maker drops them.
_schemas: weakref.WeakKeyDictionary[type, Schema] = weakref.WeakKeyDictionary()


def is_record(kind: type) -> bool:
    """Whether instances travel as named fields."""
    return (
        dataclasses.is_dataclass(kind) or issubclass(kind, msgspec.Struct) or is_named_tuple(kind)
    )


def is_named_tuple(kind: type) -> bool:
    """Whether this is what `NamedTuple` or `namedtuple` made, or a subclass of it."""
    return issubclass(kind, tuple) and isinstance(getattr(kind, "_fields", None), tuple)


def is_data_class(kind: object) -> bool:
    """Whether the wire can carry instances of this by name: a record or an enum."""
    return isinstance(kind, type) and (issubclass(kind, enum.Enum) or is_record(kind))


def schema_of(kind: type) -> Schema:
    """The schema of a record class, worked out once."""
    schema = _schemas.get(kind)
    if schema is None:
        schema = _schemas[kind] = _schema(kind)
    return schema


def _schema(kind: type) -> Schema:
    if issubclass(kind, msgspec.Struct):
        return Schema(kind.__struct_fields__, frozenset(), ())
    if not dataclasses.is_dataclass(kind):
        # Every NamedTuple has its fields there; `type` does not say so.
        return Schema(tuple(kind._fields), frozenset(), ())  # type: ignore[attr-defined]
    fields = dataclasses.fields(kind)
    names = tuple(field.name for field in fields)
    parameters = list(inspect.signature(kind.__init__).parameters.values())[1:]
    untold = tuple(
        parameter.name
        for parameter in parameters
        if parameter.default is parameter.empty
        and parameter.kind not in (parameter.VAR_POSITIONAL, parameter.VAR_KEYWORD)
        and parameter.name not in names
    )
    return Schema(names, frozenset(field.name for field in fields if not field.init), untold)


def field_values(value: object) -> list[object]:
    """The values of a record's fields, in the schema's order; raises `Stuck` where one is unset."""
    kind = type(value)
    schema = schema_of(kind)
    if schema.untold:
        missing = ", ".join(schema.untold)
        raise Stuck(
            f"{type_name(kind)} cannot be built again: its constructor needs {missing}, "
            "which no field keeps",
            "keep it in a field, or give it a default",
        )
    try:
        return [getattr(value, name) for name in schema.names]
    except AttributeError as error:
        raise Stuck(f"{type_name(kind)} has a field that was never set: {error}") from error


def build_record(kind: type, fields: object) -> object:
    """An instance from its named fields.

    The constructor and `__post_init__` run: that is the class checking itself. Raises
    `ProtocolError` when the fields are not the class's own or the class refuses them.
    """
    name = type_name(kind)
    if not is_record(kind) or not isinstance(fields, dict):
        raise ProtocolError(f"{name} is not a class with fields on this side")
    schema = schema_of(kind)
    _check_names(name, schema, fields)
    try:
        built: object = kind(
            **{key: value for key, value in fields.items() if key not in schema.late}
        )
        for key in schema.late:
            # The plain way round: a frozen dataclass refuses its own.
            object.__setattr__(built, key, fields[key])
    except Exception as error:
        # Whatever the class's own checks raise, the fault is in what was sent.
        raise ProtocolError(
            f"{name} refused its fields: {type(error).__name__}: {error}"
        ) from error
    return built


def _check_names(name: str, schema: Schema, fields: Mapping[Any, object]) -> None:
    if len(fields) == len(schema.names) and all(key in fields for key in schema.names):
        return
    missing = [key for key in schema.names if key not in fields]
    unknown = [str(key) for key in fields if key not in schema.names]
    parts = [f"lacks {', '.join(missing)}"] if missing else []
    parts += [f"does not know {', '.join(unknown)}"] if unknown else []
    raise ProtocolError(
        f"{name} {' and '.join(parts)}", hint="the two sides have different versions of the class"
    )


def member_key(member: enum.Enum) -> object:
    """What names a member: its name, or for an unnamed combination of flags its number."""
    if member.name in type(member).__members__:
        return member.name
    return member.value


def build_member(kind: type, key: object) -> object:
    """The enum member of that name, or for flags of that number; raises `ProtocolError`."""
    name = type_name(kind)
    if not issubclass(kind, enum.Enum):
        raise ProtocolError(f"{name} is not an enum on this side")
    if isinstance(key, str) and key in kind.__members__:
        return kind.__members__[key]
    if isinstance(key, int) and issubclass(kind, enum.Flag):
        try:
            return kind(key)
        except ValueError as error:
            raise ProtocolError(f"{name} has no flags {key}") from error
    known = ", ".join(list(kind.__members__)[:20])
    raise ProtocolError(f"{name} has no member {key!r}", hint=f"it has {known}")
