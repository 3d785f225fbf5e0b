"""How well subset benchmarking predicts the time to download 60 shards (DAB thesis, Fig. 3.3).

In virtual time, over the reckoned links of the simulated world. What makes a small benchmark err is
stated as values: the latency and jitter of the catalogue's links, a round trip to open a
connection, and, on the wire, what other hosts send meanwhile.
"""

from __future__ import annotations

import asyncio
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from random import Random
from statistics import fmean

from axon.devices.subset import Method, fit, nested
from axon.experiments.mnist import PIXELS, SHARD_SAMPLES
from axon.experiments.result import Result, Row, line
from axon.experiments.sb_download_claims import METHODS, PUBLISHED, Errors, Found, claims_of
from axon.experiments.settings import Settings
from axon.intervals import mean_interval
from axon.report.figures import Figure, Panel, Point, Series
from axon.report.tables import Cell, shown
from axon.rpc.link import Link
from axon.rpc.memory.network import HEAD_BYTES
from axon.seeds import plain_stream
from axon.testbed import catalogue, virtual
from axon.testbed.reckoned import ReckonedLink

NAME = "sb-download"
SHARD_BYTES = SHARD_SAMPLES * (PIXELS + 1)
"""A byte for each pixel, and one for the label."""
SHARDS = 60
SIZES = tuple(range(2, 11))
REPEATS, QUICK_REPEATS = 45, 15


@dataclass(frozen=True, slots=True)
class Traffic:
    """What others send over the same wire: bursts of one size, at random moments."""

    load: float = 0.0
    """The part of the wire's time that they take."""
    burst_bytes: int = SHARD_BYTES

    def beside(self, size: int, bytes_per_s: float, random: Random) -> int:
        """The bytes that share the wire with a message of that size, until its last has left."""
        if not self.load:
            return 0
        each_s = self.burst_bytes / bytes_per_s
        ends_s, others = size / bytes_per_s, 0
        arrives_s = random.expovariate(self.load / each_s)
        while arrives_s < ends_s:
            ends_s += each_s
            others += self.burst_bytes
            arrives_s += random.expovariate(self.load / each_s)
        return others


@dataclass(frozen=True, slots=True)
class Path:
    """How a device reaches the orchestrator."""

    link: Link
    traffic: Traffic = Traffic()
    opens: bool = True
    """Whether every download opens a connection first, in one round trip."""


PATHS: Mapping[str, Path] = {
    "Ethernet": Path(catalogue.device("jetson-nano").link, Traffic(load=0.1)),
    "WiFi": Path(catalogue.device("ideapad").link),
}
"""The Jetson Nano and the IdeaPad, as in the thesis."""

VARIATIONS: tuple[tuple[str, str, Path], ...] = (
    ("without other traffic", "Ethernet", Path(PATHS["Ethernet"].link)),
    ("with others half of the time", "Ethernet", Path(PATHS["Ethernet"].link, Traffic(0.5))),
    (
        "with bursts of 1 MB, a tenth of the time",
        "Ethernet",
        Path(PATHS["Ethernet"].link, Traffic(0.1, 1_000_000)),
    ),
    ("with a connection that is open already", "WiFi", Path(PATHS["WiFi"].link, opens=False)),
)
"""What else could have been assumed."""

ASSUMED = (
    "Assumed: shards of 500 samples with a byte for each pixel; the links of the catalogue, of "
    "which only WiFi has jitter; every download opens a connection, which takes one round trip; "
    "on the wire, other hosts fetch a shard each at random moments and take a tenth of its time. "
    "The thesis gives none of these numbers, and none was fitted to its results."
)
OPENED = (
    "A learner of Axon fetches the model first and keeps the connection open, so none of its "
    "shards pays for the opening."
)


class Downloading:
    """One repeat's downloads, each with the time it took."""

    def __init__(self, path: Path, random: Random) -> None:
        self._path = path
        self._random = random
        self._link = ReckonedLink(path.link, random)

    async def seconds(self, shards: int) -> float:
        """How long that many shards take."""
        loop, path = asyncio.get_running_loop(), self._path
        began_s = loop.time()
        if path.opens:
            await self._link.ask(HEAD_BYTES, HEAD_BYTES)
        size = HEAD_BYTES + shards * SHARD_BYTES
        others = path.traffic.beside(size, path.link.down_bytes_per_s, self._random)
        await self._link.ask(HEAD_BYTES, size + others)
        return loop.time() - began_s


async def predict(path: Path, size: int, random: Random) -> dict[Method, float]:
    """By which part of the real time each prediction from a benchmark of that size is off."""
    downloading = Downloading(path, random)
    points = [(float(count), await downloading.seconds(count)) for count in nested(size)]
    real_s = await downloading.seconds(SHARDS)
    return {
        method: abs(fit(points, method).predict(SHARDS).value - real_s) / real_s
        for method in METHODS
    }


def errors(path: Path, size: int, repeats: int, seed: int) -> Errors:
    """The errors of each method."""
    found = [
        virtual.run(predict(path, size, plain_stream(seed, NAME, size, number)))
        for number in range(repeats)
    ]
    # Rounded, or what is no error at all would be told as the rounding of a sum.
    return {method: [round(100.0 * each[method], 9) for each in found] for method in METHODS}


def unforeseen(path: Path, repeats: int, seed: int) -> float:
    """By how many per cent a download of all the shards is off its own mean: nobody foresees it."""
    taken_s = [
        virtual.run(Downloading(path, plain_stream(seed, NAME, "whole", number)).seconds(SHARDS))
        for number in range(repeats)
    ]
    mean_s = fmean(taken_s)
    return 100.0 * fmean(abs(each_s - mean_s) for each_s in taken_s) / mean_s


def run(settings: Settings) -> Result:
    """Predict and measure downloads over both kinds of network."""
    repeats, seed = settings.repeated(REPEATS, QUICK_REPEATS), settings.seed
    found: dict[str, dict[int, Errors]] = {}
    for kind, path in PATHS.items():
        settings.progress(f"{kind}, {repeats} repeats")
        found[kind] = {size: errors(path, size, repeats, seed) for size in SIZES}
    chance = {kind: unforeseen(path, repeats, seed) for kind, path in PATHS.items()}
    return Result(
        name=NAME,
        title="Error of the predicted time to download 60 shards",
        claims=claims_of(found, chance),
        rows=tuple(_row(kind, size, found) for kind in PATHS for size in SIZES),
        figure=_figure(found),
        repeats=repeats,
        notes=(ASSUMED, OPENED, *_dependence(repeats, seed)),
    )


def _row(kind: str, size: int, found: Found) -> Row:
    first, last = PUBLISHED[kind]
    cells: dict[str, Cell] = {"network": kind, "shards": size}
    cells |= {f"{method} [%]": mean_interval(found[kind][size][method]) for method in METHODS}
    return cells | {"paper [%]": {SIZES[0]: first, SIZES[-1]: last}.get(size)}


def _figure(found: Found) -> Figure:
    panels = []
    for kind, sizes in found.items():
        lines = [
            line(label, [mean_interval(errors[method]) for errors in sizes.values()], SIZES)
            for method, label in zip(METHODS, ("ratio, as in the thesis", "affine"), strict=True)
        ]
        ends = zip((SIZES[0], SIZES[-1]), PUBLISHED[kind], strict=True)
        paper = Series("published", tuple(Point(size, error) for size, error in ends), "scatter")
        panels.append(Panel(kind, "benchmark [shards]", "error [%]", (*lines, paper)))
    return Figure("Predicted time to download 60 shards", tuple(panels))


def _dependence(repeats: int, seed: int) -> Sequence[str]:
    """How much hangs on what was assumed."""
    sentences = []
    for name, kind, path in VARIATIONS:
        first, last = (errors(path, size, repeats, seed) for size in (SIZES[0], SIZES[-1]))
        told = ", ".join(
            f"{method} {shown(mean_interval(first[method]))} to "
            f"{shown(mean_interval(last[method]))} %"
            for method in METHODS
        )
        sentences.append(f"{kind} {name}, from {SIZES[0]} to {SIZES[-1]} shards: {told}.")
    return sentences
