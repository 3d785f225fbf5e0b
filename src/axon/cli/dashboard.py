"""`axon dashboard`: runs as a page, while they go on and afterwards."""

from __future__ import annotations

import threading
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from axon.cli.options import InsecureOption, KeyOption, TlsOption, takes
from axon.errors import AxonError, ConfigurationError

# What serves a page is imported in the functions that need it, so that the help is quick.
if TYPE_CHECKING:
    from axon.dashboard.feed import Feed
    from axon.dashboard.serving import Place
    from axon.dashboard.sources import Source

ANY_PORT = -1
"""The usual one if it is free, else any."""


@dataclass(frozen=True, kw_only=True)
class ShownOptions:
    """What is shown."""

    places: Annotated[
        list[Path] | None,
        typer.Argument(metavar="[RECORDS...]", help="Record files, or folders with some in them."),
    ] = None
    store: Annotated[
        str | None,
        typer.Option(metavar="URL", help="Runs of a store: a file, or postgresql://user@host/db."),
    ] = None
    run: Annotated[str | None, typer.Option(metavar="NAME", help="Only this run of the store.")] = (
        None
    )
    to: Annotated[
        str | None,
        typer.Option(
            "--to", metavar="HOST:PORT", help="Also the tasks of `axon orchestrate` there."
        ),
    ] = None


@dataclass(frozen=True, kw_only=True)
class PageOptions:
    """Where the page is served."""

    listen: Annotated[str, typer.Option(metavar="HOST", help="Who may look: this machine.")] = (
        "127.0.0.1"
    )
    port: Annotated[
        int | None,
        typer.Option(min=0, max=65535, metavar="N", help="8200 if it is free, else any."),
    ] = None
    key: KeyOption = None
    tls: TlsOption = None
    insecure: InsecureOption = False

    def place(self) -> Place:
        """The same as a value."""
        from axon.dashboard.serving import Place

        return Place(host=self.listen, port=self.port, insecure=self.insecure)


@takes(ShownOptions, PageOptions)
def dashboard(_context: typer.Context, shown: ShownOptions, page: PageOptions) -> None:
    """Show runs as a web page, live while they go on.

    Example: axon dashboard runs/first runs/second
    """
    if not shown.places and shown.store is None and shown.to is None:
        raise ConfigurationError(
            "there is nothing to show", hint="name a folder of `axon train --out`, --store or --to"
        )
    # Late, because all of it together takes a while to import.
    from axon.dashboard.feed import Feed
    from axon.dashboard.serving import serving
    from axon.dashboard.sources import following

    feed = Feed()
    sources = sources_of(feed, shown, page)
    cancel = canceller(shown.to, page) if shown.to is not None and page.key is not None else None
    with (
        serving(feed, page.place(), cancel) as address,
        following(feed, sources, tell=lambda problem: typer.echo(f"axon: {problem}", err=True)),
    ):
        typer.echo(f"dashboard at {address}; end it with Ctrl-C")
        wait()


def sources_of(feed: Feed, shown: ShownOptions, page: PageOptions) -> list[Source]:
    """All that is to be followed; what cannot be shown at all is told at once."""
    from axon.dashboard.board import board_in
    from axon.dashboard.sources import Polled, RecordsFile, check_records, labels, record_files
    from axon.dashboard.stores import RunsInStore, store_path

    files = record_files(shown.places or [])
    for file in filter(Path.is_file, files):
        check_records(file)
    sources: list[Source] = [
        RecordsFile(feed, file, label) for file, label in zip(files, labels(files), strict=True)
    ]
    if shown.store is not None:
        store = RunsInStore(feed, shown.store, shown.run)
        store.poll()
        sources.append(store)
        path = store_path(shown.store)
        if shown.to is None and path is not None:

            def look() -> None:
                board = board_in(path)
                if board is not None:
                    feed.show(board)

            sources.append(Polled(look))
    if shown.to is not None:
        sources.append(Polled(_asking(feed, shown.to, page)))
    return sources


def _asking(feed: Feed, to: str, page: PageOptions) -> Callable[[], None]:
    """Asks an orchestrator for its tasks."""
    from axon.cli.jobs import WayOptions, ask
    from axon.dashboard.board import board_from

    way = WayOptions(to=to, key=page.key, tls=page.tls)
    may_cancel = page.key is not None and page.place().is_near

    def poll() -> None:
        feed.show(board_from(ask(way, "list"), to, may_cancel=may_cancel))

    return poll


def canceller(to: str, page: PageOptions) -> Callable[[str], str]:
    """Ends tasks of an orchestrator by their names."""
    from axon.cli.jobs import WayOptions, ask

    way = WayOptions(to=to, key=page.key, tls=page.tls)

    def cancel(name: str) -> str:
        answer = ask(way, "cancel", name)
        if answer["verdict"] == "refused":
            raise AxonError(str(answer["reason"]))
        return str(answer["verdict"])

    return cancel


def wait() -> None:
    """Until the process is told to stop."""
    with suppress(KeyboardInterrupt):
        threading.Event().wait()
