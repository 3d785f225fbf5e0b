"""What a learner knows of itself on one task, benchmarked anew by every cycle that it trains.

It is made of plain numbers, so that a simulated world can keep it, and it never leaves the device.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, field

from axon.allocation.margin import MARGIN, Tails
from axon.devices.subset import Line, Point

LAST = 5
"""The cycles among which a dynamic learner looks for its best and its worst."""

LEAST_MOVED = 0.1
"""The part of a time that is never taken for fixed: a rate made of less would be all noise."""

FASTEST = 1e15
"""A second's amount; what took no time at all was quick enough for any arithmetic."""


@dataclass(slots=True)
class Speed:
    """One thing that a learner does: what it costs each time, and how quick it was of late."""

    fixed_s: float = 0.0
    """Paid each time, whatever the amount; only a benchmark tells it from the rest."""
    rates: list[float] = field(default_factory=list)
    """Of the last cycles, the newest last; none while nothing is known."""

    def learn(self, line: Line) -> None:
        """Take up what a benchmark found, in place of all that was known."""
        self.fixed_s = line.fixed_s
        self.rates = [min(line.rate, FASTEST)]

    def note(self, *points: Point, fixed_s: float = 0.0) -> None:
        """Take up the amounts and times of one cycle, in which so much was paid each time."""
        took_s = math.fsum(seconds for _, seconds in points)
        # What took less than its fixed part shows that this has become smaller.
        self.fixed_s = min(self.fixed_s, *(seconds for _, seconds in points))
        paid_s = len(points) * max(self.fixed_s, fixed_s)
        moved_s = max(took_s - paid_s, took_s * LEAST_MOVED)
        amount = math.fsum(amount for amount, _ in points)
        self.rates = [*self.rates, rate(amount, moved_s)][-LAST:]

    def doubt(self, *, dynamic: bool) -> None:
        """Believe less: a dynamic learner forgets its worst, another one all that it reckons by."""
        if dynamic and self.rates:
            self.rates.remove(min(self.rates))
        else:
            self.rates = []


@dataclass(slots=True)
class Pace:
    """A learner on one task: how it trains, how its link carries, how its answers come home."""

    training: Speed = field(default_factory=Speed)
    """Of samples."""
    link: Speed = field(default_factory=Speed)
    """Of bytes, a request at a time."""
    upload_s: float = 0.0
    tails: Tails = field(default_factory=Tails)
    ended_s: float | None = None
    """When training ended the last time, or should have, in seconds after the order came."""
    returned_s: float | None = None
    """When the update was handed back, the last time, in seconds after the order came."""

    def outlook(self, *, dynamic: bool, cut_short: bool) -> tuple[float, float]:
        """The samples and bytes a second to reckon with; 0 for what is not known.

        A learner reckons with its last cycle. A dynamic one hopes for the best of its last cycles
        where it is cut short at the deadline if it is mistaken, and fears the worst where it is
        not.
        """
        if not dynamic:
            return _last(self.training), _last(self.link)
        choose = max if cut_short else min
        return choose(self.training.rates, default=0.0), choose(self.link.rates, default=0.0)

    def doubt(self, *, dynamic: bool) -> None:
        """Believe less of what left no time to train: only trying would tell if it holds."""
        self.training.doubt(dynamic=dynamic)
        self.tails = self.tails.doubted()

    def hear(self, previous_s: float | None, deadline_s: float) -> None:
        """Learn how long the way back takes, from what the orchestrator says of the last time."""
        most_s = deadline_s / 2
        if previous_s is None:
            # Nothing was sent, so nothing was learnt: what was believed is believed less.
            self.upload_s /= 2
        elif math.isinf(previous_s):
            # It was given up; half of the deadline is as much as is ever kept for the way back.
            self.upload_s = min(2 * max(self.upload_s, deadline_s * MARGIN), most_s)
            self.tails = self.tails.after(math.inf, deadline_s)
        elif self.returned_s is not None and self.ended_s is not None:
            # What was waited beyond our own work was the way back.
            self.upload_s = min(max(0.0, previous_s - self.returned_s), most_s)
            self.tails = self.tails.after(previous_s - self.ended_s, deadline_s)
        self.returned_s = self.ended_s = None


def rate(amount: float, took_s: float) -> float:
    """So much in a second."""
    return min(amount / took_s, FASTEST) if took_s > 0.0 else FASTEST


def _last(speed: Speed) -> float:
    return speed.rates[-1] if speed.rates else 0.0
