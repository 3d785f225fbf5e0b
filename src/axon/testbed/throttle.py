"""Rests between batches, which make a fast machine train at the pace of the device it stands for.

A machine that is slower than the device cannot be helped: its debt grows, and `debt_s` shows it.
"""

from __future__ import annotations

import time
from collections.abc import Callable

from axon.testbed.activity import State, contention
from axon.testbed.catalogue import Device


def rest_s(busy_s: float, target_s: float) -> float:
    """How long to rest so that work which took `busy_s` lasts `target_s`."""
    return max(0.0, target_s - busy_s)


class DutyCycle:
    """Makes batches last what they would on a device in some state, exactly so on average.

    A batch beyond its target, and a sleep that ended late, shorten the rests that follow. For
    training in a thread, since it sleeps there; the clock is the one that asyncio's loop reads.
    """

    def __init__(
        self,
        device: Device,
        *,
        state: State = "idle",
        clock: Callable[[], float] = time.monotonic,
        sleep: Callable[[float], None] = time.sleep,
    ) -> None:
        self.device = device
        self.contention = contention(state)
        self._clock = clock
        self._sleep = sleep
        self._debt_s = 0.0

    @property
    def debt_s(self) -> float:
        """By how much the batches so far have overrun their targets, all together."""
        return self._debt_s

    def target_s(self, flops_per_sample: float, samples: int) -> float:
        """How long a batch should last, with the device's other work in it."""
        return self.contention.batch_s(self.device, flops_per_sample, samples)

    def pace(self, target_s: float, *, began_s: float) -> None:
        """Rest at the end of a batch that began then, by the same clock."""
        ended_s = self._clock()
        busy_s = ended_s - began_s + self._debt_s
        wanted_s = rest_s(busy_s, target_s)
        if wanted_s > 0.0:
            self._sleep(wanted_s)
            busy_s += self._clock() - ended_s
        self._debt_s = busy_s - target_s
