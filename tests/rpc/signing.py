"""Signed requests, and a worker's side to take them: what the tests of signatures share."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from axon.rpc.messages import Pieces, Request
from axon.rpc.security.auth import Admission, Seal, Signer, Verifier
from axon.rpc.security.keys import Key, Keyring
from axon.rpc.security.refusal import Reason, Refused

KEY = Key("laptop", bytes(range(32)))
BOOT = b"0123456789abcdef"
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


def signed(body: Pieces = (b"body",), method: bytes = b"POST", boot: bytes = BOOT) -> Request:
    made = request(body, method)
    Signer(KEY).sign(made, boot=boot)
    return made


def verifier(*keys: Key, boot: bytes = BOOT, now: Callable[[], float] | None = None) -> Verifier:
    ring = Keyring(keys or [KEY])
    return Verifier(ring, boot=boot) if now is None else Verifier(ring, boot=boot, now=now)


def take(worker: Verifier, made: Request) -> Admission:
    """Judge a request as a worker does: its head, then its body."""
    admission = worker.admit(made)
    admission.check_body(made)
    return admission


def refused(call: Callable[[], object]) -> tuple[Reason, str]:
    with pytest.raises(Refused) as caught:
        call()
    return caught.value.reason, str(caught.value)


def not_taken(made: Request, worker: Verifier | None = None) -> Reason:
    """Why a request is refused, sooner or later; nothing refused may count as proven."""
    judge = worker or verifier()

    def attempt() -> None:
        admission = judge.admit(made)
        try:
            admission.check_body(made)
        finally:
            assert admission.proven is (b";poly1305:" in made.headers[b"axon-auth"])

    return refused(attempt)[0]


def exchange(body: Pieces = (b"body",)) -> tuple[Seal, Admission]:
    """A request signed and taken, its answer still to come."""
    made = request(body)
    seal = Signer(KEY).sign(made, boot=BOOT)
    return seal, take(verifier(), made)
