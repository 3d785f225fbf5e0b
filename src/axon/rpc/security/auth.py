"""Signed requests and signed answers: who calls, what exactly, once, and that the worker answered.

A request carries `axon-auth: v1;KEY;MS;SESSION-COUNTER;BOOT;DIGEST;MAC` and its answer
`axon-auth: v1;DIGEST;MAC`. MAC is BLAKE2b under the key's secret; nothing secret crosses the link.
What it covers are lines, each ended by a line break:

    request     "axon request", method, target, the header up to BOOT, DIGEST, content-length and
                the `SIGNED_HEADERS`, an absent one empty
    response    "axon response", the request's MAC, status, DIGEST and the `ANSWER_HEADERS`

DIGEST is `body` up to 4 KiB, and then the body follows those lines. Above, it is
`poly1305:SALT:TAG`, because Poly1305 is many times faster; its one-time key comes from the secret,
the request and a random salt, so that no key ever meets two bodies. A stream's head says
`stream:SALT` and each of its frames carries a tag.

So a request with a small body is only parsed when its head is there, and proven when its body is:
what lies between is up to 4 KiB of a stranger's. A larger one is proven by its head.

A request is taken once: the worker remembers the counters of each session. It forgets them when it
restarts, so requests name the boot of the worker that they are meant for; only a GET, which changes
nothing, may leave it out. All clients and workers that hold one key trust one another: which worker
answered is for TLS to prove.
"""

from __future__ import annotations

import hmac
import itertools
import os
import re
import time
from collections.abc import Callable
from hashlib import blake2b

from axon.rpc.messages import Headers, Pieces, Request, Response, body_size
from axon.rpc.security.keys import Key, Keyring
from axon.rpc.security.macs import (
    SMALL_BYTES,
    STREAM,
    WHOLE,
    FrameSeal,
    check_digest,
    mac_state,
    new_digest,
    new_salt,
    request_context,
    request_mac,
    response_context,
    response_mac,
)
from axon.rpc.security.refusal import Refused
from axon.rpc.security.replay import Sessions

HEADER = b"axon-auth"
_LONGEST_SMALL = (len(b"%d" % SMALL_BYTES), b"%d" % SMALL_BYTES)
# What becomes a number or is remembered is bounded, so that no header can choose what it costs.
_AUTH = re.compile(
    rb"(v1;([^;]*);([0-9]{1,16});([0-9a-f]{16})-([0-9a-f]{1,16});([0-9a-f]*));([^;]*);([^;]*)"
)


class Signer:
    """A client's side: signs requests under one session id and a counter that only grows.

    Safe to share between threads. A forked child gets a session of its own, as the two processes
    would otherwise count alike and each be taken for a replay of the other.
    """

    __slots__ = ("_key_id", "_now", "_session", "_state")

    def __init__(self, key: Key, *, now: Callable[[], float] = time.time) -> None:
        self._key_id = key.id.encode()
        self._state = mac_state(key.secret)
        self._now = now
        self._session = _new_session()

    def sign(self, request: Request, *, boot: bytes) -> Seal:
        """Set the request's `axon-auth`; the seal returned judges its answer.

        `boot` is the id the worker gave at hello, and empty for the hello itself.
        """
        fork, session, counter = self._session
        if fork != _forks:
            fork, session, counter = self._session = _new_session()
        stem = b"v1;%b;%d;%b-%x;%b" % (
            self._key_id,
            self._now() * 1000,
            session,
            next(counter),
            boot,
        )
        body = request.body
        size = body_size(body)
        digest = WHOLE
        if size > SMALL_BYTES:
            digest = new_digest(self._state, request_context(stem), body)
        mac = request_mac(self._state, request, stem, digest, b"%d" % size, body)
        request.headers[HEADER] = b"%b;%b;%b" % (stem, digest, mac)
        return Seal(self._state, mac)


def _new_session() -> tuple[int, bytes, itertools.count[int]]:
    # Taking the next of a count is one step of the interpreter, hence safe between threads.
    return _forks, os.urandom(8).hex().encode(), itertools.count(1)


def _forked() -> None:
    global _forks  # noqa: PLW0603 - what a fork changes is the process itself
    _forks += 1


_forks = 0
if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_forked)


class Seal:
    """What a client keeps of a signed request in order to judge the answer."""

    __slots__ = ("_opener", "_request_mac", "_state")

    def __init__(self, state: blake2b, request_mac: bytes) -> None:
        self._state = state
        self._request_mac = request_mac
        self._opener: FrameSeal | None = None

    def verify(self, response: Response) -> None:
        """Raise `Refused` unless a holder of the key gave exactly this answer to this request.

        Of a stream this judges the head; its frames go through `opener`.
        """
        header = response.headers.get(HEADER)
        if header is None:
            raise Refused(
                "the answer is not signed",
                reason="missing",
                hint="this worker may use no key: start it with key=, or call without one",
            )
        version, _, rest = header.partition(b";")
        digest, _, mac = rest.partition(b";")
        whole = digest == WHOLE
        if whole and body_size(response.body) > SMALL_BYTES:
            raise Refused("a large answer needs a digest", reason="signature")
        expected = response_mac(self._state, self._request_mac, response, digest)
        if version != b"v1" or not hmac.compare_digest(mac, expected):
            raise Refused("the answer's signature is wrong", reason="signature")
        if not whole or response.stream is not None:
            self._check_long(response, digest)

    def _check_long(self, response: Response, digest: bytes) -> None:
        if response.stream is None:
            check_digest(self._state, response_context(self._request_mac), response.body, digest)
        elif digest.startswith(STREAM):
            self._opener = FrameSeal(self._state, self._request_mac, digest[len(STREAM) :])
        else:
            raise Refused("a whole answer was signed, not a stream", reason="body")

    def opener(self) -> FrameSeal:
        """The checking end of the stream whose head `verify` has accepted."""
        if self._opener is None:
            raise RuntimeError("a stream's head must pass verify() before its frames are checked")
        return self._opener


class Verifier:
    """A worker's side: judges requests and remembers which it has taken. It lives on one loop."""

    def __init__(
        self,
        keyring: Keyring,
        *,
        boot: bytes,
        window_s: float = 60.0,
        now: Callable[[], float] = time.time,
    ) -> None:
        self._boot = boot
        self._window_ms = int(window_s * 1000)
        self._now = now
        # One memory of sessions a key, so that no key holder can crowd out another's.
        self._keys = {
            key.id.encode(): (key, mac_state(key.secret), Sessions(2 * self._window_ms))
            for key in keyring
        }

    def admit(self, request: Request) -> Admission:
        """Judge a request before its body is read; `Refused` says what is wrong with it.

        What it returns is proven only where the body is large: see `Admission`.
        """
        header = request.headers.get(HEADER)
        if header is None:
            raise Refused("not signed", reason="missing", hint="this worker needs a key: key=...")
        match = _AUTH.fullmatch(header)
        if match is None:
            raise Refused("axon-auth is malformed or of another version", reason="signature")
        parts = match.groups()
        known = self._keys.get(parts[1])
        if known is None:
            shown = parts[1][:64].decode("latin-1")
            raise Refused(f"no key {shown!r} on this worker", reason="unknown-key")
        admission = Admission(self, known, parts)
        # A large body is held only for the sake of a caller known to have the key.
        if parts[6] != WHOLE:
            admission.prove(request, ())
        elif not _states_small(request.headers):
            raise Refused("a large body needs a digest", reason="signature")
        return admission

    def check(self, method: bytes, boot: bytes, sent_ms: int) -> int:
        """Refuse what was meant for another life of this worker or another time; gives the time."""
        now_ms = int(self._now() * 1000)
        if boot != self._boot and (boot or method != b"GET"):
            whose = "for another run of this worker" if boot else "without a boot id"
            hint = "ask for its boot id by a hello"
            raise Refused(f"a request {whose}", reason="boot", hint=hint)
        if abs(now_ms - sent_ms) > self._window_ms:
            raise self._skewed(now_ms - sent_ms)
        return now_ms

    def _skewed(self, behind_ms: int) -> Refused:
        side = "behind" if behind_ms > 0 else "ahead of"
        return Refused(
            f"the client's clock is {abs(behind_ms) / 1000:.1f} s {side} the worker's, "
            f"at most {self._window_ms / 1000:g} s are allowed",
            reason="skew",
            hint="set both clocks by NTP",
        )


def _states_small(headers: Headers) -> bool:
    """Whether what will come is certain to be a small body, whoever sends it."""
    length = headers.get(b"content-length")
    if length is None:
        # Chunks would go on for as long as a stranger likes; without them there is no body.
        return b"transfer-encoding" not in headers
    # As digits, since zeros in front may be more than Python reads as a number.
    return (len(length), length) <= _LONGEST_SMALL


class Admission:
    """A request that may be taken: whose it says it is, and how to sign the answer.

    It is `proven` once its signature was found right: at once where the body has a digest, with the
    body where it is small. Before that, everything about it is a stranger's word.
    """

    __slots__ = ("_parts", "_sealer", "_sessions", "_state", "_verifier", "key", "proven")

    def __init__(
        self, verifier: Verifier, known: tuple[Key, blake2b, Sessions], parts: tuple[bytes, ...]
    ) -> None:
        self._verifier = verifier
        self.key, self._state, self._sessions = known
        self._parts = parts
        self._sealer: FrameSeal | None = None
        self.proven = False

    def prove(self, request: Request, body: Pieces) -> None:
        """Raise `Refused` unless the key's holder sent exactly this, to us, lately, and once."""
        stem, _, sent, session, counter, boot, digest, mac = self._parts
        length = request.headers.get(b"content-length")
        if length is None:
            length = b"%d" % body_size(request.body)
        expected = request_mac(self._state, request, stem, digest, length, body)
        if not hmac.compare_digest(mac, expected):
            raise Refused(f"the signature by key {self.key.id!r} is wrong", reason="signature")
        # Only from here on is the header the key holder's word.
        sent_ms = int(sent)
        now_ms = self._verifier.check(request.method, boot, sent_ms)
        self._sessions.take(session, int(counter, 16), sent_ms, now_ms)
        self.proven = True

    def check_body(self, request: Request) -> None:
        """Raise `Refused` unless the body is the one that was signed; asked once, for the whole."""
        digest = self._parts[6]
        if digest != WHOLE:
            self._require_proof()
            check_digest(self._state, request_context(self._parts[0]), request.body, digest)
        elif body_size(request.body) > SMALL_BYTES:
            raise Refused("a large body needs a digest", reason="signature")
        else:
            self.prove(request, request.body)

    def sign(self, response: Response) -> None:
        """Set the answer's `axon-auth`, over status, content headers and body, for this request."""
        self._require_proof()
        digest = WHOLE
        if response.stream is not None:
            digest = STREAM + self.sealer().salt
        elif body_size(response.body) > SMALL_BYTES:
            digest = new_digest(self._state, response_context(self._parts[7]), response.body)
        mac = response_mac(self._state, self._parts[7], response, digest)
        response.headers[HEADER] = b"v1;%b;%b" % (digest, mac)

    def sealer(self) -> FrameSeal:
        """The tagging end of the answer's stream: one for each request, as it counts the frames."""
        self._require_proof()
        if self._sealer is None:
            self._sealer = FrameSeal(self._state, self._parts[7], new_salt())
        return self._sealer

    def _require_proof(self) -> None:
        if not self.proven:
            raise RuntimeError("a request must be proven before it is answered as its key's")
