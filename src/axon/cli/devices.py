"""`axon devices`: the workers that answer, as a table, as lines or as JSON."""

from __future__ import annotations

import json
import sys
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Annotated

import typer

from axon.cli.options import KeyOption, TlsOption
from axon.report.tables import aligned

# Rich, and the client with all that it brings, are imported in the functions that need them, so
# that `axon --help` is quick.
if TYPE_CHECKING:
    from rich.table import Table

    from axon.rpc.discovery.mdns import Announcement

HEADINGS = ("NAME", "ADDRESS", "VERSION", "LEARNS", "FUNCTIONS")
TRAIN = "learner/train"
"""The function by which a worker can be trained on."""
NOBODY = "axon: no worker answered; start one, or name its host with --host or AXON_HOSTS"


def devices(
    wait: Annotated[
        float, typer.Option("--wait", min=0.0, metavar="S", help="Seconds to listen for answers.")
    ] = 1.0,
    host: Annotated[
        list[str] | None,
        typer.Option(
            metavar="H", help="A host to ask by name, beside those in AXON_HOSTS. Repeatable."
        ),
    ] = None,
    key: KeyOption = None,
    tls: TlsOption = None,
    as_json: Annotated[bool, typer.Option("--json", help="Print JSON.")] = False,
    watch: Annotated[bool, typer.Option("--watch", help="Keep watching until Ctrl-C.")] = False,
) -> None:
    """List the workers that answer.

    Example: axon devices --wait 2 --host pi.local
    """

    def look() -> tuple[Announcement, ...]:
        from axon import client

        access = client.access(key=key, tls=tls, reconnect_s=0.0)
        return client.discover(wait_s=wait, static=tuple(host or ()), access=access)

    if watch:
        _watch(look, as_json=as_json)
    else:
        _show(look(), as_json=as_json)


def render_devices(announcements: Sequence[Announcement]) -> str:
    """Aligned lines with a heading, for a pipe or a file."""
    return aligned([HEADINGS, *map(_cells, announcements)])


def render_json(announcements: Sequence[Announcement]) -> str:
    """One JSON array on one line, so that each look of `--watch` is a line."""
    return json.dumps(
        [
            {
                "name": found.name,
                "address": str(found.address),
                "version": found.version,
                "learns": TRAIN in found.functions,
                "functions": list(found.functions),
            }
            for found in announcements
        ]
    )


def table_of(announcements: Sequence[Announcement]) -> Table:
    """The same as a rich table, for a terminal."""
    from rich.table import Table
    from rich.text import Text

    table = Table()
    for heading in HEADINGS:
        table.add_column(heading.capitalize(), overflow="fold")
    for found in announcements:
        # As Text, because a plain string could bring markup of its own.
        table.add_row(*map(Text, _cells(found)))
    return table


def _cells(found: Announcement) -> tuple[str, ...]:
    learns = "yes" if TRAIN in found.functions else "no"
    return found.name, str(found.address), found.version, learns, ", ".join(found.functions)


def _show(announcements: Sequence[Announcement], *, as_json: bool) -> None:
    if as_json:
        typer.echo(render_json(announcements))
    elif not announcements:
        typer.echo(NOBODY, err=True)
    elif sys.stdout.isatty():
        from rich.console import Console

        Console().print(table_of(announcements))
    else:
        typer.echo(render_devices(announcements))


def _watch(look: Callable[[], tuple[Announcement, ...]], *, as_json: bool) -> None:
    """Look again and again; a terminal keeps one table, anything else gets a print per change."""
    if sys.stdout.isatty() and not as_json:
        from rich.live import Live

        with Live(table_of(look()), auto_refresh=False) as live:
            while True:
                live.update(table_of(look()), refresh=True)
    shown: tuple[Announcement, ...] | None = None
    while True:
        found = look()
        if found != shown:
            _show(found, as_json=as_json)
            sys.stdout.flush()
            shown = found
