"""`axon train` and `axon run`: a run from options, or from a TOML file."""

from __future__ import annotations

import shlex
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from axon.cli.notices import tell_of_liars, tell_of_unread
from axon.cli.options import require_torch, takes
from axon.cli.recipes import Settings, Surroundings, taken_up

if TYPE_CHECKING:
    from axon.recipes.keeping import Keeping
    from axon.recipes.settings import Recipe


def _show_known(wanted: bool) -> None:
    if wanted:
        require_torch()
        typer.echo(known_names())
        raise typer.Exit


@dataclass(frozen=True, kw_only=True)
class Listing:
    """An option that ends the command."""

    known: Annotated[
        bool,
        typer.Option(
            "--list",
            callback=_show_known,
            is_eager=True,
            help="Show the tasks, data sets, devices and policies there are.",
        ),
    ] = False


@dataclass(frozen=True, kw_only=True)
class RecipeFile:
    """A recipe that is written down."""

    file: Annotated[
        Path, typer.Argument(metavar="FILE.toml", help="Settings by their names in run.toml.")
    ]


@takes(Settings, Surroundings, Listing)
def train(
    context: typer.Context, settings: Settings, surroundings: Surroundings, _listing: Listing
) -> None:
    """Train a model on simulated, emulated or real devices.

    Example: axon train --devices pi-1,jetson-nano --cycles 20 --out runs/first
    """
    require_torch()
    _run(context, settings.given(context), surroundings)


@takes(RecipeFile, Settings, Surroundings)
def run(
    context: typer.Context, recipe: RecipeFile, settings: Settings, surroundings: Surroundings
) -> None:
    """Train as a TOML file says; options override it.

    Example: axon run thesis.toml --seed 7 --out runs/seven
    """
    require_torch()
    from axon.recipes.settings import read_table

    _run(context, read_table(recipe.file) | settings.given(context), surroundings)


def _run(context: typer.Context, table: Mapping[str, Any], around: Surroundings) -> None:
    keeping = around.keeping()
    recipe = taken_up(table, keeping)
    tell_of_unread(context, recipe)
    tell_of_liars(recipe)
    perform(recipe, keeping, around)


def perform(recipe: Recipe, keeping: Keeping, around: Surroundings) -> None:
    """Do a recipe where it is kept, and show how it goes and what it came to."""
    # Late, because all of it together takes seconds to import.
    from axon.cli import progress
    from axon.cli.watching import heard_by, watched
    from axon.recipes.runner import run_recipe

    with watched(recipe, keeping, around) as watch:
        try:
            with progress.showing(recipe.cycles, as_json=around.as_json) as show:
                hosting, listen = around.hosting(recipe), heard_by(show, watch)
                outcome = run_recipe(recipe, keeping, hosting=hosting, listen=listen)
        except KeyboardInterrupt:
            if keeping.out is not None or keeping.store is not None:
                again = shlex.join(["axon", "train", "--resume", *_words(around, recipe.name)])
                typer.echo(f"axon: interrupted; go on with: {again}", err=True)
            raise
        if not around.as_json and outcome.records:
            places = " and ".join(str(place) for place in (around.out, around.store) if place)
            kept = f"kept in {places}" if places else "not kept"
            typer.echo(progress.summary(outcome.records))
            typer.echo(progress.result_line(outcome.records, recipe.world, kept))


def _words(around: Surroundings, name: str) -> list[str]:
    """The options that a run kept there needs to go on; the rest is kept with it."""
    valued = {"--out": around.out, "--store": around.store, "--key": around.key}
    valued |= {"--tls": around.tls, "--listen": around.listen}
    # A folder knows the name of its run.
    valued |= {"--name": None if around.out else name}
    words = [str(word) for pair in valued.items() if pair[1] is not None for word in pair]
    flags = {"--insecure": around.insecure, "--failover": around.failover}
    return [*words, *(flag for flag, is_on in flags.items() if is_on)]


def known_names() -> str:
    """The names that options may have, a line for each option."""
    from axon.compression.codecs import CODECS
    from axon.data.partitions import PARTITIONS
    from axon.learning.optimisers import OPTIMISERS
    from axon.learning.tasks import net_names
    from axon.recipes.settings import SHARD_SAMPLES
    from axon.recipes.tables import (
        AGGREGATORS,
        ATTACKS,
        CSA_METHODS,
        FILTERS,
        SELECTORS,
        STEPS,
        allocators,
    )
    from axon.report.tables import aligned
    from axon.testbed.catalogue import DEVICES, FLEETS

    known = {
        "tasks": net_names(),
        "data sets": SHARD_SAMPLES,
        "devices": DEVICES,
        "fleets": FLEETS,
        "allocators": allocators(1),
        "ways of csa": CSA_METHODS,
        "selectors": SELECTORS,
        "aggregators": AGGREGATORS,
        "filters before them": [f"{name}+" for name in FILTERS],
        "steps": STEPS,
        "codecs": CODECS,
        "partitions": [form.usage for form in PARTITIONS.values()],
        "optimisers": OPTIMISERS,
        "activities": ("idle", "heated:0.5"),
        "attacks": ATTACKS,
    }
    return aligned([(kind, ", ".join(names)) for kind, names in known.items()])
