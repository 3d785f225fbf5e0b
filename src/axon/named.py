"""Names to what they stand for, as a command line or a recipe says them: `name:setting`."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import TypeAlias, TypeVar

from axon.errors import ConfigurationError

T = TypeVar("T")
Maker: TypeAlias = Callable[[str], T]
"""Makes a thing from the setting behind its name, which is empty where there is none."""


def choose(kind: str, table: Mapping[str, Maker[T]], text: str) -> T:
    """What `name` or `name:setting` stands for in a table of that kind of thing."""
    name, _, given = text.partition(":")
    if name not in table:
        raise ConfigurationError(
            f"no {kind} is called {name!r}", hint=f"known are {', '.join(sorted(table))}"
        )
    return table[name](given)


def without(name: str, given: str, make: Callable[[], T]) -> T:
    """A thing that takes no setting."""
    if given:
        raise ConfigurationError(f"{name} takes no setting, got {given!r}")
    return make()


def whole(name: str, given: str) -> int:
    """A setting that is a whole number."""
    try:
        return int(given)
    except ValueError as error:
        raise ConfigurationError(f"{name} takes a whole number, got {given!r}") from error


def number(name: str, given: str) -> float:
    """A setting that is a number."""
    try:
        return float(given)
    except ValueError as error:
        raise ConfigurationError(f"{name} takes a number, got {given!r}") from error
