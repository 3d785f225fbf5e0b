"""Waiting for a cycle's answers: until there are enough, or until the deadline, and a little on.

Whoever has not answered by the deadline, and the grace that a run may give, is waited for a
twentieth of the deadline longer, not for his update but for the difference between late and lost:
the record says which. Then everybody is called off, so that a cycle leaves nothing behind.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine, Mapping
from dataclasses import dataclass, replace
from typing import Any

from axon.errors import AxonError, ConnectFailed, ConnectionLost, DeadlineExceeded, RemoteError
from axon.rounds.judge import Verdict, shortened

LINGER = 0.05
"""The part of the deadline for which late answers are still counted."""

NO_ANSWER = "no answer by the deadline"


@dataclass(frozen=True, slots=True)
class Arrival:
    """What became of one learner's call, and when."""

    verdict: Verdict
    answered_s: float | None = None
    """After the cycle began; None when no answer came."""


class Collector:
    """Runs the calls of one cycle and judges each answer as it comes."""

    def __init__(
        self,
        calls: Mapping[str, Coroutine[Any, Any, object]],
        judge: Callable[[str, object], Verdict],
        *,
        quorum: int | None = None,
        heard: Callable[[str, Arrival], None] | None = None,
    ) -> None:
        self._loop = asyncio.get_running_loop()
        self._began_s = self._loop.time()
        self._judge = judge
        self._quorum = quorum
        self._heard = heard
        self._late = False
        self._over = False
        self._bug: BaseException | None = None
        self._used = 0
        self._settled: asyncio.Future[None] = self._loop.create_future()
        self.arrivals: dict[str, Arrival] = {}
        self._open: dict[asyncio.Task[object], str] = {}
        for name, call in calls.items():
            task = self._loop.create_task(call)
            self._open[task] = name
            task.add_done_callback(self._done)

    async def collect(self, deadline_s: float, grace_s: float = 0.0) -> dict[str, Arrival]:
        """Everybody's outcome, once there are enough or the time and the grace are up."""
        ends_s = self._began_s + deadline_s + grace_s
        try:
            await self._wait_until(ends_s)
            if self._open and not self._enough:
                self._late = True
                await self._wait_until(ends_s + deadline_s * LINGER)
            self._give_up()
        finally:
            self._over = True
            await self._call_off(patience_s=deadline_s * LINGER)
        return self.arrivals

    @property
    def _enough(self) -> bool:
        return self._quorum is not None and self._used >= self._quorum

    async def _wait_until(self, when_s: float) -> None:
        if not self._open or self._enough:
            return
        self._settled = self._loop.create_future()
        timer = self._loop.call_at(when_s, _wake, self._settled)
        try:
            await self._settled
        finally:
            timer.cancel()
        if self._bug is not None:
            raise self._bug

    def _done(self, task: asyncio.Task[object]) -> None:
        name = self._open.pop(task)
        if self._over:
            # Called off; looked at, so that asyncio does not report its error as lost.
            if not task.cancelled():
                task.exception()
            return
        try:
            arrival = self._arrival(name, task)
            self._used += arrival.verdict.status == "used"
            self._settle(name, arrival)
        except BaseException as bug:
            # Ours, not a device's: it ends the cycle.
            self._bug = self._bug or bug
        if not self._open or self._enough or self._bug is not None:
            _wake(self._settled)

    def _settle(self, name: str, arrival: Arrival) -> None:
        self.arrivals[name] = arrival
        if self._heard is not None:
            self._heard(name, arrival)

    def _arrival(self, name: str, task: asyncio.Task[object]) -> Arrival:
        at_s = round(self._loop.time() - self._began_s, 6)
        if task.cancelled():
            return Arrival(Verdict("failed", "the call was cancelled"))
        error = task.exception()
        if error is not None:
            if not isinstance(error, AxonError):
                raise error
            return Arrival(Verdict("failed", reason_of(error)))
        verdict = self._judge(name, task.result())
        if self._late and verdict.status == "used":
            verdict = replace(verdict, status="late", reason="came after the deadline", vector=None)
        return Arrival(verdict, at_s)

    def _give_up(self) -> None:
        """Settle those whose answers are not waited for any longer."""
        verdict = (
            Verdict("not needed", "the quorum was there")
            if self._enough
            else Verdict("failed", NO_ANSWER)
        )
        for name in self._open.values():
            self._settle(name, Arrival(verdict))

    async def _call_off(self, patience_s: float) -> None:
        """End what is still under way, and wait a little until it has ended."""
        tasks = list(self._open)
        for task in tasks:
            task.cancel()
        if tasks:
            await asyncio.wait(tasks, timeout=patience_s)


def reason_of(error: AxonError) -> str:
    """Why a call failed, in the fewest words that still tell."""
    # A part of it may be the device's own words.
    return shortened(_reason_of(error))


def _reason_of(error: AxonError) -> str:
    if isinstance(error, DeadlineExceeded):
        return NO_ANSWER
    if isinstance(error, ConnectFailed):
        return f"cannot be reached: {error.message}"
    if isinstance(error, ConnectionLost):
        return f"the connection was lost: {error.message}"
    if isinstance(error, RemoteError):
        return f"its learner raised {error}"
    return f"{type(error).__name__}: {error.message}"


def _wake(future: asyncio.Future[None]) -> None:
    if not future.done():
        future.set_result(None)
