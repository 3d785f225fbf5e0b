"""Making calls from one event loop: one answer, a stream of them, or a duplex exchange."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, AsyncIterator, Coroutine, Iterator
from contextlib import aclosing, contextmanager
from typing import Any, TypeVar

from axon.errors import BadArguments, DeadlineExceeded, NotFound, ProtocolError
from axon.rpc import frames, wire, zstd
from axon.rpc.address import Address
from axon.rpc.calling.duplex import DuplexCaller
from axon.rpc.calling.options import (
    DEFAULT_DEADLINE_S,
    Access,
    CallOptions,
    give_way,
    time_left,
)
from axon.rpc.calling.profiles import Profile, Remote
from axon.rpc.calling.sender import Sender
from axon.rpc.calling.spec import CallSpec
from axon.rpc.expiry import Alarm
from axon.rpc.messages import Buffer, Request, Transport, body_size
from axon.rpc.replies import raise_for, restore_error
from axon.rpc.security.auth import Seal

T = TypeVar("T")
_THIRTY = b"%.6g" % DEFAULT_DEADLINE_S


class Caller:
    """Calls to any number of workers, from one loop, with one way of access."""

    def __init__(self, access: Access, transport: Transport) -> None:
        self._access = access
        self._sender = Sender(access, transport)
        self._duplex = DuplexCaller(self._sender)
        self._alarm = Alarm()

    async def profile(self, origin: Address, *, fresh: bool = False) -> Profile:
        """What that worker offers."""
        return await self._sender.profile(origin, fresh=fresh)

    async def ask(self, origin: Address, options: CallOptions) -> Profile:
        """What that worker offers now, within the deadline of the calls to come."""
        question = self._sender.profile(origin, fresh=True)
        return await self._within(origin, "its profile", options, question)

    async def find(self, origin: Address, path: str, options: CallOptions) -> Remote:
        """The function at a path of that worker, within the deadline of its call."""
        return await self._within(origin, path, options, self._sender.find(origin, path))

    async def host_towards(self, origin: Address) -> str:
        """Our own host as that worker sees it."""
        return await self._sender.transport.host_towards(origin)

    async def call(self, spec: CallSpec) -> Any:
        """Call and wait for the value, no longer than the deadline."""
        left = time_left(spec.options)
        origin = spec.origin
        try:
            with self._alarm.after(left) as expiry:
                if left == 0:
                    await _until_ended()
                remote = spec.function
                if type(remote) is not Remote or remote.streams:
                    remote = await self._checked(spec)
                request = self._request(spec, remote, left)
                if spec.options.duplex:
                    return await self._duplex.call(origin, request, spec.options)
                if spec.options.progress is not None:
                    return await self._progressing(origin, request, spec.options)
                return self._sender.value(await self._sender.send(origin, request))
        except TimeoutError as error:
            if not expiry.expired and not isinstance(error, DeadlineExceeded):
                raise  # The function's own, or that of a scope around us.
            await give_way()
            if not expiry.expired:
                raise  # The worker saw the end before us.
            raise _late(origin, spec.path, left) from error
        except (NotFound, BadArguments):
            self._sender.forget(origin)
            raise

    async def items(self, spec: CallSpec) -> AsyncGenerator[Any, None]:
        """The items of a generator function, as fast as they are taken and no faster."""
        left = time_left(spec.options)
        end = None if left is None else asyncio.get_running_loop().time() + left
        try:
            with _deadline_named(spec.origin, spec.path, left), self._alarm.at(end):
                if left == 0:
                    await _until_ended()
                remote = await self._found(spec)
                if not remote.streams:
                    raise BadArguments(f"{remote.path} is not a generator", hint="await or join it")
                source = await self._frames(spec.origin, self._request(spec, remote, left))
            async with aclosing(source):
                while True:
                    with _deadline_named(spec.origin, spec.path, left), self._alarm.at(end):
                        kind, value = await anext(source)
                    if kind is frames.Kind.RESULT:
                        return
                    if kind is frames.Kind.ITEM:
                        yield value
        except DeadlineExceeded:
            await give_way()
            raise

    async def attach(self, origin: Address, id: str, options: CallOptions) -> Any:
        """The result of a duplex call made earlier."""
        result = self._duplex.attach(origin, id, options)
        return await self._within(origin, f"call {id}", options, result)

    async def _within(
        self, origin: Address, what: str, options: CallOptions, work: Coroutine[Any, Any, T]
    ) -> T:
        left = time_left(options)
        try:
            with _deadline_named(origin, what, left), self._alarm.after(left):
                return await work
        except DeadlineExceeded:
            await give_way()
            raise

    async def _found(self, spec: CallSpec) -> Remote:
        if isinstance(spec.function, Remote):
            return spec.function  # Whoever had the description has checked against it.
        remote = await self._sender.find(spec.origin, spec.function)
        remote.check(spec.args, spec.kwargs)
        return remote

    async def _checked(self, spec: CallSpec) -> Remote:
        remote = await self._found(spec)
        if remote.streams:
            raise BadArguments(f"{remote.path} is a generator", hint="iterate over the call")
        return remote

    def _request(self, spec: CallSpec, remote: Remote, left: float | None) -> Request:
        body = wire.encode_call(spec.args, spec.kwargs, pickling=self._access.pickling)
        headers = {b"content-type": wire.CONTENT_TYPE}
        if left is not None:
            headers[b"axon-deadline"] = _THIRTY if left == DEFAULT_DEADLINE_S else b"%.6g" % left
        if spec.options.compress:
            headers[b"accept-encoding"] = zstd.ENCODING
            if body_size(body) >= zstd.LEAST_BYTES:
                headers[b"content-encoding"] = zstd.ENCODING
                return Request(b"POST", remote.target, headers, zstd.compress(body))
        return Request(b"POST", remote.target, headers, body)

    async def _frames(
        self, origin: Address, request: Request
    ) -> AsyncGenerator[tuple[frames.Kind, Any], None]:
        request.streams = True
        response = await self._sender.send(origin, request)
        if response.stream is None:
            raise_for(response)
            raise ProtocolError("expected a stream, got a single answer")
        seal = request.context.opener() if isinstance(request.context, Seal) else None
        return self._values(response.stream, seal)

    async def _values(
        self, stream: AsyncIterator[Buffer], seal: frames.FrameSeal | None
    ) -> AsyncGenerator[tuple[frames.Kind, Any], None]:
        limit = self._access.limits.max_body_bytes
        try:
            async for kind, envelope in frames.unpack(stream, max_bytes=limit, seal=seal):
                value = self._sender.decode(envelope)
                if kind is frames.Kind.ERROR:
                    raise restore_error(value)
                yield kind, value
        finally:
            await stream.aclose()  # type: ignore[attr-defined]  # both transports' can be closed

    async def _progressing(self, origin: Address, request: Request, options: CallOptions) -> Any:
        request.headers[b"axon-accept"] = b"progress"
        async with aclosing(await self._frames(origin, request)) as source:
            async for kind, value in source:
                if kind is frames.Kind.RESULT:
                    return value
                if options.progress is not None:
                    options.progress(value)
        raise ProtocolError("the stream ended without a result")

    async def close(self) -> None:
        """Say what is left to say, then let go of every connection."""
        await self._duplex.close()
        if self._access.transport is None:  # One that was handed in is not ours to close.
            await self._sender.transport.close()


async def _until_ended() -> None:
    """A call whose time is up is not sent; whichever scope around it ends first says so."""
    await asyncio.get_running_loop().create_future()


def _late(origin: Address, path: str, left: float | None) -> DeadlineExceeded:
    return DeadlineExceeded(f"no answer from {path} on {origin} within {left or 0:.3g} s")


@contextmanager
def _deadline_named(origin: Address, path: str, left: float | None) -> Iterator[None]:
    """Tell whose time was up; an error the function itself raised passes as it is."""
    try:
        yield
    except TimeoutError as error:
        if type(error) is not TimeoutError:
            raise
        raise _late(origin, path, left) from error
