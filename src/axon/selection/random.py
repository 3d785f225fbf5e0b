"""Choosing without knowing anything of the members: all of them, or some by lot."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from axon.errors import ConfigurationError
from axon.values import check_whole


@dataclass(frozen=True, slots=True)
class Everyone:
    """All members, every cycle."""

    def __call__(
        self,
        members: Sequence[str],
        random: np.random.Generator,  # noqa: ARG002  (part of the seam)
    ) -> list[str]:
        """The members as they come; nothing is drawn."""
        return list(members)


@dataclass(frozen=True, slots=True)
class Some:
    """So many members, or such a part of them, drawn by lot: each is as likely as any other.

    At least one is drawn, and all where `count` is above their number; a fraction of the members is
    rounded to the nearest whole number.
    """

    count: int | None = None
    fraction: float | None = None

    def __post_init__(self) -> None:
        if (self.count is None) == (self.fraction is None):
            raise ConfigurationError(
                f"either count or fraction must be given, got {self.count!r} and {self.fraction!r}",
                hint="Some(count=10) draws ten members, Some(fraction=0.1) a tenth of them",
            )
        if self.count is not None:
            check_whole("count", self.count, least=1)
        if self.fraction is not None and not 0 < self.fraction <= 1:
            raise ConfigurationError(
                f"fraction must be above 0 and at most 1, got {self.fraction!r}"
            )

    def __call__(self, members: Sequence[str], random: np.random.Generator) -> list[str]:
        """Some of the members, in their own order."""
        drawn = random.choice(len(members), size=self._count(len(members)), replace=False)
        return [members[index] for index in sorted(drawn)]

    def _count(self, members: int) -> int:
        if self.fraction is not None:
            return min(members, max(1, round(self.fraction * members)))
        assert self.count is not None
        return min(members, self.count)
