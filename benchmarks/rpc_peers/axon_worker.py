"""Axon's worker as a person would write it: `python -m rpc_peers.axon_worker PORT [KEY_FILE]`.

Nothing else is imported, because the start-up question measures this very process.
"""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

import axon.worker


@axon.worker.rpc(executor="inline")
def echo(value: Any) -> Any:
    """Answer on the event loop itself."""
    return value


@axon.worker.rpc(executor="thread")
def echo_thread(value: Any) -> Any:
    """Answer from a thread, as functions do by default."""
    return value


@axon.worker.rpc()
async def echo_async(value: Any) -> Any:
    """Answer as a coroutine on the loop."""
    return value


def make_key(path: Path) -> Path:
    """A key file for this run, made by the worker before it listens."""
    from axon.rpc.security import keys  # late: an open worker needs none

    if not path.exists():
        keys.save(path, [keys.Key.new()])
    return path


if __name__ == "__main__":
    port, *key_files = sys.argv[1:]
    key = make_key(Path(key_files[0])) if key_files else None
    axon.worker.init(host="127.0.0.1", port=int(port), key=key)
