"""`axon report`: runs in one file, to keep and to send."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from axon.errors import ConfigurationError


def report(
    places: Annotated[
        list[Path], typer.Argument(metavar="RUN...", help="Record files, or folders with some.")
    ],
    out: Annotated[
        Path, typer.Option("--out", "-o", metavar="FILE", help="Where the page goes.")
    ] = Path("report.html"),
    png: Annotated[
        Path | None, typer.Option(metavar="DIR", help="Also the figures as pictures there.")
    ] = None,
    csv: Annotated[
        Path | None, typer.Option(metavar="DIR", help="Also the numbers as CSV there.")
    ] = None,
) -> None:
    """Write runs and their comparison into one page that needs nothing else.

    Example: axon report runs/first runs/second -o report.html
    """
    # Late, because all of it together takes a while to import.
    from axon.dashboard.feed import Feed
    from axon.dashboard.page import page
    from axon.dashboard.sheets import write_csv, write_png
    from axon.dashboard.sources import RecordsFile, labels, record_files
    from axon.report.records import write_whole

    if out.is_dir():
        raise ConfigurationError(
            f"{str(out)!r} is a folder", hint=f"name a file in it: -o {out / 'report.html'}"
        )
    feed, files = Feed(), record_files(places)
    for file, label in zip(files, labels(files), strict=True):
        RecordsFile(feed, file, label).read()
    try:
        write_whole(out, page(feed))
        written = [str(out)]
        written += [str(path) for path in write_png(feed, png)] if png is not None else []
        written += [str(path) for path in write_csv(feed, csv)] if csv is not None else []
    except OSError as error:
        raise ConfigurationError(
            f"cannot write {error.filename or out}: {error.strerror or error}",
            hint="choose a place that may be written to and has room",
        ) from error
    cycles = sum(len(course.curves) for course in feed.courses)
    told = f"{_counted(len(files), 'run')} of {_counted(cycles, 'cycle')}"
    typer.echo(f"{told}, written to {', '.join(written)}")


def _counted(number: int, noun: str) -> str:
    return f"{number} {noun}" if number == 1 else f"{number} {noun}s"
