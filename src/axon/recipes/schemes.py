"""The scheme a recipe asks for: a policy for each name, and what devices are asked beforehand."""

from __future__ import annotations

from axon.compression.codecs import codec
from axon.errors import ConfigurationError
from axon.named import choose
from axon.recipes.settings import Recipe
from axon.recipes.tables import SELECTORS, STEPS, aggregator_of, allocators
from axon.recipes.worlds import devices_of
from axon.rounds.settings import Scheme, Survey

BENCHMARK_SHARDS = 8
"""What a device benchmarks itself on where the allocator needs it: the thesis saw little gain from
more (section 3.4.2.1)."""

KNOWING = ("csa", "synchronous", "eta")
"""Allocators that have to know what each device can do."""


def scheme_of(recipe: Recipe) -> Scheme:
    """The policies that the recipe names."""
    codec(recipe.codec)  # An order carries its name; what it names has to exist.
    known = allocators(recipe.passes, recipe.total_shards)
    scheme = Scheme(
        select=choose("selector", SELECTORS, recipe.selector),
        allocate=choose("allocator", known, recipe.allocator),
        aggregate=aggregator_of(recipe.aggregator),
        step=choose("step", STEPS, recipe.step),
        codec=recipe.codec,
        survey=_survey(recipe),
    )
    scheme.needed(recipe.quorum)
    _check_enough(recipe, scheme.least)
    return scheme


def _check_enough(recipe: Recipe, least: int) -> None:
    """Raise where the rule would have too few updates if everybody answered."""
    if recipe.world == "deployed" or least == 1:
        return  # Which real devices are there is seen when a cycle begins.
    devices = len(devices_of(recipe))
    if devices < least:
        raise ConfigurationError(
            f"{recipe.aggregator} needs at least {least} updates, and there are {devices} devices",
            hint="take more devices, or tolerate fewer liars",
        )


def _survey(recipe: Recipe) -> Survey | None:
    """What devices are asked before their first cycle."""
    name = recipe.allocator.partition(":")[0]
    if name in KNOWING:
        _check_knowing(name, recipe)
        return Survey(shards=recipe.benchmark_shards or BENCHMARK_SHARDS, disclosed=True)
    if recipe.total_shards is not None:
        raise ConfigurationError(
            f"{name} deals out no total of {recipe.total_shards} shards",
            hint=f"{', '.join(KNOWING)} do, and equal:{recipe.total_shards}",
        )
    shards = recipe.benchmark_shards
    if shards is None:
        shards = BENCHMARK_SHARDS if name == "dab" else 0
    if shards and name == "equal":
        raise ConfigurationError(
            "equal tells devices how much to do, whatever they would find in a benchmark",
            hint="leave out benchmark_shards, or let devices decide with dab",
        )
    return Survey(shards=shards) if shards else None


def _check_knowing(name: str, recipe: Recipe) -> None:
    """Raise for what an allocator that goes by capabilities cannot do."""
    if recipe.benchmark_shards == 0:
        raise ConfigurationError(
            f"{name} goes by what devices find in a benchmark, which 0 benchmark_shards leave out",
            hint="give at least 1, or leave it to the devices with open",
        )
    if recipe.passes != 1:
        raise ConfigurationError(
            f"{name} decides how many passes each device makes, got passes {recipe.passes}",
            hint="leave it out, or choose dab",
        )
    if recipe.partition or recipe.own_data:
        # The paper's case of distributed data sets wants bounds on what each learner holds.
        raise ConfigurationError(
            f"{name} deals out data, and devices with data of their own keep to themselves "
            "how much they have",
            hint="leave out partition and own_data, or choose dab",
        )
