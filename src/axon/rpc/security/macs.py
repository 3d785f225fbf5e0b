"""What a signature covers, byte by byte: heads with their small bodies, large bodies, frames.

Everything is keyed by one secret, so no two uses may ever see the same text. Each text's first line
names its use: `axon request`, `axon response`, `axon request body`, `axon response body` and
`axon stream`. What a derived key meets starts with `small` or `large`.
"""

from __future__ import annotations

import hmac
import os
from binascii import hexlify
from hashlib import blake2b

from axon.rpc.messages import Pieces, Request, Response, body_size
from axon.rpc.security.refusal import Refused

SIGNED_HEADERS = tuple(
    b"content-type axon-deadline content-encoding accept-encoding axon-mode axon-accept axon-call "
    b"axon-worker axon-reply-to axon-client axon-status".split()
)
"""And `content-length`, which is computed where the transport has yet to add it."""
_RARE_HEADERS = frozenset(SIGNED_HEADERS[2:])
_NO_RARE = b"\n" * (len(_RARE_HEADERS) - 1)
_REQUEST_LINES = 6 + len(SIGNED_HEADERS)
ANSWER_HEADERS = (b"content-type", b"content-encoding")
_RESPONSE_LINES = 4 + len(ANSWER_HEADERS)
SMALL_BYTES = 4096
"""Up to here a body is covered by the MAC itself, and `cryptography` need not be imported."""
WHOLE = b"body"
"""The digest of a body that is covered by the MAC itself."""
STREAM = b"stream:"
"""What the digest of a stream's head starts with; the salt of its frames' key follows."""
TAG_BYTES = 16


def mac_state(secret: bytes) -> blake2b:
    """BLAKE2b under a key, as RFC 7693 has it, to be copied for each text.

    A key longer than the 64 bytes it takes is hashed first. HMAC-SHA256 by OpenSSL looks its
    algorithm up anew each time, which costs a small call three times as much.
    """
    if len(secret) > blake2b.MAX_KEY_SIZE:
        secret = blake2b(secret).digest()
    return blake2b(key=secret, digest_size=32)


def keyed(state: blake2b, text: bytes) -> bytes:
    """The MAC of a text under the state's key; the state stays as it was."""
    copy = state.copy()
    copy.update(text)
    return copy.digest()


def request_mac(
    state: blake2b, request: Request, stem: bytes, digest: bytes, length: bytes, body: Pieces
) -> bytes:
    """In hex; `stem` is the header up to the boot id, `body` counts where the digest says so."""
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
    return _mac(state, text, _REQUEST_LINES, body if digest == WHOLE else ())


def response_mac(state: blake2b, request_mac: bytes, response: Response, digest: bytes) -> bytes:
    """In hex; the request's MAC binds the answer to it."""
    headers = response.headers
    text = b"axon response\n%b\n%d\n%b\n%b\n%b\n" % (
        request_mac,
        response.status,
        digest,
        headers.get(b"content-type", b""),
        headers.get(b"content-encoding", b""),
    )
    return _mac(state, text, _RESPONSE_LINES, response.body if digest == WHOLE else ())


def _mac(state: blake2b, text: bytes, lines: int, body: Pieces) -> bytes:
    # HTTP lets no line break into a line. Should one come by another way, two requests could read
    # alike, so it is neither signed nor taken.
    if text.count(b"\n") != lines:
        raise Refused("a line break in the method, target or a header", reason="signature")
    return hexlify(keyed(state, b"".join((text, *body))))


def request_context(stem: bytes) -> bytes:
    """What ties a large body to the request it came with."""
    return b"axon request body\n" + stem


def response_context(request_mac: bytes) -> bytes:
    """What ties a large body to the request it answers."""
    return b"axon response body\n" + request_mac


def new_digest(state: blake2b, context: bytes, body: Pieces) -> bytes:
    """The digest of a large body, under a key that no other body will ever meet."""
    return _poly1305_digest(state, context, body, new_salt())


def check_digest(state: blake2b, context: bytes, body: Pieces, digest: bytes) -> None:
    """Raise `Refused` unless the digest, which the MAC has vouched for, is that of the body."""
    name, _, rest = digest.partition(b":")
    expected = _poly1305_digest(state, context, body, rest.partition(b":")[0])
    if name != b"poly1305" or not hmac.compare_digest(digest, expected):
        raise Refused("the body is not the one that was signed", reason="body")


def _poly1305_digest(state: blake2b, context: bytes, body: Pieces, salt: bytes) -> bytes:
    key = keyed(state, b"%b\n%b" % (context, salt))
    return b"poly1305:%b:%b" % (salt, hexlify(_poly1305(key, body)))


def _poly1305(key: bytes, pieces: Pieces) -> bytes:
    # Late: `cryptography` takes longer to import than all of Axon, and small calls never need it.
    from cryptography.hazmat.primitives.poly1305 import Poly1305

    state = Poly1305(key)
    for piece in pieces:
        state.update(memoryview(piece).cast("B"))
    return state.finalize()


def new_salt() -> bytes:
    """Random, in hex."""
    return hexlify(os.urandom(16))


class FrameSeal:
    """One end of a stream: tags each frame for its place, or checks the tags in the same order.

    An altered, repeated, moved or dropped frame fails its check. The end needs a frame that says
    so, tagged as any other: a stream that stops without one was cut short.
    """

    __slots__ = ("_count", "_state", "salt")

    def __init__(self, state: blake2b, request_mac: bytes, salt: bytes) -> None:
        self.salt = salt
        self._state = mac_state(keyed(state, b"axon stream\n%b\n%b" % (request_mac, salt)))
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
            return keyed(self._state, text)[:TAG_BYTES]
        # The count makes a key of its own for each frame, as Poly1305 must not use one twice.
        return _poly1305(keyed(self._state, b"large %d\n" % self._count), frame)
