"""Names to policies, as a command line gives them: `equal`, `equal:60`, `bucketing:2+krum:1`."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

from axon import aggregation
from axon.aggregation.means import Mean, WeightedMean
from axon.allocation.csa import Method, StalenessAware
from axon.allocation.equal import Equal, Open
from axon.attacks.names import ATTACKS
from axon.errors import ConfigurationError
from axon.named import Maker, choose, number, whole, without
from axon.policies import Aggregator, Allocator, GlobalStep, Selector
from axon.rounds.steps import Momentum, Replace
from axon.selection.random import Everyone, Some
from axon.values import check_whole

__all__ = [
    "AGGREGATORS",
    "ATTACKS",
    "CSA_METHODS",
    "FILTERS",
    "SELECTORS",
    "STEPS",
    "aggregator_of",
    "allocators",
]

SELECTORS: dict[str, Maker[Selector]] = {
    "everyone": lambda given: without("everyone", given, Everyone),
    "some": lambda given: Some(fraction=number("some", given or "0.5")),
}

AGGREGATORS: dict[str, Maker[Aggregator]] = {
    "weighted-mean": lambda given: without("weighted-mean", given, WeightedMean),
    "mean": lambda given: without("mean", given, Mean),
    "median": lambda given: without("median", given, _late("Median")),
    "trimmed-mean": lambda given: _bearing("trimmed-mean", given, _late("TrimmedMean")),
    "mean-around-median": lambda given: _bearing(
        "mean-around-median", given, _late("MeanAroundMedian")
    ),
    "krum": lambda given: _bearing("krum", given, _late("Krum")),
    "multi-krum": lambda given: _bearing("multi-krum", given, _late("MultiKrum")),
    "mda": lambda given: _bearing("mda", given, _late("MDA")),
    "bulyan": lambda given: _bearing("bulyan", given, _late("Bulyan")),
    "geometric-median": lambda given: without("geometric-median", given, _late("GeometricMedian")),
    "centered-clipping": lambda given: without(
        "centered-clipping", given, _late("CenteredClipping")
    ),
}

FILTERS: dict[str, Maker[Callable[[Aggregator], Aggregator]]] = {
    "bucketing": lambda given: partial(
        _late("Bucketed"), size=_count("bucketing", given, 2, least=1)
    ),
    "mixing": lambda given: partial(_late("Mixed"), f=_count("mixing", given, 1)),
}
"""What a robust rule may be given its updates through.

Clipping is none of them: an update is a whole model, and its length says nothing of its training.
"""

STEPS: dict[str, Maker[GlobalStep]] = {
    "replace": lambda given: without("replace", given, Replace),
    "momentum": lambda given: Momentum(momentum=number("momentum", given or "0.9")),
}


def aggregator_of(text: str) -> Aggregator:
    """The aggregator that a name stands for, behind the filters that are named before it."""
    *filters, rule = text.split("+")
    made = choose("aggregator", AGGREGATORS, rule)
    if filters and not hasattr(made, "least"):
        raise ConfigurationError(
            f"{'+'.join(filters)} stands before a robust rule, got {rule!r}",
            hint="as in bucketing:2+median",
        )
    for named in reversed(filters):
        made = choose("filter", FILTERS, named)(made)
    return made


def _late(name: str) -> Any:
    """A robust rule's policy; not before it is wanted, because torch stands behind it."""
    return getattr(aggregation, name)


def _bearing(name: str, given: str, make: Callable[..., Aggregator]) -> Aggregator:
    """A rule that bears so many liars; one if the number is left out."""
    return make(f=_count(name, given, 1))


CSA_METHODS: tuple[Method, ...] = ("exact", "relaxed", "sai")


def allocators(passes: int, total: int | None = None) -> dict[str, Maker[Allocator]]:
    """How many passes to make is part of a share, so of an allocator.

    Those that go by what learners tell of themselves choose the passes, and deal out `total`.
    """

    def knowing(name: str, method: Method) -> Maker[Allocator]:
        made = partial(StalenessAware, total=total, method=method)
        return lambda given: without(name, given, made)

    return {
        "open": lambda given: without("open", given, lambda: Open(passes=passes)),
        "dab": lambda given: without("dab", given, lambda: Open(passes=passes)),
        "equal": lambda given: Equal(
            shards=whole("equal", given) if given else None, passes=passes
        ),
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


def _count(name: str, given: str, default: int, *, least: int = 0) -> int:
    if not given:
        return default
    count = whole(name, given)
    check_whole(f"the number of {name}", count, least=least)
    return count
