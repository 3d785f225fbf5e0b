"""How slow a peer may be before it is cut off; clocks and counts only, no sockets."""

from __future__ import annotations

from axon.rpc.limits import Limits

_TAKING_STALLS = 3
"""How many times `stall_s` a peer has to take its share of an answer: a lost packet is no crime."""


class Patience:
    """One peer's account; each question gets a reason to cut it off, or nothing."""

    __slots__ = ("_body_bytes", "_limits", "_progress", "_since", "_taken_bytes", "_taken_since",
                 "_turn")  # fmt: skip

    def __init__(self, limits: Limits, now: float) -> None:
        self._limits = limits
        self._since = self._progress = self._taken_since = now
        self._body_bytes = 0
        self._taken_bytes = 0
        self._turn = 0

    def note(self, turn: int, now: float) -> None:
        """Turns count requests begun and answered; a new one gets its time from when it is noted.

        So a request costs a number, and only whoever looks now and then reads the clock.
        """
        if turn != self._turn:
            self._turn = turn
            self._since = self._progress = now
            self._body_bytes = 0

    def with_idling(self, now: float, *, known: bool) -> str:
        """A peer that asked something before may wait longer with its next request."""
        patience_s = self._limits.idle_s if known else self._limits.header_s
        return "idle" if now - self._since > patience_s else ""

    def with_head(self, now: float) -> str:
        return "headers too slow" if now - self._since > self._limits.header_s else ""

    def with_body(self, now: float, received_bytes: int) -> str:
        if received_bytes != self._body_bytes:
            self._body_bytes, self._progress = received_bytes, now
        if now - self._progress > self._limits.stall_s:
            return "body stalled"
        spent = now - self._since
        due_bytes = spent * self._limits.least_bytes_per_s
        slow = spent > self._limits.stall_s and received_bytes < due_bytes
        return "body too slow" if slow else ""

    def with_answer(self, now: float, written_bytes: int, waiting_bytes: int) -> str:
        """What was written so far, and how much of it the peer has yet to take."""
        taken = written_bytes - waiting_bytes
        spent = now - self._taken_since
        if waiting_bytes and spent <= _TAKING_STALLS * self._limits.stall_s:
            return ""
        slow = taken - self._taken_bytes < spent * self._limits.least_bytes_per_s
        self._taken_bytes, self._taken_since = taken, now
        return "answer taken too slowly" if waiting_bytes and slow else ""
