"""A request is taken once: replays, sessions that are forgotten, signers that are shared."""

from __future__ import annotations

import os
import subprocess
import sys
import threading
from collections.abc import Callable
from dataclasses import replace

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from axon.rpc.messages import Request
from axon.rpc.security import replay
from axon.rpc.security.auth import Signer, Verifier
from axon.rpc.security.keys import Key
from tests.rpc.signing import BOOT, KEY, LARGE, Clock, not_taken, refused, request, take, verifier
from tests.rpc.signing import signed as signed_request


def numbered(count: int, clock: Callable[[], float] = Clock()) -> list[Request]:  # noqa: B008
    """Requests one to `count` of one session."""
    signer = Signer(KEY, now=clock)
    requests = [request() for _ in range(count)]
    for each in requests:
        signer.sign(each, boot=BOOT)
    return requests


@pytest.mark.parametrize("body", [b"body", LARGE], ids=["small", "large"])
def test_the_same_request_twice_is_a_replay(body: bytes) -> None:
    made, worker = signed_request((body,)), verifier()
    take(worker, made)
    assert refused(lambda: take(worker, made))[0] == "replay"


def test_two_copies_under_way_at_once_are_taken_once() -> None:
    made, worker = signed_request(), verifier()
    first, second = worker.admit(made), worker.admit(made)
    second.check_body(made)
    assert refused(lambda: first.check_body(made))[0] == "replay"
    assert not first.proven


def test_order_does_not_matter_within_the_window() -> None:
    requests, worker = numbered(200), verifier(now=Clock())
    mixed = requests[::2][::-1] + requests[1::2]
    for each in mixed:
        take(worker, each)
    for each in mixed:
        assert not_taken(each, worker) == "replay"


@pytest.mark.parametrize("in_order", [1, 3])
def test_the_window_ends_where_it_says(in_order: int) -> None:
    requests, worker = numbered(replay.COUNTER_WINDOW + in_order), verifier(now=Clock())
    for each in requests[-in_order:]:
        take(worker, each)
    assert not_taken(requests[in_order - 1], worker) == "replay"
    take(worker, requests[in_order])
    assert not_taken(requests[in_order], worker) == "replay"


def test_a_long_run_in_order_is_remembered_to_its_last() -> None:
    requests, worker = numbered(replay.COUNTER_WINDOW + 100), verifier(now=Clock())
    for each in requests:
        take(worker, each)
    for each in (*requests[:3], *requests[99:102], *requests[-3:]):
        assert not_taken(each, worker) == "replay"


@settings(max_examples=60, deadline=None)
@given(
    st.lists(
        st.one_of(
            st.integers(1, 40),
            st.integers(replay.COUNTER_WINDOW - 16, replay.COUNTER_WINDOW + 54),
            st.just(2**64 - 1),
        ),
        max_size=80,
    ),
    st.integers(0, 40),
)
def test_a_session_takes_each_counter_once(counters: list[int], run: int) -> None:
    # A run in order first, since that is remembered in another way.
    counters = [*range(1, run + 1), *counters]
    session = replay.Session(counters[0] - 1 if counters else 0, -1)
    taken: set[int] = set()
    for counter in counters:
        too_old = bool(taken) and max(taken) - counter >= replay.COUNTER_WINDOW
        assert session.take(counter) is (counter not in taken and not too_old)
        if not too_old:
            taken.add(counter)
        assert session.seen.bit_length() <= replay.COUNTER_WINDOW


def test_what_was_refused_is_not_remembered() -> None:
    made, worker = signed_request(), verifier()
    assert not_taken(replace(made, target=b"/rpc/other"), worker) == "signature"
    assert not_taken(replace(made, body=(b"bodY",)), worker) == "signature"
    assert memory(worker) == 0
    take(worker, made)


def memory(worker: Verifier) -> int:
    ((_, _, sessions),) = worker._keys.values()
    return len(sessions)


def test_a_request_without_its_body_uses_nothing_up() -> None:
    # Else a stranger could spend a client's counters, or fill the memory with sessions.
    made, worker = signed_request(), verifier()
    for _ in range(3):
        worker.admit(made)
    assert memory(worker) == 0
    take(worker, made)


def test_idle_sessions_are_forgotten_but_stay_closed_to_replay() -> None:
    clock = Clock()
    (made,), worker = numbered(1, clock), verifier(now=clock)
    take(worker, made)
    clock.time += 121
    take(worker, numbered(1, clock)[0])
    assert memory(worker) == 1
    assert not_taken(made, worker) == "skew"
    # Even with the clock set back into the request's window.
    clock.time -= 121
    reason, message = refused(lambda: take(worker, made))
    assert reason == "replay"
    assert "clock was set back" in message


def test_sessions_heard_of_are_kept() -> None:
    clock = Clock()
    worker, signer = verifier(now=clock), Signer(KEY, now=clock)
    first = request()
    signer.sign(first, boot=BOOT)
    take(worker, first)
    for count in range(5):
        clock.time += 100
        made = request()
        signer.sign(made, boot=BOOT)
        take(worker, made)
        take(worker, numbered(1, clock)[0])
        # Of the others, those of the last two rounds.
        assert memory(worker) == 1 + min(count + 1, 2)


def test_sessions_are_bounded_and_eviction_opens_no_replay(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(replay, "MAX_SESSIONS", 3)
    clock = Clock()
    worker = verifier(now=clock)
    first = Signer(KEY, now=clock)
    early, late = request(), request()
    first.sign(early, boot=BOOT)
    take(worker, early)
    for _ in range(5):
        clock.time += 0.001
        take(worker, numbered(1, clock)[0])
        assert memory(worker) <= 3
    assert not_taken(early, worker) == "replay"
    # The session goes on, and what it sent before it was forgotten stays refused.
    clock.time += 0.001
    first.sign(late, boot=BOOT)
    take(worker, late)
    assert not_taken(early, worker) == "replay"


def test_the_session_longest_unheard_is_the_one_forgotten(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(replay, "MAX_SESSIONS", 2)
    clock = Clock()
    worker = verifier(now=clock)
    busy, idle = numbered(3, clock), numbered(2, clock)
    for each in (busy[0], idle[0], busy[1], *numbered(1, clock)):
        take(worker, each)
    take(worker, busy[2])
    assert "this worker remembers" in refused(lambda: take(worker, idle[1]))[1]


def test_one_keys_sessions_do_not_push_out_anothers(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(replay, "MAX_SESSIONS", 2)
    desk = Key("desk", b"d" * 32)
    clock = Clock()
    worker = verifier(KEY, desk, now=clock)
    made = request()
    Signer(desk, now=clock).sign(made, boot=BOOT)
    take(worker, made)
    for _ in range(5):
        clock.time += 0.001
        take(worker, numbered(1, clock)[0])
    reason, message = refused(lambda: take(worker, made))
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
            take(worker, each)


FORKING = """
import os
from axon.rpc.messages import Request
from axon.rpc.security.auth import Signer
from axon.rpc.security.keys import Key

signer = Signer(Key("laptop", bytes(range(32))))
made = Request(b"POST", b"/rpc/echo?x=1", {}, (b"body",))
child = os.fork()
signer.sign(made, boot=b"0123456789abcdef")
if child:
    os.waitpid(child, 0)
os.write(1, made.headers[b"axon-auth"] + b"\\n")
"""


@pytest.mark.system
@pytest.mark.skipif(not hasattr(os, "fork"), reason="forks are what is tested")
def test_a_forked_child_signs_in_a_session_of_its_own() -> None:
    command = [sys.executable, "-c", FORKING]
    done = subprocess.run(command, capture_output=True, check=True, timeout=30)
    headers = done.stdout.split()
    assert len(headers) == 2
    worker = verifier()
    for header in headers:
        # One signer, counter and all: both requests are the first of their session.
        assert header.split(b";")[3].endswith(b"-1")
        take(worker, Request(b"POST", b"/rpc/echo?x=1", {b"axon-auth": header}, (b"body",)))
    assert memory(worker) == 2
