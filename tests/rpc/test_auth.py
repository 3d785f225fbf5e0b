"""Signatures on requests, answers and streams: what passes, and everything that must not."""

from __future__ import annotations

import os
import subprocess
import sys
import threading
from collections.abc import AsyncIterator, Callable
from dataclasses import replace

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from axon.errors import Unauthorised
from axon.rpc.messages import Buffer, Pieces, Request, Response
from axon.rpc.security import auth
from axon.rpc.security.auth import Admission, FrameSeal, Reason, Refused, Seal, Signer, Verifier
from axon.rpc.security.keys import Key, Keyring

KEY = Key("laptop", bytes(range(32)))
BOOT = b"worker's boot id"
LARGE = bytes(range(256)) * 400


class Clock:
    """A wall clock that stands still until it is moved."""

    def __init__(self) -> None:
        self.time = 1_700_000_000.0

    def __call__(self) -> float:
        return self.time


def request(body: Pieces = (b"body",), method: bytes = b"POST") -> Request:
    headers = {b"content-type": b"application/axon", b"axon-deadline": b"30"}
    return Request(method, b"/rpc/echo?x=1", headers, body)


def verifier(*keys: Key, boot: bytes = BOOT, now: Callable[[], float] | None = None) -> Verifier:
    ring = Keyring(keys or [KEY])
    return Verifier(ring, boot=boot) if now is None else Verifier(ring, boot=boot, now=now)


def signed(body: Pieces = (b"body",), method: bytes = b"POST", boot: bytes = BOOT) -> Request:
    made = request(body, method)
    Signer(KEY).sign(made, boot=boot)
    return made


def refused(call: Callable[[], object]) -> tuple[Reason, str]:
    with pytest.raises(Refused) as caught:
        call()
    return caught.value.reason, str(caught.value)


def exchange(body: Pieces = (b"body",)) -> tuple[Seal, Admission]:
    """A request signed and taken, its answer still to come."""
    made = request(body)
    seal = Signer(KEY).sign(made, boot=BOOT)
    return seal, verifier().admit(made)


async def no_frames() -> AsyncIterator[Buffer]:
    nothing: list[Buffer] = []
    for frame in nothing:
        yield frame


# Requests


@pytest.mark.parametrize("body", [(), (b"",), (b"x" * 65536,), (b"x" * 65537,), (LARGE, b"end")])
def test_a_signed_request_is_taken_with_its_body(body: Pieces) -> None:
    admission = verifier().admit(signed(body))
    assert admission.key is KEY
    # It arrives in one piece, however it was sent.
    admission.check_body((bytearray(b"".join(body)),))


def test_the_algorithm_follows_the_size_of_the_body() -> None:
    small, large = (signed((b"x" * size,)).headers[b"axon-auth"] for size in (65536, 65537))
    assert b";sha256:" in small
    assert b";poly1305:" in large


def test_views_of_wider_items_count_in_bytes() -> None:
    view = memoryview(bytes(80_000)).cast("I")
    made = signed((view,))
    assert b";poly1305:" in made.headers[b"axon-auth"]
    assert b";sha256:" in signed((view[:10],)).headers[b"axon-auth"]
    made.headers[b"content-length"] = b"80000"
    verifier().admit(made).check_body((bytes(80_000),))


def test_nothing_secret_is_in_the_header() -> None:
    header = signed().headers[b"axon-auth"]
    assert header.startswith(b"v1;laptop;")
    assert KEY.secret.hex().encode() not in header
    assert KEY.secret not in header


@pytest.mark.parametrize(
    "body", [(b"bodY",), (), (b"body", b"more"), (b"bod",)], ids=["changed", "gone", "more", "less"]
)
def test_another_small_body_is_refused(body: Pieces) -> None:
    admission = verifier().admit(signed())
    assert refused(lambda: admission.check_body(body))[0] == "body"


@pytest.mark.parametrize("place", [0, 51_200, len(LARGE) - 1])
def test_another_large_body_is_refused(place: int) -> None:
    changed = bytearray(LARGE)
    changed[place] ^= 1
    admission = verifier().admit(signed((LARGE,)))
    admission.check_body((LARGE,))
    assert refused(lambda: admission.check_body((changed,)))[0] == "body"
    assert refused(lambda: admission.check_body((LARGE[:-1],)))[0] == "body"


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


def test_another_secret_is_a_wrong_signature() -> None:
    other = verifier(Key("laptop", b"x" * 32))
    assert refused(lambda: other.admit(signed()))[0] == "signature"


def test_the_key_id_is_signed() -> None:
    made = signed()
    made.headers[b"axon-auth"] = made.headers[b"axon-auth"].replace(b"laptop", b"tablet")
    both = verifier(KEY, Key("tablet", KEY.secret))
    assert refused(lambda: both.admit(made))[0] == "signature"


@pytest.mark.parametrize("name", [b"content-length", *auth.SIGNED_HEADERS])
def test_each_signed_header_is_covered(name: bytes) -> None:
    made = signed()
    made.headers[name] = b"7"
    assert refused(lambda: verifier().admit(made))[0] == "signature"


def test_a_signed_header_cannot_be_taken_away() -> None:
    made = signed()
    del made.headers[b"axon-deadline"]
    assert refused(lambda: verifier().admit(made))[0] == "signature"


def test_a_value_cannot_move_to_the_next_header() -> None:
    made = signed()
    made.headers[b"axon-mode"] = made.headers.pop(b"axon-deadline")
    assert refused(lambda: verifier().admit(made))[0] == "signature"


@pytest.mark.parametrize(
    "changed", [{"method": b"DELETE"}, {"target": b"/rpc/echo?x=2"}, {"target": b"/rpc/echo"}]
)
def test_method_and_target_are_covered(changed: dict[str, bytes]) -> None:
    made = replace(signed(), **changed)  # type: ignore[arg-type]
    assert refused(lambda: verifier().admit(made))[0] == "signature"


def test_what_a_transport_adds_does_not_break_the_signature() -> None:
    made = signed()
    made.headers |= {b"content-length": b"4", b"host": b"10.0.0.3:8000", b"connection": b"close"}
    made = replace(made, body=(), peer="10.0.0.9")
    verifier().admit(made).check_body((b"body",))


def test_a_length_given_when_signing_is_the_one_signed() -> None:
    made = request()
    made.headers[b"content-length"] = b"4"
    Signer(KEY).sign(made, boot=BOOT)
    verifier().admit(made)


def test_a_line_break_is_neither_signed_nor_taken() -> None:
    made = request()
    made.headers[b"axon-mode"] = b"a\nb"
    assert refused(lambda: Signer(KEY).sign(made, boot=BOOT))[0] == "signature"
    taken = signed()
    taken.headers[b"axon-client"] = b"a\nb"
    assert refused(lambda: verifier().admit(taken))[0] == "signature"


GOOD = signed().headers[b"axon-auth"]


@pytest.mark.parametrize(
    "header",
    [
        b"",
        b";" * 6,
        b"v1",
        GOOD.replace(b"v1", b"v2"),
        GOOD + b";",
        GOOD[:-1],
        GOOD[:-64],
        GOOD[:-64] + b"\xff" * 64,
        GOOD.replace(b"sha256:", b"none:"),
        b"v1;laptop;+1;0123456789abcdef-1;;sha256:;" + b"0" * 64,
        b"v1;laptop;1;0123456789abcdef-" + b"f" * 17 + b";;sha256:;" + b"0" * 64,
    ],
)
def test_malformed_headers_are_a_wrong_signature(header: bytes) -> None:
    made = signed()
    made.headers[b"axon-auth"] = header
    assert refused(lambda: verifier().admit(made))[0] == "signature"


@settings(max_examples=60, deadline=None)
@given(place=st.integers(0, len(GOOD) - 1), flip=st.integers(1, 255))
def test_any_change_of_the_header_is_refused(place: int, flip: int) -> None:
    made = signed()
    header = bytearray(made.headers[b"axon-auth"])
    header[place % len(header)] ^= flip
    made.headers[b"axon-auth"] = bytes(header)
    assert refused(lambda: verifier().admit(made))[0] in ("signature", "unknown-key")


@settings(max_examples=100, deadline=None)
@given(st.binary(max_size=300))
def test_random_headers_only_ever_raise_a_refusal(header: bytes) -> None:
    made = request()
    made.headers[b"axon-auth"] = header
    assert refused(lambda: verifier().admit(made))[0] in ("signature", "unknown-key")


# Boot ids


def test_a_request_for_another_boot_is_told_so() -> None:
    assert refused(lambda: verifier(boot=b"later").admit(signed()))[0] == "boot"
    get = signed((), b"GET")
    assert refused(lambda: verifier(boot=b"later").admit(get))[0] == "boot"


@pytest.mark.parametrize("method", [b"POST", b"DELETE", b"PUT", b"HEAD", b"get"])
def test_only_a_get_may_leave_the_boot_out(method: bytes) -> None:
    verifier().admit(signed((), b"GET", boot=b""))
    reason, message = refused(lambda: verifier().admit(signed((), method, boot=b"")))
    assert reason == "boot"
    assert "hello" in message


def test_a_stranger_learns_nothing_of_the_boot() -> None:
    made = signed(boot=b"another")
    made.headers[b"axon-auth"] = made.headers[b"axon-auth"][:-1] + b"!"
    assert refused(lambda: verifier().admit(made))[0] == "signature"


# Clocks


@pytest.mark.parametrize(("moved_s", "words"), [(-61, "61.0 s behind"), (61, "61.0 s ahead of")])
def test_a_clock_too_far_off_is_told_by_how_much(moved_s: float, words: str) -> None:
    clock = Clock()
    made = request()
    signer = Signer(KEY, now=lambda: clock.time + moved_s)
    signer.sign(made, boot=BOOT)
    reason, message = refused(lambda: verifier(now=clock).admit(made))
    assert reason == "skew"
    assert words in message
    assert "60 s" in message


@pytest.mark.parametrize("moved_s", [-60, 60])
def test_a_clock_within_the_window_is_good(moved_s: float) -> None:
    clock = Clock()
    made = request()
    Signer(KEY, now=lambda: clock.time + moved_s).sign(made, boot=BOOT)
    verifier(now=clock).admit(made)


# Replay


def numbered(count: int, clock: Callable[[], float] = Clock()) -> list[Request]:  # noqa: B008
    """Requests one to `count` of one session."""
    signer = Signer(KEY, now=clock)
    requests = [request() for _ in range(count)]
    for each in requests:
        signer.sign(each, boot=BOOT)
    return requests


def test_the_same_request_twice_is_a_replay() -> None:
    made, worker = signed(), verifier()
    worker.admit(made)
    assert refused(lambda: worker.admit(made))[0] == "replay"


def test_order_does_not_matter_within_the_window() -> None:
    requests, worker = numbered(200), verifier(now=Clock())
    mixed = requests[::2][::-1] + requests[1::2]
    for each in mixed:
        worker.admit(each)
    for each in mixed:
        assert refused(lambda each=each: worker.admit(each))[0] == "replay"  # type: ignore[misc]


def test_the_window_ends_where_it_says() -> None:
    requests, worker = numbered(4097), verifier(now=Clock())
    worker.admit(requests[-1])
    assert refused(lambda: worker.admit(requests[0]))[0] == "replay"
    worker.admit(requests[1])


@settings(max_examples=30, deadline=None)
@given(st.lists(st.one_of(st.integers(1, 40), st.integers(4080, 4150), st.just(2**64 - 1))))
def test_a_session_takes_each_counter_once(counters: list[int]) -> None:
    session = auth._Session(counters[0] - 1 if counters else 0, -1)
    taken: set[int] = set()
    for counter in counters:
        too_old = bool(taken) and max(taken) - counter >= auth.COUNTER_WINDOW
        assert session.take(counter) is (counter not in taken and not too_old)
        if not too_old:
            taken.add(counter)
        assert session.seen.bit_length() <= auth.COUNTER_WINDOW


def test_what_was_refused_is_not_remembered() -> None:
    made, worker = signed(), verifier()
    forged = replace(made, target=b"/rpc/other")
    assert refused(lambda: worker.admit(forged))[0] == "signature"
    worker.admit(made)


def memory(worker: Verifier) -> int:
    ((_, sessions),) = worker._keys.values()
    return len(sessions._sessions)


def test_idle_sessions_are_forgotten_but_stay_closed_to_replay() -> None:
    clock = Clock()
    (made,), worker = numbered(1, clock), verifier(now=clock)
    worker.admit(made)
    clock.time += 121
    worker.admit(numbered(1, clock)[0])
    assert memory(worker) == 1
    assert refused(lambda: worker.admit(made))[0] == "skew"
    # Even with the clock set back into the request's window.
    clock.time -= 121
    reason, message = refused(lambda: worker.admit(made))
    assert reason == "replay"
    assert "clock was set back" in message


def test_sessions_heard_of_are_kept() -> None:
    clock = Clock()
    worker, signer = verifier(now=clock), Signer(KEY, now=clock)
    for _ in range(5):
        clock.time += 100
        made = request()
        signer.sign(made, boot=BOOT)
        worker.admit(made)
        assert memory(worker) == 1


def test_sessions_are_bounded_and_eviction_opens_no_replay(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(auth, "MAX_SESSIONS", 3)
    clock = Clock()
    worker = verifier(now=clock)
    first = Signer(KEY, now=clock)
    early, late = request(), request()
    first.sign(early, boot=BOOT)
    worker.admit(early)
    for _ in range(5):
        clock.time += 0.001
        worker.admit(numbered(1, clock)[0])
        assert memory(worker) <= 3
    assert refused(lambda: worker.admit(early))[0] == "replay"
    # The session goes on, and what it sent before it was forgotten stays refused.
    clock.time += 0.001
    first.sign(late, boot=BOOT)
    worker.admit(late)
    assert refused(lambda: worker.admit(early))[0] == "replay"


def test_the_session_longest_unheard_is_the_one_forgotten(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(auth, "MAX_SESSIONS", 2)
    clock = Clock()
    worker = verifier(now=clock)
    busy, idle = numbered(3, clock), numbered(2, clock)
    for each in (busy[0], idle[0], busy[1], *numbered(1, clock)):
        worker.admit(each)
    worker.admit(busy[2])
    assert "this worker remembers" in refused(lambda: worker.admit(idle[1]))[1]


def test_one_keys_sessions_do_not_push_out_anothers(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(auth, "MAX_SESSIONS", 2)
    desk = Key("desk", b"d" * 32)
    clock = Clock()
    worker = verifier(KEY, desk, now=clock)
    made = request()
    Signer(desk, now=clock).sign(made, boot=BOOT)
    worker.admit(made)
    for _ in range(5):
        clock.time += 0.001
        worker.admit(numbered(1, clock)[0])
    reason, message = refused(lambda: worker.admit(made))
    assert reason == "replay"
    assert "taken before" in message


def test_threads_share_a_signer_without_two_requests_alike() -> None:
    signer, worker = Signer(KEY), verifier()
    requests = [[request() for _ in range(200)] for _ in range(4)]

    def sign_all(mine: list[Request]) -> None:
        for each in mine:
            signer.sign(each, boot=BOOT)

    threads = [threading.Thread(target=sign_all, args=(mine,)) for mine in requests]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    for mine in requests:
        for each in mine:
            worker.admit(each)


def test_a_forked_child_signs_in_a_session_of_its_own(monkeypatch: pytest.MonkeyPatch) -> None:
    signer, worker = Signer(KEY), verifier()
    # In the child the object is the same, counter and all; only the process id tells.
    session = signer._session
    child = request()
    with monkeypatch.context() as patch:
        patch.setattr(os, "getpid", lambda: session[0] + 1)
        signer.sign(child, boot=BOOT)
    assert session[1].encode() not in child.headers[b"axon-auth"]
    worker.admit(child)


# Answers


@pytest.mark.parametrize("body", [(), (b"answer",), (LARGE, b"end")])
def test_a_signed_answer_passes(body: Pieces) -> None:
    seal, admission = exchange()
    response = Response(200, {b"content-type": b"application/axon"}, body)
    admission.sign(response)
    response.headers[b"content-length"] = b"added by the transport"
    seal.verify(replace(response, body=(bytearray(b"".join(body)),)))


def test_an_unsigned_answer_is_refused() -> None:
    seal, _ = exchange()
    assert refused(lambda: seal.verify(Response(200)))[0] == "missing"


@pytest.mark.parametrize("body", [(b"answer",), (LARGE,)], ids=["small", "large"])
def test_an_altered_answer_is_refused(body: Pieces) -> None:
    seal, admission = exchange()
    response = Response(200, {b"content-type": b"application/axon"}, body)
    admission.sign(response)
    more = replace(response, body=(*body, b"x"))
    assert refused(lambda: seal.verify(more))[0] == "body"
    assert refused(lambda: seal.verify(replace(response, body=())))[0] == "body"
    assert refused(lambda: seal.verify(replace(response, status=500)))[0] == "signature"
    for name in auth.ANSWER_HEADERS:
        altered = replace(response, headers=response.headers | {name: b"text/html"})
        assert refused(lambda altered=altered: seal.verify(altered))[0] == "signature"  # type: ignore[misc]


@pytest.mark.parametrize("header", [b"", b"v1", b"v1;sha256:00", b"v2;a;b", b"v1;;;", b"\xff" * 40])
def test_a_malformed_answer_header_is_a_wrong_signature(header: bytes) -> None:
    seal, _ = exchange()
    assert refused(lambda: seal.verify(Response(200, {b"axon-auth": header})))[0] == "signature"


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


FRAMES: list[tuple[bytes, ...]] = [(b"one",), (), (b"x" * 65536,), (b"x" * 65537,), (LARGE, b"e")]


def test_frames_pass_in_order_however_they_are_cut() -> None:
    sealer, opener = stream()
    for frame in FRAMES:
        tag = sealer.tag(frame)
        assert len(tag) == auth.TAG_BYTES
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
    streamed, whole = Response(200, {}, stream=no_frames()), Response(200)
    admission.sign(streamed)
    admission.sign(whole)
    assert refused(lambda: seal.verify(replace(streamed, stream=None)))[0] == "body"
    assert refused(lambda: seal.verify(replace(whole, stream=no_frames())))[0] == "body"


def test_frames_are_not_opened_before_the_head_is_verified() -> None:
    seal, _ = exchange()
    with pytest.raises(RuntimeError, match="verify"):
        seal.opener()


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
        "admission.check_body(made.body)\n"
        "admission.sign(answer)\n"
        "seal.verify(answer)\n"
        "print('cryptography' in sys.modules, 'tomllib' in sys.modules)\n"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout == "False False\n"
