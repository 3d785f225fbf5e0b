"""How much a worker takes from one peer and from all, before it says no."""

from __future__ import annotations

from dataclasses import dataclass, fields

from axon.errors import ConfigurationError


@dataclass(frozen=True, slots=True, kw_only=True)
class Limits:
    """Bounds on input, memory and patience; every one of them has an error of its own."""

    max_body_bytes: int = 4 << 30
    max_bodies_bytes: int = 8 << 30
    """All bodies being received at once, as their senders announced them."""
    max_header_bytes: int = 32 << 10
    """Request line and headers of one request."""
    max_head_bytes: int = 16 << 20
    """An envelope's structure, without its arrays."""
    max_depth: int = 64
    max_calls: int = 1024
    """Calls running or waiting for a thread."""
    max_connections: int = 4096
    max_connections_per_peer: int = 1024
    max_results_bytes: int = 256 << 20
    """Duplex results kept until they are acknowledged."""
    result_s: float = 600.0
    header_s: float = 10.0
    """From a connection's opening, or a request's first byte, to the end of its headers."""
    stall_s: float = 20.0
    """Without a single byte of a body, or of an answer taken, before the peer is cut off."""
    least_bytes_per_s: float = 512.0
    """What a sender must average over a body once `stall_s` has passed."""
    idle_s: float = 75.0
    """A kept-alive connection with nothing to do; clients let go sooner, so they never race it."""

    def __post_init__(self) -> None:
        for item in fields(self):
            if getattr(self, item.name) <= 0:
                raise ConfigurationError(
                    f"{item.name} must be positive, got {getattr(self, item.name)}"
                )


CLIENT_IDLE_S = 30.0
"""A client drops a pooled connection idle for longer, well inside the worker's `idle_s`."""
