"""`axon train --dashboard`: a page of a run in this process."""

from __future__ import annotations

import sys
import tomllib
from collections.abc import Callable, Iterator, Sequence
from contextlib import closing, contextmanager
from typing import TYPE_CHECKING

import typer

from axon.cli.dashboard import ANY_PORT, wait

# What serves a page is imported only where one is asked for.
if TYPE_CHECKING:
    from axon.cli.recipes import Surroundings
    from axon.recipes.keeping import Keeping
    from axon.recipes.settings import Recipe
    from axon.rounds.events import Event
    from axon.values import RoundRecord


@contextmanager
def watched(
    recipe: Recipe, keeping: Keeping, around: Surroundings
) -> Iterator[Callable[[Event], None] | None]:
    """What a page hears of a run while the block lasts; None where none is asked for.

    For a person at a terminal the page stays afterwards until they end it.
    """
    if around.dashboard is None:
        yield None
        return
    from axon.dashboard.feed import Feed
    from axon.dashboard.serving import Place, serving
    from axon.dashboard.sources import about
    from axon.recipes.settings import to_toml
    from axon.recipes.versions import made_with

    feed, settings = Feed(), tomllib.loads(to_toml(recipe, made_with()))
    track = feed.open(about(settings, name=recipe.name, label=recipe.name, place="this process"))
    track.add(*earlier(keeping, recipe.name))
    port = None if around.dashboard == ANY_PORT else around.dashboard
    with serving(feed, Place(port=port)) as address:
        tell(f"dashboard at {address}")
        try:
            yield track.hear
        except BaseException as error:
            track.stand("failed", str(error) or type(error).__name__)
            raise
        track.stand("finished")
        if sys.stdout.isatty() and not around.as_json:
            tell(f"the dashboard stays at {address}; end it with Ctrl-C")
            wait()


def tell(text: str) -> None:
    """Apart from what is printed of the run."""
    typer.echo(text, err=True)


def earlier(keeping: Keeping, name: str) -> Sequence[RoundRecord]:
    """The records of a run that is taken up again."""
    from axon.dashboard.sources import RECORDS
    from axon.report.records import read
    from axon.rounds.checkpoint import open_store

    if not keeping.resume:
        return []
    if keeping.out is not None and (keeping.out / RECORDS).is_file():
        return read(keeping.out / RECORDS)
    if keeping.store is None:
        return []
    with closing(open_store(keeping.store)) as store:
        return store.records(name)


def heard_by(*listeners: Callable[[Event], None] | None) -> Callable[[Event], None]:
    """One who tells all of them."""
    wanted = [listen for listen in listeners if listen is not None]

    def hear(event: Event) -> None:
        for listen in wanted:
            listen(event)

    return hear
