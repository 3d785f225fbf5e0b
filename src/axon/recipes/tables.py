"""Names to policies, as a command line gives them: `equal`, `equal:60`, `some:0.5`."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import partial
from typing import TypeVar

from axon.aggregation.mean import Mean, WeightedMean
from axon.allocation.csa import Method, StalenessAware
from axon.allocation.equal import Equal, Open
from axon.errors import ConfigurationError
from axon.policies import Aggregator, Allocator, GlobalStep, Selector
from axon.rounds.steps import Momentum, Replace
from axon.selection.random import Everyone, Some

T = TypeVar("T")
Maker = Callable[[str], T]

SELECTORS: dict[str, Maker[Selector]] = {
    "everyone": lambda given: _without("everyone", given, Everyone),
    "some": lambda given: Some(fraction=_number("some", given, 0.5)),
}

AGGREGATORS: dict[str, Maker[Aggregator]] = {
    "weighted-mean": lambda given: _without("weighted-mean", given, WeightedMean),
    "mean": lambda given: _without("mean", given, Mean),
}

STEPS: dict[str, Maker[GlobalStep]] = {
    "replace": lambda given: _without("replace", given, Replace),
    "momentum": lambda given: Momentum(momentum=_number("momentum", given, 0.9)),
}


CSA_METHODS: tuple[Method, ...] = ("exact", "relaxed", "sai")


def allocators(passes: int, total: int | None = None) -> dict[str, Maker[Allocator]]:
    """How many passes to make is part of a share, so of an allocator.

    Those that go by what learners tell of themselves choose the passes, and deal out `total`.
    """

    def knowing(name: str, method: Method) -> Maker[Allocator]:
        made = partial(StalenessAware, total=total, method=method)
        return lambda given: _without(name, given, made)

    return {
        "open": lambda given: _without("open", given, lambda: Open(passes=passes)),
        "dab": lambda given: _without("dab", given, lambda: Open(passes=passes)),
        "equal": lambda given: Equal(shards=_whole("equal", given), passes=passes),
        "csa": lambda given: StalenessAware(total=total, method=_csa_method(given)),
        "synchronous": knowing("synchronous", "synchronous"),
        "eta": knowing("eta", "eta"),
    }


def _csa_method(given: str) -> Method:
    for method in CSA_METHODS:
        if method == (given or "exact"):
            return method
    raise ConfigurationError(
        f"csa has no method {given!r}", hint=f"known are {', '.join(CSA_METHODS)}"
    )


def choose(kind: str, table: Mapping[str, Maker[T]], text: str) -> T:
    """The policy that `name` or `name:setting` stands for."""
    name, _, given = text.partition(":")
    if name not in table:
        raise ConfigurationError(
            f"no {kind} is called {name!r}", hint=f"known are {', '.join(sorted(table))}"
        )
    return table[name](given)


def _without(name: str, given: str, make: Callable[[], T]) -> T:
    if given:
        raise ConfigurationError(f"{name} takes no setting, got {given!r}")
    return make()


def _whole(name: str, given: str) -> int | None:
    try:
        return int(given) if given else None
    except ValueError as error:
        raise ConfigurationError(f"{name} takes a whole number, got {given!r}") from error


def _number(name: str, given: str, default: float) -> float:
    try:
        return float(given) if given else default
    except ValueError as error:
        raise ConfigurationError(f"{name} takes a number, got {given!r}") from error
