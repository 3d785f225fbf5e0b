"""Everything that makes a call, before it is made."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

from axon.rpc.address import Address
from axon.rpc.calling.options import Access, CallOptions, time_left
from axon.rpc.calling.profiles import Remote


# Not frozen: one is made for every call, and freezing would double what that costs.
@dataclass(slots=True)
class CallSpec:
    """Which function, where, with what, and how."""

    access: Access
    origin: Address
    function: Remote | str
    """As its worker described it, or its path where nobody has asked yet."""
    args: tuple[Any, ...]
    kwargs: dict[str, Any]
    options: CallOptions

    @property
    def streams(self) -> bool:
        """Whether the function is known to be a generator."""
        return isinstance(self.function, Remote) and self.function.streams

    @property
    def path(self) -> str:
        """The function's path on its worker."""
        return self.function if isinstance(self.function, str) else self.function.path

    def but(self, **options: Any) -> CallSpec:
        """The same call, made in another way."""
        return replace(self, options=self.options.but(**options))

    def fixed(self) -> CallSpec:
        """With the deadline of the scopes here written down, to be run on another thread."""
        return self.but(deadline_s=time_left(self.options))
