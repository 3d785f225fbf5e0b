"""The client's side of duplex calls: submit until acknowledged, then wait, ask, and acknowledge.

A call runs at most once in one life of its worker, and the client that makes it sees to it that no
other life gets it: the boot id sent along is that of the worker the first submission went to, and
stays the same from the moment a submission may have arrived. A process that makes a call again,
under an id of its own choosing, after both it and the worker were restarted, asks for a new run and
gets one; if that must not be, `attach` finds the call and never starts it.
"""

from __future__ import annotations

import asyncio
import itertools
import math
import secrets
from typing import Any

from axon.errors import CallError, ConnectFailed, ConnectionLost
from axon.rpc import wire
from axon.rpc.address import Address
from axon.rpc.calling.inbox import Inbox
from axon.rpc.calling.options import CallOptions
from axon.rpc.calling.sender import BACKOFF_S, Sender, backoff_s
from axon.rpc.messages import Request, Response, body_size
from axon.rpc.paths import CALLS
from axon.rpc.replies import raise_for

_PUSHED_POLL_S = (2.0, 4.0, 8.0, 15.0)
"""How long to wait for a result to be sent before asking for it all the same."""
_LONG_POLL_S = 15
_SILENCE_S = 30.0
"""How long an answer may take before the link counts as lost; longer each time, since it may be a
large result on a slow link."""
_REPEAT_S = 300.0
"""How long a submission that may have arrived is repeated: far less than its id is remembered."""
_PUSHING = ("http", "memory")
"""Where a worker can open a connection to us: not through a Unix socket, and not under TLS, for
which a client has no certificate that names it."""


class DuplexCaller:
    """Duplex calls from one loop, and the inbox their results are sent to."""

    def __init__(self, sender: Sender) -> None:
        self._sender = sender
        self._inbox = Inbox(sender.access.key, sender.decode)
        self._farewells: set[asyncio.Task[None]] = set()

    async def call(self, origin: Address, request: Request, options: CallOptions) -> Any:
        """Make the call and wait for its value; the id makes every repetition harmless."""
        id = options.call_id or secrets.token_hex(16)
        request.headers[b"axon-mode"] = b"duplex"
        request.headers[b"axon-call"] = id.encode()
        request.headers[b"axon-worker"] = (await self._sender.profile(origin)).boot.encode()
        pushed = self._inbox.expect(id, options.progress)
        try:
            pushing = options.push and origin.scheme in _PUSHING
            if pushing:
                reply_to = await self._inbox.reply_to(self._sender.transport, origin)
                request.headers[b"axon-reply-to"] = reply_to
                request.headers[b"axon-client"] = self._inbox.boot
            # Whoever joins a call that has ended gets nothing sent, and asks at once.
            pushing = await self._submit(origin, request) and pushing
            response = await self._collect(origin, id, pushed, options, pushing=pushing)
        except CallError:
            raise  # The link's or the worker's doing; the result, if there is one, waits.
        except BaseException:
            # Cancelled, or the caller's own code failed: nobody will take the result.
            self._farewell(origin, Request(b"POST", CALLS + id.encode() + b"/cancel"))
            raise
        finally:
            self._inbox.forget(id, pushed)
        self._farewell(origin, Request(b"DELETE", CALLS + id.encode()))
        return self._sender.value(response)

    async def attach(self, origin: Address, id: str, options: CallOptions) -> Any:
        """The result of a call made earlier, perhaps by a process that is no more."""
        pushed = self._inbox.expect(id, options.progress)
        try:
            response = await self._collect(origin, id, pushed, options, pushing=False)
        finally:
            self._inbox.forget(id, pushed)
        value = self._sender.value(response)
        self._farewell(origin, Request(b"DELETE", CALLS + id.encode()))
        return value

    async def _submit(self, origin: Address, request: Request) -> bool:
        """Until acknowledged; whether the call still runs, so that its result will be sent."""
        loop = asyncio.get_running_loop()
        last_s = math.inf  # The end of repeating, once a submission may have arrived.
        for attempt in itertools.count():
            certain = last_s == math.inf
            try:
                response = await self._offer(origin, request)
            except (ConnectionLost, ConnectFailed) as error:
                if certain and isinstance(error, ConnectionLost):
                    last_s = loop.time() + _REPEAT_S
                elif certain:
                    raise  # Nobody there, and the sender has waited for a restart already.
                if loop.time() > last_s:
                    return False  # It must not arrive again, but it may have run: ask.
                await asyncio.sleep(backoff_s(attempt))
                continue
            refusal = response.headers.get(b"axon-error", b"")
            if refusal == b"lost" and certain and attempt < len(BACKOFF_S):
                # Another worker than we knew, and the one we knew never got the call.
                profile = await self._sender.profile(origin, fresh=True)
                request.headers[b"axon-worker"] = profile.boot.encode()
                continue
            if refusal == b"stopping" and not certain:
                return False  # It takes no new calls, but may be running this one: ask.
            raise_for(response)
            return response.headers.get(b"axon-state") == b"running"
        raise AssertionError("attempts have no end")

    async def _offer(self, origin: Address, request: Request) -> Response:
        """One submission; an acknowledgement that does not come in time is a link lost."""
        patience_s = _SILENCE_S
        patience_s += body_size(request.body) / self._sender.access.limits.least_bytes_per_s
        try:
            async with asyncio.timeout(patience_s) as scope:
                return await self._sender.send(origin, request)
        except TimeoutError as error:
            if not scope.expired():
                raise
            raise ConnectionLost(f"{origin} did not acknowledge the call") from error

    async def _collect(
        self,
        origin: Address,
        id: str,
        pushed: asyncio.Future[Response],
        options: CallOptions,
        *,
        pushing: bool,
    ) -> Response:
        """The result, sent to us or asked for, whichever comes first."""
        target = CALLS + id.encode() + (b"" if pushing else b"?wait=%d" % _LONG_POLL_S)
        asked = failed = 0
        silence_s = _SILENCE_S
        while not pushed.done():
            if failed:
                delay_s = backoff_s(failed - 1)
            else:
                delay_s = _PUSHED_POLL_S[min(asked, len(_PUSHED_POLL_S) - 1)] if pushing else 0.0
            if delay_s:
                await asyncio.wait([pushed], timeout=delay_s)
            if pushed.done():
                break
            asked += 1
            response = await self._ask(origin, target, pushed, silence_s)
            if response is None:
                # The link is down; the call is not lost until the worker says so.
                failed += 1
                silence_s *= 2
                continue
            failed = 0
            if response.status != 202:
                return response
            self._report(response, options)
        return pushed.result()

    async def _ask(
        self, origin: Address, target: bytes, pushed: asyncio.Future[Response], silence_s: float
    ) -> Response | None:
        """What the worker says of a call; nothing where it cannot be reached or need not be."""
        asking = asyncio.ensure_future(self._sender.send(origin, Request(b"GET", target)))
        try:
            await asyncio.wait(
                [asking, pushed], timeout=silence_s, return_when=asyncio.FIRST_COMPLETED
            )
            return asking.result() if asking.done() else None
        except (ConnectFailed, ConnectionLost):
            return None
        finally:
            asking.cancel()

    def _report(self, response: Response, options: CallOptions) -> None:
        """Progress that came with the news that there is no result yet."""
        has_progress = response.headers.get(b"content-type") == wire.CONTENT_TYPE
        if has_progress and options.progress is not None:
            options.progress(self._sender.decode(response.body[0]))

    def _farewell(self, origin: Address, request: Request) -> None:
        """A last word that nobody waits for."""

        async def say() -> None:
            try:
                async with asyncio.timeout(5.0):
                    await self._sender.send(origin, request)
            except (CallError, TimeoutError):
                return  # The worker forgets by itself in a while.

        task = asyncio.get_running_loop().create_task(say())
        self._farewells.add(task)
        task.add_done_callback(self._farewells.discard)

    async def close(self) -> None:
        """Say what is left to say, and stop listening."""
        if self._farewells:
            await asyncio.wait(set(self._farewells), timeout=1.0)
        await self._inbox.close()
