"""A device that failed, as a value; apart from the other values, because calls need no numpy."""

from __future__ import annotations

from dataclasses import dataclass, field


@dataclass(frozen=True, slots=True, kw_only=True)
class Failure:
    """A device that gave no answer, and why: a value among the answers, not an exception."""

    device: str
    reason: str
    error: BaseException | None = field(default=None, compare=False, repr=False)
