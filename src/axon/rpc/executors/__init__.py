"""How a worker runs a user's function: inline on the event loop, in a thread or in a child process.

Inline is for functions that take microseconds, or that ask for it: nothing else may block the loop.
`running` is what the function sees of its call, `jobs` and `threads` the thread pool, `pipes`,
`child`, `children` and `processes` the process pool.
"""

from __future__ import annotations

from typing import Literal

from axon.rpc.executors.child import in_child
from axon.rpc.executors.processes import ProcessPool
from axon.rpc.executors.running import Cancelled, Running, check, current, progress
from axon.rpc.executors.threads import ThreadPool

Executor = Literal["inline", "thread", "process"]

__all__ = [
    "Cancelled",
    "Executor",
    "ProcessPool",
    "Running",
    "ThreadPool",
    "check",
    "current",
    "in_child",
    "progress",
]
