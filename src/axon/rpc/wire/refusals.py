"""Saying no to a value that has no form on the wire: where it sits and what to do instead."""

from __future__ import annotations

import io
import os
import reprlib
import sys
import types
from collections import abc
from collections.abc import Callable, Iterable, Mapping
from typing import Any, TypeVar

from axon.errors import CannotTravel
from axon.rpc.wire.codes import MAX_DEPTH

T = TypeVar("T")

SEND_DATA = "send its data (numbers, arrays, dataclasses) or expose the object as a service"
_HINTS: tuple[tuple[tuple[type, ...], str], ...] = (
    (
        (types.FunctionType, types.BuiltinFunctionType, types.MethodType),
        "code does not travel; expose the function on the worker and call it there",
    ),
    (
        (types.GeneratorType, types.AsyncGeneratorType, types.CoroutineType),
        "it holds running code; send the list of what it yields",
    ),
    ((types.ModuleType,), "code does not travel; import the module on the other side"),
    ((type,), "code does not travel; send an instance, or the class's name"),
    ((io.IOBase,), "an open file stays where it is; send what it holds, as with file.read()"),
    ((os.PathLike,), "paths differ between machines; send str(path)"),
    (
        (abc.Iterator, abc.KeysView, abc.ValuesView, abc.ItemsView),
        "send the list of its items",
    ),
)


class Stuck(Exception):
    """A value that cannot be written, gathering its path while the walk unwinds.

    Only a failing walk pays for the path this way; a walk that succeeds keeps no track of it.
    """

    def __init__(self, what: str, hint: str = "") -> None:
        super().__init__(what)
        self.what = what
        self.hint = hint
        self.steps: list[str] = []
        self.holders: list[object] = []

    def inside(self, holder: object, step: str) -> None:
        """Note that the value sat in `holder`, at `step`."""
        self.holders.append(holder)
        self.steps.append(step)

    def explained(self, value: object) -> CannotTravel:
        """The error for a person, with the path from the root that is `value`."""
        what, hint, steps = self.what, self.hint, self.steps[::-1]
        seen: set[int] = set()
        for position, holder in enumerate(reversed(self.holders)):
            if id(holder) in seen:
                what, hint = "contains itself", "send a tree: each value held by one other"
                steps = steps[:position]
                break
            seen.add(id(holder))
        return CannotTravel(f"{_path(value, steps)}: {what}", hint=hint)


def _path(value: object, steps: list[str]) -> str:
    root = "value"
    if steps and _is_call(value):
        root = "args" if steps[0] == "[0]" else "kwargs"
        steps = steps[1:]
    if len(steps) > 12:
        steps = [*steps[:4], "...", *steps[-4:]]
    return root + "".join(steps)


def each(
    write: Callable[[object, int], T],
    holder: object,
    values: Iterable[object],
    depth: int,
    step: Callable[[int], str],
) -> list[T]:
    """Write every value inside `holder`; a value that cannot be written learns where it sat."""
    if depth >= MAX_DEPTH:
        raise too_deep()
    written: list[T] = []
    try:
        # No comprehension: how many were written says which one failed.
        for value in values:
            written.append(write(value, depth + 1))  # noqa: PERF401
    except Stuck as stuck:
        stuck.inside(holder, step(len(written)))
        raise
    return written


def too_deep() -> Stuck:
    """Why a tower of values stays at home; `Stuck.explained` tells it from one without end."""
    return Stuck(f"is nested more than {MAX_DEPTH} deep", "flatten it")


def refused(value: object) -> Stuck:
    """Why this value stays at home, with the advice that fits its type."""
    return Stuck(f"{type_name(type(value))} cannot travel", _hint(value))


def type_name(kind: type) -> str:
    """`module.Name`, or the bare name of a built-in."""
    module = kind.__module__
    return kind.__qualname__ if module == "builtins" else f"{module}.{kind.__qualname__}"


def _hint(value: object) -> str:
    networks = sys.modules.get("torch.nn")
    if isinstance(value, getattr(networks, "Module", ())):
        return "send its numbers, model.state_dict()"
    if type(value).__module__.partition(".")[0] in ("pandas", "polars"):
        return "send its columns as arrays, or a dict of lists"
    for kinds, hint in _HINTS:
        if isinstance(value, kinds):
            return hint
    return SEND_DATA


def _is_call(value: object) -> bool:
    """Whether the root looks like `[args, kwargs]`, so that a path can speak the caller's words."""
    if type(value) is not list or len(value) != 2:
        return False
    return isinstance(value[0], list | tuple) and isinstance(value[1], dict)


def steps_by_index(index: int) -> str:
    """Where an item of a sequence sits."""
    return f"[{index}]"


def steps_in_set(_: int) -> str:
    """Where a member of a set sits: nowhere in particular."""
    return "{...}"


def steps_by_key(mapping: Mapping[Any, object]) -> Callable[[int], str]:
    """Where a value of a dict sits, by a short form of its key."""

    def step(index: int) -> str:
        return f"[{reprlib.repr(list(mapping)[index])}]"

    return step


def steps_by_name(names: tuple[str, ...]) -> Callable[[int], str]:
    """Where a field of a data class sits."""

    def step(index: int) -> str:
        return f".{names[index]}"

    return step
