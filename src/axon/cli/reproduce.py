"""`axon reproduce`: published results, measured again on this machine."""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from axon.cli.options import given, require_torch, takes
from axon.errors import ConfigurationError
from axon.experiments import registry
from axon.experiments.registry import Experiment
from axon.experiments.settings import Progress, Settings
from axon.report.tables import aligned

# With them come numbers and figures, which `axon --help` does without.
if TYPE_CHECKING:
    from axon.experiments.page import Section
    from axon.experiments.result import Claim, Result

STANDARD_OUTPUT = "-"
PAGE = "index.html"


def _show_known(wanted: bool) -> None:
    if wanted:
        typer.echo(aligned([(each.name, each.summary) for each in registry.EXPERIMENTS.values()]))
        raise typer.Exit


@dataclass(frozen=True, kw_only=True)
class Options:
    """What `axon reproduce` is told."""

    name: Annotated[
        str | None, typer.Argument(metavar="NAME", help="Which one; --list shows them.")
    ] = None
    everything: Annotated[
        bool, typer.Option("--all", help="All of them, and one page: FOLDER/index.html.")
    ] = False
    quick: Annotated[
        bool, typer.Option("--quick", help="Seconds: fewer repeats, smaller data.")
    ] = False
    seed: Annotated[int, typer.Option(metavar="N", help="Where chance begins.")] = 0
    repeats: Annotated[
        int | None,
        typer.Option(metavar="N", help="How often to measure; the experiment's own if left out."),
    ] = None
    dataset: Annotated[
        str | None,
        typer.Option(
            metavar="NAME", help="What to train on; mnist, or digits where it is not to be had."
        ),
    ] = None
    json_file: Annotated[
        str | None,
        typer.Option("--json", metavar="FILE", help="Write the result there too; - prints it."),
    ] = None
    out: Annotated[Path, typer.Option(metavar="FOLDER", help="Where results and figures go.")] = (
        Path("reproduced")
    )
    known: Annotated[
        bool,
        typer.Option(
            "--list", callback=_show_known, is_eager=True, help="Show the experiments there are."
        ),
    ] = False


@takes(Options)
def reproduce(context: typer.Context, options: Options) -> None:
    """Measure a published result again, claim by claim.

    Example: axon reproduce staleness --quick

    Ends with 0 whenever the experiment ran: a claim that does not hold is a result, not an error.
    """
    chosen = _chosen(options)
    settings = Settings(
        quick=options.quick, seed=options.seed, repeats=options.repeats, dataset=options.dataset
    )
    if any(each.trains for each in chosen):
        require_torch()
    if given(context, "dataset") and not any(each.learns for each in chosen):
        typer.echo(f"axon: {chosen[0].name} learns nothing and reads no --dataset", err=True)
    _check_places(options, chosen)
    sections: list[Section] = []
    for each in chosen:
        sections.append(_reproduced(each, settings, options))
        if options.everything:
            # After each of them: what is there is worth having if a later one is broken off.
            _write_page(sections, settings, options)
    _hand_over(sections, settings, options)


def _write_page(sections: Sequence[Section], settings: Settings, options: Options) -> None:
    # Late, with the results themselves.
    from axon.experiments.page import page

    _write(options.out / PAGE, page(sections, settings))


def _chosen(options: Options) -> list[Experiment]:
    if options.everything and options.name is not None:
        raise ConfigurationError(
            f"--all runs every experiment, and {options.name!r} asks for one",
            hint="leave one of the two out",
        )
    if options.everything:
        return list(registry.EXPERIMENTS.values())
    if options.name is None:
        raise ConfigurationError(
            "which experiment?", hint="give a NAME that --list shows, or --all"
        )
    return [registry.find(options.name)]


def _check_places(options: Options, chosen: Sequence[Experiment]) -> None:
    """Find out before the work, not after it, that its results cannot be written."""
    try:
        options.out.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise _cannot_write(options.out, error.strerror) from error
    names = [f"{each.name}{ending}" for each in chosen for ending in (".json", ".svg")]
    places = [options.out / name for name in ([*names, PAGE] if options.everything else names)]
    if options.json_file is not None and options.json_file != STANDARD_OUTPUT:
        places.append(Path(options.json_file))
    for place in places:
        _check_place(place)


def _check_place(path: Path) -> None:
    if path.is_dir():
        raise _cannot_write(path, "it is a folder")
    if not path.parent.exists():
        raise _cannot_write(path, "no such folder")
    # A file is replaced, not written over, so the folder is what matters; a pipe is written to.
    if not os.access(path if _is_special(path) else path.parent, os.W_OK):
        raise _cannot_write(path, "permission denied")


def _is_special(path: Path) -> bool:
    """Whether it is there and no plain file: a pipe, a terminal, `/dev/stdout`."""
    return path.exists() and not path.is_file()


def _reproduced(experiment: Experiment, settings: Settings, options: Options) -> Section:
    """One experiment run, drawn, kept in the folder and shown."""
    from axon.experiments.page import Section
    from axon.experiments.result import to_json

    with _telling(experiment.name) as progress:
        result = experiment.run(replace(settings, progress=progress))
    drawing = _drawn(result)
    _write(options.out / f"{result.name}.json", _text(to_json(result, settings)))
    if drawing is not None:
        _write(options.out / f"{result.name}.svg", drawing)
    if options.json_file != STANDARD_OUTPUT:
        typer.echo(render(result))
    return Section(result, drawing)


def _drawn(result: Result) -> str | None:
    from axon.report.figures import draw

    if result.figure is None:
        return None
    try:
        return draw(result.figure)
    except ConfigurationError as error:
        # The numbers are worth having without it.
        typer.echo(f"axon: the figure was left out: {error}", err=True)
        return None


def _hand_over(sections: Sequence[Section], settings: Settings, options: Options) -> None:
    """Write the JSON where it was asked for, and say where everything is."""
    from axon.experiments.result import to_json

    found = [to_json(each.result, settings) for each in sections]
    text = _text(found if options.everything else found[0])
    if options.json_file == STANDARD_OUTPUT:
        typer.echo(text, nl=False)
        return
    if options.json_file is not None:
        _write(Path(options.json_file), text)
    kept = PAGE if options.everything else f"{sections[0].result.name}.json"
    typer.echo(f"kept in {options.out / kept}")


@contextmanager
def _telling(name: str) -> Iterator[Progress]:
    """Show what is being done: one line that changes on a terminal, a line each elsewhere."""
    changing = sys.stderr.isatty()

    def tell(line: str) -> None:
        if changing:
            typer.echo(f"\r\x1b[K{name}: {line}", err=True, nl=False)
        else:
            typer.echo(f"{name}: {line}", err=True)

    try:
        yield tell
    finally:
        if changing:
            typer.echo("\r\x1b[K", err=True, nl=False)


def render(result: Result) -> str:
    """A result for a person: its table, then claim by claim."""
    from axon.report.tables import text_table

    claims = "\n".join(map(_claim_lines, result.claims))
    parts = [result.title, text_table(result.rows), "\n".join(result.notes), claims]
    return "\n\n".join(part for part in parts if part) + "\n"


def _claim_lines(claim: Claim) -> str:
    from axon.experiments.result import measured, published, verdict

    said = f"{claim.claim}: paper {published(claim)}, measured {measured(claim)}"
    why = f"\n{'':15}{claim.why}" if claim.why else ""
    return f"{verdict(claim):15}{said}{why}"


def _text(found: Any) -> str:
    return json.dumps(found, indent=2, allow_nan=False) + "\n"


def _write(path: Path, text: str) -> None:
    # Late, with numpy.
    from axon.report.records import write_whole

    try:
        if _is_special(path):
            path.write_text(text, encoding="utf-8")
        else:
            write_whole(path, text.encode())
    except OSError as error:
        raise _cannot_write(path, error.strerror) from error


def _cannot_write(place: Path, why: str | None) -> ConfigurationError:
    return ConfigurationError(f"cannot write to {place}: {why or 'it failed'}")
