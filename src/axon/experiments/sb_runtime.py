"""How well subset benchmarking and FLOPS predict the time to train (DAB thesis, Fig. 3.2).

TwoNN on 120 shards on the two GPUs and on 15 on each Pi. In virtual time that shows how the methods
work; on real processes at the pace of such devices it shows what is left of it when time is real.
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import replace

from axon.experiments.mnist import BENCHMARK_SHARDS
from axon.experiments.result import Result, Row, line
from axon.experiments.runs import seeds
from axon.experiments.sb_runtime_claims import HOST, Errors, claims_of
from axon.experiments.sb_timing import METHODS, Effort, Fleetful, time_emulated, time_simulated
from axon.experiments.settings import Settings
from axon.intervals import mean_interval
from axon.report.figures import Figure, Panel
from axon.report.tables import Cell, shown
from axon.rpc.link import Link
from axon.testbed.catalogue import Device, device

NAME = "sb-runtime"
SIZES = tuple(range(2, BENCHMARK_SHARDS + 1))
QUICK_SIZES = (SIZES[0], SIZES[-1])
REPEATS, QUICK_REPEATS = 5, 2
PRODUCTS, QUICK_PRODUCTS = 100, 25
SHARES = {"rtx-2070-super": 120, "jetson-nano": 120, "pi-1": 15, "pi-2": 15, "pi-3": 15}
"""The shards of a whole run, as the thesis chose them."""
SEEDS = 2
"""Of the simulated world, in which nothing varies, as the second shows."""

EMULATED = {"jetson-nano": 120, "pi-2": 15, "pi-3": 15}
QUICK_EMULATED = {"jetson-nano": 60, "phone": 60}
HOST_SHARDS = 120
UNTHROTTLED = Device(
    kind=HOST, flops_per_s=1e18, batch_overhead_s=0.0, memory_bytes=1 << 40, link=Link()
)
"""Batches that should take no time are never waited for."""

SUBSTITUTES = (
    "Trained on made-up images of MNIST's shape, a byte for each pixel: how long training takes "
    "does not depend on what they show.",
    "FLOPS predict each device from every other one as the reference, and the errors are averaged; "
    "a reference that trained another number of shards is scaled to the target's. A device "
    "multiplies matrices at the rate at which the catalogue says that it trains.",
    "Simulated batches of one size all take the same time, so what errors there are come from the "
    "last batch of a run, which is a smaller one that costs nearly as much.",
    "Emulated devices run at once, each in a process that rests after every batch and every "
    "product of matrices until the device would be done. Rests make up for batches that were late: "
    "the devices are paced to be exact on average, so this panel shows how the benchmark's method "
    "works on a real clock, and not the noise of a device. The RTX 2070 Super is left out because "
    "this machine cannot multiply as fast, Pi 1 because a repeat would take it minutes; a quick "
    "look has a phone in place of the Pis, and trains 60 shards.",
    f"{HOST.capitalize()} trains {HOST_SHARDS} shards alone and without any rest: real noise, but "
    "of whatever else runs here. Its FLOPS errors take the emulated devices as references.",
)


def run(settings: Settings) -> Result:
    """Predict and time whole runs, simulated and emulated."""
    settings.progress("simulated")
    devices = {name: device(name) for name in SHARES}
    simulated = [time_simulated(devices, SHARES, SIZES, seed) for seed in seeds(settings, SEEDS)]
    repeats = settings.repeated(REPEATS, QUICK_REPEATS)
    shares = QUICK_EMULATED if settings.quick else EMULATED
    before = _load()
    emulated = _emulated(shares, repeats, settings)
    load = f"the load of {os.cpu_count()} cores was {before} before and {_load()} after it"
    panels = {
        "simulated": Errors(simulated, tuple(SHARES), tuple(SHARES)),
        "emulated": Errors(emulated, tuple(shares), tuple(shares)),
        HOST: Errors(emulated, (HOST,), tuple(shares)),
    }
    return Result(
        name=NAME,
        title="Error of the predicted time to train",
        claims=claims_of(panels, load),
        rows=tuple(
            _row(world, errors, size) for world, errors in panels.items() for size in errors.sizes
        ),
        figure=_figure(panels),
        repeats=repeats,
        notes=(*SUBSTITUTES, _rests_on(settings.seed), f"On {HOST} {load}."),
    )


def _emulated(shares: Mapping[str, int], repeats: int, settings: Settings) -> list[Fleetful]:
    effort = Effort(
        sizes=QUICK_SIZES if settings.quick else SIZES,
        repeats=repeats,
        products=QUICK_PRODUCTS if settings.quick else PRODUCTS,
    )
    # This machine as it is takes all of a processor, and so is timed alone.
    groups = {name: device(name) for name in shares}, {HOST: UNTHROTTLED}
    return time_emulated(groups, {**shares, HOST: HOST_SHARDS}, effort, settings)


def _load() -> str:
    """How many processes wanted a core in the last minute, where the system tells it."""
    return shown(os.getloadavg()[0]) if hasattr(os, "getloadavg") else "not known"


def _rests_on(seed: int) -> str:
    """How much of the error of FLOPS is what the catalogue says of a batch."""
    devices = {name: replace(device(name), batch_overhead_s=0.0) for name in SHARES}
    timed = time_simulated(devices, SHARES, SIZES[-1:], seed)
    (error,) = Errors([timed], tuple(SHARES), tuple(SHARES)).flops
    return (
        "By how much FLOPS err rests on what each batch costs besides its arithmetic, an estimate "
        f"of the catalogue: without it their error would be {shown(error)} %, simulated. On real "
        "devices there are other reasons too, which nothing here has."
    )


def _row(world: str, errors: Errors, size: int) -> Row:
    cells: dict[str, Cell] = {"world": world, "shards": size}
    cells |= {f"SB {method} [%]": errors.subset(size, method) for method in METHODS}
    return cells | {"FLOPS [%]": mean_interval(errors.flops)}


def _figure(panels: Mapping[str, Errors]) -> Figure:
    drawn = []
    for world, errors in panels.items():
        sizes = errors.sizes
        curves = {
            f"SB, {method}": [errors.subset(size, method) for size in sizes] for method in METHODS
        }
        curves["FLOPS"] = [mean_interval(errors.flops)] * len(sizes)
        series = tuple(line(label, curve, sizes) for label, curve in curves.items())
        drawn.append(Panel(world, "benchmark [shards]", "error [%]", series, logarithmic="y"))
    return Figure("Predicted time to train", tuple(drawn))
