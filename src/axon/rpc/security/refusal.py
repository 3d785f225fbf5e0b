"""Why a request or an answer is not taken."""

from __future__ import annotations

from typing import Literal, TypeAlias

from axon.errors import Unauthorised

Reason: TypeAlias = Literal[
    "missing", "unknown-key", "skew", "replay", "signature", "boot", "forbidden", "body"
]


class Refused(Unauthorised):
    """A request or an answer that is not taken; `reason` says why in one word, for code."""

    def __init__(self, message: str, *, reason: Reason, hint: str | None = None) -> None:
        super().__init__(message, hint=hint)
        self.reason: Reason = reason
