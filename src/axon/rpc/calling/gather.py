"""Many calls at once: the fastest few as values, failures as values, the rest called off."""

from __future__ import annotations

import asyncio
import concurrent.futures
from collections.abc import Awaitable, Generator, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from axon.errors import AxonError, ConfigurationError, QuorumNotReached
from axon.failure import Failure
from axon.rpc.calling.handles import Call, run_blocking
from axon.rpc.calling.options import UNSET, CallOptions, Unset, time_left


@dataclass(frozen=True, slots=True)
class Answers:
    """What came of each call, in the order of the calls, never of arrival."""

    outcomes: dict[Any, Any]
    """By position, or by the name a call was given: its value, or a `Failure`."""

    @property
    def values(self) -> list[Any]:
        """The values alone."""
        return [value for value in self.outcomes.values() if not isinstance(value, Failure)]

    @property
    def failures(self) -> list[Failure]:
        """The failures alone."""
        return [value for value in self.outcomes.values() if isinstance(value, Failure)]

    def __iter__(self) -> Iterator[Any]:
        return iter(self.values)

    def __len__(self) -> int:
        return len(self.values)

    def __getitem__(self, name: Any) -> Any:
        return self.outcomes[name]


class Gathering:
    """A gather to be awaited or joined."""

    def __init__(
        self, calls: Mapping[Any, Any], quorum: int | None, deadline_s: float | None
    ) -> None:
        self._calls = calls
        self._quorum = quorum
        self._deadline_s = deadline_s

    def __await__(self) -> Generator[Any, None, Answers]:
        return self._collect().__await__()

    def join(self) -> Answers:
        """Wait for the answers, blocking this thread."""
        return run_blocking(self._collect())

    async def _collect(self) -> Answers:
        tally = _Tally(self._calls, self._quorum)
        try:
            async with asyncio.timeout(self._deadline_s) as scope:
                await tally.enough
        except TimeoutError:
            if not scope.expired():
                raise  # A bug that a call raised, not our own end.
            tally.call_off("deadline")
        finally:
            tally.call_off("not needed")
        return tally.answers()


def gather(
    calls: Sequence[Any] | Mapping[Any, Any],
    *,
    quorum: int | None = None,
    deadline_s: float | Unset | None = UNSET,
) -> Gathering:
    """Make calls together; await or join the result.

    With a quorum, returns once that many values are there and cancels the rest; raises
    `QuorumNotReached`, with the answers so far, once they cannot come any more. Without one, waits
    for all. A call that fails is a `Failure` among the outcomes and does not disturb the others.
    """
    named = dict(calls) if isinstance(calls, Mapping) else dict(enumerate(calls))
    if quorum is not None and (type(quorum) is not int or not 0 < quorum <= len(named)):
        raise ConfigurationError(f"quorum must be a number from 1 to {len(named)}, got {quorum}")
    return Gathering(named, quorum, time_left(CallOptions(deadline_s=deadline_s)))


_OPEN = object()
"""The outcome of a call that has none yet; `None` is a value like any other."""


class _Tally:
    """Counts answers as they come: constant work for each, however many are asked."""

    def __init__(self, calls: Mapping[Any, Any], quorum: int | None) -> None:
        loop = asyncio.get_running_loop()
        self._calls = calls
        self._quorum = quorum
        self._wanted = len(calls) if quorum is None else quorum
        self._got = 0
        self._open = len(calls)
        self.enough: asyncio.Future[None] = loop.create_future()
        # Filled in call order, so that the result never depends on who answered first.
        self._outcomes: dict[Any, Any] = dict.fromkeys(calls, _OPEN)
        self._tasks: dict[asyncio.Task[Any], Any] = {}
        for name, call in calls.items():
            task = loop.create_task(_wait_for(call))
            self._tasks[task] = name
            task.add_done_callback(self._done)
        if not calls:
            self.enough.set_result(None)

    def _done(self, task: asyncio.Task[Any]) -> None:
        name = self._tasks.pop(task)
        if self.enough.done():
            if not task.cancelled():
                task.exception()  # Looked at, so that asyncio does not report it as lost.
            if self._outcomes[name] is _OPEN:
                self._outcomes[name] = self._failure(name, "not needed")
            return
        self._open -= 1
        try:
            self._outcomes[name] = self._outcome(task, name)
        except BaseException as bug:
            self.enough.set_exception(bug)
            return
        self._got += not isinstance(self._outcomes[name], Failure)
        impossible = self._quorum is not None and self._got + self._open < self._wanted
        if self._got >= self._wanted or self._open == 0 or impossible:
            self.enough.set_result(None)

    def _outcome(self, task: asyncio.Task[Any], name: Any) -> Any:
        if task.cancelled():
            return self._failure(name, "cancelled")
        error = task.exception()
        if error is None:
            return task.result()
        if not isinstance(error, AxonError):
            raise error  # A bug of ours or of the caller's, not a device that failed.
        return self._failure(name, f"{type(error).__name__}: {error}", error)

    def _failure(self, name: Any, reason: str, error: BaseException | None = None) -> Failure:
        call = self._calls[name]
        device = str(call.spec.origin) if isinstance(call, Call) else str(name)
        return Failure(device=device, reason=reason, error=error)

    def call_off(self, reason: str) -> None:
        """Cancel what is still under way; the answers at hand need not wait to see it end."""
        if not self.enough.done():
            self.enough.cancel()
        for task, name in self._tasks.items():
            if self._outcomes[name] is _OPEN:
                self._outcomes[name] = self._failure(name, reason)
                task.cancel()

    def answers(self) -> Answers:
        answers = Answers(self._outcomes)
        if self._quorum is not None and self._got < self._wanted:
            raise QuorumNotReached(wanted=self._wanted, got=self._got, answers=answers)
        return answers


async def _wait_for(call: Awaitable[Any] | concurrent.futures.Future[Any]) -> Any:
    if isinstance(call, concurrent.futures.Future):
        return await asyncio.wrap_future(call)
    return await call
