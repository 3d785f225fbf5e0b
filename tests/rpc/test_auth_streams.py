"""Signed answers, whole and in frames: what passes, and everything that must not."""

from __future__ import annotations

from collections.abc import AsyncIterator
from dataclasses import replace

import pytest

from axon.rpc.messages import Buffer, Pieces, Response
from axon.rpc.security import macs
from axon.rpc.security.auth import Signer
from axon.rpc.security.macs import FrameSeal
from tests.rpc.signing import BOOT, KEY, LARGE, exchange, refused, request, signed, verifier


async def no_frames() -> AsyncIterator[Buffer]:
    nothing: list[Buffer] = []
    for frame in nothing:
        yield frame


# Whole answers


@pytest.mark.parametrize("body", [(), (b"answer",), (b"x" * 4096,), (b"x" * 4097,), (LARGE, b"e")])
def test_a_signed_answer_passes(body: Pieces) -> None:
    seal, admission = exchange()
    response = Response(200, {b"content-type": b"application/axon"}, body)
    admission.sign(response)
    response.headers[b"content-length"] = b"added by the transport"
    seal.verify(replace(response, body=(bytearray(b"".join(body)),)))


def test_an_unsigned_answer_is_refused() -> None:
    seal, _ = exchange()
    assert refused(lambda: seal.verify(Response(200)))[0] == "missing"


@pytest.mark.parametrize(
    ("body", "reason"), [((b"answer",), "signature"), ((LARGE,), "body")], ids=["small", "large"]
)
def test_an_altered_answer_is_refused(body: Pieces, reason: str) -> None:
    seal, admission = exchange()
    response = Response(200, {b"content-type": b"application/axon"}, body)
    admission.sign(response)
    for other in ((*body, b"x"), (), (b"".join(body)[:-1],)):
        altered = replace(response, body=other)
        assert refused(lambda altered=altered: seal.verify(altered))[0] == reason  # type: ignore[misc]
    assert refused(lambda: seal.verify(replace(response, status=500)))[0] == "signature"
    for name in macs.ANSWER_HEADERS:
        altered = replace(response, headers=response.headers | {name: b"text/html"})
        assert refused(lambda altered=altered: seal.verify(altered))[0] == "signature"  # type: ignore[misc]
    seal.verify(response)


@pytest.mark.parametrize(
    "header",
    [b"", b"v1", b"v1;body", b"v1;body;", b"v2;a;b", b"v1;;;", b"v1;a\nb;c", b"\xff" * 40],
)
def test_a_malformed_answer_header_is_a_wrong_signature(header: bytes) -> None:
    seal, _ = exchange()
    assert refused(lambda: seal.verify(Response(200, {b"axon-auth": header})))[0] == "signature"


def test_a_large_answer_cannot_do_without_its_digest() -> None:
    seal, admission = exchange()
    response = Response(200, {}, (LARGE,))
    admission.sign(response)
    mac = response.headers[b"axon-auth"].rpartition(b";")[2]
    response.headers[b"axon-auth"] = b"v1;body;" + mac
    assert refused(lambda: seal.verify(response))[0] == "signature"
    # Not even where the key's holder signed it so: judging it would take a copy of the whole.
    right = macs.response_mac(macs.mac_state(KEY.secret), seal._request_mac, response, macs.WHOLE)
    response.headers[b"axon-auth"] = b"v1;body;" + right
    assert "digest" in refused(lambda: seal.verify(response))[1]


def test_the_answer_to_another_request_is_refused() -> None:
    seal, _ = exchange()
    _, other = exchange()
    response = Response(200)
    other.sign(response)
    assert refused(lambda: seal.verify(response))[0] == "signature"


def test_a_request_cannot_be_reflected_as_its_own_answer() -> None:
    made = request()
    seal = Signer(KEY).sign(made, boot=BOOT)
    digest, mac = made.headers[b"axon-auth"].rsplit(b";", 2)[1:]
    reflected = Response(200, {b"axon-auth": b"v1;%b;%b" % (digest, mac)}, made.body)
    assert refused(lambda: seal.verify(reflected))[0] == "signature"


def test_signing_two_large_answers_uses_two_keys() -> None:
    _, admission = exchange()
    first, second = Response(200, {}, (LARGE,)), Response(200, {}, (LARGE,))
    admission.sign(first)
    admission.sign(second)
    assert first.headers[b"axon-auth"] != second.headers[b"axon-auth"]


def test_nothing_is_signed_for_a_request_that_is_not_proven() -> None:
    # By such a signature a stranger would get the worker's word on a MAC of its own making.
    admission = verifier().admit(signed())
    response = Response(200)
    with pytest.raises(RuntimeError, match="proven"):
        admission.sign(response)
    with pytest.raises(RuntimeError, match="proven"):
        admission.sealer()
    assert response.headers == {}


# Streams


def stream() -> tuple[FrameSeal, FrameSeal]:
    """The tagging and the checking end of one stream."""
    seal, admission = exchange()
    response = Response(200, {}, stream=no_frames())
    sealer = admission.sealer()
    admission.sign(response)
    seal.verify(response)
    assert admission.sealer() is sealer
    return sealer, seal.opener()


FRAMES: list[tuple[bytes, ...]] = [(b"one",), (), (b"x" * 4096,), (b"x" * 4097,), (LARGE, b"e")]


def test_frames_pass_in_order_however_they_are_cut() -> None:
    sealer, opener = stream()
    for frame in FRAMES:
        tag = sealer.tag(frame)
        assert len(tag) == macs.TAG_BYTES
        opener.check((bytearray(b"".join(frame)),), tag)


@pytest.mark.parametrize("frame", [b"frame", LARGE], ids=["small", "large"])
def test_tampering_with_frames_is_refused(frame: bytes) -> None:
    sealer, opener = stream()
    tags = [sealer.tag((frame,)) for _ in range(3)]
    assert len(set(tags)) == 3
    changed = bytes([frame[0] ^ 1]) + frame[1:]
    assert refused(lambda: opener.check((changed,), tags[0]))[0] == "body"
    assert refused(lambda: opener.check((frame[:-1],), tags[0]))[0] == "body"
    assert refused(lambda: opener.check((frame,), tags[0][:-1]))[0] == "body"
    assert refused(lambda: opener.check((frame,), b""))[0] == "body"
    # Dropped, moved, repeated.
    assert refused(lambda: opener.check((frame,), tags[1]))[0] == "body"
    opener.check((frame,), tags[0])
    reason, message = refused(lambda: opener.check((frame,), tags[0]))
    assert reason == "body"
    assert "frame 1 " in message
    opener.check((frame,), tags[1])
    opener.check((frame,), tags[2])


def test_frames_of_another_stream_are_refused() -> None:
    sealer, _ = stream()
    _, opener = stream()
    tag = sealer.tag((b"frame",))
    assert refused(lambda: opener.check((b"frame",), tag))[0] == "body"


def test_a_stream_and_a_whole_answer_cannot_stand_in_for_one_another() -> None:
    seal, admission = exchange()
    streamed, whole, large = (
        Response(200, {}, stream=no_frames()),
        Response(200),
        Response(200, {}, (LARGE,)),
    )
    for response in (streamed, whole, large):
        admission.sign(response)
    assert refused(lambda: seal.verify(replace(streamed, stream=None)))[0] == "body"
    assert refused(lambda: seal.verify(replace(whole, stream=no_frames())))[0] == "body"
    assert refused(lambda: seal.verify(replace(large, body=(), stream=no_frames())))[0] == "body"
    with pytest.raises(RuntimeError, match="verify"):
        seal.opener()


def test_frames_are_not_opened_before_the_head_is_verified() -> None:
    seal, _ = exchange()
    with pytest.raises(RuntimeError, match="verify"):
        seal.opener()
