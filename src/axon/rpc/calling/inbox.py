"""Where a client waits for duplex results: a small app of its own that workers send them to."""

from __future__ import annotations

import asyncio
import os
from collections.abc import Callable
from typing import Any

from axon.errors import AxonError, CallCancelled, NotFound, Unauthorised
from axon.rpc.address import Address
from axon.rpc.messages import Buffer, Listener, Request, Response, Transport
from axon.rpc.paths import PROGRESS, RESULTS
from axon.rpc.replies import error_response
from axon.rpc.security.auth import Admission, Verifier
from axon.rpc.security.keys import Keyring

Report = Callable[[Any], None]


class Inbox:
    """Results and progress of calls that are waited for; anything else is turned away unread."""

    def __init__(self, keyring: Keyring | None, decode: Callable[[Buffer], Any]) -> None:
        self._decode = decode
        self._opening = asyncio.Lock()
        self.boot = os.urandom(8).hex().encode()
        self._verifier: Verifier | None = None
        if keyring is not None:
            # A worker answers by the key it was called with; holders of our others have no say.
            self._verifier = Verifier(Keyring([keyring.only()]), boot=self.boot)
        # More than one where the same id is waited for twice, as when a call is made again.
        self._expected: dict[bytes, dict[asyncio.Future[Response], Report | None]] = {}
        self._listeners: dict[str, Listener] = {}

    async def reply_to(self, transport: Transport, worker: Address) -> bytes:
        """Listen where that worker sees us, and say where: `scheme:port`."""
        host = await transport.host_towards(worker)
        async with self._opening:  # First calls made together share one listener.
            listener = self._listeners.get(host)
            if listener is None:
                listener = await transport.listen(self, Address(host, 0, worker.scheme))
                self._listeners[host] = listener
        return f"{worker.scheme}:{listener.address.port}".encode()

    def expect(self, id: str, report: Report | None) -> asyncio.Future[Response]:
        """A future for the result of one call."""
        future: asyncio.Future[Response] = asyncio.get_running_loop().create_future()
        self._expected.setdefault(id.encode(), {})[future] = report
        return future

    def forget(self, id: str, future: asyncio.Future[Response]) -> None:
        """Nobody waits for that future any more."""
        waiting = self._expected.get(id.encode(), {})
        waiting.pop(future, None)
        if not waiting:
            self._expected.pop(id.encode(), None)

    def admit(self, request: Request) -> Response | None:
        _, id = _parse(request.target)
        try:
            if request.method != b"POST" or id not in self._expected:
                raise NotFound("nobody waits for that here")
            if self._verifier is not None:
                request.context = self._verifier.admit(request)
        except AxonError as error:
            return error_response(error, as_json=False)
        return None

    def handle(self, request: Request) -> Response:
        try:
            if isinstance(request.context, Admission):
                request.context.check_body(request)
            self._deliver(request)
        except AxonError as error:
            return error_response(error, as_json=False)
        return Response(204)

    def _deliver(self, request: Request) -> None:
        prefix, id = _parse(request.target)
        if id not in self._expected:
            raise NotFound("nobody waits for that any more")
        if prefix == PROGRESS:
            self._report(id, request)
            return
        status = request.headers.get(b"axon-status", b"")
        if not status.isdigit() or len(status) > 3:
            raise Unauthorised("a result without a status")
        waiting = [future for future in self._expected[id] if not future.done()]
        for number, future in enumerate(waiting):
            body = request.body
            if number:
                # Arrays live in the body they came in; two callers must not share them.
                body = tuple(bytearray(piece) for piece in body)
            future.set_result(Response(int(status), dict(request.headers), body))

    def _report(self, id: bytes, request: Request) -> None:
        for future, report in self._expected[id].items():
            if report is None or not request.body or future.done():
                continue
            try:
                report(self._decode(request.body[0]))
            except Exception as error:
                # The caller's own code failed on it, and its call fails with that.
                future.set_exception(error)

    async def close(self) -> None:
        """Let go of those who wait, and stop listening."""
        for waiting in self._expected.values():
            for future in waiting:
                if not future.done():
                    future.set_exception(CallCancelled("the client was closed"))
                    future.exception()  # Told, even if its caller is gone and never looks.
        for listener in self._listeners.values():
            await listener.close()
        self._listeners.clear()


def _parse(target: bytes) -> tuple[bytes, bytes]:
    for prefix in (RESULTS, PROGRESS):
        if target.startswith(prefix):
            return prefix, target[len(prefix) :]
    return b"", b""
