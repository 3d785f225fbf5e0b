"""A manager offered over the network: `tasks/submit`, `tasks/list` and `tasks/cancel`.

    worker = Worker("orchestrator")
    worker.service(TasksService(Direct(manager)), SERVICE, executor="inline")

What is asked for in error is answered in words, so that the other side can show them as they are.
"""

from __future__ import annotations

import asyncio
import queue
from collections.abc import Awaitable, Callable
from concurrent.futures import Future
from contextlib import suppress
from typing import Any, Protocol, TypeAlias

import msgspec

from axon.errors import ConfigurationError
from axon.jobs.manager import Manager
from axon.jobs.submission import submission_from

SERVICE = "tasks"

Answer: TypeAlias = dict[str, Any]
Act: TypeAlias = Callable[[Manager], Awaitable[Answer]]

POLL_S = 0.1
"""How often, in virtual time, somebody at the gate is looked for while tasks run."""
NAP_S = 0.2
"""How long, in real time, is waited at the gate while nothing runs, before signals are heeded."""


class Reach(Protocol):
    """A way to a manager, which may be on another loop."""

    async def reach(self, act: Act) -> Answer:
        """What comes of doing something with the manager."""


class Direct:
    """A manager on the loop that serves it."""

    def __init__(self, manager: Manager) -> None:
        self._manager = manager

    async def reach(self, act: Act) -> Answer:
        return await act(self._manager)


class Gate:
    """A manager in virtual time, which no socket can reach: requests wait until it looks.

    While something runs it looks every moment of its own time; while nothing does, time stands
    still until somebody comes.
    """

    def __init__(self) -> None:
        self._waiting: queue.SimpleQueue[tuple[Act, Future[Answer]]] = queue.SimpleQueue()

    async def reach(self, act: Act) -> Answer:
        """Wait for the manager, from another thread's loop."""
        answer: Future[Answer] = Future()
        self._waiting.put((act, answer))
        return await asyncio.wrap_future(answer)

    async def attend(self, manager: Manager) -> None:
        """Let in whoever comes, for ever."""
        while True:
            found = self._next(NAP_S if manager.is_settled else 0.0)
            if found is not None:
                await _answer(manager, *found)
            await asyncio.sleep(0.0 if manager.is_settled else POLL_S)

    def _next(self, patience_s: float) -> tuple[Act, Future[Answer]] | None:
        with suppress(queue.Empty):
            return self._waiting.get(block=patience_s > 0.0, timeout=patience_s or None)
        return None


async def _answer(manager: Manager, act: Act, answer: Future[Answer]) -> None:
    try:
        answer.set_result(await act(manager))
    except Exception as error:
        # A bug, which belongs to whoever asked for it; the manager goes on for the others.
        answer.set_exception(error)


class TasksService:
    """What requesters may ask of a manager."""

    def __init__(self, manager: Reach) -> None:
        self._manager = manager

    async def submit(self, table: dict[str, Any]) -> Answer:
        """Take a task in: admitted, waiting or refused, and why."""

        async def act(manager: Manager) -> Answer:
            admission = await manager.submit(submission_from(table))
            return {"verdict": admission.verdict, "reason": admission.reason}

        return await self._asked(act)

    async def list(self) -> Answer:
        """Every task, what was spent in all, and who sits out."""

        async def act(manager: Manager) -> Answer:
            return {
                "verdict": "told",
                "tasks": [msgspec.to_builtins(view) for view in manager.tasks()],
                "spent": str(manager.ledger.spent()),
                "budget": str(manager.ledger.budget),
                "sitting": dict(manager.sitting),
            }

        return await self._asked(act)

    async def cancel(self, name: str) -> Answer:
        """End a task now."""

        async def act(manager: Manager) -> Answer:
            await manager.cancel(name)
            return {"verdict": "cancelled", "reason": ""}

        return await self._asked(act)

    async def _asked(self, act: Act) -> Answer:
        try:
            return await self._manager.reach(act)
        except ConfigurationError as error:
            return {"verdict": "refused", "reason": str(error)}
