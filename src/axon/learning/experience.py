"""What a learner has seen of itself in its cycles, whatever they were for, and what it tells of it.

It stays on the device unless somebody asks and the learner agrees. Then the rates of those tasks
are told that were asked about, and of no others: whom else it works for is nobody's business.
"""

from __future__ import annotations

import hashlib
import math
from collections.abc import Iterable, Sequence
from dataclasses import replace
from typing import NamedTuple

from axon.devices.states import Observation, StateEstimate, States
from axon.devices.subset import Point
from axon.errors import ConfigurationError
from axon.values import Order, TaskSpec, Trained

LONGEST_KIND = 200
"""In characters; it is written down with every cycle."""

MOST_KINDS = 50
"""Of one question: what is told of so many fits in an answer of words."""


def kind_of(spec: TaskSpec, shard_samples: int) -> str:
    """The same name for tasks that a learner is equally quick at, on both sides of the wire."""
    width = "x".join(map(str, spec.inputs))
    kind = (
        f"{spec.net} {width}-{spec.classes} {spec.optimiser} "
        f"batches of {spec.batch_size}, shards of {shard_samples}"
    )
    if len(kind) <= LONGEST_KIND:
        return kind
    digest = hashlib.sha256(kind.encode()).hexdigest()
    return f"{kind[: LONGEST_KIND - len(digest) - 1]} {digest}"


class Kept(NamedTuple):
    """The cycles in little room, for a world that has to keep those of many learners."""

    kinds: tuple[str, ...] = ()
    rates: tuple[tuple[int, float | None, float | None], ...] = ()
    """The number of its kind, shards a second and bytes a second of each cycle."""


class Experience:
    """The last cycles of one learner, and the states that they come to."""

    def __init__(self) -> None:
        self.cycles = States()
        self._usual: tuple[StateEstimate, ...] | None = None
        """Estimated once after a cycle, however often it is asked for."""

    def note(
        self, order: Order, trained: Trained, train_s: float, downloads: Iterable[Point]
    ) -> None:
        """Take up one cycle; what took no time at all tells nothing."""
        sizes, times = zip(*downloads, strict=True)
        shards_per_s = _rate(trained.samples / order.shard_samples, train_s)
        bytes_per_s = _rate(math.fsum(sizes), math.fsum(times))
        if shards_per_s is None and bytes_per_s is None:
            return
        kind = kind_of(order.spec, order.shard_samples)
        seen = Observation(task=kind, shards_per_s=shards_per_s, bytes_per_s=bytes_per_s)
        self.cycles = self.cycles.seen(seen)
        self._usual = None

    def states(self, kinds: Sequence[str]) -> tuple[StateEstimate, ...]:
        """How likely it is found in which state, and how quick it then is at tasks of these kinds.

        Nothing before its first cycle. A kind that it has not trained is left out.
        """
        if len(kinds) > MOST_KINDS:
            raise ConfigurationError(
                f"it is asked about {len(kinds)} kinds of task at once, at most {MOST_KINDS}"
            )
        if self._usual is None:
            self._usual = self.cycles.usual()
        return tuple(
            replace(one, shards_per_s={k: r for k, r in one.shards_per_s.items() if k in kinds})
            for one in self._usual
        )

    def keep(self) -> Kept:
        """All that `take_up` needs to know as much elsewhere."""
        seen = self.cycles.observations
        kinds = {kind: number for number, kind in enumerate(sorted({one.task for one in seen}))}
        return Kept(
            tuple(kinds),
            tuple((kinds[one.task], one.shards_per_s, one.bytes_per_s) for one in seen),
        )

    def take_up(self, kept: Kept) -> None:
        """Know what another knew when it was kept, and nothing else."""
        self._usual = None
        self.cycles = States(
            observations=tuple(
                Observation(
                    task=kept.kinds[number], shards_per_s=shards_per_s, bytes_per_s=bytes_per_s
                )
                for number, shards_per_s, bytes_per_s in kept.rates
            )
        )


def _rate(amount: float, took_s: float) -> float | None:
    return amount / took_s if amount > 0.0 and took_s > 0.0 else None
