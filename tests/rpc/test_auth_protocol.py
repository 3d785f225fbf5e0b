"""The signatures written a second time, from the page that describes the protocol and nothing else.

Whoever writes a client in another language has only that page. So what is below uses none of ours.
"""

from __future__ import annotations

from collections.abc import AsyncIterator
from hashlib import blake2b

import pytest
from cryptography.hazmat.primitives.poly1305 import Poly1305
from hypothesis import given, settings
from hypothesis import strategies as st

from axon.rpc import frames
from axon.rpc.messages import Buffer, Request, Response
from axon.rpc.security import macs
from axon.rpc.security.auth import Signer, Verifier
from axon.rpc.security.keys import Key, Keyring
from axon.rpc.security.refusal import Refused

BOOT = b"0011223344556677"
NOW = 1_700_000_000.123
COVERED = [
    b"content-type",
    b"axon-deadline",
    b"content-encoding",
    b"accept-encoding",
    b"axon-mode",
    b"axon-accept",
    b"axon-call",
    b"axon-worker",
    b"axon-reply-to",
    b"axon-client",
    b"axon-status",
]


# From the page


def h(key: bytes, text: bytes) -> bytes:
    return blake2b(text, key=key, digest_size=32).digest()


def secret_of(key: Key) -> bytes:
    return key.secret if len(key.secret) <= 64 else blake2b(key.secret).digest()


def lines(*values: bytes) -> bytes:
    return b"".join(value + b"\n" for value in values)


def poly1305(secret: bytes, context: bytes, salt: bytes, body: bytes) -> bytes:
    tag = Poly1305.generate_tag(h(secret, context + b"\n" + salt), body)
    return b"poly1305:" + salt + b":" + tag.hex().encode()


def auth_of_request(key: Key, made: Request, stem: bytes, salt: bytes) -> bytes:
    secret, body = secret_of(key), b"".join(made.body)
    digest, end = b"body", body
    if len(body) > 4096:
        digest, end = poly1305(secret, b"axon request body\n" + stem, salt, body), b""
    covered = [made.headers.get(name, b"") for name in COVERED]
    length = str(len(body)).encode()
    text = lines(b"axon request", made.method, made.target, stem, digest, length, *covered)
    return b";".join((stem, digest, h(secret, text + end).hex().encode()))


def auth_of_answer(key: Key, request_mac: bytes, answer: Response, salt: bytes) -> bytes:
    secret, body = secret_of(key), b"".join(answer.body)
    digest, end = b"body", body
    if answer.stream is not None:
        digest = b"stream:" + salt
    elif len(body) > 4096:
        digest, end = poly1305(secret, b"axon response body\n" + request_mac, salt, body), b""
    covered = [answer.headers.get(name, b"") for name in (b"content-type", b"content-encoding")]
    status = str(answer.status).encode()
    text = lines(b"axon response", request_mac, status, digest, *covered)
    return b";".join((b"v1", digest, h(secret, text + end).hex().encode()))


def tag_of_frame(
    key: Key, request_mac: bytes, salt: bytes, number: int, kind: int, envelope: bytes
) -> bytes:
    stream_key = h(secret_of(key), b"axon stream\n" + request_mac + b"\n" + salt)
    covered = bytes([kind]) + envelope
    if len(covered) <= 4096:
        return h(stream_key, b"small %d\n" % number + covered)[:16]
    return Poly1305.generate_tag(h(stream_key, b"large %d\n" % number), covered)


# Against ours


bodies = st.one_of(
    st.binary(max_size=64),
    st.sampled_from([4095, 4096, 4097, 70_000]).map(lambda size: b"\x05" * size),
)
values = st.binary(max_size=12).filter(lambda value: b"\n" not in value)
keys = st.binary(min_size=32, max_size=100).map(lambda secret: Key("laptop", secret))
salts = st.binary(min_size=16, max_size=16).map(lambda salt: salt.hex().encode())


def salt_in(auth: bytes) -> bytes:
    digest = auth.split(b";")[-2]
    return digest.split(b":")[1] if b":" in digest else b""


async def no_frames() -> AsyncIterator[Buffer]:
    nothing: list[Buffer] = []
    for frame in nothing:
        yield frame


@settings(max_examples=60, deadline=None)
@given(keys, bodies, st.dictionaries(st.sampled_from(COVERED), values))
def test_ours_signs_requests_as_the_page_says(
    key: Key, body: bytes, headers: dict[bytes, bytes]
) -> None:
    made = Request(b"POST", b"/rpc/f?x=1", headers, (body[:7], body[7:]))
    Signer(key, now=lambda: NOW).sign(made, boot=BOOT)
    ours = made.headers[b"axon-auth"]
    stem = b";".join(ours.split(b";")[:5])
    version, key_id, sent, session, boot = stem.split(b";")
    assert (version, key_id, sent, boot) == (b"v1", b"laptop", b"1700000000123", BOOT)
    assert len(session) == 18
    assert session.endswith(b"-1")
    assert auth_of_request(key, made, stem, salt_in(ours)) == ours


@settings(max_examples=60, deadline=None)
@given(keys, bodies, st.dictionaries(st.sampled_from(COVERED), values), salts)
def test_ours_takes_a_request_signed_by_the_page_and_answers_so(
    key: Key, body: bytes, headers: dict[bytes, bytes], salt: bytes
) -> None:
    made = Request(b"POST", b"/rpc/f", headers, (body,))
    stem = b"v1;laptop;1700000000123;00000000000000ff-2a;" + BOOT
    auth = made.headers[b"axon-auth"] = auth_of_request(key, made, stem, salt)
    admission = Verifier(Keyring([key]), boot=BOOT, now=lambda: NOW).admit(made)
    admission.check_body(made)
    assert admission.proven
    request_mac = auth.rpartition(b";")[2]
    for answer in (
        Response(404, {b"content-type": b"application/axon"}, (body,)),
        Response(200, {b"content-encoding": b"zstd"}, stream=no_frames()),
    ):
        admission.sign(answer)
        ours = answer.headers[b"axon-auth"]
        assert auth_of_answer(key, request_mac, answer, salt_in(ours)) == ours


@settings(max_examples=40, deadline=None)
@given(keys, bodies, salts)
def test_ours_takes_an_answer_signed_by_the_page(key: Key, body: bytes, salt: bytes) -> None:
    made = Request(b"GET", b"/_axon/profile")
    seal = Signer(key, now=lambda: NOW).sign(made, boot=b"")
    request_mac = made.headers[b"axon-auth"].rpartition(b";")[2]
    answer = Response(200, {b"content-type": b"application/json"}, (body,))
    answer.headers[b"axon-auth"] = auth_of_answer(key, request_mac, answer, salt)
    seal.verify(answer)


@settings(max_examples=30, deadline=None)
@given(keys, st.lists(st.tuples(st.sampled_from(frames.Kind), bodies), max_size=6), salts)
def test_frames_are_tagged_as_the_page_says(
    key: Key, sent: list[tuple[frames.Kind, bytes]], salt: bytes
) -> None:
    made = Request(b"POST", b"/rpc/numbers")
    seal = Signer(key).sign(made, boot=BOOT)
    admission = Verifier(Keyring([key]), boot=BOOT).admit(made)
    admission.check_body(made)
    mac = made.headers[b"axon-auth"].rpartition(b";")[2]
    sealer = admission.sealer()
    head = Response(200, stream=no_frames())
    head.headers[b"axon-auth"] = auth_of_answer(key, mac, head, salt)
    seal.verify(head)
    for number, (kind, envelope) in enumerate(sent):
        # A frame of ours: 8 bytes of header, the tag, the envelope.
        tag = frames.pack(kind, (envelope,), sealer)[1]
        assert tag == tag_of_frame(key, mac, sealer.salt, number, kind, envelope)
        theirs = tag_of_frame(key, mac, salt, number, kind, envelope)
        seal.opener().check((bytes([kind]), envelope), theirs)


# No two uses of one secret meet the same text


class Recorder:
    """In the place of a keyed hash, it keeps what it is given."""

    def __init__(self, texts: list[bytes]) -> None:
        self._texts = texts

    def copy(self) -> Recorder:
        return self

    def update(self, text: bytes) -> None:
        self._texts.append(text)

    def digest(self) -> bytes:
        return bytes(32)


def test_each_use_of_the_secret_has_a_first_line_of_its_own() -> None:
    texts: list[bytes] = []
    state: blake2b = Recorder(texts)  # type: ignore[assignment]
    made, answer = Request(b"POST", b"/f", {}, (b"b",)), Response(200, {}, (b"b",))
    macs.request_mac(state, made, b"stem", macs.WHOLE, b"1", made.body)
    macs.response_mac(state, b"mac", answer, macs.WHOLE)
    macs.new_digest(state, macs.request_context(b"stem"), made.body)
    macs.new_digest(state, macs.response_context(b"mac"), answer.body)
    macs.FrameSeal(state, b"mac", b"salt")
    firsts = [text.split(b"\n")[0] for text in texts]
    assert len(set(firsts)) == len(firsts) == 5


@pytest.mark.parametrize("place", ["method", "target", "header", "stem"])
def test_a_line_break_cannot_make_two_requests_read_alike(place: str) -> None:
    made = Request(b"POST", b"/f")
    stem = b"stem"
    match place:
        case "method":
            made.method = b"POST\n/f"
        case "target":
            made.target = b"/f\n"
        case "header":
            made.headers[b"axon-call"] = b"\n"
        case _:
            stem = b"ste\nm"
    with pytest.raises(Refused, match="line break"):
        macs.request_mac(macs.mac_state(bytes(32)), made, stem, b"body", b"0", ())
