"""Names become policies, and a wrong one lists the right ones."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import pytest

from axon.aggregation.mean import Mean, WeightedMean
from axon.allocation.csa import StalenessAware
from axon.allocation.equal import Equal, Open
from axon.errors import ConfigurationError
from axon.recipes.tables import AGGREGATORS, SELECTORS, STEPS, allocators, choose
from axon.rounds.steps import Momentum, Replace
from axon.selection.random import Everyone, Some

TABLES: dict[str, Mapping[str, Callable[[str], Any]]] = {
    "selector": SELECTORS,
    "allocator": allocators(2, 60),
    "aggregator": AGGREGATORS,
    "step": STEPS,
}
NAMES = [(kind, name) for kind, table in TABLES.items() for name in table]


@pytest.mark.parametrize(("kind", "name"), NAMES)
def test_every_name_makes_a_policy_without_a_setting(kind: str, name: str) -> None:
    assert callable(choose(kind, TABLES[kind], name))


@pytest.mark.parametrize(
    ("kind", "text", "wanted"),
    [
        ("selector", "everyone", Everyone()),
        ("selector", "some", Some(fraction=0.5)),
        ("selector", "some:0.25", Some(fraction=0.25)),
        ("allocator", "open", Open(passes=2)),
        ("allocator", "equal", Equal(passes=2)),
        ("allocator", "equal:60", Equal(shards=60, passes=2)),
        ("allocator", "dab", Open(passes=2)),
        ("allocator", "csa", StalenessAware(total=60)),
        ("allocator", "csa:exact", StalenessAware(total=60)),
        ("allocator", "csa:relaxed", StalenessAware(total=60, method="relaxed")),
        ("allocator", "csa:sai", StalenessAware(total=60, method="sai")),
        ("allocator", "synchronous", StalenessAware(total=60, method="synchronous")),
        ("allocator", "eta", StalenessAware(total=60, method="eta")),
        ("aggregator", "mean", Mean()),
        ("aggregator", "weighted-mean", WeightedMean()),
        ("step", "replace", Replace()),
        ("step", "momentum", Momentum(momentum=0.9)),
        ("step", "momentum:0.5", Momentum(momentum=0.5)),
    ],
)
def test_a_setting_follows_a_colon(kind: str, text: str, wanted: object) -> None:
    assert choose(kind, TABLES[kind], text) == wanted


@pytest.mark.parametrize("kind", TABLES)
@pytest.mark.parametrize("text", ["nobody", "", "nobody:3", " some"])
def test_an_unknown_name_lists_the_known_ones(kind: str, text: str) -> None:
    with pytest.raises(ConfigurationError) as caught:
        choose(kind, TABLES[kind], text)
    message = str(caught.value)
    assert f"no {kind} is called" in message
    assert ", ".join(sorted(TABLES[kind])) in message


@pytest.mark.parametrize(
    ("kind", "text", "complaint"),
    [
        ("selector", "everyone:3", "everyone takes no setting, got '3'"),
        ("selector", "some:half", "some takes a number, got 'half'"),
        ("selector", "some:nan", "fraction must be .* got nan"),
        ("selector", "some:0", "fraction must be .* got 0"),
        ("allocator", "open:3", "open takes no setting, got '3'"),
        ("allocator", "dab:3", "dab takes no setting, got '3'"),
        ("allocator", "eta:3", "eta takes no setting, got '3'"),
        ("allocator", "csa:quick", r"csa has no method 'quick' \(known are exact, relaxed, sai\)"),
        ("allocator", "csa:equal", "csa has no method 'equal'"),
        ("allocator", "equal:many", "equal takes a whole number, got 'many'"),
        ("allocator", "equal:2.5", "equal takes a whole number, got '2.5'"),
        ("allocator", "equal:nan", "equal takes a whole number, got 'nan'"),
        ("allocator", "equal:inf", "equal takes a whole number, got 'inf'"),
        ("allocator", "equal:0", "shards must be .* at least 1, got 0"),
        ("allocator", "equal:-3", "shards must be .* at least 1, got -3"),
        ("aggregator", "mean:3", "mean takes no setting, got '3'"),
        ("step", "momentum:1", "momentum must be .* got 1"),
    ],
)
def test_a_setting_that_cannot_be_is_named(kind: str, text: str, complaint: str) -> None:
    with pytest.raises(ConfigurationError, match=complaint):
        choose(kind, TABLES[kind], text)


def test_passes_are_part_of_a_share() -> None:
    with pytest.raises(ConfigurationError, match=r"passes must be .* got 0"):
        choose("allocator", allocators(0), "open")
