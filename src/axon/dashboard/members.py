"""What is known of each device of a run: its totals over all cycles, and what it is doing now."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
from numpy.typing import NDArray

from axon.dashboard.facts import DECLINED, FAILED, LATE, REFUSED, STATUSES, USED, Facts, spans

MISSED = (LATE, REFUSED, FAILED)
"""What is said to have gone wrong; who declines or is not needed has done nothing wrong."""
_CAME = (USED, LATE, REFUSED)

_FLOATS = ("train_s", "trained", "fetch_s", "fetches", "upload_s", "uploads", "seen_s", "took_s")
_COUNTS = ("planned", "done", "shards", "samples", "halted", "cycle", "status", "reason", "stamp")


class Members:
    """Columns of totals, a place for each device, by its number in the run's roll."""

    def __init__(self) -> None:
        self._size = 0
        self._floats = {name: np.zeros(0) for name in _FLOATS}
        self._counts = {name: np.zeros(0, dtype=np.int64) for name in _COUNTS}
        self._ends = np.zeros((0, len(STATUSES)), dtype=np.int64)
        self._now: dict[int, tuple[str, int, int]] = {}
        self._told: dict[int, float] = {}

    def __len__(self) -> int:
        return self._size

    def take(self, facts: Facts, stamp: int) -> None:
        """Add one cycle to the totals of those who were in it."""
        cells = facts.cells
        if not len(cells):
            return
        who = cells["device"].astype(np.intp)
        self._grow(int(who.max()) + 1)
        self._ends[who, cells["status"]] += 1
        self._add_work(cells, who)
        self._add_times(cells, who)
        counts, floats = self._counts, self._floats
        counts["status"][who], counts["reason"][who] = cells["status"], cells["reason"]
        counts["stamp"][who] = stamp
        # Whose update came has answered, even where nobody wrote down when.
        heard = np.isfinite(cells["answered"]) | np.isin(cells["status"], _CAME)
        counts["cycle"][who[heard]] = facts.cycle
        floats["seen_s"][who[heard]] = facts.started_s + cells["answered"][heard]
        floats["took_s"][who] = cells["answered"]
        for number in who.tolist():
            self._now.pop(number, None)

    def _add_work(self, cells: NDArray[np.void], who: NDArray[np.intp]) -> None:
        counts = self._counts
        planned = cells["planned"] >= 0
        counts["planned"][who[planned]] += cells["planned"][planned]
        counts["done"][who[planned]] += _kept(cells)[planned]
        counts["shards"][who] += _kept(cells)
        counts["samples"][who] += cells["samples"]
        counts["halted"][who] += cells["halted"]

    def _add_times(self, cells: NDArray[np.void], who: NDArray[np.intp]) -> None:
        floats = self._floats
        fetched, trained = spans(cells)
        known = np.isfinite(fetched) & np.isfinite(trained) & (cells["samples"] > 0)
        floats["train_s"][who[known]] += (trained - fetched)[known]
        floats["trained"][who[known]] += cells["samples"][known]
        known = np.isfinite(fetched)
        floats["fetch_s"][who[known]] += fetched[known]
        floats["fetches"][who[known]] += 1
        upload = cells["answered"] - trained
        # Without times of its own, a device's upload is part of its training.
        known = np.isfinite(upload) & np.isfinite(cells["train"])
        floats["upload_s"][who[known]] += upload[known]
        floats["uploads"][who[known]] += 1

    def say(self, number: int, state: str, stamp: int, done: int = 0, total: int = 0) -> None:
        """What a device is doing now, until the cycle's record tells what came of it."""
        self._grow(number + 1)
        self._now[number] = (state, done, total)
        self._counts["stamp"][number] = stamp

    def now(self, number: int) -> str | None:
        """What it is doing, if that is known."""
        return self._now[number][0] if number in self._now else None

    def settle(
        self, number: int, status: int, reason: int, stamp: int, answered: int | None = None
    ) -> None:
        """What came of it, before the cycle's record says the same; `answered` in that cycle."""
        self._grow(number + 1)
        self._now.pop(number, None)
        self._counts["status"][number], self._counts["reason"][number] = status, reason
        self._counts["stamp"][number] = stamp
        if answered is not None:
            self._counts["cycle"][number] = answered
            # The second is known with the record, which tells when the cycle began.
            self._floats["seen_s"][number] = math.nan

    def tell(self, number: int, bytes_per_s: float) -> None:
        """How quick its link is, as it told itself."""
        self._told[number] = bytes_per_s

    def rest(self, stamp: int) -> None:
        """Nobody does anything any more."""
        for number in self._now:
            self._counts["stamp"][number] = stamp
        self._now.clear()

    def changed(self, since: int) -> list[int]:
        """Those of whom something new is known."""
        return np.flatnonzero(self._counts["stamp"][: self._size] > since).tolist()

    def row(self, number: int) -> dict[str, Any]:
        """One device; None for what is not known."""
        counts, floats = self._counts, self._floats
        state, done, total = self._now.get(number, ("", 0, 0))
        ends = self._ends[number]
        status = int(counts["status"][number])
        known = bool(ends.any()) or bool(counts["stamp"][number])
        return {
            "id": number,
            "state": state or (STATUSES[status] if known else "unknown"),
            "done": done,
            "total": total,
            "wrong": not state and status in MISSED,
            "reason_id": int(counts["reason"][number]) if not state else None,
            "cycle": int(counts["cycle"][number]),
            "seen_s": float(floats["seen_s"][number]),
            "took_s": float(floats["took_s"][number]),
            "samples_per_s": _ratio(floats["trained"][number], floats["train_s"][number]),
            "download_s": _ratio(floats["fetch_s"][number], floats["fetches"][number]),
            "upload_s": _ratio(floats["upload_s"][number], floats["uploads"][number]),
            "bytes_per_s": self._told.get(number),
            "planned": int(counts["planned"][number]),
            "done_of_planned": int(counts["done"][number]),
            "shards": int(counts["shards"][number]),
            "used": int(ends[USED]),
            "late": int(ends[LATE]),
            "failed": int(ends[FAILED]),
            "sat_out": int(ends[DECLINED]),
            "refused": int(ends[REFUSED]),
            "halted": int(counts["halted"][number]),
            "cycles": int(ends.sum()),
        }

    def _grow(self, size: int) -> None:
        if size <= self._size:
            return
        room = len(self._ends)
        if size > room:
            more = max(size, 2 * room, 16) - room
            self._floats = {
                name: np.concatenate([column, np.full(more, _EMPTY.get(name, 0.0))])
                for name, column in self._floats.items()
            }
            self._counts = {
                name: np.concatenate([column, np.zeros(more, dtype=np.int64)])
                for name, column in self._counts.items()
            }
            self._ends = np.concatenate([self._ends, np.zeros((more, len(STATUSES)), np.int64)])
        self._size = size


_EMPTY = {"seen_s": math.nan, "took_s": math.nan}


def _kept(cells: NDArray[np.void]) -> NDArray[np.int64]:
    """The shards behind the average: what is late or lost was done for nothing."""
    kept: NDArray[np.int64] = np.where(cells["status"] == USED, cells["shards"], 0)
    return kept


def _ratio(above: float, below: float) -> float | None:
    return float(above / below) if below > 0 else None
