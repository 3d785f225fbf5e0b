"""Who leads a run: an epoch that only goes up, and beats that show that its holder is alive.

A store keeps one of these for each run and changes it in its transactions. No clock is part of it:
whoever watches counts on a clock of its own how long the beats have stood still.
"""

from __future__ import annotations

import secrets
from dataclasses import dataclass, replace

from axon.errors import ConfigurationError, Superseded
from axon.values import check_positive

HEARTBEAT_S = 1.0
"""Between two signs of life, unless told otherwise."""
MOST_IN_HOLDER = 200
"""In characters; a holder's name stands in messages."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Leadership:
    """Who leads a run that has begun, and how far it is."""

    epoch: int = 0
    """Goes up by one with each that comes to lead; 0 before anybody has."""
    holder: str = ""
    """The name of the orchestrator that leads, which no other has."""
    owner: str = ""
    """The run's own mark for its learners, the same under every holder."""
    heartbeat_s: float = HEARTBEAT_S
    """How often the holder shows that it is alive."""
    beats: int = 0
    """How often it has; a cycle saved counts as well."""
    cycles: int = 0
    """How many are saved."""

    @property
    def mark(self) -> tuple[int, int]:
        """What stands still once the holder is dead, and changes while it lives."""
        return self.epoch, self.beats

    def claimed(self, holder: str, heartbeat_s: float, after: Leadership | None) -> Leadership:
        """What it becomes when somebody wants to lead: as it is, unless it still is what was seen.

        Of several that saw the same, only the first finds it so, and none does once the holder has
        beaten again.
        """
        if after is not None and after.mark != self.mark:
            return self
        return replace(
            self,
            epoch=self.epoch + 1,
            holder=holder,
            owner=self.owner or secrets.token_hex(8),
            heartbeat_s=heartbeat_s,
            beats=0,
        )


def check_claim(holder: str, heartbeat_s: float) -> None:
    """Raise unless they can be the name and the pace of a leader in every store."""
    if not holder.isprintable() or not 0 < len(holder) <= MOST_IN_HOLDER:
        raise ConfigurationError(
            f"a holder's name must be 1 to {MOST_IN_HOLDER} printable characters, got {holder!r}"
        )
    check_positive("heartbeat_s", heartbeat_s)


def check_begun(run: str, found: Leadership | None) -> Leadership:
    """What is known of a run's leadership; raises where there is no such run."""
    if found is None:
        raise ConfigurationError(
            f"there is no run {run!r} to lead", hint="begin(run, settings) first"
        )
    return found


def check_epoch(run: str, found: Leadership, epoch: int | None) -> None:
    """Raise `Superseded` unless the epoch is the one that leads; None where nobody ever has."""
    if (epoch or 0) != found.epoch:
        raise Superseded(run, epoch, by=found.epoch, holder=found.holder)
