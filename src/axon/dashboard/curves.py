"""What is kept of every cycle, a hundred bytes each, and thinned to what a screen can show."""

from __future__ import annotations

from array import array
from bisect import bisect_right
from itertools import pairwise
from typing import Any

import numpy as np
from numpy.typing import NDArray

from axon.dashboard.facts import DECLINED, FAILED, LATE, NOT_NEEDED, REFUSED, USED, Facts
from axon.rounds.collect import LINGER

POINTS = 400
"""The most that a curve is drawn with."""
HELD = LINGER + 0.005
"""A cycle that overran its deadline by no larger a part of it has held it: so long the orchestrator
itself waits for answers that are on their way, and a little longer by the clock of a real machine.
"""

_COLUMNS = ("cycle", "started", "ended", "deadline", "accuracy", "loss", "batches", "asked", "used",
            "late", "missing", "other")  # fmt: skip


class Curves:
    """Columns of numbers, a row for each cycle, in the order in which cycles came."""

    def __init__(self) -> None:
        self._columns = {name: array("d") for name in _COLUMNS}
        self._stamps = array("q")

    def __len__(self) -> int:
        return len(self._stamps)

    def add(self, facts: Facts, stamp: int) -> None:
        """Enter a cycle."""
        counts = np.bincount(facts.cells["status"], minlength=6)
        row = {
            "cycle": facts.cycle,
            "started": facts.started_s,
            "ended": facts.ended_s,
            "deadline": facts.deadline_s,
            "accuracy": facts.accuracy,
            "loss": facts.loss,
            "batches": facts.batches,
            "asked": int(counts.sum() - counts[NOT_NEEDED]),
            "used": int(counts[USED]),
            "late": int(counts[LATE]),
            "missing": int(counts[FAILED]),
            "other": int(counts[REFUSED] + counts[DECLINED]),
        }
        for name, column in self._columns.items():
            column.append(row[name])
        self._stamps.append(stamp)

    def column(self, name: str) -> NDArray[np.float64]:
        """One column, as a copy: the original may still grow."""
        return np.array(self._columns[name], dtype=np.float64)

    def last(self, name: str) -> float:
        """The newest number of a column; NaN before the first cycle."""
        column = self._columns[name]
        return column[-1] if column else float("nan")

    def row(self, at: int) -> dict[str, float]:
        """One cycle."""
        return {name: column[at] for name, column in self._columns.items()}

    def after(self, stamp: int) -> int:
        """The first cycle that came after that stamp."""
        return bisect_right(self._stamps, stamp)

    def learning(self, first: int = 0, most: int = POINTS) -> dict[str, list[float]]:
        """Accuracy and loss where the model was tested: all points, or the extremes of each part.

        The last point is always there, and so is every peak and every dip.
        """
        columns = {name: self.column(name)[first:] for name in ("cycle", "ended")}
        accuracy, loss = self.column("accuracy")[first:], self.column("loss")[first:]
        tested = np.flatnonzero(np.isfinite(accuracy) | np.isfinite(loss))
        kept = tested[_extremes(np.nan_to_num(accuracy[tested]), most)]
        columns |= {"accuracy": accuracy, "loss": loss}
        return {name: column[kept].tolist() for name, column in columns.items()}

    def timing(self, first: int = 0, most: int = POINTS) -> dict[str, list[float]]:
        """How long cycles took, and the shares of learners that were late, missing or left out.

        Of many cycles the longest of each part, with the mean of the shares.
        """
        cycle, ended = self.column("cycle")[first:], self.column("ended")[first:]
        if not len(cycle):
            return {name: [] for name in ("cycle", "ended", "duration", "deadline", *_SHARES)}
        starts = np.unique(np.linspace(0, len(cycle), min(most, len(cycle)) + 1).astype(int)[:-1])
        sizes = np.diff([*starts, len(cycle)])
        asked = np.maximum(self.column("asked")[first:], 1)
        duration = np.nan_to_num(ended - self.column("started")[first:])
        shares = {name: self.column(name)[first:] / asked for name in _SHARES}
        lasts = starts + sizes - 1
        return {
            "cycle": cycle[lasts].tolist(),
            "ended": ended[lasts].tolist(),
            "duration": np.maximum.reduceat(duration, starts).tolist(),
            "deadline": self.column("deadline")[first:][lasts].tolist(),
            **{
                name: (np.add.reduceat(share, starts) / sizes).tolist()
                for name, share in shares.items()
            },
        }

    def totals(self) -> dict[str, Any]:
        """All cycles in a few numbers, None for what is not known."""
        accuracy, deadline = self.column("accuracy"), self.column("deadline")
        duration = self.column("ended") - self.column("started")
        over = (duration - deadline) / deadline if len(deadline) else deadline
        tested = accuracy[np.isfinite(accuracy)]
        losses = self.column("loss")[np.isfinite(self.column("loss"))]
        asked = self.column("asked").sum()
        return {
            "cycles": len(self),
            "cycle": int(self.last("cycle")) if len(self) else 0,
            "clock_s": self.last("ended"),
            "deadline_s": self.last("deadline"),
            "accuracy": float(tested[-1]) if len(tested) else None,
            "best": float(tested.max()) if len(tested) else None,
            "loss": float(losses[-1]) if len(losses) else None,
            "batches": int(self.column("batches").sum()),
            "cycle_s": float(np.median(duration)) if len(self) else None,
            "held": float(np.mean(over <= HELD)) if len(self) else None,
            "overrun": float(np.max(over)) if len(self) else None,
            **{
                name: float(self.column(name).sum() / asked) if asked else None
                for name in ("used", *_SHARES)
            },
        }


_SHARES = ("late", "missing", "other")


def _extremes(values: NDArray[np.float64], most: int) -> NDArray[np.intp]:
    """Where the lowest, the highest and the last value of each of `most` / 3 parts stand."""
    if len(values) <= most:
        return np.arange(len(values))
    edges = np.linspace(0, len(values), most // 3 + 1).astype(int)
    kept = []
    for first, end in pairwise(edges.tolist()):
        part = values[first:end]
        kept += [first + int(part.argmin()), first + int(part.argmax()), end - 1]
    return np.unique(kept)
