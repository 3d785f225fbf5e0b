"""What a host's connection to the network does to the messages on it: a value and a shaper.

A message waits for the link to be free, takes its size over the bandwidth to leave, and then flies:

    arrival = departure + latency + jitter + resends

Only the running loop's clock is read, so the same shaper serves virtual time and real throttling.
"""

from __future__ import annotations

import asyncio
import math
from dataclasses import dataclass
from random import Random
from typing import Literal, TypeAlias

from axon.errors import ConfigurationError

Direction: TypeAlias = Literal["up", "down"]
"""Up is from the link's owner to the network."""

RESEND_S = 0.2
"""How long TCP waits before it sends a lost segment again; it doubles with each further loss."""
LONGEST_RESEND_S = 60.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Link:
    """One host's connection to the network; the default one costs nothing.

    Jitter is drawn evenly from nothing to `jitter_s`. `loss` is the chance that one sending of a
    message is lost: losses show as resends, and a link that loses everything is a partition.
    """

    latency_s: float = 0.0
    up_bytes_per_s: float = math.inf
    down_bytes_per_s: float = math.inf
    jitter_s: float = 0.0
    loss: float = 0.0

    def __post_init__(self) -> None:
        for name in ("latency_s", "jitter_s"):
            value = getattr(self, name)
            if not 0.0 <= value < math.inf:
                raise ConfigurationError(f"a link's {name} is finite and at least 0, got {value}")
        for name in ("up_bytes_per_s", "down_bytes_per_s"):
            value = getattr(self, name)
            if not value > 0.0:
                raise ConfigurationError(
                    f"a link's {name} is more than 0, got {value}", hint="for none at all, loss=1.0"
                )
        if not 0.0 <= self.loss <= 1.0:
            raise ConfigurationError(f"a link's loss is from 0 to 1, got {self.loss}")

    def bytes_per_s(self, direction: Direction) -> float:
        """The bandwidth one way."""
        return self.up_bytes_per_s if direction == "up" else self.down_bytes_per_s


class Shaper:
    """One direction of a link as messages meet it: they queue, they fly, they arrive in order.

    `link` may be replaced while messages are under way; those already flying keep their time.
    Messages of up to `packet_bytes` slip in between the packets of longer ones, as they do where
    every connection has its turn; with 0 all wait for those before them.
    """

    def __init__(
        self, link: Link, random: Random, *, direction: Direction = "up", packet_bytes: int = 0
    ) -> None:
        self.link = link
        self.packet_bytes = packet_bytes
        self.direction = direction
        self._random = random
        self._turn = asyncio.Lock()
        self._free_s = -math.inf
        self._flying: dict[object, float] = {}

    async def carry(self, size: int, *, spread_s: float = 0.0) -> None:
        """Return when a message of `size` bytes has arrived: never, if the link loses everything.

        Cancelling withdraws the message and frees the link for the next one. `spread_s` is as for
        `transmit`.
        """
        await self.transmit(size, spread_s=spread_s)
        flight_s = self.flight_s()
        if math.isinf(flight_s):
            # A message that never arrives is ahead of no other, so it takes no place in the order.
            await asyncio.get_running_loop().create_future()
        await self._fly(flight_s)

    async def transmit(self, size: int, *, spread_s: float = 0.0) -> None:
        """Return when `size` bytes have passed the bandwidth, behind those that asked before.

        `spread_s` says how long they took to come in from the link before this one. A link passes
        on the front of a message while its back still comes, so two links in a row cost as much as
        the slower one and not their sum.
        """
        loop = asyncio.get_running_loop()
        ready_s = loop.time() - spread_s
        if self.packet_bytes and size <= self.packet_bytes:
            await sleep_until(ready_s + self.transmission_s(size))
            return
        async with self._turn:
            # Reckoned from when the link fell free, not from now: on a real clock every sleep ends
            # a little late, and the lateness would add up.
            end_s = max(ready_s, self._free_s) + self.transmission_s(size)
            try:
                await sleep_until(end_s)
            except asyncio.CancelledError:
                self._free_s = loop.time()
                raise
            self._free_s = end_s

    def transmission_s(self, size: int) -> float:
        """How long `size` bytes occupy the link."""
        return size / self.link.bytes_per_s(self.direction)

    def flight_s(self) -> float:
        """Draw how long a message that has left takes to arrive; infinite if it never does."""
        return draw_flight_s(self.link, self._random)

    async def _fly(self, flight_s: float) -> None:
        own_s = asyncio.get_running_loop().time() + flight_s
        # Arrivals never decrease along the order, so the last one bounds them all.
        arrival_s = max(own_s, next(reversed(self._flying.values()), own_s))
        message = object()
        self._flying[message] = arrival_s
        try:
            await sleep_until(arrival_s)
            # Those ahead are due as well, but an ordinary loop wakes equal timers in any order.
            while next(iter(self._flying)) is not message:  # noqa: ASYNC110  (a turn or two)
                await asyncio.sleep(0)
        finally:
            del self._flying[message]


def draw_flight_s(link: Link, random: Random) -> float:
    """Draw how long a message on that link flies; infinite if it never arrives."""
    if link.loss >= 1.0:
        return math.inf
    delay_s = link.latency_s
    if link.jitter_s > 0.0:
        delay_s += random.uniform(0.0, link.jitter_s)
    resend_s = RESEND_S
    while link.loss > 0.0 and random.random() < link.loss:
        delay_s += resend_s
        resend_s = min(2 * resend_s, LONGEST_RESEND_S)
    return delay_s


async def sleep_until(when_s: float) -> None:
    """Sleep to an exact moment; `asyncio.sleep` of the difference may miss it by a rounding."""
    loop = asyncio.get_running_loop()
    if when_s <= loop.time():
        return
    woken = loop.create_future()
    timer = loop.call_at(when_s, _wake, woken)
    try:
        await woken
    except asyncio.CancelledError:
        timer.cancel()
        raise


def _wake(woken: asyncio.Future[None]) -> None:
    if not woken.done():
        woken.set_result(None)
