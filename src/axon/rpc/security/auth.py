"""Signed requests and signed answers: who calls, what exactly, once, and that the worker answered.

A request carries `axon-auth: v1;KEY;MS;SESSION-COUNTER;BOOT;DIGEST;MAC` and its answer
`axon-auth: v1;DIGEST;MAC`. MAC is HMAC-SHA256 under the key's secret; nothing secret crosses the
link. Lines joined by line breaks are what it covers:

    request     "axon request", method, target, the header up to BOOT, DIGEST, content-length and
                the `SIGNED_HEADERS`, an absent one empty
    response    "axon response", the request's MAC, status, DIGEST and the `ANSWER_HEADERS`

DIGEST is `sha256:HEX` up to 64 KiB and `poly1305:SALT:TAG` above, because Poly1305 is several times
faster; its one-time key comes from the secret, the request and a random salt, so that no key ever
meets two bodies. A stream's head says `stream:SALT` and each of its frames carries a tag.

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
import threading
import time
from binascii import hexlify
from collections import OrderedDict
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from hashlib import sha256
from typing import Literal, TypeAlias

from axon.errors import Unauthorised
from axon.rpc.messages import Headers, Pieces, Request, Response
from axon.rpc.security.keys import Key, Keyring

HEADER = b"axon-auth"
SIGNED_HEADERS = tuple(
    b"content-type content-encoding axon-deadline axon-mode axon-call axon-reply-to axon-accept "
    b"axon-client axon-worker axon-status accept-encoding".split()
)
"""And `content-length`, which is computed where the transport has yet to add it."""
ANSWER_HEADERS = (b"content-type", b"content-encoding")
SMALL_BYTES = 64 << 10
"""Up to here SHA-256 is used, which spares small calls the import of `cryptography`."""
COUNTER_WINDOW = 4096
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
        self._key_id = key.id
        self._secret = key.secret
        self._now = now
        self._session = _new_session()

    def sign(self, request: Request, *, boot: bytes) -> Seal:
        """Set the request's `axon-auth`; the seal returned judges its answer.

        `boot` is the id the worker gave at hello, and empty for the hello itself.
        """
        process, session, counter = self._session
        if process != os.getpid():
            process, session, counter = self._session = _new_session()
        milliseconds = int(self._now() * 1000)
        stem = f"v1;{self._key_id};{milliseconds};{session}-{next(counter):x};{boot.hex()}".encode()
        digest = _digest(self._secret, b"axon request body\n" + stem, request.body)
        mac = _request_mac(self._secret, request, stem, digest)
        request.headers[HEADER] = b"%b;%b;%b" % (stem, digest, mac)
        return Seal(self._secret, mac)


def _new_session() -> tuple[int, str, itertools.count[int]]:
    # Taking the next of a count is one step of the interpreter, hence safe between threads.
    return os.getpid(), os.urandom(8).hex(), itertools.count(1)


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
        expected = _response_mac(self._secret, self._request_mac, response, digest)
        if version != b"v1" or not hmac.compare_digest(mac, expected):
            raise Refused("the answer's signature is wrong", reason="signature")
        if response.stream is not None and digest.startswith(b"stream:"):
            self._opener = FrameSeal(self._secret, self._request_mac, digest[7:])
            return
        context = b"axon response body\n" + self._request_mac
        expected = _digest(self._secret, context, response.body, like=digest)
        if response.stream is not None or not hmac.compare_digest(digest, expected):
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
        self._boot = boot.hex().encode()
        self._window_ms = int(window_s * 1000)
        self._now = now
        # One memory of sessions a key, so that no key holder can crowd out another's.
        self._keys = {key.id.encode(): (key, _Sessions(2 * self._window_ms)) for key in keyring}

    def admit(self, request: Request) -> Admission:
        """Judge a request before its body is read; `Refused` says what is wrong with it."""
        header = request.headers.get(HEADER)
        if header is None:
            raise Refused("not signed", reason="missing", hint="this worker needs a key: key=...")
        match = _AUTH.fullmatch(header)
        if match is None:
            raise Refused("axon-auth is malformed or of another version", reason="signature")
        stem, key_id, sent, session, counter, boot, digest, mac = match.groups()
        known = self._keys.get(key_id)
        if known is None:
            shown = key_id[:64].decode("latin-1")
            raise Refused(f"no key {shown!r} on this worker", reason="unknown-key")
        key, sessions = known
        if not hmac.compare_digest(mac, _request_mac(key.secret, request, stem, digest)):
            raise Refused(f"the signature by key {key.id!r} is wrong", reason="signature")
        # Only from here on is the header the key holder's word.
        now_ms, sent_ms = int(self._now() * 1000), int(sent)
        self._check_boot(request.method, boot)
        self._check_skew(now_ms - sent_ms)
        sessions.take(session, int(counter, 16), sent_ms, now_ms)
        return Admission(key, stem, digest, mac)

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
        self._lock = threading.Lock()

    def take(self, name: bytes, counter: int, sent_ms: int, now_ms: int) -> None:
        with self._lock:
            session = self._sessions.get(name) or _Session(counter - 1, self._floor_ms)
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
    """A request that was taken: whose it is, what its body must be, and how to sign the answer."""

    __slots__ = ("_digest", "_mac", "_sealer", "_stem", "key")

    def __init__(self, key: Key, stem: bytes, digest: bytes, mac: bytes) -> None:
        self.key = key
        self._stem = stem
        self._digest = digest
        self._mac = mac
        self._sealer: FrameSeal | None = None

    def check_body(self, body: Pieces) -> None:
        """Raise `Refused` unless the body is the one that was signed."""
        context = b"axon request body\n" + self._stem
        expected = _digest(self.key.secret, context, body, like=self._digest)
        if not hmac.compare_digest(self._digest, expected):
            raise Refused("the request's body is not the one that was signed", reason="body")

    def sign(self, response: Response) -> None:
        """Set the answer's `axon-auth`, over status, content headers and body, for this request."""
        if response.stream is None:
            context = b"axon response body\n" + self._mac
            digest = _digest(self.key.secret, context, response.body)
        else:
            digest = b"stream:" + self.sealer().salt
        mac = _response_mac(self.key.secret, self._mac, response, digest)
        response.headers[HEADER] = b"v1;%b;%b" % (digest, mac)

    def sealer(self) -> FrameSeal:
        """The tagging end of the answer's stream: one for each request, as it counts the frames."""
        if self._sealer is None:
            self._sealer = FrameSeal(self.key.secret, self._mac, _new_salt())
        return self._sealer


class FrameSeal:
    """One end of a stream: tags each frame for its place, or checks the tags in the same order.

    An altered, repeated, moved or dropped frame fails its check. The end needs a frame that says
    so, tagged as any other: a stream that stops without one was cut short.
    """

    __slots__ = ("_count", "_key", "salt")

    def __init__(self, secret: bytes, request_mac: bytes, salt: bytes) -> None:
        self.salt = salt
        self._key = hmac.digest(secret, b"\n".join((b"axon stream", request_mac, salt)), "sha256")
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
        if _size(frame) <= SMALL_BYTES:
            text = b"".join((b"small %d\n" % self._count, *frame))
            return hmac.digest(self._key, text, "sha256")[:TAG_BYTES]
        # The count makes a key of its own for each frame, as Poly1305 must not use one twice.
        return _poly1305(hmac.digest(self._key, b"large %d\n" % self._count, "sha256"), frame)


def _request_mac(secret: bytes, request: Request, stem: bytes, digest: bytes) -> bytes:
    headers = request.headers
    length = headers.get(b"content-length")
    if length is None:
        length = b"%d" % _size(request.body)
    start = [b"axon request", request.method, request.target, stem, digest, length]
    return _mac(secret, start, headers, SIGNED_HEADERS)


def _response_mac(secret: bytes, request_mac: bytes, response: Response, digest: bytes) -> bytes:
    start = [b"axon response", request_mac, b"%d" % response.status, digest]
    return _mac(secret, start, response.headers, ANSWER_HEADERS)


def _mac(secret: bytes, start: list[bytes], headers: Headers, names: Sequence[bytes]) -> bytes:
    """HMAC over lines: `start`, then the named headers, an absent one as an empty line."""
    start += [headers.get(name, b"") for name in names]
    text = b"\n".join(start)
    # HTTP lets no line break into these. Should one come by another way, two requests could read
    # alike, so it is neither signed nor taken.
    if text.count(b"\n") != len(start) - 1:
        raise Refused("a line break in the method, target or a header", reason="signature")
    return hexlify(hmac.digest(secret, text, "sha256"))


def _size(pieces: Pieces) -> int:
    size = 0
    for piece in pieces:
        # The length of a memory view is in items, which need not be bytes.
        size += piece.nbytes if type(piece) is memoryview else len(piece)
    return size


def _digest(secret: bytes, context: bytes, pieces: Pieces, like: bytes = b"") -> bytes:
    """A body's digest; by the algorithm and salt of `like` where there is one to compare with."""
    if like.startswith(b"poly1305:") or (not like and _size(pieces) > SMALL_BYTES):
        salt = like.split(b":")[1] if like else _new_salt()
        key = hmac.digest(secret, b"\n".join((context, salt)), "sha256")
        return b"poly1305:%b:%b" % (salt, hexlify(_poly1305(key, pieces)))
    hashed = sha256()
    for piece in pieces:
        hashed.update(piece)
    return b"sha256:" + hexlify(hashed.digest())


def _poly1305(key: bytes, pieces: Pieces) -> bytes:
    # Late: `cryptography` takes longer to import than all of Axon, and small calls never need it.
    from cryptography.hazmat.primitives.poly1305 import Poly1305

    state = Poly1305(key)
    for piece in pieces:
        state.update(memoryview(piece).cast("B"))
    return state.finalize()


def _new_salt() -> bytes:
    return hexlify(os.urandom(16))
