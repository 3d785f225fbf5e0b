"""How stale four allocations of one data set are (Mohammad and Sorour, Fig. 2).

Learners around an access point share 60,000 samples, and each works as many epochs as fit into the
cycle; staleness is by how many epochs two learners differ. Repeats are random placements.
"""

from __future__ import annotations

import math
from dataclasses import replace

from axon.allocation.link import MNIST
from axon.experiments.placements import SCHEMES, Found, Setup, measure
from axon.experiments.result import Result, Row, line
from axon.experiments.settings import Settings
from axon.experiments.staleness_claims import CITED, CITED_S, claims_of
from axon.report.figures import Figure, Panel
from axon.report.tables import Cell, shown

NAME = "staleness"
PERIODS_S = (7.5, 15.0)
LEARNERS = tuple(range(2, 21, 2))
QUICK_LEARNERS = (6, 14, 18, 20)
PLACEMENTS, QUICK_PLACEMENTS = 30, 3
ASSUMED = (
    "Assumed, as the paper does not say: clocks of 2.4 GHz and 700 MHz in turn, 5 MHz and 23 dBm "
    "for each node, the office model of IEEE 802.11 TGn for the path loss, a byte for each pixel, "
    "and from a tenth of to twice an equal share of the samples for each learner. In the column "
    "`tight` the exact search has to give each from 0.5 to 1.5 equal shares."
)
TIGHT = Setup(least_share=0.5, most_share=1.5)
"""Bounds that bind: a small board gets more samples than it would, a laptop fewer."""
VARIATIONS = (
    ("without bounds", Setup(least_share=0.0, most_share=math.inf)),
    ("with bounds of 0.5 and 1.5 equal shares", TIGHT),
    ("with bounds of 0.8 and 1.2 equal shares", Setup(least_share=0.8, most_share=1.2)),
    ("with 32 bits for a pixel", Setup(task=replace(MNIST, bits_per_feature=32))),
)
"""What else could have been assumed."""


def run(settings: Settings) -> Result:
    """Plan every placement with every scheme, and hold the paper's sentences against it."""
    placements = settings.repeated(PLACEMENTS, QUICK_PLACEMENTS)
    learners = QUICK_LEARNERS if settings.quick else LEARNERS
    found = measure(Setup(), learners, PERIODS_S, placements, settings)
    settings.progress("tight bounds")
    tight = measure(TIGHT, learners, PERIODS_S, placements, Settings(seed=settings.seed))
    return Result(
        name=NAME,
        title="Staleness of four allocations of 60,000 samples",
        claims=claims_of(found, tight),
        rows=tuple(
            _row(found, tight, period_s, count) for period_s in PERIODS_S for count in learners
        ),
        figure=_figure(found, tight),
        repeats=placements,
        notes=(ASSUMED, *_dependence(placements, settings)),
    )


def _row(found: Found, tight: Found, period_s: float, count: int) -> Row:
    cells: dict[str, Cell] = {"T [s]": period_s, "K": count}
    missing = []
    for label, plans, scheme in _curves(found, tight):
        cells[f"{label} max"] = plans.most(period_s, count, scheme)
        cells[f"{label} avg"] = plans.average(period_s, count, scheme)
        tried = plans.plans[period_s, count, scheme]
        without = tried.count(None)
        if without:
            missing.append(label if without == len(tried) else f"{label} {without}/{len(tried)}")
    cells["infeasible"] = ", ".join(missing) or "none"
    return cells


def _curves(found: Found, tight: Found) -> list[tuple[str, Found, str]]:
    """What is shown, in rows and in the figure: a label, the plans, and the scheme among them."""
    return [*((scheme, found, scheme) for scheme in SCHEMES), ("tight", tight, "exact")]


def _figure(found: Found, tight: Found) -> Figure:
    panels = []
    for kind in ("maximum", "average"):
        for period_s in PERIODS_S:
            series = []
            for name, plans, scheme in _curves(found, tight):
                value = plans.most if kind == "maximum" else plans.average
                means = {
                    count: mean
                    for count in plans.learners
                    if (mean := value(period_s, count, scheme)) is not None
                }
                shape = f"exact, {TIGHT.least_share:g} to {TIGHT.most_share:g} equal shares"
                label = shape if plans is tight else name
                series.append(line(label, list(means.values()), list(means)))
            panels.append(
                Panel(f"T = {period_s:g} s", "learners K", f"{kind} staleness", tuple(series))
            )
    return Figure("Staleness of four allocations", tuple(panels))


def _dependence(placements: int, settings: Settings) -> tuple[str, ...]:
    """How much the numbers that the paper gives hang on what it does not give."""
    sentences = []
    for name, setup in VARIATIONS:
        settings.progress(name)
        silent = Settings(seed=settings.seed)
        found = measure(setup, [CITED], [CITED_S], placements, silent)
        exact, equal = found.most(CITED_S, CITED, "exact"), found.most(CITED_S, CITED, "ETA")
        sentences.append(
            f"At K = {CITED} and T = {CITED_S:g} s {name}, the maximum staleness is "
            f"{shown(exact)} (ETA {shown(equal)})."
        )
    return tuple(sentences)
