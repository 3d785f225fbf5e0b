"""`axon submit`, `axon tasks` and `axon cancel`: what requesters ask of `axon orchestrate`."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, fields
from pathlib import Path
from typing import Annotated, Any

import typer

from axon.cli.options import (
    BatchSizeOption,
    CyclesOption,
    DatasetOption,
    EvaluateEveryOption,
    JsonOption,
    KeyOption,
    LearningRateOption,
    OptimiserOption,
    PassesOption,
    SeedOption,
    ShardSamplesOption,
    TlsOption,
    takes,
)
from axon.errors import AxonError, ConfigurationError, NotFound
from axon.printable import blanked
from axon.report.tables import aligned

HEADINGS = ("NAME", "STATE", "CYCLE", "ACCURACY", "LEARNERS", "SPENT", "REASON")
ToOption = Annotated[
    str,
    typer.Option(
        "--to", envvar="AXON_TO", metavar="HOST:PORT", help="Where `axon orchestrate` listens."
    ),
]
DEFAULT_TO = "127.0.0.1:8100"
LONGEST_REASON = 100


@dataclass(frozen=True, kw_only=True)
class TaskOptions:
    """A submission, under the same names."""

    name: Annotated[str, typer.Option(metavar="NAME", help="What the task is called.")]
    task: Annotated[str, typer.Option(metavar="NAME", help="The net to train.")] = "twonn"
    dataset: DatasetOption = "digits"
    shards: Annotated[int, typer.Option(metavar="N", help="Trained on in every cycle, in all.")]
    cycles: CyclesOption = 5
    deadline_s: Annotated[
        float,
        typer.Option("--deadline-s", "--deadline", metavar="S", help="Of each cycle, in seconds."),
    ]
    passes: PassesOption = 1
    shard_samples: ShardSamplesOption = None
    batch_size: BatchSizeOption = 32
    optimiser: OptimiserOption = None
    learning_rate: LearningRateOption = None
    evaluate_every: EvaluateEveryOption = 1
    seed: SeedOption = 0

    def table(self) -> dict[str, Any]:
        """The same as it travels."""
        from axon.recipes.settings import SHARD_SAMPLES

        table = {field.name: getattr(self, field.name) for field in fields(self)}
        if self.shard_samples is None:
            table["shard_samples"] = SHARD_SAMPLES.get(self.dataset.partition(":")[0], 50)
        return table


@dataclass(frozen=True, kw_only=True)
class WayOptions:
    """How the orchestrator is reached."""

    to: ToOption = DEFAULT_TO
    key: KeyOption = None
    tls: TlsOption = None
    as_json: JsonOption = False


@dataclass(frozen=True, kw_only=True)
class Task:
    """One task, as an orchestrator tells of it."""

    name: str
    state: str
    cycle: int
    cycles: int
    accuracy: float | None
    learners: dict[str, int]
    spent: str
    reason: str


@dataclass(frozen=True, kw_only=True)
class Told:
    """What an orchestrator tells of all its tasks."""

    tasks: list[Task]
    spent: str
    budget: str
    sitting: dict[str, str]


@takes(TaskOptions, WayOptions)
def submit(_context: typer.Context, task: TaskOptions, way: WayOptions) -> None:
    """Hand a task to an orchestrator, which answers at once.

    Example: axon submit --name a --task threenn --dataset mnist --shards 60 --deadline-s 55
    """
    answer = ask(way, "submit", task.table())
    if way.as_json:
        typer.echo(json.dumps(answer))
    if answer["verdict"] == "refused":
        raise ConfigurationError(f"{task.name} is refused: {answer['reason']}")
    if not way.as_json:
        reason = f": {answer['reason']}" if answer["reason"] else ""
        typer.echo(f"{task.name} is {answer['verdict']}{reason}")


@takes(WayOptions)
def tasks(_context: typer.Context, way: WayOptions) -> None:
    """List the tasks of an orchestrator.

    Example: axon tasks --to pi.local:8100
    """
    answer = ask(way, "list")
    typer.echo(json.dumps(answer) if way.as_json else render(told_by(answer, way.to)))


def cancel(
    name: Annotated[str, typer.Argument(metavar="NAME", help="The task to end.")],
    to: ToOption = DEFAULT_TO,
    key: KeyOption = None,
    tls: TlsOption = None,
) -> None:
    """End a task of an orchestrator now.

    Example: axon cancel a --to pi.local:8100
    """
    answer = ask(WayOptions(to=to, key=key, tls=tls), "cancel", name)
    if answer["verdict"] == "refused":
        raise ConfigurationError(answer["reason"])
    typer.echo(f"{name} is cancelled")


def ask(way: WayOptions, function: str, *arguments: Any) -> dict[str, Any]:
    """What an orchestrator answers; whatever else is there is told apart."""
    # Late, because the client brings all of the library and `axon --help` should be quick.
    from axon import client

    try:
        answer = client.call(
            f"{way.to}/tasks/{function}", *arguments, key=_text(way.key), tls=_text(way.tls)
        )
    except NotFound as error:
        raise ConfigurationError(
            f"{way.to} takes no tasks", hint="name the address that `axon orchestrate` printed"
        ) from error
    if not isinstance(answer, dict) or not isinstance(answer.get("verdict"), str):
        raise AxonError(f"{way.to} does not answer like an orchestrator")
    return answer


def told_by(answer: Mapping[str, Any], where: str) -> Told:
    """What an orchestrator tells of its tasks, if that is what it is."""
    import msgspec

    try:
        return msgspec.convert({key: answer[key] for key in Told.__annotations__}, Told)
    except (KeyError, msgspec.ValidationError) as error:
        raise AxonError(f"{where} does not answer like an orchestrator: {error}") from error


def render(told: Told) -> str:
    """The tasks as lines, the money, and who sits out."""
    lines = [aligned([HEADINGS, *map(_cells, told.tasks)], right=(2, 3, 5))]
    lines.append(f"spent {told.spent} in all; a cycle of all tasks may cost {told.budget}")
    lines += [blanked(f"{name} sits out: {why}") for name, why in sorted(told.sitting.items())]
    return "\n".join(lines)


def _cells(task: Task) -> Sequence[str]:
    reason = task.reason
    if len(reason) > LONGEST_REASON:
        reason = f"{reason[:LONGEST_REASON]}…"
    cells = (
        task.name,
        task.state,
        f"{task.cycle}/{task.cycles}",
        "-" if task.accuracy is None else f"{task.accuracy:.3f}",
        " ".join(f"{name}:{shards}" for name, shards in task.learners.items()) or "-",
        task.spent,
        reason,
    )
    return tuple(map(blanked, cells))  # They come from another machine.


def _text(path: Path | None) -> str | None:
    return None if path is None else str(path)
