"""The scheme that a recipe asks for, and the combinations that cannot be meant."""

from __future__ import annotations

from typing import Any

import pytest

from axon.allocation.csa import StalenessAware
from axon.allocation.equal import Equal, Open
from axon.errors import ConfigurationError
from axon.policies import Allocator
from axon.recipes.schemes import scheme_of
from axon.recipes.settings import Recipe
from axon.recipes.tables import aggregator_of
from axon.rounds.settings import Survey
from axon.rounds.steps import Momentum
from axon.selection.random import Some


def test_a_scheme_is_what_the_recipe_names() -> None:
    scheme = scheme_of(Recipe(selector="some:0.5", codec="half", step="momentum:0.5"))
    assert scheme.codec == "half"
    assert scheme.select == Some(fraction=0.5)
    assert scheme.step == Momentum(momentum=0.5)


@pytest.mark.parametrize(
    ("settings", "allocate", "survey"),
    [
        ({}, Open(), None),
        ({"benchmark_shards": 3, "passes": 5}, Open(passes=5), Survey(shards=3)),
        ({"allocator": "dab", "passes": 5}, Open(passes=5), Survey(shards=8)),
        ({"allocator": "dab", "benchmark_shards": 4}, Open(), Survey(shards=4)),
        ({"allocator": "dab", "benchmark_shards": 0}, Open(), None),
        ({"allocator": "dab", "partition": "iid"}, Open(), Survey(shards=8)),
        ({"allocator": "equal:9"}, Equal(shards=9), None),
        ({"allocator": "equal", "benchmark_shards": 0}, Equal(), None),
        ({"allocator": "csa"}, StalenessAware(), Survey(shards=8, disclosed=True)),
        (
            {"allocator": "csa:sai", "total_shards": 20, "benchmark_shards": 2},
            StalenessAware(total=20, method="sai"),
            Survey(shards=2, disclosed=True),
        ),
        ({"allocator": "eta"}, StalenessAware(method="eta"), Survey(shards=8, disclosed=True)),
    ],
    ids=lambda value: str(value) if isinstance(value, dict) else "",
)
def test_devices_are_asked_what_the_allocator_goes_by(
    settings: dict[str, Any], allocate: Allocator, survey: Survey | None
) -> None:
    scheme = scheme_of(Recipe(**settings))
    assert scheme.allocate == allocate
    assert scheme.survey == survey


@pytest.mark.parametrize("name", ["csa", "csa:relaxed", "synchronous", "eta"])
@pytest.mark.parametrize(
    ("settings", "complaint"),
    [
        ({"benchmark_shards": 0}, "goes by what devices find in a benchmark"),
        ({"passes": 5}, "decides how many passes each device makes, got passes 5"),
        ({"partition": "iid"}, "devices with data of their own keep to themselves"),
        ({"own_data": True}, "devices with data of their own keep to themselves"),
    ],
)
def test_what_an_allocator_that_knows_cannot_do_is_one_sentence(
    name: str, settings: dict[str, Any], complaint: str
) -> None:
    with pytest.raises(ConfigurationError, match=f"^{name.partition(':')[0]} .*{complaint}"):
        scheme_of(Recipe(allocator=name, **settings))


@pytest.mark.parametrize(
    ("settings", "complaint"),
    [
        ({"aggregator": "krum:1"}, "krum:1 needs at least 5 updates, and there are 4 devices"),
        ({"aggregator": "krum:1", "devices": "pi-1*5", "quorum": 4}, "at least 5 .*quorum of 4"),
        ({"aggregator": "krum:1", "world": "deployed", "quorum": 4}, "at least 5 .*quorum of 4"),
    ],
)
def test_a_rule_has_as_many_updates_as_it_needs(settings: dict[str, Any], complaint: str) -> None:
    with pytest.raises(ConfigurationError, match=complaint):
        scheme_of(Recipe(**settings))


@pytest.mark.parametrize(
    "settings",
    [
        {"aggregator": "krum:1", "devices": "pi-1*5", "quorum": 5},
        {"aggregator": "krum:9", "world": "deployed"},
        {"aggregator": "median", "devices": "pi-1"},
    ],
)
def test_a_rule_that_may_have_enough_is_taken(settings: dict[str, Any]) -> None:
    scheme = scheme_of(Recipe(**settings))
    assert scheme.aggregate == aggregator_of(settings["aggregator"])


@pytest.mark.parametrize(
    ("settings", "complaint"),
    [
        ({"allocator": "dab", "total_shards": 60}, r"dab deals out no total of 60 .*equal:60"),
        ({"total_shards": 60}, "open deals out no total"),
        ({"allocator": "equal", "benchmark_shards": 8}, r"equal tells devices .*benchmark_shards"),
        ({"allocator": "nobody", "total_shards": 60}, "no allocator is called 'nobody'"),
    ],
)
def test_settings_that_nobody_would_read_are_refused(
    settings: dict[str, Any], complaint: str
) -> None:
    with pytest.raises(ConfigurationError, match=complaint):
        scheme_of(Recipe(**settings))
