"""`axon standby`: an orchestrator that takes a run over when the one that leads it dies."""

from __future__ import annotations

import time
from contextlib import closing
from dataclasses import dataclass
from typing import TYPE_CHECKING, Annotated

import typer

from axon.cli.options import (
    InsecureOption,
    KeyOption,
    ListenOption,
    OutOption,
    RecordsOption,
    TlsOption,
    require_torch,
    takes,
)
from axon.cli.recipes import Settings, Surroundings
from axon.cli.train import perform

# All that a run needs is imported in the functions that need it, so that the help is quick.
if TYPE_CHECKING:
    from axon.recipes.settings import Recipe

LOOK_S = 0.2
"""How often it is looked whether the run has begun."""


@dataclass(frozen=True, kw_only=True)
class StandbyOptions:
    """Which run is stood by, and how its devices are reached; the rest is kept with the run."""

    store: Annotated[
        str,
        typer.Argument(
            metavar="URL", help="Where the run is kept: a file, or postgresql://user@host/db."
        ),
    ]
    name: Annotated[
        str | None, typer.Argument(metavar="RUN", help="Its name; of one run alone, not needed.")
    ] = None
    out: OutOption = None
    as_json: RecordsOption = False
    key: KeyOption = None
    tls: TlsOption = None
    listen: ListenOption = None
    insecure: InsecureOption = False

    @property
    def surroundings(self) -> Surroundings:
        """The same for a run that is taken up."""
        return Surroundings(
            out=self.out,
            store=self.store,
            resume=True,
            failover=True,
            as_json=self.as_json,
            key=self.key,
            tls=self.tls,
            listen=self.listen,
            insecure=self.insecure,
        )


@takes(StandbyOptions)
def standby(_context: typer.Context, options: StandbyOptions) -> None:
    """Stand by a run that was begun with `axon train --failover`, and end with it.

    Example: axon standby postgresql://axon@db/runs digits --key my-keys/axon.key
    """
    require_torch()
    # Late, because all of it together takes seconds to import.
    from axon.recipes.runner import Keeping
    from axon.rounds.standby import Candidacy

    around = options.surroundings
    recipe = _awaited(options)
    keeping = Keeping(out=around.out, store=around.store, resume=True, candidacy=Candidacy())
    perform(recipe, keeping, around)


def _awaited(options: StandbyOptions) -> Recipe:
    """The recipe of the run, once it has begun."""
    from axon.recipes.runner import begun_as, kept_name
    from axon.rounds.checkpoint import open_store

    told = False
    with closing(open_store(options.store)) as store:
        while True:
            name = options.name or kept_name(store) or Settings().name
            recipe = begun_as(store, name)
            if recipe is not None:
                return recipe
            if not told:
                typer.echo(f"axon: waiting for run {name} to begin", err=True)
            told = True
            time.sleep(LOOK_S)
