"""What an experiment comes to: claims with their verdicts, rows of numbers, and a figure."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from axon.errors import ConfigurationError
from axon.experiments.settings import Settings
from axon.intervals import Interval
from axon.report.figures import Figure
from axon.report.tables import Cell, shown
from axon.version import __version__

Row = Mapping[str, Cell]


@dataclass(frozen=True, slots=True, kw_only=True)
class Claim:
    """One sentence of a paper, what it says there, and what was measured here."""

    claim: str
    paper: float | str | None
    """The number or the words of the paper; None for a claim of our own."""
    measured: float | str
    unit: str = ""
    holds: bool
    interval: tuple[float, float] | None = None
    """Between which bounds the measured number lies 95 times out of 100, where it was repeated."""
    why: str = ""
    """A sentence about the verdict; there has to be one where the claim does not hold."""

    def __post_init__(self) -> None:
        if not self.holds and not self.why:
            raise ConfigurationError(
                f"the claim {self.claim!r} does not hold and does not say why", hint="give a why"
            )


@dataclass(frozen=True, slots=True, kw_only=True)
class Result:
    """One experiment done: its claims, its numbers, and the picture of them."""

    name: str
    title: str
    claims: tuple[Claim, ...]
    rows: tuple[Row, ...]
    """One for each line of the table; a cell may be an `Interval`."""
    figure: Figure | None = None
    repeats: int = 1
    """How often each number was measured."""
    dataset: str = ""
    """What was trained on, where something was."""
    notes: tuple[str, ...] = ()
    """What a reader must know to judge it: sentences about assumptions and substitutes."""


def bounds(found: Interval) -> tuple[float, float] | None:
    """The bounds of an interval as a claim holds them; None where one measurement gives none."""
    if math.isfinite(found.low) and math.isfinite(found.high):
        return found.low, found.high
    return None


def verdict(claim: Claim) -> str:
    """A claim's verdict in words."""
    return "holds" if claim.holds else "does not hold"


def measured(claim: Claim) -> str:
    """What was measured, with its unit, and its bounds where they are apart."""
    said = f"{shown(claim.measured)} {claim.unit}".rstrip()
    if claim.interval is None or shown(claim.interval[0]) == shown(claim.interval[1]):
        return said
    low, high = claim.interval
    return f"{said} ({shown(low)} to {shown(high)})"


def published(claim: Claim) -> str:
    """What the paper says; the unit is the same."""
    return "says nothing" if claim.paper is None else shown(claim.paper)


def to_json(result: Result, settings: Settings) -> dict[str, Any]:
    """The result and what it was run with, in plain values; numbers without an end become None."""
    return {
        "name": result.name,
        "title": result.title,
        "version": __version__,
        "seed": settings.seed,
        "repeats": result.repeats,
        "quick": settings.quick,
        "dataset": result.dataset or None,
        "claims": [_claim(each) for each in result.claims],
        "rows": [{key: _plain(cell) for key, cell in row.items()} for row in result.rows],
        "notes": list(result.notes),
    }


def _claim(claim: Claim) -> dict[str, Any]:
    return {
        "claim": claim.claim,
        "paper": _plain(claim.paper),
        "measured": _plain(claim.measured),
        "unit": claim.unit,
        "holds": claim.holds,
        "interval": None if claim.interval is None else [_plain(end) for end in claim.interval],
        "why": claim.why,
    }


def _plain(cell: Cell) -> Any:
    if isinstance(cell, Interval):
        ends = bounds(cell)
        low, high = (None, None) if ends is None else ends
        return {"value": _plain(cell.value), "low": low, "high": high}
    if isinstance(cell, float) and not math.isfinite(cell):
        return None
    return cell
