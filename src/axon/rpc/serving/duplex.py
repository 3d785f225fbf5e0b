"""The worker's side of duplex calls: acknowledged at once, run once, kept until acknowledged.

A call id is remembered from the first submission until well after its result was taken, so that a
submission repeated over a bad link finds the call instead of starting it again. The result goes
back by a request of the worker's own where the caller can be reached, and waits to be asked for
otherwise.

What is promised is one run for each id in one life of the worker. A new life remembers nothing: it
refuses submissions that name the old one, and runs those that name the new one or none.
"""

from __future__ import annotations

import asyncio
import logging
from collections import deque
from collections.abc import Awaitable, Callable, Coroutine
from contextlib import suppress
from typing import Any

from axon.errors import AxonError, BadArguments, CallCancelled, CallLost
from axon.rpc.address import Address
from axon.rpc.limits import Limits
from axon.rpc.loops import on_loop
from axon.rpc.messages import Request, Response, Transport, body_size
from axon.rpc.paths import PROGRESS, RESULTS
from axon.rpc.replies import JSON, error_response, raise_for, value_body
from axon.rpc.serving.execution import ActiveCall, Engine, Form
from axon.rpc.serving.progress import PROGRESS_KEPT, progress_body

log = logging.getLogger("axon.duplex")

_PUSH_DELAYS_S = (0.0, 0.1, 0.5)
_PUSH_S = 10.0
_LONGEST_WAIT_S = 20.0
_PROGRESS_S = 1.0
"""How long a result waits for the progress reported before it."""
_ENTRY_BYTES = 4 << 10
"""What keeping a result costs besides its body, so that empty ones too are kept within bounds."""
_REMEMBER_S = 600.0
"""How long an id stays known without its result; clients repeat a submission for far less."""
_REMEMBERED = 1 << 17
"""Ids known without their results; beyond that the oldest go, at a few hundred bytes each."""
_GONE = {
    "acknowledged": "was acknowledged already",
    "expired": "was not asked for in time",
    "dropped": "was dropped to make room for newer ones",
}

Signer = Callable[[Request], None]
"""Signs a request of the worker's to the client that made a call, where keys are in use."""


class Entry:
    """One duplex call as the worker remembers it."""

    __slots__ = ("call", "changed", "form", "id", "notes", "owner", "progress", "reply", "response",
                 "sign", "size", "state", "task", "teller", "timer")  # fmt: skip

    def __init__(
        self, id: str, owner: str, call: ActiveCall | None, state: str = "running"
    ) -> None:
        self.id = id
        self.owner = owner
        self.call = call
        # Reports are envelopes however the call was made: those who take them are our clients.
        self.form = Form(pickling=call is not None and call.form.pickling)
        self.state = state
        self.response: Response | None = None
        self.progress: object = None
        self.notes: deque[object] | None = None
        self.size = 0
        self.changed: asyncio.Event | None = None
        """Made by who waits for it; most results are taken without waiting."""
        self.reply: Address | None = None
        self.sign: Signer | None = None
        self.task: asyncio.Task[None] | None = None
        self.teller: asyncio.Task[None] | None = None
        self.timer: asyncio.TimerHandle | None = None

    def wake(self) -> None:
        """Tell those who wait that something changed."""
        if self.changed is not None:
            self.changed.set()
            self.changed = None


class DuplexDesk:
    """All duplex calls of one worker."""

    def __init__(self, engine: Engine, transport: Transport, limits: Limits, boot: str) -> None:
        self._engine = engine
        self._transport = transport
        self._limits = limits
        self._boot = boot
        self._entries: dict[str, Entry] = {}
        # In the order they came to be so, which is the order in which they expire.
        self._done: dict[str, Entry] = {}
        self._past: dict[str, tuple[float, str, str]] = {}
        self._kept_bytes = 0
        # Of entries that are forgotten too: an answer may still be under way.
        self._tasks: set[asyncio.Task[None]] = set()

    def submit(
        self,
        id: str,
        owner: str,
        make_call: Callable[[], ActiveCall],
        *,
        reply: Address | None,
        sign: Signer | None,
    ) -> Response:
        """Start a call, or find the one with this id, and acknowledge it either way."""
        entry = self._known(id)
        if entry is None:
            call = make_call()
            entry = Entry(id, owner, call)
            entry.reply, entry.sign = reply, sign
            self._entries[id] = entry
            # From here on the engine counts it, so that a stop waits for it.
            entry.task = self._start(self._run(entry, call))
        elif entry.owner != owner:
            raise BadArguments(f"call id {id!r} is in use by another caller")
        elif reply is not None:
            entry.reply, entry.sign = reply, sign  # The caller came back, perhaps elsewhere.
        return self._state(entry)

    def _start(self, work: Coroutine[Any, Any, None]) -> asyncio.Task[None]:
        task = asyncio.get_running_loop().create_task(work)
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)
        return task

    def _state(self, entry: Entry) -> Response:
        state: dict[str, Any] = {"call": entry.id, "boot": self._boot, "state": entry.state}
        headers = {b"content-type": JSON, b"axon-state": entry.state.encode()}
        return Response(202, headers, value_body(state, as_json=True))

    async def _run(self, entry: Entry, call: ActiveCall) -> None:
        loop = asyncio.get_running_loop()
        call.running.report = lambda value: on_loop(loop, self._note, entry, value)
        self._keep(entry, call, await self._engine.run(call))
        del call  # Its arguments may be large, and delivering the result may take a while.
        await self._push(entry)

    # Remembering

    def _keep(self, entry: Entry, call: ActiveCall, response: Response) -> None:
        size = body_size(response.body)
        limit = self._limits.max_results_bytes
        if size > limit:
            lost = CallLost(
                f"the result of call {entry.id!r} has {size} bytes, the worker keeps {limit}",
                hint="call it simplex, or raise the worker's max_results_bytes",
            )
            response = error_response(lost, as_json=call.form.as_json)
            size = body_size(response.body)
        size += _ENTRY_BYTES
        self._make_room(size)
        entry.call = None
        entry.response, entry.size, entry.state = response, size, "done"
        self._kept_bytes += size
        self._done[entry.id] = entry
        loop = asyncio.get_running_loop()
        entry.timer = loop.call_later(self._limits.result_s, self._drop, entry, "expired")
        entry.wake()

    def _make_room(self, size: int) -> None:
        """Oldest results first; their callers had their time."""
        while self._done and self._kept_bytes + size > self._limits.max_results_bytes:
            self._drop(next(iter(self._done.values())), "dropped")

    def _drop(self, entry: Entry, state: str) -> None:
        """Let go of a result; its id stays known for a while, so that it never runs again."""
        self._kept_bytes -= entry.size
        entry.response, entry.size, entry.state = None, 0, state
        if entry.timer is not None:
            entry.timer.cancel()
        del self._entries[entry.id], self._done[entry.id]
        now = asyncio.get_running_loop().time()
        self._past[entry.id] = (now + _REMEMBER_S, entry.owner, state)
        self._forget(now)

    def _forget(self, now: float) -> None:
        while self._past:
            id, (end, _, _) = next(iter(self._past.items()))
            if end > now and len(self._past) <= _REMEMBERED:
                return
            del self._past[id]

    def _known(self, id: str) -> Entry | None:
        entry = self._entries.get(id)
        if entry is not None:
            return entry
        self._forget(asyncio.get_running_loop().time())
        past = self._past.get(id)
        return None if past is None else Entry(id, past[1], None, past[2])

    # Progress

    def _note(self, entry: Entry, value: object) -> None:
        if entry.state != "running":
            return  # From a thread that did not hear of the end in time.
        entry.progress = value
        entry.wake()
        if entry.reply is None:
            return
        if entry.notes is None:
            entry.notes = deque(maxlen=PROGRESS_KEPT)
        entry.notes.append(value)
        if entry.teller is None:
            entry.teller = self._start(self._tell(entry))

    async def _tell(self, entry: Entry) -> None:
        """Send what was reported, one after the other, so that it arrives in order."""
        try:
            while entry.notes:
                body = progress_body(entry.notes.popleft(), entry.form)
                await self._post(entry, Request(b"POST", PROGRESS + entry.id.encode(), {}, body))
        except (AxonError, TimeoutError) as error:
            # A courtesy: what does not arrive is told by the next, or by the result.
            entry.notes = None
            log.info("progress of %s not delivered to %s: %s", entry.id, entry.reply, error)
        finally:
            entry.teller = None

    # Bringing results back

    async def _push(self, entry: Entry) -> None:
        """Offer the result to the caller; what cannot be delivered waits to be asked for."""
        if entry.teller is not None:
            await asyncio.wait([entry.teller], timeout=_PROGRESS_S)
            entry.notes = None
        for delay_s in _PUSH_DELAYS_S:
            await asyncio.sleep(delay_s)
            response = entry.response
            if entry.reply is None or response is None:
                return
            headers = dict(response.headers)
            headers[b"axon-status"] = b"%d" % response.status
            request = Request(b"POST", RESULTS + entry.id.encode(), headers, response.body)
            try:
                await self._post(entry, request)
            except (AxonError, TimeoutError) as error:
                log.info("result of %s not delivered to %s: %s", entry.id, entry.reply, error)
            else:
                return

    async def _post(self, entry: Entry, request: Request) -> None:
        """Deliver; raises when nobody took it, be it that someone else answers there by now."""
        if entry.reply is None:
            return
        if entry.sign is not None:
            entry.sign(request)
        async with asyncio.timeout(_PUSH_S):
            raise_for(await self._transport.exchange(entry.reply, request))

    # What the caller may ask

    def find(self, id: str, owner: str) -> Entry:
        """The caller's own call."""
        entry = self._known(id)
        if entry is None or entry.owner != owner:
            raise CallLost(f"this worker knows no call {id!r}")
        return entry

    def fetch(self, entry: Entry, wait_s: float) -> Response | Awaitable[Response]:
        """The result if it is there, the state if not; waits a while for a change of either."""
        if entry.response is not None or wait_s <= 0 or entry.state != "running":
            return self._report(entry)
        return self._wait(entry, min(wait_s, _LONGEST_WAIT_S))

    async def _wait(self, entry: Entry, wait_s: float) -> Response:
        if entry.changed is None:
            entry.changed = asyncio.Event()
        with suppress(TimeoutError):
            await asyncio.wait_for(entry.changed.wait(), wait_s)
        return self._report(entry)

    def _report(self, entry: Entry) -> Response:
        if entry.response is not None:
            kept = entry.response
            return Response(kept.status, dict(kept.headers), kept.body)
        if entry.state != "running":
            lost = CallLost(f"the result of call {entry.id!r} {_GONE[entry.state]}")
            return error_response(lost, as_json=False)
        response = self._state(entry)
        if entry.progress is not None and not (entry.call and entry.call.form.as_json):
            response.headers[b"content-type"] = b"application/axon"
            response.body = progress_body(entry.progress, entry.form)
        return response

    def acknowledge(self, entry: Entry) -> Response:
        """The caller has its result; only the id stays, so that it never runs again."""
        if entry.response is not None:
            self._drop(entry, "acknowledged")
        return self._state(entry)

    def cancel(self, entry: Entry) -> Response:
        """Stop a call that is still running."""
        if entry.call is not None:
            entry.call.end(CallCancelled("cancelled by its caller"))
        return self._state(entry)

    @property
    def undelivered(self) -> int:
        """Results nobody has taken yet."""
        return len(self._done)

    async def finish(self, grace_s: float) -> None:
        """Before the worker stops: let deliveries under way end, then end those that do not."""
        for entry in self._done.values():
            if entry.timer is not None:
                entry.timer.cancel()
        tasks = set(self._tasks)
        if not tasks:
            return
        try:
            await asyncio.wait(tasks, timeout=max(grace_s, 0.1))
        finally:
            for task in tasks:
                task.cancel()
        await asyncio.wait(tasks, timeout=_PROGRESS_S)
