"""The app behind a worker's port: who may ask, what is asked, and the answer."""

from __future__ import annotations

import os
import re
from collections.abc import Awaitable, Callable
from dataclasses import replace
from typing import Any
from urllib.parse import parse_qs, unquote

from axon.errors import (
    AxonError,
    BadArguments,
    CallLost,
    NotFound,
    Overloaded,
    ProtocolError,
    Unauthorised,
    WorkerStopping,
)
from axon.rpc import wire, zstd
from axon.rpc.address import Address
from axon.rpc.messages import Request, Response, Transport, body_size
from axon.rpc.paths import CALLS, HEALTH, METRICS, OWN, PROFILE, target_of
from axon.rpc.replies import JSON, error_response, value_body
from axon.rpc.security.auth import Admission, Signer, Verifier
from axon.rpc.security.refusal import Refused
from axon.rpc.serving.arguments import arguments, decode_call, is_json, stated_deadline
from axon.rpc.serving.duplex import DuplexDesk
from axon.rpc.serving.execution import ActiveCall, Engine, Form
from axon.rpc.serving.metrics import Metrics
from axon.rpc.serving.options import ServeOptions
from axon.rpc.serving.service import Function, Services
from axon.rpc.serving.streams import item_stream, progress_stream, streamed

_PORT = re.compile(r"[0-9]{1,5}")
_WISHES = frozenset(
    (b"axon-mode", b"axon-accept", b"content-encoding", b"accept-encoding", b"transfer-encoding")
)
"""Headers that ask for more than a value for some arguments."""
_CALL_ID = re.compile(r"[A-Za-z0-9._:-]{1,128}")


class Dispatcher:
    """Everything a worker answers, whatever the transport that brings it."""

    def __init__(
        self,
        services: Services,
        *,
        name: str,
        version: str,
        transport: Transport,
        options: ServeOptions,
    ) -> None:
        self.name = name
        self.boot = os.urandom(8).hex()
        self.version = version
        self.limits = options.limits
        self.metrics = Metrics()
        self.stopping = False
        self._services = services
        self._pickling = options.pickling
        self._form = Form(pickling=options.pickling, traced=options.tracebacks)
        keyring = options.keyring
        # By its presence, not its length: a ring without keys lets nobody in, rather than everyone.
        self._verifier = None if keyring is None else Verifier(keyring, boot=self.boot.encode())
        self.engine = Engine(
            max_threads=options.max_threads,
            max_processes=options.max_processes,
        )
        self.desk = DuplexDesk(self.engine, transport, self.limits, self.boot)
        self.metrics.gauge("axon_calls_active", "Calls under way.", lambda: len(self.engine.active))
        self.metrics.gauge(
            "axon_results_kept", "Duplex results not yet taken.", lambda: self.desk.undelivered
        )

    # Judging a request by its head

    def admit(self, request: Request) -> Response | None:
        """Refuse browsers' cross-site requests and callers without a key; no body is read yet."""
        if b"origin" in request.headers:
            # A web page must not reach the worker on its visitor's machine.
            return self._refusal(request, Unauthorised("requests from web pages are not taken"))
        if self._verifier is None or request.target == HEALTH:
            return None
        if request.target == METRICS and _is_local(request.peer):
            return None
        try:
            request.context = self._verifier.admit(request)
        except Unauthorised as error:
            return self._refusal(request, error)
        return None

    def _refusal(self, request: Request, error: AxonError) -> Response:
        # Whoever does not speak our format, and got something wrong, can still read JSON.
        ours = request.headers.get(b"content-type") == wire.CONTENT_TYPE
        response = error_response(error, as_json=not ours)
        self.metrics.refused(response.headers[b"axon-error"].decode())
        if isinstance(request.context, Admission) and request.context.proven:
            request.context.sign(response)
        return response

    # Answering

    def handle(self, request: Request) -> Response | Awaitable[Response]:
        """Answer a whole request; at once where nothing has to be waited for."""
        function = self._services.by_target.get(request.target)
        if (
            function is not None
            and request.method == b"POST"
            and request.headers.get(b"content-type") == wire.CONTENT_TYPE
            and _WISHES.isdisjoint(request.headers)
            and not function.streams
            and not self.stopping
        ):
            # A call and no more: most are, and they need not be asked what else.
            return self._plain(function, request)
        try:
            answer = self._route(request)
        except AxonError as error:
            return self._refusal(request, error)
        admission = request.context
        if not isinstance(admission, Admission):
            return answer
        if isinstance(answer, Response):
            if answer.stream is None:
                admission.sign(answer)
            return answer
        return _signed(answer, admission)

    def _plain(self, function: Function, request: Request) -> Response | Awaitable[Response]:
        admission = request.context
        try:
            if isinstance(admission, Admission):
                admission.check_body(request)
                _check_allowed(admission, function)
            body = request.body[0] if request.body else b""
            args, kwargs = decode_call(body, function, limits=self.limits, pickling=self._pickling)
            if not function.at_once:
                self._check_room()
                deadline_s = stated_deadline(request)
        except AxonError as error:
            return self._refusal(request, error)
        if function.at_once:
            response = self.engine.run_inline(function, args, kwargs, self._form)
            if isinstance(admission, Admission):
                admission.sign(response)
            return response
        call = ActiveCall(function, args, kwargs, deadline_s=deadline_s, form=self._form)
        answer = self.engine.run(call)
        return _signed(answer, admission) if isinstance(admission, Admission) else answer

    def _check_room(self) -> None:
        if len(self.engine.active) >= self.limits.max_calls:
            raise Overloaded(f"{self.limits.max_calls} calls are under way on worker {self.name}")

    def _route(self, request: Request) -> Response | Awaitable[Response]:
        admission = request.context
        if isinstance(admission, Admission):
            admission.check_body(request)
        if request.method == b"POST":
            function = self._services.by_target.get(request.target)
            if function is None and not request.target.startswith(OWN):
                function = self._find(request.target)
            if function is not None:
                return self._call(function, request)
        return self._control(request)

    def _find(self, target: bytes) -> Function:
        """By another spelling of the same path, as people and curl write it."""
        path = unquote(target.partition(b"?")[0].decode("latin-1")).strip("/")
        function = self._services.by_target.get(target_of(path))
        if function is None:
            raise NotFound(
                f"no function {path[:200]!r} on worker {self.name}",
                hint="GET /_axon/profile lists what there is",
            )
        return function

    def _call(self, function: Function, request: Request) -> Response | Awaitable[Response]:
        owner = ""
        if isinstance(request.context, Admission):
            owner = request.context.key.id
            _check_allowed(request.context, function)
        if self.stopping:
            raise WorkerStopping(f"worker {self.name} is shutting down")
        headers = request.headers
        if headers.get(b"axon-mode") == b"duplex":
            return self._submit(function, request, owner)
        self._check_room()
        call = self._make_call(function, request)
        if function.streams:
            return streamed(item_stream(self.engine, call, request), request)
        if headers.get(b"axon-accept") == b"progress":
            return streamed(progress_stream(self.engine, call, request), request)
        if function.at_once:
            answer = self.engine.run_inline(function, call.args, call.kwargs, call.form)
            return self._squeeze(answer, request)
        return self._run(call, request)

    async def _run(self, call: ActiveCall, request: Request) -> Response:
        return self._squeeze(await self.engine.run(call), request)

    def _squeeze(self, response: Response, request: Request) -> Response:
        wanted = request.headers.get(b"accept-encoding") == zstd.ENCODING
        if wanted and body_size(response.body) >= zstd.LEAST_BYTES:
            response.body = zstd.compress(response.body)
            response.headers[b"content-encoding"] = zstd.ENCODING
        return response

    def _make_call(self, function: Function, request: Request) -> ActiveCall:
        args, kwargs = arguments(function, request, limits=self.limits, pickling=self._pickling)
        return ActiveCall(
            function,
            args,
            kwargs,
            deadline_s=stated_deadline(request),
            form=replace(self._form, as_json=is_json(request)),
        )

    # Duplex

    def _submit(self, function: Function, request: Request, owner: str) -> Response:
        if function.streams:
            raise BadArguments(
                f"{function.path} is a generator",
                hint="its items come over one connection: call it simplex",
            )
        id = request.headers.get(b"axon-call", b"").decode("latin-1")
        if not _CALL_ID.fullmatch(id):
            raise ProtocolError("a duplex call needs an id of letters, digits and . _ : -")
        expected = request.headers.get(b"axon-worker", b"").decode("latin-1")
        if expected and expected != self.boot:
            # Sent to the worker that was here before; it may have run there.
            raise CallLost(f"call {id!r} was made to a worker that has restarted since")

        def make_call() -> ActiveCall:
            self._check_room()
            return self._make_call(function, request)

        reply, sign = self._reply_to(request)
        return self.desk.submit(id, owner, make_call, reply=reply, sign=sign)

    def _reply_to(
        self, request: Request
    ) -> tuple[Address | None, Callable[[Request], None] | None]:
        """Where results go: always the host that called, at the port it named.

        Any other host would let a caller aim the worker's requests at whomever it likes.
        """
        named = request.headers.get(b"axon-reply-to", b"").decode("latin-1")
        scheme, _, port = named.partition(":")
        if scheme not in ("http", "memory") or request.peer in ("", "local"):
            return None, None
        if not _PORT.fullmatch(port) or not 0 < int(port) < 65536:
            return None, None
        address = Address(request.peer, int(port), scheme)
        if not isinstance(request.context, Admission):
            return address, None
        signer = Signer(request.context.key)
        boot = request.headers.get(b"axon-client", b"")

        def sign(push: Request) -> None:
            signer.sign(push, boot=boot)

        return address, sign

    # Everything that is not a call

    def _control(self, request: Request) -> Response | Awaitable[Response]:
        path, _, query = request.target.partition(b"?")
        if path.startswith(CALLS):
            return self._about_call(request, path[len(CALLS) :], query)
        if request.method != b"GET":
            raise NotFound(f"nothing answers {request.method.decode('latin-1')} here")
        if path == PROFILE:
            return _json_response(self.profile(request.context))
        if path == HEALTH:
            state = "stopping" if self.stopping else "ok"
            return _json_response({"status": state, "name": self.name, "boot": self.boot})
        if path == METRICS:
            text = self.metrics.render((item.path, item.tally) for item in self._services).encode()
            return Response(200, {b"content-type": b"text/plain; version=0.0.4"}, (text,))
        raise NotFound(
            "nothing is here to GET", hint="functions are called with POST; see /_axon/profile"
        )

    def _about_call(
        self, request: Request, rest: bytes, query: bytes
    ) -> Response | Awaitable[Response]:
        id, _, verb = rest.decode("latin-1").partition("/")
        admission = request.context
        owner = admission.key.id if isinstance(admission, Admission) else ""
        entry = self.desk.find(id, owner)
        match request.method, verb:
            case b"GET", "":
                return self.desk.fetch(entry, _wait_s(query))
            case b"DELETE", "":
                return self.desk.acknowledge(entry)
            case b"POST", "cancel":
                return self.desk.cancel(entry)
        raise NotFound("a call is fetched with GET, acknowledged with DELETE, or POST …/cancel")

    def profile(self, admission: object = None) -> dict[str, Any]:
        """What this worker is and offers; a caller sees what its key may call."""
        functions = {
            function.path: function.profile()
            for function in self._services
            if not isinstance(admission, Admission) or admission.key.may_call(function.path)
        }
        return {
            "protocols": [wire.VERSION],
            "name": self.name,
            "boot": self.boot,
            "version": self.version,
            "functions": functions,
        }

    # Stopping

    async def stop(self, grace_s: float) -> None:
        """Take no more calls, let those under way finish, hand the rest back."""
        self.stopping = True
        try:
            if not await self.engine.drain(grace_s):
                self.hand_back()
                await self.engine.drain(1.0)
        finally:
            # A stop that is itself cut short leaves nothing running either.
            self.hand_back()
            try:
                await self.desk.finish(1.0)
            finally:
                self.engine.close()

    def hand_back(self) -> None:
        """End what is under way; its callers are told why."""
        self.engine.end_all(
            lambda: WorkerStopping(f"worker {self.name} stopped before the call was done")
        )


def _check_allowed(admission: Admission, function: Function) -> None:
    if not admission.key.may_call(function.path):
        raise Refused(f"key {admission.key.id} may not call {function.path}", reason="forbidden")


async def _signed(answer: Awaitable[Response], admission: Admission) -> Response:
    response = await answer
    if response.stream is None:
        admission.sign(response)
    return response


def _is_local(peer: str) -> bool:
    return peer == "local" or Address(peer).is_loopback if peer else False


def _json_response(value: object) -> Response:
    return Response(200, {b"content-type": JSON}, value_body(value, as_json=True))


def _wait_s(query: bytes) -> float:
    values = parse_qs(query.decode("latin-1")).get("wait", ["0"])
    try:
        return max(0.0, float(values[0]))
    except ValueError as error:
        raise ProtocolError("wait is a number of seconds") from error
