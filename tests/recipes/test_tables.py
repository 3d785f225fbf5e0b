"""Names become policies, and a wrong one lists the right ones."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import pytest

from axon.aggregation import (
    MDA,
    Bucketed,
    Bulyan,
    CenteredClipping,
    GeometricMedian,
    Krum,
    MeanAroundMedian,
    Median,
    Mixed,
    MultiKrum,
    TrimmedMean,
)
from axon.aggregation.means import Mean, WeightedMean
from axon.allocation.csa import StalenessAware
from axon.allocation.equal import Equal, Open
from axon.errors import ConfigurationError
from axon.named import choose
from axon.policies import Aggregator
from axon.recipes.tables import (
    AGGREGATORS,
    ATTACKS,
    SELECTORS,
    STEPS,
    aggregator_of,
    allocators,
)
from axon.rounds.steps import Momentum, Replace
from axon.selection.random import Everyone, Some

TABLES: dict[str, Mapping[str, Callable[[str], Any]]] = {
    "selector": SELECTORS,
    "allocator": allocators(2, 60),
    "aggregator": AGGREGATORS,
    "step": STEPS,
    "attack": ATTACKS,
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
        ("aggregator", "median", Median()),
        ("aggregator", "trimmed-mean:2", TrimmedMean(f=2)),
        ("aggregator", "mean-around-median:2", MeanAroundMedian(f=2)),
        ("aggregator", "krum", Krum(f=1)),
        ("aggregator", "krum:0", Krum(f=0)),
        ("aggregator", "multi-krum:2", MultiKrum(f=2)),
        ("aggregator", "mda:3", MDA(f=3)),
        ("aggregator", "bulyan:1", Bulyan(f=1)),
        ("aggregator", "geometric-median", GeometricMedian()),
        ("aggregator", "centered-clipping", CenteredClipping()),
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
        ("aggregator", "median:3", "median takes no setting, got '3'"),
        ("aggregator", "krum:two", "krum takes a whole number, got 'two'"),
        ("aggregator", "krum:-1", "the number of krum must be .* at least 0, got -1"),
        ("step", "momentum:1", "momentum must be .* got 1"),
    ],
)
def test_a_setting_that_cannot_be_is_named(kind: str, text: str, complaint: str) -> None:
    with pytest.raises(ConfigurationError, match=complaint):
        choose(kind, TABLES[kind], text)


@pytest.mark.parametrize(
    ("text", "wanted"),
    [
        ("krum:2", Krum(f=2)),
        ("bucketing+median", Bucketed(Median(), size=2)),
        ("bucketing:3+krum:1", Bucketed(Krum(f=1), size=3)),
        ("mixing:2+trimmed-mean:2", Mixed(TrimmedMean(f=2), f=2)),
        ("bucketing+mixing+median", Bucketed(Mixed(Median(), f=1), size=2)),
    ],
)
def test_filters_stand_before_an_aggregator(text: str, wanted: Aggregator) -> None:
    assert aggregator_of(text) == wanted


@pytest.mark.parametrize(
    ("text", "complaint"),
    [
        ("sieve+median", r"no filter is called 'sieve' \(known are bucketing, mixing\)"),
        ("bucketing+", "no aggregator is called ''"),
        ("median+krum", "no filter is called 'median'"),
        ("bucketing:x+median", "bucketing takes a whole number, got 'x'"),
        ("bucketing:0+median", "the number of bucketing must be .* at least 1, got 0"),
        ("bucketing+mean", "bucketing stands before a robust rule, got 'mean'"),
    ],
)
def test_a_filter_that_cannot_be_is_named(text: str, complaint: str) -> None:
    with pytest.raises(ConfigurationError, match=complaint):
        aggregator_of(text)


def test_passes_are_part_of_a_share() -> None:
    with pytest.raises(ConfigurationError, match=r"passes must be .* got 0"):
        choose("allocator", allocators(0), "open")
