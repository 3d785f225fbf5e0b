"""Requests to workers from one loop: signed where there is a key, resent where that is safe."""

from __future__ import annotations

import asyncio
import difflib
import itertools
import json
from typing import Any

from axon.errors import (
    AxonError,
    ConnectFailed,
    DeadlineExceeded,
    NotFound,
    Overloaded,
    ProtocolError,
    TooLarge,
    Unauthorised,
)
from axon.rpc import wire, zstd
from axon.rpc.address import Address
from axon.rpc.calling.options import Access
from axon.rpc.calling.profiles import Profile, Remote, read_profile
from axon.rpc.messages import Buffer, Request, Response, Transport, body_size
from axon.rpc.paths import PROFILE, RPC_SERVICE
from axon.rpc.replies import raise_for
from axon.rpc.security.auth import Seal, Signer

BACKOFF_S = (0.05, 0.1, 0.2, 0.4, 0.8, 1.0)


def backoff_s(attempt: int) -> float:
    """How long to wait after so many attempts before this one failed."""
    return BACKOFF_S[min(attempt, len(BACKOFF_S) - 1)]


class Sender:
    """Sends requests and reads answers for one way of access; knows each worker's profile."""

    def __init__(self, access: Access, transport: Transport) -> None:
        self.access = access
        self.transport = transport
        self._signer = Signer(access.key.only()) if access.key else None
        self._profiles: dict[Address, Profile] = {}
        self._asking: dict[str, asyncio.Lock] = {}
        self._reached: set[str] = set()

    # Profiles

    async def profile(self, origin: Address, *, fresh: bool = False) -> Profile:
        """What that worker offers; asked once, and again when it turns out to be out of date."""
        if not fresh:
            known = self._profiles.get(origin)
            if known is not None:
                return known
            # Many first calls at once make one question; the others wait for its answer.
            async with self._asking.setdefault(origin.key, asyncio.Lock()):
                return self._profiles.get(origin) or await self.profile(origin, fresh=True)
        response = await self.send(origin, Request(b"GET", PROFILE))
        # All of a profile is structure, and unfolds in memory just as an envelope's head does.
        self._check_structure("profile", response)
        raise_for(response)
        try:
            data = json.loads(bytes(response.body[0])) if response.body else None
        except ValueError as error:
            raise ProtocolError(f"{origin} does not answer like an Axon worker") from error
        profile = self._profiles[origin] = read_profile(data, origin)
        return profile

    def forget(self, origin: Address) -> None:
        """The worker may have changed since we asked."""
        self._profiles.pop(origin, None)

    async def find(self, origin: Address, path: str) -> Remote:
        """The function at a path; a bare name also means one registered by `@rpc()`."""
        for fresh in (False, True):
            profile = await self.profile(origin, fresh=fresh)
            for candidate in (path, f"{RPC_SERVICE}/{path}"):
                remote = profile.functions.get(candidate)
                if remote is not None:
                    return remote
        raise NotFound(f"no function {path!r} on {origin}", hint=_offer(path, profile))

    # Requests

    async def send(self, origin: Address, request: Request) -> Response:
        """Send and wait for the answer, its signature checked where there is a key."""
        if self._signer is None:
            response = await self._exchange(origin, request)
        else:
            response = await self._proven(origin, request, self._signer)
        if response.headers.get(b"content-encoding") == zstd.ENCODING:
            self._inflate(response, request)
        return response

    async def _proven(self, origin: Address, request: Request, signer: Signer) -> Response:
        """The answer to a signed request, once its own signature is found good."""
        response, seal, boot = await self._send_signed(origin, request, signer)
        if response.status == 401 and await self._restarted(origin, boot):
            # Meant for the worker that was there before, so this one did not run it.
            response, seal, _ = await self._send_signed(origin, request, signer)
        if response.status >= 400 and b"axon-auth" not in response.headers:
            self._check_structure("refusal", response)
            _raise_refusal(response)
        seal.verify(response)
        request.context = seal
        return response

    async def _restarted(self, origin: Address, boot: str) -> bool:
        """Whether a signed profile shows another worker; a refusal alone anyone could forge.

        Another than the one this request was signed for: what we know of it by now another request
        may have brought up to date.
        """
        return boot != "" and (await self.profile(origin, fresh=True)).boot != boot

    async def _send_signed(
        self, origin: Address, request: Request, signer: Signer
    ) -> tuple[Response, Seal, str]:
        boot = ""
        if request.method != b"GET":
            boot = (self._profiles.get(origin) or await self.profile(origin)).boot
        seal = signer.sign(request, boot=boot.encode())
        return await self._exchange(origin, request), seal, boot

    async def _exchange(self, origin: Address, request: Request) -> Response:
        try:
            response = await self.transport.exchange(origin, request)
        except ConnectFailed:
            if origin.key not in self._reached:
                raise
            response = await self._reconnect(origin, request)
        self._reached.add(origin.key)
        return response

    async def _reconnect(self, origin: Address, request: Request) -> Response:
        """A worker that was there and is not: it may be restarting, so try for a while."""
        loop = asyncio.get_running_loop()
        until = loop.time() + self.access.reconnect_s
        for attempt in itertools.count():
            await asyncio.sleep(backoff_s(attempt))
            try:
                return await self.transport.exchange(origin, request)
            except ConnectFailed:
                if loop.time() > until:
                    self._reached.discard(origin.key)
                    raise
        raise AssertionError("attempts have no end")

    # Answers

    def value(self, response: Response) -> Any:
        """The value of an answer, or the error it describes."""
        if response.headers.get(b"content-encoding") == zstd.ENCODING:
            raise _uncalled_for()
        if response.status >= 400:
            self._check_structure("error", response)
            raise_for(response)
        if not response.body:
            raise ProtocolError("an answer without a body")
        size, limit = len(response.body[0]), self.access.limits.max_body_bytes
        if size > limit:
            # HTTP does not read so far; other transports carry whatever they are given.
            raise TooLarge(f"the answer has {size} bytes, this client takes {limit}")
        return self.decode(response.body[0])

    def _inflate(self, response: Response, request: Request) -> None:
        """Put the body in place of the compressed one, where the request asked for that."""
        if request.headers.get(b"accept-encoding") != zstd.ENCODING:
            raise _uncalled_for()
        if response.stream is not None or not response.body:
            raise ProtocolError("a compressed answer without a body")
        limit = self.access.limits.max_body_bytes
        response.body = (zstd.decompress(response.body[0], max_bytes=limit),)
        del response.headers[b"content-encoding"]

    def _check_structure(self, what: str, response: Response) -> None:
        """Raise for an answer too long to be unfolded, where all of it would be."""
        size, limit = body_size(response.body), self.access.limits.max_head_bytes
        if size > limit:
            raise TooLarge(f"the answer has {size} bytes of {what}, this client takes {limit}")

    def decode(self, body: Buffer) -> Any:
        """A value as it came; classes it names must be ones that this way of access takes."""
        return wire.decode(
            body,
            types=self.access.types,
            pickling=self.access.pickling,
            max_head_bytes=self.access.limits.max_head_bytes,
            max_depth=self.access.limits.max_depth,
        )


def _uncalled_for() -> ProtocolError:
    return ProtocolError("the answer is compressed, which nobody asked for")


def _offer(path: str, profile: Profile) -> str:
    """What there is instead, the most alike first."""
    names = sorted(profile.functions)
    alike = difflib.get_close_matches(path, [*names, *(name.rpartition("/")[2] for name in names)])
    if alike:
        return f"did you mean {alike[0]}?"
    return f"it offers {', '.join(names)[:300] or 'nothing'}"


_UNSIGNED = (Unauthorised, TooLarge, Overloaded, ProtocolError, DeadlineExceeded)
"""What a worker may say before it knows that our key is good."""


def _raise_refusal(response: Response) -> None:
    """Raise an answer that nobody signed; the outcome of a call is not taken from just anyone."""
    try:
        raise_for(response)
    except _UNSIGNED:
        raise
    except AxonError as error:
        raise Unauthorised("an answer came without a signature") from error
