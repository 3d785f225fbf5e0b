"""`axon bench`: how quick this device is at a task, and how sure that is."""

from __future__ import annotations

import json
import math
from dataclasses import dataclass
from typing import TYPE_CHECKING, Annotated, Any

import typer

from axon.cli.options import (
    DatasetOption,
    JsonOption,
    KeyOption,
    ShardSamplesOption,
    TlsOption,
    given,
    require_torch,
    takes,
)
from axon.errors import ConfigurationError
from axon.report.tables import aligned

# Torch and numpy are imported in the functions that need them, so that `axon --help` is quick.
if TYPE_CHECKING:
    from axon.devices.subset import Line
    from axon.intervals import Interval
    from axon.learning.benchmark import Benchmark

DEADLINES_S = (5.0, 15.0, 60.0)
PREDICTED_SHARDS = 60
"""As many as the thesis predicts downloads of, in section 3.4.2.1."""
REQUESTS = 3
"""In a cycle, each of which pays the link's latency: the model, the shards, the update."""


@dataclass(frozen=True, kw_only=True)
class BenchOptions:
    """What `axon bench` is told."""

    task: Annotated[
        str, typer.Option(metavar="NAME", help="The net, or FILE.py:NAME of your own.")
    ] = "twonn"
    dataset: DatasetOption = "digits"
    shards: Annotated[
        int, typer.Option(metavar="N", help="Shards to train at most; parts of them come first.")
    ] = 8
    shard_samples: ShardSamplesOption = None
    method: Annotated[
        str,
        typer.Option(
            metavar="affine|ratio", help="A line with a cost paid once, or shards over seconds."
        ),
    ] = "affine"
    bandwidth: Annotated[
        float, typer.Option(metavar="B", help="Bytes a second that the link is reckoned with.")
    ] = 10e6
    link: Annotated[
        str | None,
        typer.Option(metavar="HOST[:PORT]", help="Measure the link to the `axon worker` there."),
    ] = None
    key: KeyOption = None
    tls: TlsOption = None
    as_json: JsonOption = False


@takes(BenchOptions)
def bench(context: typer.Context, options: BenchOptions) -> None:
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

    method = _method(options.method)
    link = _link(context, options)
    recipe = Recipe(task=options.task, dataset=options.dataset, shard_samples=options.shard_samples)
    loaded = load(recipe.dataset)
    found = benchmark(
        spec_of(recipe, loaded),
        loaded.train,
        shard_samples=recipe.samples_in_shard,
        shards=options.shards,
        method=method,
    )
    figures = {"task": recipe.task, "dataset": recipe.dataset, "method": method}
    figures |= training_figures(found) | link_figures(found, link)
    figures["link"] = options.link
    figures["flops_per_s"] = measure_flops()
    typer.echo(json.dumps(figures) if options.as_json else render(figures))


def _method(name: str) -> Any:
    from typing import get_args

    from axon.devices.subset import Method

    known = get_args(Method)
    if name not in known:
        raise ConfigurationError(f"no method is called {name!r}", hint=" or ".join(known))
    return name


def _link(context: typer.Context, options: BenchOptions) -> Line:
    """Seconds of bytes, as they are measured or said to be."""
    from axon import client
    from axon.cli.probe import measured
    from axon.devices.subset import Line, fit
    from axon.values import check_positive

    if options.link is None:
        check_positive("bandwidth", options.bandwidth)
        return Line(0.0, 1.0 / options.bandwidth)
    if given(context, "bandwidth"):
        raise ConfigurationError(
            "a link that is measured has the bandwidth that is found",
            hint="give --link or --bandwidth",
        )
    way = client.access(key=options.key, tls=options.tls)
    return fit(measured(options.link, way))


def training_figures(found: Benchmark) -> dict[str, Any]:
    """What was measured of training, the line through it, and what that says of many shards."""
    from axon.devices.subset import fit

    size = found.shard_samples
    predicted = found.training.predict(PREDICTED_SHARDS * size)
    return {
        "shards": found.shards,
        "shard_samples": size,
        "measured": [
            {"shards": round(samples / size), "seconds": took_s} for samples, took_s in found.points
        ],
        "fixed_s": found.training.fixed_s,
        "shard_s": found.shard_s,
        "shard_s_interval": _bounds(_each(found.training), size),
        "ratio_shard_s": fit(found.points, "ratio").each_s * size,
        "predicted": {
            "shards": PREDICTED_SHARDS,
            "seconds": predicted.value,
            "interval": _bounds(predicted),
        },
        "samples_per_s": found.samples_per_s,
        "shards_per_s": found.shards_per_s,
        "model_bytes": found.model_bytes,
        "shard_bytes": found.shard_bytes,
    }


def link_figures(found: Benchmark, link: Line) -> dict[str, Any]:
    """What the link is like, and what a learner would take over it for some deadlines."""
    from axon.allocation.margin import MARGIN

    lost_s = REQUESTS * link.fixed_s
    return {
        "bytes_per_s": link.rate,
        "latency_s": link.fixed_s,
        "shards_within": {
            f"{deadline_s:g}": found.shards_within(deadline_s * (1.0 - MARGIN) - lost_s, link.rate)
            for deadline_s in DEADLINES_S
        },
    }


def _each(line: Line) -> Interval:
    """The seconds of one of the amount, and how sure they are."""
    from axon.intervals import Interval, student_t

    doubt, half_s = line.doubt, math.inf
    if doubt is not None:
        half_s = student_t(doubt.freedom) * math.sqrt(doubt.variance * doubt.tilt)
    return Interval(line.each_s, line.each_s - half_s, line.each_s + half_s)


def _bounds(interval: Interval, size: int = 1) -> list[float] | None:
    """As JSON has them, which knows no infinity."""
    if math.isinf(interval.high):
        return None
    # No time is below 0, however little is known of it.
    return [max(0.0, interval.low * size), interval.high * size]


def render(figures: dict[str, Any]) -> str:
    """The same for a person."""
    measured = [("SHARDS", "SECONDS", "SECONDS A SHARD")]
    for point in figures["measured"]:
        shards, took_s = point["shards"], point["seconds"]
        measured.append((str(shards), f"{took_s:.4g}", f"{took_s / shards:.4g}"))
    predicted, link = figures["predicted"], figures["link"]
    rows = [
        ("task", f"{figures['task']} on {figures['dataset']}"),
        ("a shard has", f"{figures['shard_samples']} samples, {figures['shard_bytes']:,} bytes"),
        ("the model has", f"{figures['model_bytes']:,} bytes"),
        ("paid once", f"{figures['fixed_s']:.4g} s"),
        ("a shard takes", _seconds(figures["shard_s"], figures["shard_s_interval"])),
        ("by plain ratio", f"{figures['ratio_shard_s']:.4g} s"),
        (f"{predicted['shards']} shards", _seconds(predicted["seconds"], predicted["interval"])),
        ("samples/s", f"{figures['samples_per_s']:.4g}"),
        ("shards/s", f"{figures['shards_per_s']:.4g}"),
        ("the link", f"{figures['bytes_per_s']:.4g} bytes/s, {_origin(link)}"),
        ("latency", f"{figures['latency_s']:.4g} s, {_origin(link)}"),
        *((f"within {limit} s", f"{n} shards") for limit, n in figures["shards_within"].items()),
        ("flops/s", f"{figures['flops_per_s']:.4g}"),
    ]
    return f"{aligned(measured)}\n\n{aligned(rows)}"


def _origin(link: str | None) -> str:
    return "assumed" if link is None else f"measured from {link}"


def _seconds(value: float, interval: list[float] | None) -> str:
    if interval is None:
        return f"{value:.4g} s"
    low, high = interval
    return f"{value:.4g} s (95 %: {low:.4g} to {high:.4g} s)"
