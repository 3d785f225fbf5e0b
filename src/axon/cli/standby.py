"""`axon standby`: an orchestrator that takes a run over when the one that leads it dies."""

from __future__ import annotations

import time
from contextlib import closing
from dataclasses import dataclass
from pathlib import Path
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
from axon.errors import ConfigurationError

# All that a run needs is imported in the functions that need it, so that the help is quick.
if TYPE_CHECKING:
    from axon.recipes.settings import Recipe
    from axon.rounds.checkpoint import Store

LOOK_S = 0.2
"""How often it is looked whether the run has begun."""
MOST_NAMED = 8
"""Runs of a store, in one line."""


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
    from axon.recipes.keeping import Keeping
    from axon.rounds.standby import Candidacy

    around = options.surroundings
    recipe = _awaited(options)
    keeping = Keeping(out=around.out, store=around.store, resume=True, candidacy=Candidacy())
    perform(recipe, keeping, around)


def _awaited(options: StandbyOptions) -> Recipe:
    """The recipe of the run, once it has begun."""
    from axon.recipes.keeping import begun_as
    from axon.recipes.settings import check_name
    from axon.rounds.checkpoint import open_store

    told = False
    _check_there(options.store)
    if options.name is not None:
        check_name("name", options.name)
    with closing(open_store(options.store)) as store:
        while True:
            name = _chosen(store, options.name)
            recipe = begun_as(store, name)
            if recipe is not None:
                return recipe
            if not told:
                typer.echo(f"axon: waiting for run {name} to begin", err=True)
            told = True
            time.sleep(LOOK_S)


def _check_there(where: str) -> None:
    """Raise for a file that is not there: opening the store would make it, and wait for ever."""
    from axon.rounds.checkpoint import sqlite_path

    scheme, separator, rest = where.partition("://")
    if separator and scheme != "sqlite":
        if not where.isprintable():
            raise ConfigurationError(f"{where!r} cannot be the address of a store")
        return
    path = sqlite_path(where, rest) if separator else Path(where)
    if not path.exists():
        raise ConfigurationError(
            f"there is no store at {str(path)!r}",
            hint="`axon train --failover --store` makes it when the run begins",
        )


def _chosen(store: Store, wanted: str | None) -> str:
    """The run that is meant, though it may not have begun where the store has none at all."""
    names = store.runs()
    told = ", ".join(names[:MOST_NAMED])
    if len(names) > MOST_NAMED:
        told += f" and {len(names) - MOST_NAMED} more"
    if wanted is not None and names and wanted not in names:
        raise ConfigurationError(f"{store.name} keeps no run {wanted!r}", hint=f"it keeps {told}")
    if wanted is None and len(names) > 1:
        raise ConfigurationError(f"{store.name} keeps {len(names)} runs", hint=f"say which: {told}")
    return wanted or next(iter(names), Settings().name)
