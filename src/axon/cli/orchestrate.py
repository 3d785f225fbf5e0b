"""`axon orchestrate`: several tasks at once on one fleet, taken in over the network."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from axon.cli.options import (
    ActivityOption,
    DevicesOption,
    DiscoverOption,
    HostsOption,
    InsecureOption,
    KeyOption,
    SeedOption,
    TlsOption,
    WorldOption,
    given,
    require_torch,
    takes,
)
from axon.errors import ConfigurationError

# All that a manager needs is imported in the functions that need it, so that the help is quick.
if TYPE_CHECKING:
    from decimal import Decimal

    from axon.jobs.standing import Rules
    from axon.recipes.settings import Recipe

DEFAULT_PORT = 8100


@dataclass(frozen=True, kw_only=True)
class FleetOptions:
    """On which devices tasks are trained."""

    world: WorldOption = "simulated"
    devices: DevicesOption = "thesis"
    hosts: HostsOption = None
    discover: DiscoverOption = False
    activity: ActivityOption = "idle"
    seed: SeedOption = 0

    def recipe(self, context: typer.Context) -> Recipe:
        """The world as a run's recipe has it."""
        from axon.cli.recipes import recipe_from_table

        table: dict[str, Any] = {
            name: getattr(self, name)
            for name in ("world", "devices", "activity", "seed", "discover")
            if given(context, name)
        }
        words = ",".join(self.hosts or ()).split(",")
        return recipe_from_table(
            table | {"hosts": [word.strip() for word in words if word.strip()]}
        )


@dataclass(frozen=True, kw_only=True)
class ManagerOptions:
    """What tasks are planned by, and where they are kept."""

    budget: Annotated[
        float, typer.Option(metavar="X", help="What a cycle of all tasks together may cost.")
    ]
    store: Annotated[Path, typer.Option(metavar="FILE", help="Keep the tasks there, and go on.")]
    price: Annotated[
        list[str] | None,
        typer.Option(metavar="[DEVICE=]X", help="What a shard costs; 1 if left out. Repeatable."),
    ] = None
    replan_every: Annotated[
        int | None,
        typer.Option(
            min=1, metavar="N", help="Also plan anew after so many cycles, with what was learnt."
        ),
    ] = None
    benchmark_shards: Annotated[
        int, typer.Option(min=1, metavar="N", help="Shards that devices benchmark themselves on.")
    ] = 8

    def rules(self) -> Rules:
        """The same as a value."""
        from axon.jobs.ledger import money
        from axon.jobs.standing import Rules

        prices = prices_of(self.price or ())
        return Rules(
            budget=money(self.budget),
            price=prices.pop("", money(1)),
            prices=prices,
            replan_every=self.replan_every,
            benchmark_shards=self.benchmark_shards,
        )


@dataclass(frozen=True, kw_only=True)
class ServiceOptions:
    """Where tasks are taken in."""

    listen: Annotated[str, typer.Option(metavar="HOST", help="Where requesters reach it.")] = (
        "127.0.0.1"
    )
    port: Annotated[int, typer.Option(metavar="N", help="And at which port; 0 for any.")] = (
        DEFAULT_PORT
    )
    key: KeyOption = None
    tls: TlsOption = None
    insecure: InsecureOption = False

    def serve_options(self) -> dict[str, Any]:
        """For a worker."""
        return {
            "host": self.listen,
            "port": self.port,
            "key": self.key,
            "tls": self.tls,
            "insecure": self.insecure,
            "announce": False,
        }


@takes(ManagerOptions, FleetOptions, ServiceOptions)
def orchestrate(
    context: typer.Context, manager: ManagerOptions, fleet: FleetOptions, service: ServiceOptions
) -> None:
    """Train tasks as they are submitted, several at once.

    Example: axon orchestrate --devices thesis --budget 300 --store jobs.sqlite
    """
    require_torch()
    # Late, because all of it together takes seconds to import.
    from axon.cli.opening import Opening
    from axon.cli.recipes import Surroundings
    from axon.recipes.worlds import devices_of, world_of
    from axon.testbed.simulation import Simulated

    rules, recipe = manager.rules(), fleet.recipe(context)
    around = Surroundings(key=service.key, tls=service.tls, insecure=service.insecure)
    world = world_of(recipe, around.hosting(recipe))
    if recipe.world != "deployed":  # Who is there is known only of the other worlds.
        rules.check_priced(devices_of(recipe))
    opening = Opening(manager.store, rules, service.serve_options())
    if isinstance(world, Simulated):
        world.run(opening.in_virtual_time)
    else:
        world.run(opening.for_real)


def prices_of(texts: Sequence[str]) -> dict[str, Decimal]:
    """Prices by device, and under the empty name that of all others."""
    from axon.jobs.ledger import money

    prices: dict[str, Decimal] = {}
    for text in texts:
        name, _, number = text.rpartition("=")
        try:
            amount = float(number)
        except ValueError as error:
            raise ConfigurationError(
                f"--price takes a number, or DEVICE=number, got {text!r}"
            ) from error
        if name in prices:
            raise ConfigurationError(f"--price is given twice for {name or 'all devices'}")
        prices[name] = money(amount)
    return prices
