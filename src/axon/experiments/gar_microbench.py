"""How long the rules take, over the number of vectors and their size (GARFIELD, Fig. 3.3).

The paper times them on a GPU; here it is whatever this machine has: its CPU, and CUDA beside it
where there is one. As in the paper, the time includes bringing the result back to main memory.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence

import torch
from torch import Tensor

from axon.aggregation import bulyan, krum, mda, mean, median, multi_krum, trimmed_mean
from axon.experiments.gar_microbench_claims import AVERAGE, Found, Timing, claims_of
from axon.experiments.result import Result, Row, line
from axon.experiments.settings import Settings
from axon.intervals import mean_interval
from axon.report.figures import Figure, Panel
from axon.report.tables import Cell

NAME = "gar-microbench"
COUNTS, QUICK_COUNTS = (7, 11, 15, 19, 23), (7, 15, 23)
SIZE, QUICK_SIZE = 10**7, 10**5
"""Numbers in a vector while their count grows."""
COUNT = 17
"""Vectors while their size grows."""
PARTS = (10, 5, 2, 1)
"""The sizes are these parts of the largest."""
REPEATS, QUICK_REPEATS = 7, 3
AT_LEAST_S = 0.03
"""For so long a rule is called again in one repeat."""

RULES: Mapping[str, Callable[[Tensor, int], Tensor]] = {
    AVERAGE: lambda stack, _: mean(stack),
    "median": lambda stack, f: median(stack, f=f),
    "trimmed mean": lambda stack, f: trimmed_mean(stack, f=f),
    "Krum": lambda stack, f: krum(stack, f=f),
    "Multi-Krum": lambda stack, f: multi_krum(stack, f=f),
    "MDA": lambda stack, f: mda(stack, f=f),
    "Bulyan": lambda stack, f: bulyan(stack, f=f),
}
"""Of the paper's figure, and two more."""


def borne(count: int) -> int:
    """How many of so many vectors may be anything: the most that the strictest rule bears."""
    return (count - 3) // 4


def seconds(rule: str, stack: Tensor) -> float:
    """How long a rule takes, with the result in main memory: the least of several times.

    A call of a millisecond is now and then ten times as long, because the core was somebody else's.
    """
    taken: list[float] = []
    while not taken or sum(taken) < AT_LEAST_S:
        _settle(stack)
        began_s = time.perf_counter()
        RULES[rule](stack, borne(len(stack))).cpu()
        taken.append(time.perf_counter() - began_s)
    return min(taken)


def timings(
    whole: Tensor, places: Sequence[tuple[int, int]], repeats: int
) -> dict[tuple[int, int], Timing]:
    """The seconds of each rule for each number of vectors and size, cut out of one stack.

    All rules take turns in a repeat, so that what else the machine does meets each of them.
    """
    found: dict[tuple[int, int], Timing] = {}
    for count, size in places:
        # A copy where it is no whole row: a rule is to find its rows one behind the other.
        stack = whole[:count, :size].contiguous()
        taken = [{rule: seconds(rule, stack) for rule in RULES} for _ in range(repeats)]
        found[count, size] = {rule: [each[rule] for each in taken] for rule in RULES}
    return found


def run(settings: Settings) -> Result:
    """Time every rule on every device of this machine."""
    repeats = settings.repeated(REPEATS, QUICK_REPEATS)
    counts, size = (QUICK_COUNTS, QUICK_SIZE) if settings.quick else (COUNTS, SIZE)
    sizes = [size // part for part in PARTS]
    found: dict[str, Found] = {}
    for device in _devices():
        settings.progress(f"{len(RULES)} rules on {device}, {repeats} repeats")
        whole = _stack(max(counts), size, device, settings.seed)
        found[device] = Found(
            over_counts=timings(whole, [(count, size) for count in counts], repeats),
            over_sizes=timings(whole, [(COUNT, each) for each in sizes], repeats),
        )
    return Result(
        name=NAME,
        title="Time of the aggregation rules over the number of vectors and their size",
        claims=tuple(claim for device in found for claim in claims_of(device, found[device])),
        rows=tuple(row for device in found for row in _rows(device, found[device])),
        figure=_figure(found),
        repeats=repeats,
        notes=_notes(size),
    )


def _devices() -> list[str]:
    return ["cpu", "cuda"] if torch.cuda.is_available() else ["cpu"]


def _stack(count: int, size: int, device: str, seed: int) -> Tensor:
    chance = torch.Generator(device).manual_seed(seed)
    return torch.randn(count, size, generator=chance, device=device)


def _settle(stack: Tensor) -> None:
    """Wait for what a GPU still has to do."""
    if stack.is_cuda:
        torch.cuda.synchronize(stack.device)


def _rows(device: str, found: Found) -> list[Row]:
    rows: list[Row] = []
    for sweep, timed in (("n", found.over_counts), ("d", found.over_sizes)):
        for (count, size), timing in timed.items():
            cells: dict[str, Cell] = {"device": device, "over": sweep}
            cells |= {"n": count, "f": borne(count), "d": size}
            cells |= {
                f"{rule} [ms]": mean_interval([1e3 * each for each in taken])
                for rule, taken in timing.items()
            }
            rows.append(cells)
    return rows


def _figure(found: Mapping[str, Found]) -> Figure:
    panels = []
    for device, timed in found.items():
        sizes = {size for _, size in timed.over_counts}
        panels += [
            _panel(f"{device}, d = {max(sizes):.0e}", "vectors", timed.over_counts, 0),
            _panel(f"{device}, n = {COUNT}", "numbers in a vector", timed.over_sizes, 1),
        ]
    return Figure("Time of the aggregation rules", tuple(panels))


def _panel(title: str, x_label: str, timed: Mapping[tuple[int, int], Timing], axis: int) -> Panel:
    across = [float(place[axis]) for place in timed]
    series = tuple(
        line(
            rule,
            [mean_interval([1e3 * each for each in timing[rule]]) for timing in timed.values()],
            across,
        )
        for rule in RULES
    )
    return Panel(title, x_label, "time [ms]", series, logarithmic="both")


def _notes(size: int) -> tuple[str, ...]:
    threads = torch.get_num_threads()
    place = (
        f"On the CPU with {threads} thread{'s' if threads > 1 else ''}, vectors of up to {size:,} "
        "numbers of 4 bytes, f = (n - 3) // 4 for every rule, as in the paper. What else the "
        "machine does is in the times, and in their intervals."
    )
    if torch.cuda.is_available():
        return (place, f"CUDA is {torch.cuda.get_device_name()}.")
    return (place, "The paper's figure is of a GPU; there is none in this machine.")
