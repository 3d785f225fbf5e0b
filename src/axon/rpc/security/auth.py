"""Signed requests and signed answers: who calls, what exactly, once, and that the worker answered.

A request carries `axon-auth: v1;KEY;MS;SESSION-COUNTER;BOOT;DIGEST;MAC` and its answer
`axon-auth: v1;DIGEST;MAC`. MAC is BLAKE2b under the key's secret; nothing secret crosses the link.
What it covers are lines joined by line breaks:

    request     "axon request", method, target, the header up to BOOT, DIGEST, content-length and
                the `SIGNED_HEADERS`, an absent one empty
    response    "axon response", the request's MAC, status, DIGEST and the `ANSWER_HEADERS`

DIGEST is `body` up to 4 KiB, and then the body follows as a last line. Above, it is
`poly1305:SALT:TAG`, because Poly1305 is many times faster; its one-time key comes from the secret,
the request and a random salt, so that no key ever meets two bodies. A stream's head says
`stream:SALT` and each of its frames carries a tag.

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
from binascii import hexlify
from collections import OrderedDict
from collections.abc import Callable
from dataclasses import dataclass
from hashlib import blake2b
from typing import Literal, TypeAlias

from axon.errors import Unauthorised
from axon.rpc.messages import Pieces, Request, Response, body_size
from axon.rpc.security.keys import Key, Keyring

HEADER = b"axon-auth"
SIGNED_HEADERS = tuple(
    b"content-type axon-deadline content-encoding accept-encoding axon-mode axon-accept axon-call "
    b"axon-worker axon-reply-to axon-client axon-status".split()
)
"""And `content-length`, which is computed where the transport has yet to add it."""
_RARE_HEADERS = frozenset(SIGNED_HEADERS[2:])
_NO_RARE = b"\n" * (len(_RARE_HEADERS) - 1)
_REQUEST_LINES = 6 + len(SIGNED_HEADERS)
ANSWER_HEADERS = (b"content-type", b"content-encoding")
SMALL_BYTES = 4096
"""Up to here a body is covered by the MAC itself, and `cryptography` need not be imported."""
WHOLE = b"body"
"""The digest of a body that is covered by the MAC itself."""
COUNTER_WINDOW = 1024
"""How far behind the newest of its session a request may arrive: connections overtake another."""
MAX_SESSIONS = 10_000
TAG_BYTES = 16
_SEEN_MASK = (1 << COUNTER_WINDOW) - 1
# What becomes a number or is remembered is bounded, so that no header can choose what it costs.
_AUTH = re.compile(
    rb"(v1;([^;]*);([0-9]{1,16});([0-9a-f]{16})-([0-9a-f]{1,16});([0-9a-f]*));([^;]*);([^;]*)"
)

Reason: TypeAlias = Literal[
    "missing", "unknown-key", "skew", "replay", "signature", "boot", "forbidden", "body"
]


class Refused(Unauthorised):
    """A request or an answer that is not taken; `reason` says why in one word, for code."""

    def __init__(self, message: str, *, reason: Reason, hint: str | None = None) -> None:
        super().__init__(message, hint=hint)
        self.reason: Reason = reason


class Signer:
    """A client's side: signs requests under one session id and a counter that only grows.

    Safe to share between threads. A forked child gets a session of its own, as the two processes
    would otherwise count alike and each be taken for a replay of the other.
    """

    __slots__ = ("_key_id", "_now", "_secret", "_session")

    def __init__(self, key: Key, *, now: Callable[[], float] = time.time) -> None:
        self._key_id = key.id.encode()
        self._secret = mac_key(key.secret)
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
            digest = _salted(self._secret, b"axon request body\n" + stem, body, _new_salt())
        mac = _request_mac(self._secret, request, stem, digest, b"%d" % size, body)
        request.headers[HEADER] = b"%b;%b;%b" % (stem, digest, mac)
        return Seal(self._secret, mac)


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

    __slots__ = ("_opener", "_request_mac", "_secret")

    def __init__(self, secret: bytes, request_mac: bytes) -> None:
        self._secret = secret
        self._request_mac = request_mac
        self._opener: FrameSeal | None = None

    def verify(self, response: Response) -> None:
        """Raise `Refused` unless a holder of the key gave exactly this answer to this request.

        Of a stream this judges the head; its frames go through `opener`.
        """
        header = response.headers.get(HEADER)
        if header is None:
            raise Refused("the answer is not signed", reason="missing")
        version, _, rest = header.partition(b";")
        digest, _, mac = rest.partition(b";")
        whole = digest == WHOLE
        if whole and body_size(response.body) > SMALL_BYTES:
            raise Refused("the answer's signature is wrong", reason="signature")
        expected = _response_mac(self._secret, self._request_mac, response, digest)
        if version != b"v1" or not hmac.compare_digest(mac, expected):
            raise Refused("the answer's signature is wrong", reason="signature")
        if not whole or response.stream is not None:
            self._check_long(response, digest)

    def _check_long(self, response: Response, digest: bytes) -> None:
        if response.stream is None:
            context = b"axon response body\n" + self._request_mac
            _check_digest(self._secret, context, response.body, digest, "answer")
        elif digest.startswith(b"stream:"):
            self._opener = FrameSeal(self._secret, self._request_mac, digest[7:])
        else:
            raise Refused("the answer's body is not the one that was signed", reason="body")

    def opener(self) -> FrameSeal:
        """The checking end of the stream whose head `verify` has accepted."""
        if self._opener is None:
            raise RuntimeError("a stream's head must pass verify() before its frames are checked")
        return self._opener


class Verifier:
    """A worker's side: judges requests by their heads and remembers which it has taken."""

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
            key.id.encode(): (key, mac_key(key.secret), _Sessions(2 * self._window_ms))
            for key in keyring
        }

    def admit(self, request: Request) -> Admission:
        """Judge a request before its body is read; `Refused` says what is wrong with it."""
        header = request.headers.get(HEADER)
        if header is None:
            raise Refused("not signed", reason="missing", hint="this worker needs a key: key=...")
        match = _AUTH.fullmatch(header)
        if match is None:
            raise Refused("axon-auth is malformed or of another version", reason="signature")
        known = self._keys.get(match[2])
        if known is None:
            key_id = match[2]
            shown = key_id[:64].decode("latin-1")
            raise Refused(f"no key {shown!r} on this worker", reason="unknown-key")
        admission = Admission(self, known, match)
        if match[7] != WHOLE:
            # A large body is held only for the sake of a caller known to have the key.
            admission.prove(request, ())
        elif int(request.headers.get(b"content-length", b"0")) > SMALL_BYTES:
            raise Refused("a large body needs a digest", reason="signature")
        return admission

    def check(self, method: bytes, boot: bytes, sent_ms: int) -> int:
        """Refuse what was meant for another life of this worker or another time; gives the time."""
        now_ms = int(self._now() * 1000)
        if boot != self._boot:
            self._check_boot(method, boot)
        if abs(now_ms - sent_ms) > self._window_ms:
            self._check_skew(now_ms - sent_ms)
        return now_ms

    def _check_boot(self, method: bytes, boot: bytes) -> None:
        if boot == self._boot or (not boot and method == b"GET"):
            return
        whose = "for another run of this worker" if boot else "without a boot id"
        raise Refused(f"a request {whose}", reason="boot", hint="ask for its boot id by a hello")

    def _check_skew(self, behind_ms: int) -> None:
        if abs(behind_ms) > self._window_ms:
            side = "behind" if behind_ms > 0 else "ahead of"
            raise Refused(
                f"the client's clock is {abs(behind_ms) / 1000:.1f} s {side} the worker's, "
                f"at most {self._window_ms / 1000:g} s are allowed",
                reason="skew",
                hint="set both clocks by NTP",
            )


@dataclass(slots=True)
class _Session:
    """Which counters of one session were taken: the newest, and a bit for each before it."""

    newest: int
    floor_ms: int
    seen: int = 0
    latest_ms: int = -1
    touched_ms: int = 0

    def take(self, counter: int) -> bool:
        """Note the counter; false if it was taken before or is too far back to tell."""
        age = self.newest - counter
        if age == -1:  # In order, as nearly all come.
            self.seen = (self.seen << 1 | 1) & _SEEN_MASK
            self.newest = counter
            return True
        if age < 0:
            # A far jump is not shifted by: the number in the header would choose how much memory.
            shifted = self.seen << -age if -age < COUNTER_WINDOW else 0
            self.seen = (shifted | 1) & _SEEN_MASK
            self.newest = counter
            return True
        if age >= COUNTER_WINDOW or self.seen >> age & 1:
            return False
        self.seen |= 1 << age
        return True


class _Sessions:
    """The sessions of one key, the longest unheard first, bounded in number and in age.

    Forgetting a session must not open it to replay. So the newest sending time among the forgotten
    is kept, and a session that is not known has to start after it.
    """

    def __init__(self, idle_ms: int) -> None:
        self._idle_ms = idle_ms
        self._sessions: OrderedDict[bytes, _Session] = OrderedDict()
        self._floor_ms = -1

    def take(self, name: bytes, counter: int, sent_ms: int, now_ms: int) -> None:
        session = self._sessions.get(name)
        if session is None:
            session = _Session(counter - 1, self._floor_ms)
        if sent_ms <= session.floor_ms:
            raise Refused(
                f"sent {session.floor_ms - sent_ms} ms before the time this worker remembers",
                reason="replay",
                hint="if a clock was set back, restart the worker",
            )
        if not session.take(counter):
            raise Refused(
                f"request {counter} of its session was taken before, "
                f"or came {COUNTER_WINDOW} or more behind the newest",
                reason="replay",
            )
        session.touched_ms = now_ms
        session.latest_ms = max(session.latest_ms, sent_ms)
        self._sessions[name] = session
        if len(self._sessions) > 1:
            self._sessions.move_to_end(name)
            self._forget(now_ms)

    def _forget(self, now_ms: int) -> None:
        while True:
            name, oldest = next(iter(self._sessions.items()))
            idle_ms = now_ms - oldest.touched_ms
            if idle_ms <= self._idle_ms and len(self._sessions) <= MAX_SESSIONS:
                return
            del self._sessions[name]
            self._floor_ms = max(self._floor_ms, oldest.latest_ms)


class Admission:
    """A request that may be taken: whose it says it is, and how to sign the answer.

    It is `proven` once its signature was found right: at once where the body has a digest, with the
    body where it is small.
    """

    __slots__ = ("_mac", "_match", "_sealer", "_secret", "_sessions", "_verifier", "key", "proven")

    def __init__(
        self, verifier: Verifier, known: tuple[Key, bytes, _Sessions], match: re.Match[bytes]
    ) -> None:
        self._verifier = verifier
        self.key, self._secret, self._sessions = known
        self._match = match
        self._mac: bytes = match[8]
        self._sealer: FrameSeal | None = None
        self.proven = False

    def prove(self, request: Request, body: Pieces) -> None:
        """Raise `Refused` unless the key's holder sent exactly this, to us, lately, and once."""
        stem, _, sent, session, counter, boot, digest, mac = self._match.groups()
        length = request.headers.get(b"content-length")
        if length is None:
            length = b"%d" % body_size(request.body)
        expected = _request_mac(self._secret, request, stem, digest, length, body)
        if not hmac.compare_digest(mac, expected):
            raise Refused(f"the signature by key {self.key.id!r} is wrong", reason="signature")
        # Only from here on is the header the key holder's word.
        sent_ms = int(sent)
        now_ms = self._verifier.check(request.method, boot, sent_ms)
        self._sessions.take(session, int(counter, 16), sent_ms, now_ms)
        self.proven = True

    def check_body(self, request: Request) -> None:
        """Raise `Refused` unless the body is the one that was signed."""
        if not self.proven:
            if body_size(request.body) > SMALL_BYTES:
                raise Refused("a large body needs a digest", reason="signature")
            self.prove(request, request.body)
            return
        digest = self._match[7]
        if digest != WHOLE:
            context = b"axon request body\n" + self._match[1]
            _check_digest(self._secret, context, request.body, digest, "request")

    def sign(self, response: Response) -> None:
        """Set the answer's `axon-auth`, over status, content headers and body, for this request."""
        digest = WHOLE
        if response.stream is not None:
            digest = b"stream:" + self.sealer().salt
        elif body_size(response.body) > SMALL_BYTES:
            context = b"axon response body\n" + self._mac
            digest = _salted(self._secret, context, response.body, _new_salt())
        mac = _response_mac(self._secret, self._mac, response, digest)
        response.headers[HEADER] = b"v1;%b;%b" % (digest, mac)

    def sealer(self) -> FrameSeal:
        """The tagging end of the answer's stream: one for each request, as it counts the frames."""
        if self._sealer is None:
            self._sealer = FrameSeal(self._secret, self._mac, _new_salt())
        return self._sealer


class FrameSeal:
    """One end of a stream: tags each frame for its place, or checks the tags in the same order.

    An altered, repeated, moved or dropped frame fails its check. The end needs a frame that says
    so, tagged as any other: a stream that stops without one was cut short.
    """

    __slots__ = ("_count", "_key", "salt")

    def __init__(self, secret: bytes, request_mac: bytes, salt: bytes) -> None:
        self.salt = salt
        self._key = keyed(secret, b"\n".join((b"axon stream", request_mac, salt)))
        self._count = 0

    def tag(self, frame: Pieces) -> bytes:
        """The tag to send beside the next frame."""
        tag = self._compute(frame)
        self._count += 1
        return tag

    def check(self, frame: Pieces, tag: bytes) -> None:
        """Raise `Refused` unless this is the next frame, as it was sent."""
        if not hmac.compare_digest(tag, self._compute(frame)):
            raise Refused(f"frame {self._count} of the stream is not as sent", reason="body")
        self._count += 1

    def _compute(self, frame: Pieces) -> bytes:
        if body_size(frame) <= SMALL_BYTES:
            text = b"".join((b"small %d\n" % self._count, *frame))
            return keyed(self._key, text)[:TAG_BYTES]
        # The count makes a key of its own for each frame, as Poly1305 must not use one twice.
        return _poly1305(keyed(self._key, b"large %d\n" % self._count), frame)


def _request_mac(
    secret: bytes, request: Request, stem: bytes, digest: bytes, length: bytes, body: Pieces
) -> bytes:
    headers = request.headers
    rare = _NO_RARE
    if not _RARE_HEADERS.isdisjoint(headers):
        rare = b"\n".join([headers.get(name, b"") for name in SIGNED_HEADERS[2:]])
    text = b"axon request\n%b\n%b\n%b\n%b\n%b\n%b\n%b\n%b\n" % (
        request.method,
        request.target,
        stem,
        digest,
        length,
        headers.get(b"content-type", b""),
        headers.get(b"axon-deadline", b""),
        rare,
    )
    return _mac(secret, text, _REQUEST_LINES, body if digest == WHOLE else ())


def _response_mac(secret: bytes, request_mac: bytes, response: Response, digest: bytes) -> bytes:
    headers = response.headers
    text = b"axon response\n%b\n%d\n%b\n%b\n%b\n" % (
        request_mac,
        response.status,
        digest,
        headers.get(b"content-type", b""),
        headers.get(b"content-encoding", b""),
    )
    return _mac(secret, text, 6, response.body if digest == WHOLE else ())


def _mac(secret: bytes, text: bytes, lines: int, body: Pieces) -> bytes:
    # HTTP lets no line break into a line. Should one come by another way, two requests could read
    # alike, so it is neither signed nor taken.
    if text.count(b"\n") != lines:
        raise Refused("a line break in the method, target or a header", reason="signature")
    return hexlify(keyed(secret, b"".join((text, *body))))


def keyed(secret: bytes, text: bytes) -> bytes:
    """BLAKE2b under a key, as RFC 7693 has it: the MAC of everything short.

    HMAC-SHA256 by OpenSSL looks its algorithm up anew each time, which costs a small call three
    times as much.
    """
    return blake2b(text, key=secret, digest_size=32).digest()


def mac_key(secret: bytes) -> bytes:
    """A secret as BLAKE2b takes it, which is up to 64 bytes."""
    return secret if len(secret) <= blake2b.MAX_KEY_SIZE else blake2b(secret).digest()


def _salted(secret: bytes, context: bytes, pieces: Pieces, salt: bytes) -> bytes:
    key = keyed(secret, b"\n".join((context, salt)))
    return b"poly1305:%b:%b" % (salt, hexlify(_poly1305(key, pieces)))


def _check_digest(secret: bytes, context: bytes, pieces: Pieces, digest: bytes, whose: str) -> None:
    name, _, rest = digest.partition(b":")
    expected = _salted(secret, context, pieces, rest.partition(b":")[0])
    if name != b"poly1305" or not hmac.compare_digest(digest, expected):
        raise Refused(f"the {whose}'s body is not the one that was signed", reason="body")


def _poly1305(key: bytes, pieces: Pieces) -> bytes:
    # Late: `cryptography` takes longer to import than all of Axon, and small calls never need it.
    from cryptography.hazmat.primitives.poly1305 import Poly1305

    state = Poly1305(key)
    for piece in pieces:
        state.update(memoryview(piece).cast("B"))
    return state.finalize()


def _new_salt() -> bytes:
    return hexlify(os.urandom(16))
