"""What a person is told of a run before it begins: a line on standard error each, and no more."""

from __future__ import annotations

from typing import TYPE_CHECKING

import typer

from axon.cli.options import given

# All that a run needs is imported in the functions that need it, so that `axon --help` is quick.
if TYPE_CHECKING:
    from axon.recipes.keeping import Keeping
    from axon.recipes.settings import Recipe

_OF_REAL_DEVICES = ("hosts", "discover", "listen", "key", "tls", "insecure")
UNREAD = {
    "simulated": (*_OF_REAL_DEVICES, "cpu", "links"),
    "emulated": _OF_REAL_DEVICES,
    # What `axon worker` is told on the devices is refused there, not left unread: who names a
    # partition would train on other data than they think.
    "deployed": ("devices", "activity", "cpu", "links"),
}
"""Options that mean nothing in a world."""


def tell_of_unread(context: typer.Context, recipe: Recipe) -> None:
    """Name the options that were given by hand and that the run's world does not read."""
    names = [name for name in UNREAD[recipe.world] if given(context, name)]
    # Only real devices have data that nobody dealt out to them.
    idle = recipe.world != "deployed" and not recipe.partition
    if idle and given(context, "own_data"):
        names.append("own_data")
    if names:
        options = ", ".join(f"--{name.replace('_', '-')}" for name in names)
        typer.echo(f"axon: the {recipe.world} world does not read {options}", err=True)


def tell_of_liars(recipe: Recipe) -> None:
    """Name the devices that lie, so that nobody takes what comes of it for an honest result."""
    if recipe.liars and recipe.world != "deployed":
        from axon.recipes.worlds import liars_of

        names = ", ".join(liars_of(recipe))
        typer.echo(f"axon: these devices lie ({recipe.attack}): {names}", err=True)


def tell_of_beginning(name: str, keeping: Keeping) -> None:
    """Say that there is nothing to go on from: a mistyped folder would go unnoticed."""
    places = " and ".join(str(place) for place in (keeping.out, keeping.store) if place)
    if places:
        typer.echo(
            f"axon: nothing is kept in {places} under the name {name!r}; beginning anew", err=True
        )
