"""What the DAB thesis says of Fig. 3.2, held against what was found in virtual and in real time."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from statistics import fmean

from axon.devices.subset import Method
from axon.experiments import paired
from axon.experiments.result import BELOW_ZERO, Claim, Side, judged
from axon.experiments.sb_timing import METHODS, Fleetful
from axon.intervals import Interval, mean_interval
from axon.report.tables import shown

REDUCTION = 83.0
"""By how many per cent the error of FLOPS is cut, at best."""
EXACT = 1.0
"""Per cent by which a benchmark may be off where devices keep their pace exactly."""
ON_HOST = 5.0
"""The same for a real machine that has other things to do."""
HOST = "this machine"


@dataclass(frozen=True, slots=True)
class Errors:
    """The errors of a fleet in per cent, averaged over its devices, repeat by repeat."""

    repeats: Sequence[Fleetful]
    members: tuple[str, ...]
    references: tuple[str, ...]
    """Whose times FLOPS are reckoned from; never its own."""

    def subsets(self, size: int, method: Method) -> list[float]:
        """Of a benchmark of so many shards."""
        return [
            fmean(timed[name].error(size, method) for name in self.members)
            for timed in self.repeats
        ]

    def subset(self, size: int, method: Method) -> Interval:
        """The same on average."""
        return mean_interval(self.subsets(size, method))

    def averages(self, method: Method) -> list[float]:
        """The mean over all sizes of benchmarks."""
        sizes = zip(*(self.subsets(size, method) for size in self.sizes), strict=True)
        return [fmean(each) for each in sizes]

    @property
    def flops(self) -> list[float]:
        """Of the FLOPS baseline."""
        return [
            fmean(
                timed[name].flops_error(
                    [timed[other] for other in self.references if other != name]
                )
                for name in self.members
            )
            for timed in self.repeats
        ]

    @property
    def sizes(self) -> list[int]:
        """Of the benchmarks, ascending."""
        lines = self.repeats[0][self.members[0]].lines
        return sorted({size for size, _ in lines})


def claims_of(panels: Mapping[str, Errors], load: str) -> tuple[Claim, ...]:
    """What the thesis says, for simulated and for real time, and what is left of it on a machine.

    Load is what else that machine had to do.
    """
    paced = [
        claim
        for world, errors in panels.items()
        if world != HOST
        for claim in (
            _cut(world, errors),
            *(_within(world, errors, method, EXACT, _PACED[world]) for method in METHODS),
            *(_falls(world, errors, method) for method in METHODS),
            _no_worse(world, errors),
        )
    ]
    host = panels[HOST]
    return (*paced, *(_within(HOST, host, method, ON_HOST, load) for method in METHODS))


_PACED = {
    "simulated": "batches of one size take the same time, so it is the last batch that errs",
    "emulated": "devices are paced to be exact on average, so this is about the benchmark's method "
    "and not about a device's noise; a part of the benchmark that ends late tilts it",
}


def _cut(world: str, errors: Errors) -> Claim:
    last = errors.sizes[-1]
    return judged(
        f"SB cuts the error of FLOPS by {REDUCTION:g} %, {world}",
        paired.cut(errors.subsets(last, "ratio"), errors.flops),
        Side(least=REDUCTION),
        paper=REDUCTION,
        unit="%",
        why=f"from {shown(mean_interval(errors.flops))} % to {shown(errors.subset(last, 'ratio'))} "
        f"% with {last} shards, as the thesis reckons, by the ratio; that FLOPS err rests on what "
        "a batch costs besides its arithmetic in the catalogue",
    )


def _within(world: str, errors: Errors, method: Method, most: float, why: str) -> Claim:
    last = errors.sizes[-1]
    return judged(
        f"SB with {last} shards is within {most:g} %, {method}, {world}",
        errors.subset(last, method),
        Side(most=most),
        unit="%",
        why=why,
    )


def _falls(world: str, errors: Errors, method: Method) -> Claim:
    first, last = errors.sizes[0], errors.sizes[-1]
    ends = [errors.subset(size, method) for size in (first, last)]
    return judged(
        f"the error of SB falls with the size of the benchmark, {method}, {world}",
        paired.difference(errors.subsets(last, method), errors.subsets(first, method)),
        BELOW_ZERO,
        paper="it decreases" if method == "ratio" else None,
        unit=f"points from {first} to {last} shards",
        why="from {} % to {} %".format(*map(shown, ends)),
    )


def _no_worse(world: str, errors: Errors) -> Claim:
    affine, ratio = (errors.averages(method) for method in METHODS)
    means = [shown(mean_interval(each)) for each in (affine, ratio)]
    return judged(
        f"the affine fit is no worse than the ratio, {world}",
        paired.difference(affine, ratio),
        Side(most=0.0),
        unit="points above the ratio, on average over the sizes",
        why="{} % and {} %; next to nothing is paid once here, so what the line takes for it is "
        "the rounding of last batches, and noise".format(*means),
    )
