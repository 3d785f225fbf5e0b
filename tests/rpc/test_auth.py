"""Signatures on requests and answers: what passes, and everything that must not."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Callable
from dataclasses import replace

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from axon.errors import ConfigurationError, Unauthorised
from axon.rpc.messages import Pieces
from axon.rpc.security import macs
from axon.rpc.security.auth import Signer
from axon.rpc.security.keys import Key, Keyring
from tests.rpc.signing import (
    BOOT,
    KEY,
    LARGE,
    Clock,
    not_taken,
    refused,
    request,
    signed,
    take,
    verifier,
)

# Requests


@pytest.mark.parametrize("body", [(), (b"",), (b"x" * 4096,), (b"x" * 4097,), (LARGE, b"end")])
def test_a_signed_request_is_taken_with_its_body(body: Pieces) -> None:
    made = signed(body)
    # It arrives in one piece, however it was sent.
    admission = take(verifier(), replace(made, body=(bytearray(b"".join(body)),)))
    assert admission.key is KEY
    assert admission.proven


def test_the_algorithm_follows_the_size_of_the_body() -> None:
    small, large = (signed((b"x" * size,)).headers[b"axon-auth"] for size in (4096, 4097))
    assert b";body;" in small
    assert b";poly1305:" in large


def test_a_small_body_proves_the_request_and_a_large_one_need_not_be_there() -> None:
    small = verifier().admit(signed())
    assert not small.proven
    made = signed((LARGE,))
    made.headers[b"content-length"] = b"%d" % len(LARGE)
    assert verifier().admit(replace(made, body=())).proven


def test_views_of_wider_items_count_in_bytes() -> None:
    view = memoryview(bytes(8000)).cast("I")
    made = signed((view,))
    assert b";poly1305:" in made.headers[b"axon-auth"]
    take(verifier(), replace(made, body=(bytes(8000),)))
    short = signed((view[:10],))
    assert b";body;" in short.headers[b"axon-auth"]
    take(verifier(), replace(short, body=(bytes(40),)))


def test_nothing_secret_is_in_the_header() -> None:
    header = signed().headers[b"axon-auth"]
    assert header.startswith(b"v1;laptop;")
    assert KEY.secret.hex().encode() not in header
    assert KEY.secret not in header


@pytest.mark.parametrize(
    "body", [(b"bodY",), (), (b"body", b"more"), (b"bod",)], ids=["changed", "gone", "more", "less"]
)
@pytest.mark.parametrize("stated", [None, b"4"])
def test_another_small_body_is_refused(body: Pieces, stated: bytes | None) -> None:
    made = replace(signed(), body=body)
    if stated is not None:
        made.headers[b"content-length"] = stated
    assert not_taken(made) == "signature"


@pytest.mark.parametrize("place", [0, 51_200, len(LARGE) - 1])
def test_another_large_body_is_refused(place: int) -> None:
    changed = bytearray(LARGE)
    changed[place] ^= 1
    made = signed((LARGE,))
    made.headers[b"content-length"] = b"%d" % len(LARGE)
    admission = take(verifier(), made)
    for body in (changed, LARGE[:-1], b""):
        altered = replace(made, body=(body,))
        assert refused(lambda altered=altered: admission.check_body(altered))[0] == "body"  # type: ignore[misc]


def test_a_body_is_not_taken_a_second_time() -> None:
    made = signed()
    admission = take(verifier(), made)
    # Neither another body under the same proof, nor the same one again.
    assert refused(lambda: admission.check_body(replace(made, body=(b"bodY",))))[0] == "signature"
    assert refused(lambda: admission.check_body(made))[0] == "replay"


@pytest.mark.parametrize("digest", [b"body", b"stream:00", b"poly1305:", b"sha256:00", b""])
def test_a_large_body_cannot_do_without_its_digest(digest: bytes) -> None:
    made = signed((LARGE,))
    stem, _, mac = made.headers[b"axon-auth"].rsplit(b";", 2)
    made.headers[b"axon-auth"] = b";".join((stem, digest, mac))
    assert not_taken(made) == "signature"
    # Not even where the key's holder says so: its size would be a stranger's to choose.
    state = macs.mac_state(KEY.secret)
    right = macs.request_mac(state, made, stem, digest, b"%d" % len(LARGE), made.body)
    made.headers[b"axon-auth"] = b";".join((stem, digest, right))
    reason, _ = refused(lambda: take(verifier(), made))
    assert reason == ("signature" if digest == b"body" else "body")


@pytest.mark.parametrize(
    "headers",
    [
        {b"content-length": b"4097"},
        {b"content-length": b"99999999999999999999"},
        {b"content-length": b"0" * 5000 + b"4"},
        {b"transfer-encoding": b"chunked"},
    ],
)
def test_no_stranger_announces_a_large_body(headers: dict[bytes, bytes]) -> None:
    made = replace(signed(), body=())
    made.headers |= headers
    assert refused(lambda: verifier().admit(made))[0] == "signature"


def test_a_body_that_outgrew_its_head_is_not_even_read() -> None:
    made = signed()
    made.headers[b"content-length"] = b"4"
    admission = verifier().admit(made)
    grown = replace(made, body=(LARGE,))
    assert "digest" in refused(lambda: admission.check_body(grown))[1]
    assert not admission.proven


def test_an_unsigned_request_is_told_that_a_key_is_needed() -> None:
    reason, message = refused(lambda: verifier().admit(request()))
    assert reason == "missing"
    assert "key" in message


def test_a_refusal_is_what_the_callers_of_axon_catch() -> None:
    with pytest.raises(Unauthorised):
        verifier().admit(request())
    with pytest.raises(PermissionError):
        verifier().admit(request())


def test_an_unknown_key_is_named() -> None:
    other = verifier(Key("desk", KEY.secret))
    assert refused(lambda: other.admit(signed())) == (
        "unknown-key",
        "no key 'laptop' on this worker",
    )


@pytest.mark.parametrize("body", [(b"body",), (LARGE,)], ids=["small", "large"])
def test_another_secret_is_a_wrong_signature(body: Pieces) -> None:
    other = verifier(Key("laptop", b"x" * 32))
    assert refused(lambda: take(other, signed(body)))[0] == "signature"


def test_secrets_of_any_length_count_to_their_last_byte() -> None:
    for size in (32, 64, 65, 200):
        made = request()
        Signer(Key("laptop", b"s" * size)).sign(made, boot=BOOT)
        take(verifier(Key("laptop", b"s" * size)), made)
        for other in (b"s" * (size - 1) + b"t", b"s" * size + b"\0"):
            assert not_taken(made, verifier(Key("laptop", other))) == "signature"


def test_the_key_id_is_signed() -> None:
    made = signed()
    made.headers[b"axon-auth"] = made.headers[b"axon-auth"].replace(b"laptop", b"tablet")
    assert not_taken(made, verifier(KEY, Key("tablet", KEY.secret))) == "signature"


@pytest.mark.parametrize("name", [b"content-length", *macs.SIGNED_HEADERS])
@pytest.mark.parametrize("body", [(b"body",), (LARGE,)], ids=["small", "large"])
def test_each_signed_header_is_covered(name: bytes, body: Pieces) -> None:
    made = signed(body)
    made.headers[name] = b"7"
    assert refused(lambda: take(verifier(), made))[0] == "signature"


def test_a_signed_header_cannot_be_taken_away() -> None:
    made = signed()
    del made.headers[b"axon-deadline"]
    assert not_taken(made) == "signature"


def test_a_value_cannot_move_to_the_next_header() -> None:
    made = signed()
    made.headers[b"axon-mode"] = made.headers.pop(b"axon-deadline")
    assert not_taken(made) == "signature"


def test_a_body_cannot_pass_for_the_end_of_the_head() -> None:
    made = request((b"duplex\nbody",))
    Signer(KEY).sign(made, boot=BOOT)
    made.headers[b"content-length"] = b"11"
    take(verifier(), made)
    for name in macs.SIGNED_HEADERS[2:]:
        moved = replace(made, headers=made.headers | {name: b"duplex"}, body=(b"body",))
        assert not_taken(moved) == "signature"


@pytest.mark.parametrize(
    "changed", [{"method": b"DELETE"}, {"target": b"/rpc/echo?x=2"}, {"target": b"/rpc/echo"}]
)
def test_method_and_target_are_covered(changed: dict[str, bytes]) -> None:
    assert not_taken(replace(signed(), **changed)) == "signature"  # type: ignore[arg-type]


def test_what_a_transport_adds_does_not_break_the_signature() -> None:
    made = signed()
    made.headers |= {b"content-length": b"4", b"host": b"10.0.0.3:8000", b"connection": b"close"}
    take(verifier(), replace(made, peer="10.0.0.9"))


def test_a_length_given_when_signing_is_the_one_signed() -> None:
    made = request()
    made.headers[b"content-length"] = b"4"
    Signer(KEY).sign(made, boot=BOOT)
    take(verifier(), made)


def test_a_line_break_is_neither_signed_nor_taken() -> None:
    made = request()
    made.headers[b"axon-mode"] = b"a\nb"
    assert refused(lambda: Signer(KEY).sign(made, boot=BOOT))[0] == "signature"
    taken = signed()
    taken.headers[b"axon-client"] = b"a\nb"
    assert not_taken(taken) == "signature"


GOOD = signed().headers[b"axon-auth"]


@pytest.mark.parametrize(
    "header",
    [
        b"",
        b";" * 6,
        b"v1",
        GOOD.replace(b"v1", b"v2"),
        GOOD + b";",
        GOOD + b"\n",
        GOOD[:-1],
        GOOD[:-64],
        GOOD[:-64] + b"\xff" * 64,
        GOOD.replace(b";body;", b";none:;"),
        b"v1;laptop;+1;0123456789abcdef-1;;body;" + b"0" * 64,
        b"v1;laptop;1;0123456789abcdef-" + b"f" * 17 + b";;body;" + b"0" * 64,
    ],
    ids=range(12),  # Signatures are others each time, and a test keeps its name.
)
def test_malformed_headers_are_a_wrong_signature(header: bytes) -> None:
    made = signed()
    made.headers[b"axon-auth"] = header
    assert not_taken(made) == "signature"


@settings(max_examples=60, deadline=None)
@given(place=st.integers(0, len(GOOD) - 1), flip=st.integers(1, 255))
def test_any_change_of_the_header_is_refused(place: int, flip: int) -> None:
    made = signed()
    header = bytearray(made.headers[b"axon-auth"])
    header[place % len(header)] ^= flip
    made.headers[b"axon-auth"] = bytes(header)
    assert not_taken(made) in ("signature", "unknown-key")


@settings(max_examples=100, deadline=None)
@given(st.binary(max_size=300))
def test_random_headers_only_ever_raise_a_refusal(header: bytes) -> None:
    made = request()
    made.headers[b"axon-auth"] = header
    assert not_taken(made) in ("signature", "unknown-key")


# Boot ids


def test_a_request_for_another_boot_is_told_so() -> None:
    assert not_taken(signed(), verifier(boot=b"1a7e")) == "boot"
    assert not_taken(signed((), b"GET"), verifier(boot=b"1a7e")) == "boot"


@pytest.mark.parametrize("method", [b"POST", b"DELETE", b"PUT", b"HEAD", b"get"])
def test_only_a_get_may_leave_the_boot_out(method: bytes) -> None:
    take(verifier(), signed((), b"GET", boot=b""))
    reason, message = refused(lambda: take(verifier(), signed((), method, boot=b"")))
    assert reason == "boot"
    assert "hello" in message


def test_a_stranger_learns_nothing_of_the_boot() -> None:
    made = signed(boot=b"a0")
    made.headers[b"axon-auth"] = made.headers[b"axon-auth"][:-1] + b"!"
    assert not_taken(made) == "signature"


# Clocks


@pytest.mark.parametrize(("moved_s", "words"), [(-61, "61.0 s behind"), (61, "61.0 s ahead of")])
def test_a_clock_too_far_off_is_told_by_how_much(moved_s: float, words: str) -> None:
    clock = Clock()
    made = request()
    Signer(KEY, now=lambda: clock.time + moved_s).sign(made, boot=BOOT)
    reason, message = refused(lambda: take(verifier(now=clock), made))
    assert reason == "skew"
    assert words in message
    assert "60 s" in message


@pytest.mark.parametrize("moved_s", [-60, 60])
def test_a_clock_within_the_window_is_good(moved_s: float) -> None:
    clock = Clock()
    made = request()
    Signer(KEY, now=lambda: clock.time + moved_s).sign(made, boot=BOOT)
    take(verifier(now=clock), made)


# Keyrings


@pytest.mark.parametrize("none", [lambda: Keyring([]), tuple, list])
def test_no_keys_at_all_are_not_taken_for_keys(none: Callable[[], Keyring]) -> None:
    with pytest.raises(ConfigurationError, match="holds no key"):
        Keyring.of(none())


# Cost


def test_small_calls_do_not_import_cryptography() -> None:
    code = (
        "import sys\n"
        "from axon.rpc.security.auth import Signer, Verifier\n"
        "from axon.rpc.security.keys import Key, Keyring\n"
        "from axon.rpc.messages import Request, Response\n"
        "key, made, answer = Key.new(), Request(b'POST', b'/a', {}, (b'x',)), Response(200)\n"
        "seal = Signer(key).sign(made, boot=b'b')\n"
        "admission = Verifier(Keyring([key]), boot=b'b').admit(made)\n"
        "admission.check_body(made)\n"
        "admission.sign(answer)\n"
        "seal.verify(answer)\n"
        "print('cryptography' in sys.modules, 'tomllib' in sys.modules)\n"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout == "False False\n"
