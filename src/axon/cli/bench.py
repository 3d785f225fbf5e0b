"""`axon bench`: how quick this device is at a task."""

from __future__ import annotations

import json
import re
from typing import TYPE_CHECKING, Annotated

import typer

from axon.cli.options import JsonOption, require_torch
from axon.cli.tables import aligned

# Torch and numpy are imported in the function that needs them, so that `axon --help` is quick.
if TYPE_CHECKING:
    from axon.learning.benchmark import Benchmark

DEADLINES_S = (5.0, 15.0, 60.0)


def bench(
    task: Annotated[
        str, typer.Option(metavar="NAME", help="The net, or FILE.py:NAME of your own.")
    ] = "twonn",
    dataset: Annotated[str, typer.Option(metavar="NAME", help="What it learns.")] = "digits",
    shards: Annotated[int, typer.Option(metavar="N", help="Shards to train.")] = 8,
    shard_samples: Annotated[
        int | None,
        typer.Option(metavar="N", help="Samples in a shard; as fits the data set if left out."),
    ] = None,
    bandwidth: Annotated[
        float, typer.Option(metavar="B", help="Bytes a second that the link is reckoned with.")
    ] = 10e6,
    as_json: JsonOption = False,
) -> None:
    """Measure how quick this device is at a task.

    Example: axon bench --task twonn --dataset digits --shards 16
    """
    require_torch()
    # Late, because torch takes seconds to import.
    from axon.data.datasets import load
    from axon.devices.flops import measure_flops
    from axon.learning.benchmark import benchmark
    from axon.recipes.runner import spec_of
    from axon.recipes.settings import Recipe
    from axon.values import check_positive

    check_positive("bandwidth", bandwidth)
    recipe = Recipe(task=task, dataset=dataset, shard_samples=shard_samples)
    loaded = load(dataset)
    found = benchmark(
        spec_of(recipe, loaded),
        loaded.train,
        shard_samples=recipe.samples_in_shard,
        shards=shards,
    )
    figures = {"task": task, "dataset": dataset, **figures_of(found, bandwidth)}
    figures["flops_per_s"] = measure_flops()
    typer.echo(json.dumps(figures) if as_json else render(figures))


def figures_of(found: Benchmark, bandwidth: float) -> dict[str, object]:
    """What was measured, and what it allows by some deadlines."""
    return {
        "shards": found.shards,
        "shard_samples": found.shard_samples,
        "samples_per_s": found.samples_per_s,
        "shards_per_s": found.shards_per_s,
        "shard_s": found.shard_s,
        "model_bytes": found.model_bytes,
        "shard_bytes": found.shard_bytes,
        "bytes_per_s": bandwidth,
        "shards_within": {
            f"{deadline_s:g}": found.shards_within(deadline_s, bandwidth)
            for deadline_s in DEADLINES_S
        },
    }


def render(figures: dict[str, object]) -> str:
    """The same for a person, a line each."""
    rows: list[tuple[str, str]] = []
    for name, value in figures.items():
        if isinstance(value, dict):
            rows += [(f"shards within {limit} s", str(count)) for limit, count in value.items()]
        else:
            label = re.sub(r"_s$", " in seconds", name.replace("_per_s", "/s")).replace("_", " ")
            rows.append((label, f"{value:.4g}" if isinstance(value, float) else str(value)))
    return aligned(rows)
