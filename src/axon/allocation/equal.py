"""Allocations that need to know nothing of the learners' capabilities."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from axon.errors import ConfigurationError
from axon.policies import Situation
from axon.values import Share, check_whole


def equal_split(total: int, members: Sequence[str]) -> dict[str, int]:
    """Whole numbers that add up to `total` and differ by one at most; the first get the more."""
    check_whole("total", total, least=0)
    if not members:
        return {}
    each, over = divmod(total, len(members))
    return {name: each + (place < over) for place, name in enumerate(members)}


@dataclass(frozen=True, slots=True)
class Equal:
    """The same number of shards for every member, fast or slow.

    `shards` in all are divided among the members, or as many as exist. Each member gets at least
    one, as two learners may hold the same shard, and never more than exist, as one learner may not
    hold a shard twice.
    """

    shards: int | None = None
    passes: int = 1

    def __post_init__(self) -> None:
        if self.shards is not None:
            check_whole("shards", self.shards, least=1)
        check_whole("passes", self.passes, least=1)

    def __call__(self, members: Sequence[str], situation: Situation) -> dict[str, Share]:
        """A share for each member."""
        total = situation.shards if self.shards is None else self.shards
        return {
            name: Share(shards=min(max(1, count), situation.shards), passes=self.passes)
            for name, count in equal_split(total, members).items()
        }


@dataclass(frozen=True, slots=True)
class Open:
    """Leaves the number to each learner, which alone knows what it can do by the deadline."""

    passes: int = 1

    def __post_init__(self) -> None:
        check_whole("passes", self.passes, least=1)

    def __call__(
        self,
        members: Sequence[str],
        situation: Situation,  # noqa: ARG002  (part of the seam)
    ) -> dict[str, Share]:
        """An open share for each member."""
        return {name: Share(shards=None, passes=self.passes) for name in members}


@dataclass(frozen=True, slots=True)
class Fixed:
    """A given number of shards for each name; a member with none, or without one, sits out."""

    shards: Mapping[str, int]
    passes: int = 1

    def __post_init__(self) -> None:
        # A copy, so that the caller's later changes do not change the policy.
        object.__setattr__(self, "shards", dict(self.shards))
        for name, count in self.shards.items():
            check_whole(f"shards of {name!r}", count, least=0)
        check_whole("passes", self.passes, least=1)

    def __call__(self, members: Sequence[str], situation: Situation) -> dict[str, Share]:
        """A share for each member that has a number; raises where there are fewer shards."""
        counts = {name: self.shards[name] for name in members if self.shards.get(name)}
        for name, count in counts.items():
            if count > situation.shards:
                raise ConfigurationError(
                    f"{name!r} is to train {count} shards, but only {situation.shards} exist",
                    hint="give it fewer, or cut the data into smaller shards",
                )
        return {name: Share(shards=count, passes=self.passes) for name, count in counts.items()}
