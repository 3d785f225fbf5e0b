"""A manager opened in its world, and served to requesters until it is told to stop."""

from __future__ import annotations

import asyncio
import signal
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import typer

from axon.jobs.manager import Manager
from axon.jobs.service import SERVICE, Direct, Gate, Reach, TasksService
from axon.jobs.standing import Rules
from axon.rounds.fleet import SharedFleet
from axon.worker import Worker


@dataclass(frozen=True, slots=True)
class Opening:
    """A manager that is to be opened in some world, and served."""

    store: Path
    rules: Rules
    serve_options: dict[str, Any]

    async def for_real(self, fleet: SharedFleet) -> None:
        """Serve on the loop that the tasks run on."""
        stopped = asyncio.Event()
        with suppress(NotImplementedError):  # Windows ends a process without asking it.
            asyncio.get_running_loop().add_signal_handler(signal.SIGTERM, stopped.set)
        async with Manager.opened(fleet, self.store, self.rules) as manager:
            worker = _worker(Direct(manager))
            async with worker.serving(**self.serve_options) as serving:
                _tell(str(serving.address), manager)
                await stopped.wait()

    async def in_virtual_time(self, fleet: SharedFleet) -> None:
        """Serve on a thread of its own: no socket reaches into virtual time."""
        gate = Gate()
        async with Manager.opened(fleet, self.store, self.rules) as manager:
            serving = _worker(gate).start(**self.serve_options)
            try:
                _tell(str(serving.address), manager)
                await gate.attend(manager)
            finally:
                serving.shutdown()


def _worker(way: Reach) -> Worker:
    worker = Worker("orchestrator")
    worker.service(TasksService(way), SERVICE, executor="inline")
    return worker


def _tell(address: str, manager: Manager) -> None:
    kept = sum(view.state in ("waiting", "running") for view in manager.tasks())
    going_on = f", and goes on with {kept} task{'s' if kept > 1 else ''}" if kept else ""
    typer.echo(f"orchestrator takes tasks at {address}{going_on}")
