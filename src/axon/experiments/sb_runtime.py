"""How well subset benchmarking and FLOPS predict the time to train (DAB thesis, Fig. 3.2).

TwoNN on 120 shards on the two GPUs and on 15 on each Pi. In virtual time that shows how the methods
work; on real processes at the pace of such devices it shows what is left of it when time is real.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from statistics import fmean

from axon.devices.subset import Method
from axon.experiments.result import Claim, Result, Row, bounds
from axon.experiments.runs import line
from axon.experiments.sb_timing import (
    METHODS,
    Effort,
    Fleetful,
    time_emulated,
    time_simulated,
)
from axon.experiments.settings import Settings
from axon.intervals import Interval, mean_interval
from axon.report.figures import Figure, Panel
from axon.report.tables import Cell, shown
from axon.rpc.link import Link
from axon.testbed.catalogue import Device, device

NAME = "sb-runtime"
SIZES = tuple(range(2, 9))
QUICK_SIZES = (SIZES[0], SIZES[-1])
REPEATS, QUICK_REPEATS = 5, 2
PRODUCTS, QUICK_PRODUCTS = 100, 25
SHARES = {"rtx-2070-super": 120, "jetson-nano": 120, "pi-1": 15, "pi-2": 15, "pi-3": 15}
"""The shards of a whole run, as the thesis chose them."""
REDUCTION = 83.0
"""By how many per cent the error of FLOPS is cut, at best."""
EXACT = 1.0

EMULATED = {"jetson-nano": 120, "pi-2": 15, "pi-3": 15}
QUICK_EMULATED = {"jetson-nano": 60, "pi-2": 15}
HOST = "this machine"
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
    "product of matrices until the device would be done. Rests make up for batches that were late, "
    "so this machine's own noise shows at the ends of a run. The RTX 2070 Super is left out "
    "because this machine cannot multiply as fast, Pi 1 because a repeat would take it minutes; a "
    "quick look leaves out Pi 3 too, and trains 60 shards on the Jetson Nano.",
    f"{HOST.capitalize()} trains {HOST_SHARDS} shards alone and without any rest, at the mercy of "
    "whatever else runs on it; it is no part of the averages and of no claim. Its FLOPS errors "
    "take the emulated devices as references.",
)


@dataclass(frozen=True, slots=True)
class Errors:
    """The errors of a fleet in per cent, averaged over its devices, repeat by repeat."""

    repeats: Sequence[Fleetful]
    members: tuple[str, ...]
    references: tuple[str, ...]
    """Whose times FLOPS are reckoned from; never its own."""

    def subset(self, size: int, method: Method) -> Interval:
        """Of a benchmark of so many shards."""
        return mean_interval(
            [
                fmean(timed[name].error(size, method) for name in self.members)
                for timed in self.repeats
            ]
        )

    @property
    def flops(self) -> Interval:
        """Of the FLOPS baseline."""
        return mean_interval([self._flops(timed) for timed in self.repeats])

    @property
    def sizes(self) -> list[int]:
        """Of the benchmarks, ascending."""
        lines = self.repeats[0][self.members[0]].lines
        return sorted({size for size, _ in lines})

    def _flops(self, timed: Fleetful) -> float:
        return fmean(
            timed[name].flops_error([timed[other] for other in self.references if other != name])
            for name in self.members
        )


def run(settings: Settings) -> Result:
    """Predict and time whole runs, simulated and emulated."""
    settings.progress("simulated")
    devices = {name: device(name) for name in SHARES}
    simulated = time_simulated(devices, SHARES, SIZES, settings.seed)
    repeats = settings.repeated(REPEATS, QUICK_REPEATS)
    shares = QUICK_EMULATED if settings.quick else EMULATED
    emulated = _emulated(shares, repeats, settings)
    panels = {
        "simulated": Errors([simulated], tuple(SHARES), tuple(SHARES)),
        "emulated": Errors(emulated, tuple(shares), tuple(shares)),
        HOST: Errors(emulated, (HOST,), tuple(shares)),
    }
    return Result(
        name=NAME,
        title="Error of the predicted time to train",
        claims=claims_of(panels),
        rows=tuple(
            _row(world, errors, size) for world, errors in panels.items() for size in errors.sizes
        ),
        figure=_figure(panels),
        repeats=repeats,
        notes=SUBSTITUTES,
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


def _row(world: str, errors: Errors, size: int) -> Row:
    cells: dict[str, Cell] = {"world": world, "shards": size}
    cells |= {f"SB {method} [%]": errors.subset(size, method) for method in METHODS}
    return cells | {"FLOPS [%]": errors.flops}


def _figure(panels: Mapping[str, Errors]) -> Figure:
    drawn = []
    for world, errors in panels.items():
        sizes = errors.sizes
        curves = {
            f"SB, {method}": [errors.subset(size, method) for size in sizes] for method in METHODS
        }
        curves["FLOPS"] = [errors.flops] * len(sizes)
        series = tuple(line(label, curve, sizes) for label, curve in curves.items())
        drawn.append(Panel(world, "benchmark [shards]", "error [%]", series, logarithmic="y"))
    return Figure("Predicted time to train", tuple(drawn))


def claims_of(panels: Mapping[str, Errors]) -> tuple[Claim, ...]:
    """What the thesis says, for simulated and for real time."""
    return tuple(
        claim
        for world, errors in panels.items()
        if world != HOST
        for claim in (
            _cut(world, errors),
            *(_exact(world, errors, method) for method in METHODS),
            *(_falls(world, errors, method) for method in METHODS),
            _no_worse(world, errors),
        )
    )


def _cut(world: str, errors: Errors) -> Claim:
    last = errors.sizes[-1]
    subset = errors.subset(last, "ratio")
    cut = 100.0 * (1.0 - subset.value / errors.flops.value)
    return Claim(
        claim=f"SB cuts the error of FLOPS by {REDUCTION:g} %, {world}",
        paper=REDUCTION,
        measured=cut,
        unit="%",
        holds=cut >= REDUCTION,
        why=f"from {shown(errors.flops)} % to {shown(subset)} % with {last} shards, as the thesis "
        "reckons, by the ratio",
    )


def _exact(world: str, errors: Errors, method: Method) -> Claim:
    last = errors.sizes[-1]
    error = errors.subset(last, method)
    return Claim(
        claim=f"SB with {last} shards is within {EXACT:g} %, {method}, {world}",
        paper=None,
        measured=error.value,
        unit="%",
        holds=error.value <= EXACT,
        interval=bounds(error),
        why=""
        if error.value <= EXACT
        else "a part of the benchmark that ends late tilts the prediction made of it",
    )


def _falls(world: str, errors: Errors, method: Method) -> Claim:
    first, last = (errors.subset(errors.sizes[at], method) for at in (0, -1))
    return Claim(
        claim=f"the error of SB falls with the size of the benchmark, {method}, {world}",
        paper="it decreases" if method == "ratio" else None,
        measured=f"{shown(first)} to {shown(last)}",
        unit="%",
        holds=last.value < first.value,
        why=f"from {errors.sizes[0]} to {errors.sizes[-1]} shards",
    )


def _no_worse(world: str, errors: Errors) -> Claim:
    affine, ratio = (
        mean_interval([errors.subset(size, method).value for size in errors.sizes])
        for method in METHODS
    )
    return Claim(
        claim=f"the affine fit is no worse than the ratio, {world}",
        paper=None,
        measured=affine.value - ratio.value,
        unit="points of difference, on average over the sizes",
        holds=affine.value <= ratio.value,
        why=f"{shown(affine.value)} % and {shown(ratio.value)} %; next to nothing is paid once "
        "here, so what the line takes for it is the rounding of last batches, and noise",
    )
