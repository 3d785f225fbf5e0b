"""What a learner keeps back at the end of a deadline, learnt from its own misses.

A tail is the time from the end of training until the orchestrator had the answer.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

from axon.values import check_positive

MARGIN = 0.02
"""The part of a deadline kept for what nobody can foresee: a late timer, a busy loop."""

REMEMBERED = 20
"""So many tails are kept in mind."""

MOST_DOUBLINGS = 5
"""From the least margin they lead to half of the deadline, and no further."""


@dataclass(frozen=True, slots=True)
class Tails:
    """A learner's last tails on one task, and how often its answers were given up since."""

    last_s: tuple[float, ...] = ()
    """The newest last."""
    doublings: int = 0

    def after(self, tail_s: float, deadline_s: float) -> Tails:
        """What is known after one more; an infinite one was an answer that was given up.

        How long that one would have been nobody knows, so the reserve is doubled for it, and
        halved again with every answer that arrives.
        """
        if math.isinf(tail_s):
            return Tails(self.last_s, min(self.doublings + 1, MOST_DOUBLINGS))
        # More than is ever kept would only be carried along.
        tail_s = min(max(0.0, tail_s), deadline_s / 2)
        return Tails((*self.last_s, tail_s)[-REMEMBERED:], max(0, self.doublings - 1))

    def doubted(self) -> Tails:
        """What is believed after a cycle was sat out: the worst may have been an exception.

        Without it a learner whose reserve leaves it no time would never find out.
        """
        last_s = list(self.last_s)
        if last_s:
            last_s.remove(max(last_s))
        return Tails(tuple(last_s), max(0, self.doublings - 1))

    def reserve_s(self, deadline_s: float) -> float:
        """What to keep back: `MARGIN` and the largest of the last tails, half at most.

        If cycles are exchangeable, the next tail is as likely as any of the n before it to be the
        largest of them all, so it is longer than those with a probability of 1 / (n + 1) at most:
        1 / 21 once 20 are known, and less by what the margin catches.
        """
        check_positive("deadline_s", deadline_s)
        kept_s = deadline_s * MARGIN + max(self.last_s, default=0.0)
        return min(kept_s * 2.0**self.doublings, deadline_s / 2)
