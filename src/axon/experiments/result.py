"""What an experiment comes to: claims with their verdicts, rows of numbers, and a figure.

A claim about a number that was measured with chance in it is `judged` by the number's 95 %
interval: it holds only where the whole of it lies on the claim's side.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from html import escape
from typing import TYPE_CHECKING, Any

from axon.errors import ConfigurationError
from axon.experiments.settings import Settings
from axon.intervals import Interval
from axon.report.figures import Figure, Point, Series
from axon.report.frames import rows_frame
from axon.report.tables import Cell, html_table, shown
from axon.version import __version__

if TYPE_CHECKING:
    import pandas as pd

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

    def to_pandas(self) -> pd.DataFrame:
        """Its rows; see `axon.report.frames.rows_frame`."""
        return rows_frame(self.rows)

    def _repr_html_(self) -> str:
        claims = [_told(each) for each in self.claims]
        notes = "".join(f"<p>{escape(note)}</p>" for note in self.notes)
        return f"<h4>{escape(self.title)}</h4>{html_table(claims)}{notes}{html_table(self.rows)}"


@dataclass(frozen=True, slots=True)
class Side:
    """The numbers for which a claim holds; without `least` and `most` where it is `open`."""

    least: float | None = None
    most: float | None = None
    open: bool = False

    def has(self, found: Interval) -> bool:
        """Whether the whole of the interval lies here."""
        return self._above(found.low) and self._below(found.high)

    def meets(self, found: Interval) -> bool:
        """Whether a part of it does."""
        return self._above(found.high) and self._below(found.low)

    def _above(self, number: float) -> bool:
        if self.least is None:
            return True
        return number > self.least if self.open else number >= self.least

    def _below(self, number: float) -> bool:
        if self.most is None:
            return True
        return number < self.most if self.open else number <= self.most


ABOVE_ZERO, BELOW_ZERO = Side(least=0.0, open=True), Side(most=0.0, open=True)


def judged(
    claim: str,
    found: Interval,
    side: Side,
    *,
    paper: float | str | None = None,
    unit: str = "",
    why: str = "",
) -> Claim:
    """A claim that a number is on that side, decided by its interval; never by its value alone.

    Where the interval lies on both sides, the claim does not hold, as it was not shown.
    """
    holds, known = side.has(found), math.isfinite(found.value)
    endless = math.isinf(found.low) and math.isinf(found.high)
    if not holds and side.meets(found):
        reason = "these repeats give no interval" if endless else _undecided(found, side)
        why = "; ".join(filter(None, (f"not shown: {reason}", why)))
    return Claim(
        claim=claim,
        paper=paper,
        measured=found.value if known else "not known",
        unit=unit if known else "",
        holds=holds,
        interval=None if endless else (found.low, found.high),
        why=why,
    )


def _undecided(found: Interval, side: Side) -> str:
    ends = [end for end in (side.least, side.most) if end is not None]
    inside = [shown(end) for end in ends if found.low <= end <= found.high]
    return f"the interval has {' and '.join(inside)} in it"


def bounds(found: Interval) -> tuple[float, float] | None:
    """The bounds of an interval as a claim holds them; None where one measurement gives none."""
    if math.isfinite(found.low) and math.isfinite(found.high):
        return found.low, found.high
    return None


def line(label: str, curve: Sequence[Interval], across: Sequence[float] | None = None) -> Series:
    """A curve as it is drawn: over the cycles, from 1, unless it is told over what."""
    places = range(1, len(curve) + 1) if across is None else across
    return Series(
        label,
        tuple(
            Point(place, found.value, *(bounds(found) or (None, None)))
            for place, found in zip(places, curve, strict=True)
        ),
    )


def verdict(claim: Claim) -> str:
    """A claim's verdict in words."""
    return "holds" if claim.holds else "does not hold"


def measured(claim: Claim) -> str:
    """What was measured, with its unit, and its bounds where they are apart."""
    said = f"{shown(claim.measured)} {claim.unit}".rstrip()
    if claim.interval is None or shown(claim.interval[0]) == shown(claim.interval[1]):
        return said
    low, high = claim.interval
    if math.isinf(low) or math.isinf(high):
        return (
            f"{said} ({f'at most {shown(high)}' if math.isinf(low) else f'at least {shown(low)}'})"
        )
    return f"{said} ({shown(low)} to {shown(high)})"


def published(claim: Claim) -> str:
    """What the paper says; the unit is the same."""
    return "says nothing" if claim.paper is None else shown(claim.paper)


def _told(claim: Claim) -> Row:
    """A claim as a line of a table."""
    return {
        "claim": claim.claim,
        "paper": published(claim),
        "measured": measured(claim),
        "verdict": verdict(claim),
        "why": claim.why or None,
    }


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
