"""Where things are on a worker: the paths both sides agree on."""

from __future__ import annotations

from urllib.parse import quote

RPC_SERVICE = "rpc"
"""Where functions registered one by one live: `@rpc()` on `hello` makes `rpc/hello`."""

OWN = b"/_axon/"
"""Everything of ours; no function can be named so, because names do not start with `_`."""
PROFILE = OWN + b"profile"
HEALTH = OWN + b"health"
METRICS = OWN + b"metrics"
CALLS = OWN + b"calls/"
"""A duplex call by its id, on the worker that has it."""
RESULTS = OWN + b"results/"
PROGRESS = OWN + b"progress/"
"""A duplex call's result and progress by its id, on the client that waits for them."""


def target_of(path: str) -> bytes:
    """The request target of a function's path."""
    return b"/" + quote(path, safe="/").encode()
