"""The `axon` command: its parts put together, and errors turned into one line and an exit code.

Exit codes: 0 done; 1 failed otherwise; 2 used wrongly; 3 no connection, or a lost one; 4 out of
time; 5 not allowed; 6 too few learners answered; 7 the run is kept already, or advanced by somebody
else; 130 interrupted.
"""

from __future__ import annotations

import sys
import traceback
from collections.abc import Sequence
from itertools import pairwise
from typing import Annotated

import typer

from axon.cli.bench import bench
from axon.cli.call import call
from axon.cli.dashboard import ANY_PORT, dashboard
from axon.cli.devices import devices
from axon.cli.jobs import cancel, submit, tasks
from axon.cli.keys import keys_app
from axon.cli.orchestrate import orchestrate
from axon.cli.report import report
from axon.cli.reproduce import reproduce
from axon.cli.standby import standby
from axon.cli.train import run, train
from axon.cli.worker import worker
from axon.errors import (
    AxonError,
    CheckpointConflict,
    ConfigurationError,
    ConnectFailed,
    ConnectionLost,
    DeadlineExceeded,
    QuorumNotReached,
    RunExists,
    Superseded,
    Unauthorised,
)
from axon.version import __version__

EXIT_CODES: tuple[tuple[type[AxonError], int], ...] = (
    (ConfigurationError, 2),
    (ConnectFailed, 3),
    (ConnectionLost, 3),
    (DeadlineExceeded, 4),
    (Unauthorised, 5),
    (QuorumNotReached, 6),
    (RunExists, 7),
    (CheckpointConflict, 7),
    (Superseded, 8),
)
INTERRUPTED = 130

app = typer.Typer(
    name="axon",
    help="Train across your devices, find the workers among them, and call their functions.",
    no_args_is_help=True,
    add_completion=False,
    # Every error is reported by `main`.
    pretty_exceptions_enable=False,
    # Plain help comes up in half the time: rich is not imported for it.
    rich_markup_mode=None,
)
app.command("train")(train)
app.command("run")(run)
app.command("standby")(standby)
app.command("worker")(worker)
app.command("bench")(bench)
app.command("reproduce")(reproduce)
app.command("dashboard")(dashboard)
app.command("report")(report)
app.command("orchestrate")(orchestrate)
app.command("submit")(submit)
app.command("tasks")(tasks)
app.command("cancel")(cancel)
app.add_typer(keys_app, name="keys")
app.command("devices")(devices)
app.command("call", context_settings={"ignore_unknown_options": True})(call)


def _show_version(wanted: bool) -> None:
    if wanted:
        typer.echo(f"axon {__version__}")
        raise typer.Exit


@app.callback()
def options(
    version: Annotated[
        bool,
        typer.Option("--version", callback=_show_version, is_eager=True, help="Show the version."),
    ] = False,
    # Taken out by `main` wherever it stands; here so that the help shows it.
    debug: Annotated[
        bool, typer.Option("--debug", help="Show the whole trace of an error; may stand anywhere.")
    ] = False,
) -> None:
    """Train across your devices, find the workers among them, and call their functions."""


def main() -> None:
    """Run the command line and leave the process with its exit code."""
    arguments, debug = take_debug(sys.argv[1:])
    try:
        app(fill_dashboard(arguments), prog_name="axon")
    except KeyboardInterrupt:
        sys.exit(INTERRUPTED)
    except Exception as error:
        # A bug of ours is one line too: a trace tells a person who trains nothing.
        typer.echo(explain(error, debug=debug), err=True)
        sys.exit(exit_code(error))


def take_debug(arguments: Sequence[str]) -> tuple[list[str], bool]:
    """The arguments without `--debug`, and whether it was there; after `--` it means itself."""
    end = arguments.index("--") if "--" in arguments else len(arguments)
    kept = [argument for argument in arguments[:end] if argument != "--debug"]
    return [*kept, *arguments[end:]], len(kept) < end


def fill_dashboard(arguments: Sequence[str]) -> list[str]:
    """The arguments with a port for a `--dashboard` that has none, which an option must have.

    `ConfigurationError` for a port that is none, or that stands apart and would be read otherwise.
    """
    end = arguments.index("--") if "--" in arguments else len(arguments)
    if f"--dashboard={ANY_PORT}" in arguments[:end]:
        raise ConfigurationError(
            f"--dashboard takes a port from 0 to 65535, got {ANY_PORT}",
            hint="--dashboard alone takes 8200, or any where that is in use",
        )
    for word, behind in pairwise(arguments[:end]):
        if word == "--dashboard" and behind.isdecimal():
            raise ConfigurationError(
                f"the port of --dashboard stands apart, got --dashboard {behind}",
                hint=f"say --dashboard={behind}",
            )
    filled = [f"{word}={ANY_PORT}" if word == "--dashboard" else word for word in arguments[:end]]
    return [*filled, *arguments[end:]]


def exit_code(error: Exception) -> int:
    """The code for a script to tell errors apart by."""
    return next((code for kind, code in EXIT_CODES if isinstance(error, kind)), 1)


def explain(error: Exception, *, debug: bool) -> str:
    """One line for a person, or the whole trace; without anything that a terminal obeys.

    What a worker says in its errors is as little to be trusted as its name.
    """
    # Late, because only an error needs it.
    from axon.printable import printable

    if not debug:
        kind, message = type(error).__name__, printable(str(error), limit=2000)
        if isinstance(error, (AxonError, OSError)):
            return f"axon: {message or kind}"
        said = f"{kind}: {message}" if message else kind
        return f"axon: internal error: {said}; --debug shows the trace"
    lines = "".join(traceback.format_exception(error)).splitlines()
    return "\n".join(
        "".join(character for character in line if character.isprintable()) for line in lines
    )
