"""Options that several commands share, and commands whose options are the fields of dataclasses."""

from __future__ import annotations

import dataclasses
import inspect
from collections.abc import Callable
from functools import wraps
from pathlib import Path
from typing import Annotated, Any, get_type_hints

import typer

from axon.errors import ConfigurationError

KeyOption = Annotated[
    Path | None,
    typer.Option(
        envvar="AXON_KEY", metavar="FILE", help="The key file, for workers that want one."
    ),
]
TlsOption = Annotated[
    Path | None,
    typer.Option(
        envvar="AXON_TLS", metavar="DIR", help="The folder of certificates, for https:// workers."
    ),
]
InsecureOption = Annotated[
    bool, typer.Option("--insecure", help="Serve other machines without any key.")
]
OutOption = Annotated[
    Path | None, typer.Option(metavar="DIR", help="Keep records, settings and model there.")
]
RecordsOption = Annotated[
    bool, typer.Option("--json", help="Print each cycle's record as a line of JSON.")
]
ListenOption = Annotated[
    str | None,
    typer.Option(
        metavar="HOST[:PORT]",
        help="Where devices fetch from this machine; if left out, as they need it.",
    ),
]
JsonOption = Annotated[bool, typer.Option("--json", help="Print JSON.")]

# What a run, a task and a fleet have in common.
DatasetOption = Annotated[str, typer.Option(metavar="NAME", help="What it learns.")]
WorldOption = Annotated[
    str,
    typer.Option(
        metavar="simulated|emulated|deployed",
        help="Where: in virtual time, in processes, on devices; deployed if hosts are named.",
    ),
]
DevicesOption = Annotated[
    str, typer.Option(metavar="LIST", help="A fleet, or devices: jetson-nano*2,pi-1.")
]
HostsOption = Annotated[
    list[str] | None,
    typer.Option(
        "--host", "--hosts", metavar="H,...", help="Hosts that run `axon worker`. Repeatable."
    ),
]
DiscoverOption = Annotated[bool, typer.Option(help="Also take devices that announce themselves.")]
ActivityOption = Annotated[
    str, typer.Option(metavar="NAME", help="What owners do meanwhile: idle, heated:0.5.")
]
CyclesOption = Annotated[int, typer.Option(metavar="N", help="How many in all.")]
PassesOption = Annotated[int, typer.Option(metavar="N", help="Passes over a share in a cycle.")]
ShardSamplesOption = Annotated[
    int | None,
    typer.Option(metavar="N", help="Samples in a shard; as fits the data set if left out."),
]
BatchSizeOption = Annotated[int, typer.Option(metavar="N", help="Samples in a batch.")]
OptimiserOption = Annotated[
    str | None, typer.Option(metavar="NAME", help="As fits the task if left out.")
]
LearningRateOption = Annotated[
    float | None, typer.Option(metavar="X", help="As fits the optimiser if left out.")
]
EvaluateEveryOption = Annotated[
    int, typer.Option(metavar="N", help="Cycles between two tests of the model; 0 for none.")
]
SeedOption = Annotated[int, typer.Option(metavar="N", help="Of all that is left to chance.")]

NO_KEY_HINT = "make one with `axon keys new` and pass --key, or say --insecure"


def takes(*kinds: type) -> Callable[[Callable[..., None]], Callable[..., None]]:
    """Let a command have the fields of dataclasses as its options.

    A field is annotated as a command's parameter would be. The command is called with the context
    and an instance of each.
    """
    parameters = [parameter for kind in kinds for parameter in _parameters(kind)]

    def decorate(command: Callable[..., None]) -> Callable[..., None]:
        @wraps(command)
        def called(context: typer.Context, **values: Any) -> None:
            command(context, *(_filled(kind, values) for kind in kinds))

        context = inspect.Parameter(
            "context", inspect.Parameter.KEYWORD_ONLY, annotation=typer.Context
        )
        # What typer reads.
        called.__dict__["__signature__"] = inspect.Signature([context, *parameters])
        return called

    return decorate


def given(context: typer.Context, name: str) -> bool:
    """Whether an option was given on the command line, were it with the value of its default."""
    source = context.get_parameter_source(name)
    return source is not None and source.name == "COMMANDLINE"


def require_torch() -> None:
    """Say what to install where torch is missing, before an import says less."""
    import importlib.util
    import os

    if importlib.util.find_spec("torch") is None:
        raise ConfigurationError("learning needs torch", hint="pip install 'axon-edge[learn]'")
    # Read when torch is loaded: its threads then sleep while they wait for one another. By default
    # they spin, and on cores that somebody else uses too, training slows down a hundredfold.
    os.environ.setdefault("OMP_WAIT_POLICY", "PASSIVE")


def _parameters(kind: type) -> list[inspect.Parameter]:
    hints = get_type_hints(kind, include_extras=True)
    return [
        inspect.Parameter(
            field.name,
            inspect.Parameter.KEYWORD_ONLY,
            annotation=hints[field.name],
            default=inspect.Parameter.empty
            if field.default is dataclasses.MISSING
            else field.default,
        )
        for field in dataclasses.fields(kind)
    ]


def _filled(kind: type, values: dict[str, Any]) -> Any:
    return kind(**{field.name: values[field.name] for field in dataclasses.fields(kind)})
