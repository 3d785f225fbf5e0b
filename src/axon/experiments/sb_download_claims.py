"""What the DAB thesis says of Fig. 3.3, held against what was found."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from statistics import fmean

from axon.devices.subset import Method
from axon.experiments import paired
from axon.experiments.result import ABOVE_ZERO, BELOW_ZERO, Claim, Side, judged
from axon.intervals import Interval, mean_interval
from axon.report.tables import shown

METHODS: tuple[Method, ...] = ("ratio", "affine")
"""Of the thesis, and ours."""
PUBLISHED = {"Ethernet": (16.0, 10.0), "WiFi": (32.0, 8.0)}
"""Per cent with 2 and with 10 shards."""
AFFINE = 5.0
"""Per cent that the affine fit is to err by at most, with 10 shards."""
BEST_SIZE, BEST = 6, 30.0
"""Where WiFi is furthest below Ethernet in the thesis, and by how many per cent."""

Errors = Mapping[Method, Sequence[float]]
"""In per cent of the real time, repeat by repeat."""
Found = Mapping[str, Mapping[int, Errors]]
"""Errors by the kind of network, and the size of the benchmark."""


def claims_of(found: Found, unforeseen: Mapping[str, float]) -> tuple[Claim, ...]:
    """Every sentence of the thesis about the figure, and what we say of the affine fit.

    Unforeseen is by how many per cent a whole download is off its own mean on each network.
    """
    claims = []
    for kind, sizes in found.items():
        why = (
            f"the download itself takes {shown(unforeseen[kind])} % more or less from one time to "
            "the next, which no benchmark foresees, and what the benchmark meets is chance as well"
        )
        claims += [
            _at_first(kind, sizes),
            _small(kind, sizes, "ratio", PUBLISHED[kind][1], why),
            _small(kind, sizes, "affine", AFFINE, why),
            *(_falls(kind, sizes, method) for method in METHODS),
            _no_worse(kind, sizes),
        ]
    return (*claims, *_beside(found))


def _at_first(kind: str, sizes: Mapping[int, Errors]) -> Claim:
    first, paper = min(sizes), PUBLISHED[kind][0]
    return judged(
        f"with {first} shards the ratio fit errs by {paper:g} % on {kind}",
        mean_interval(sizes[first]["ratio"]),
        Side(paper - 0.5, paper + 0.5),
        paper=paper,
        unit="%",
        why="it follows from the latency, the opening of connections and the traffic, of which the "
        "thesis gives no numbers; counted to the whole per cent that it prints",
    )


def _small(kind: str, sizes: Mapping[int, Errors], method: Method, most: float, why: str) -> Claim:
    last = max(sizes)
    return judged(
        f"with {last} shards the {method} fit errs by at most {most:g} % on {kind}",
        mean_interval(sizes[last][method]),
        Side(most=most),
        paper=PUBLISHED[kind][1] if method == "ratio" else None,
        unit="%",
        why=why,
    )


def _falls(kind: str, sizes: Mapping[int, Errors], method: Method) -> Claim:
    first, last = sizes[min(sizes)][method], sizes[max(sizes)][method]
    return judged(
        f"the error of the {method} fit falls with the size of the benchmark on {kind}",
        paired.difference(last, first),
        BELOW_ZERO,
        paper="{:g} to {:g} %".format(*PUBLISHED[kind]) if method == "ratio" else None,
        unit=f"points from {min(sizes)} to {max(sizes)} shards",
        why=f"from {shown(mean_interval(first))} % to {shown(mean_interval(last))} %",
    )


def _no_worse(kind: str, sizes: Mapping[int, Errors]) -> Claim:
    """Decided at the size at which the affine fit looks worst, so that it holds at each."""
    apart = {
        size: paired.difference(errors["affine"], errors["ratio"]) for size, errors in sizes.items()
    }
    worst = max(apart, key=lambda size: apart[size].high)
    over = [str(size) for size in apart if apart[size].value > 0]
    return judged(
        f"the affine fit is no worse than the ratio at each size on {kind}",
        apart[worst],
        Side(most=0.0),
        unit=f"points above the ratio with {worst} shards",
        why=f"on average it is worse with {' and '.join(over) or 'no number of'} shards",
    )


def _beside(found: Found) -> list[Claim]:
    """What the thesis says of the two networks beside one another, by the ratio."""
    wire, radio = (_ratios(found[kind]) for kind in ("Ethernet", "WiFi"))
    first = min(wire)
    best = max(wire, key=lambda size: paired.cut(radio[size], wire[size]).value)
    overall = paired.difference(_over_sizes(radio), _over_sizes(wire))
    means = f"{shown(_mean(radio, first))} % and {shown(_mean(wire, first))} %"
    return [
        judged(
            "SB generally errs less on WiFi than on Ethernet",
            overall,
            BELOW_ZERO,
            paper="lower",
            unit="points on average over the sizes",
            why="on WiFi the opening of a connection is spread over the benchmark's few shards, "
            "and only the traffic on the wire speaks for it",
        ),
        judged(
            f"with {BEST_SIZE} shards SB errs by {BEST:g} % less on WiFi than on Ethernet",
            paired.cut(radio[BEST_SIZE], wire[BEST_SIZE]),
            Side(least=BEST),
            paper=BEST,
            unit="% less",
            why=f"{shown(_mean(radio, BEST_SIZE))} % on WiFi and {shown(_mean(wire, BEST_SIZE))} % "
            f"on Ethernet; WiFi comes off best with {best} shards",
        ),
        judged(
            "with small benchmarks SB errs more on WiFi than on Ethernet",
            paired.difference(radio[first], wire[first]),
            ABOVE_ZERO,
            paper=PUBLISHED["WiFi"][0] - PUBLISHED["Ethernet"][0],
            unit=f"points with {first} shards",
            why=means,
        ),
    ]


def _ratios(sizes: Mapping[int, Errors]) -> dict[int, Sequence[float]]:
    return {size: errors["ratio"] for size, errors in sizes.items()}


def _over_sizes(sizes: Mapping[int, Sequence[float]]) -> list[float]:
    """The mean over all sizes, repeat by repeat."""
    return [fmean(errors) for errors in zip(*sizes.values(), strict=True)]


def _mean(sizes: Mapping[int, Sequence[float]], size: int) -> Interval:
    return mean_interval(sizes[size])
