"""What a worker exposes: functions by path, and the profile that describes them to clients.

Only what is registered here can be called. A path is looked up whole in one table; there is no
walking from object to attribute at call time, so nothing that was not exposed can be reached.
"""

from __future__ import annotations

import inspect
import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any, Literal, get_type_hints

from axon.errors import ConfigurationError
from axon.rpc.executors import Executor, ProcessPool
from axon.rpc.paths import target_of
from axon.rpc.serving.metrics import Tally
from axon.rpc.signatures import describe
from axon.rpc.wire import Types

Kind = Literal["function", "coroutine", "generator", "async generator"]
_NAME = re.compile(r"[^\W_][\w.-]*", re.UNICODE)
_EXECUTORS = ("inline", "thread", "process")


@dataclass(frozen=True, slots=True)
class Function:
    """One callable thing on a worker."""

    path: str
    call: Callable[..., Any]
    executor: Executor
    kind: Kind
    signature: inspect.Signature | None
    types: Types
    hints: dict[str, Any] = field(default_factory=dict)
    tally: Tally = field(default_factory=Tally, compare=False)
    at_once: bool = field(init=False)
    """Whether it is run where its request arrives, and its answer sent from there."""
    streams: bool = field(init=False)
    """Whether its result is a stream of items."""

    def __post_init__(self) -> None:
        at_once = self.executor == "inline" and self.kind == "function"
        object.__setattr__(self, "at_once", at_once)
        object.__setattr__(self, "streams", self.kind in ("generator", "async generator"))

    def profile(self) -> dict[str, Any]:
        """What a client needs to offer it as its own: names and text, never code."""
        return {
            "kind": self.kind,
            "doc": inspect.getdoc(self.call) or "",
            "signature": None if self.signature is None else describe(self.signature),
        }


def make_function(path: str, call: Callable[..., Any], executor: Executor) -> Function:
    """Look at a callable once, when it is registered, so that calls need not."""
    if executor not in _EXECUTORS:
        known = ", ".join(_EXECUTORS)
        raise ConfigurationError(
            f"unknown executor {executor!r} for {path}", hint=f"one of {known}"
        )
    if not callable(call):
        raise ConfigurationError(f"{path}: {type(call).__name__} is not callable")
    if executor == "process":
        ProcessPool.check(call)
    try:
        signature: inspect.Signature | None = inspect.signature(call)
    except (ValueError, TypeError):  # Some built-ins do not tell.
        signature = None
    inner = inspect.unwrap(call)
    return Function(
        path, call, executor, _kind(inner), signature, Types.visible_from(inner), _hints(inner)
    )


def _code(call: Callable[..., Any]) -> Callable[..., Any]:
    """What runs when it is called; an object's own annotations say nothing of its arguments."""
    return call if inspect.isroutine(call) else getattr(call, "__call__", call)  # noqa: B004


def _kind(call: Callable[..., Any]) -> Kind:
    function = _code(call)
    if inspect.isasyncgenfunction(function):
        return "async generator"
    if inspect.isgeneratorfunction(function):
        return "generator"
    return "coroutine" if inspect.iscoroutinefunction(function) else "function"


def _hints(call: Callable[..., Any]) -> dict[str, Any]:
    try:
        hints = get_type_hints(_code(call))
    except (NameError, TypeError, AttributeError):
        return {}  # A hint that cannot be resolved here only means no conversion from JSON.
    hints.pop("return", None)
    return hints


class Services:
    """The table of a worker's functions."""

    def __init__(self) -> None:
        self.by_target: dict[bytes, Function] = {}

    def add(self, path: str, call: Callable[..., Any], executor: Executor) -> Function:
        """Expose one callable at a path such as `rpc/hello`."""
        function = self._made(path, call, executor)
        self.by_target[target_of(path)] = function
        return function

    def _made(self, path: str, call: Callable[..., Any], executor: Executor) -> Function:
        for name in path.split("/"):
            if not _NAME.fullmatch(name) or ".." in name:
                raise ConfigurationError(
                    f"{path!r} cannot be a function's path",
                    hint="names start with a letter or digit and hold letters, digits, _ - .",
                )
        return make_function(path, call, executor)

    def add_object(self, name: str, subject: object, *, depth: int, executor: Executor) -> None:
        """Expose an object: itself if callable, its public methods, and so on, `depth` levels."""
        if depth < 1:
            raise ConfigurationError(f"depth must be at least 1, got {depth}")
        found = dict(_exposable(name, subject, depth, seen=frozenset()))
        if not found:
            raise ConfigurationError(f"{name}: {type(subject).__name__} has nothing to call")
        # All are looked at before any is offered: an object is exposed whole or not at all.
        made = [self._made(path, call, executor) for path, call in found.items()]
        self.by_target.update({target_of(function.path): function for function in made})

    def remove(self, path: str) -> None:
        """Withdraw a function, or all of a service."""
        prefix = target_of(path)
        for target in list(self.by_target):
            if target == prefix or target.startswith(prefix + b"/"):
                del self.by_target[target]

    def __iter__(self) -> Iterator[Function]:
        return iter(sorted(self.by_target.values(), key=lambda function: function.path))


def _exposable(
    path: str, subject: object, depth: int, seen: frozenset[int]
) -> Iterator[tuple[str, Callable[..., Any]]]:
    if callable(subject) and not isinstance(subject, type):
        yield path, subject
    if depth == 0 or id(subject) in seen or inspect.isroutine(subject):
        return
    for name in dir(subject):
        if name.startswith("_") or not _NAME.fullmatch(name):
            continue
        # Properties run code when looked at; what a class only computes is not a function to call.
        if isinstance(inspect.getattr_static(subject, name, None), (property, cached_property)):
            continue
        member = getattr(subject, name, None)
        if inspect.isroutine(member):
            yield f"{path}/{name}", member
        elif depth > 1 and hasattr(member, "__dict__") and not isinstance(member, type):
            yield from _exposable(f"{path}/{name}", member, depth - 1, seen | {id(subject)})
