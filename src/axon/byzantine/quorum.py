"""The fastest q valid answers of many: whatever one node does, it costs that node's vote only.

A node that cannot be reached, is too busy or is not there yet is asked again until patience ends.
One whose answer is no vector of the right kind is out at once.
"""

from __future__ import annotations

import asyncio
import itertools
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import cast

import numpy as np

from axon import client
from axon.byzantine.board import FAR, MODEL, Absent, Key, Readable
from axon.errors import (
    AxonError,
    CallLost,
    ConfigurationError,
    ConnectFailed,
    ConnectionLost,
    DeadlineExceeded,
    Overloaded,
    ProtocolError,
    QuorumNotReached,
    WorkerStopping,
)
from axon.failure import Failure
from axon.rounds.judge import is_finite, shortened
from axon.rpc.calling.sender import backoff_s
from axon.values import Vector, check_positive, check_whole

PASSING = (ConnectFailed, ConnectionLost, DeadlineExceeded, Overloaded, WorkerStopping)
"""Errors that may be over a moment later: nodes start, restart and are busy."""

NOT_NEEDED = "not needed"

SLOWER_S = 0.01
"""By how much slower than twice as slow a claim still counts; little beside a few steps."""


@dataclass(frozen=True, slots=True)
class Refusal:
    """A node whose answer did not count, and why."""

    node: str
    reason: str


@dataclass(frozen=True, slots=True)
class Quorum:
    """The answers that count, by name in the order of names, and who was refused."""

    vectors: Mapping[str, Vector]
    refusals: Sequence[Refusal] = ()

    @property
    def members(self) -> tuple[str, ...]:
        """Whose answers they are."""
        return tuple(self.vectors)


@dataclass(frozen=True, slots=True, kw_only=True)
class Terms:
    """What an answer must be, and how long enough of them are waited for."""

    size: int
    """Numbers in a vector."""
    patience_s: float = 60.0

    def __post_init__(self) -> None:
        check_whole("size", self.size, least=1)
        check_positive("patience_s", self.patience_s)


async def fastest(
    nodes: Mapping[str, Readable],
    key: Key,
    q: int,
    terms: Terms,
    *,
    own: Mapping[str, Vector] | None = None,
) -> Quorum:
    """Read one thing from all nodes, and give the first q answers that are valid.

    `own` are vectors that need not be asked for and count among the q. Raises `QuorumNotReached`,
    with the reason of each node that failed, once q cannot be reached or patience has ended.
    """
    known = dict(own or {})
    if not len(known) <= q <= len(known) + len(nodes):
        raise ConfigurationError(
            f"q must be from {len(known)} to {len(known) + len(nodes)} answers, got {q}"
        )
    if q == len(known):
        return Quorum(known)
    reading = _Reading(key, terms)
    calls = {name: reading.valid(name, node) for name, node in sorted(nodes.items())}
    try:
        answers = await client.gather(calls, quorum=q - len(known), deadline_s=terms.patience_s)
    except QuorumNotReached as error:
        raise reading.failure(error, q, len(known)) from error
    vectors = {name: v for name, v in answers.outcomes.items() if not isinstance(v, Failure)}
    return Quorum(dict(sorted((vectors | known).items())), reading.refusals(answers))


@dataclass(slots=True)
class _Reading:
    """One read of many nodes, with what last went wrong at each."""

    key: Key
    terms: Terms
    trouble: dict[str, str] = field(default_factory=dict)

    async def valid(self, name: str, node: Readable) -> Vector:
        """The node's vector, asked for again while what is wrong may pass."""
        for attempt in itertools.count():
            try:
                answer = await node.read(*self.key)
            except PASSING as error:
                self.trouble[name] = _told(error)
            else:
                if not isinstance(answer, Absent):
                    return judged(answer, self.terms.size)
                self.trouble[name] = shortened(str(answer))
                if answer.why == "gone":
                    raise CallLost(self.trouble[name], hint="")
            await asyncio.sleep(backoff_s(attempt))
        raise AssertionError("attempts have no end")

    def failure(self, error: QuorumNotReached, q: int, known: int) -> QuorumNotReached:
        """The error of too few answers, with the reason of each node that failed."""
        assert isinstance(error.answers, client.Answers), "gather adds the answers"
        refusals = self.refusals(error.answers)
        told = "; ".join(f"{one.node}: {one.reason}" for one in refusals)
        hint = f"{_named(self.key)} within {self.terms.patience_s:g} s; {told}"
        outcomes = error.answers.outcomes | {
            one.node: replace(error.answers[one.node], reason=one.reason) for one in refusals
        }
        return QuorumNotReached(
            wanted=q, got=error.got + known, answers=client.Answers(outcomes), hint=hint
        )

    def refusals(self, answers: client.Answers) -> tuple[Refusal, ...]:
        """Who failed or was in trouble; whoever was merely slower than q others is not told of."""
        return tuple(
            Refusal(name, self.trouble.get(name) or shortened(failure.reason))
            for name, failure in answers.outcomes.items()
            if isinstance(failure, Failure)
            and (name in self.trouble or failure.reason != NOT_NEEDED)
        )


def refusals_of(error: QuorumNotReached) -> tuple[Refusal, ...]:
    """Who failed when too few answered."""
    if not isinstance(error.answers, client.Answers):
        return ()
    failures = error.answers.failures
    return tuple(Refusal(one.device, one.reason) for one in failures if one.reason != NOT_NEEDED)


def is_overtaken(error: QuorumNotReached) -> bool:
    """Whether others have gone on so far that what was wanted is no longer kept."""
    answers = error.answers
    return isinstance(answers, client.Answers) and any(
        isinstance(failure.error, CallLost) for failure in answers.failures
    )


def is_past(error: QuorumNotReached) -> bool:
    """Whether an honest node no longer keeps what was wanted, where one's own does not count.

    More are out for good than may be faulty, and only one thing puts an honest node out.
    """
    answers = error.answers
    if not isinstance(answers, client.Answers) or not is_overtaken(error):
        return False
    out = [failure for failure in answers.failures if failure.error is not None]
    return len(out) > len(answers.outcomes) - error.wanted


async def newest_step(nodes: Mapping[str, Readable], q: int, terms: Terms) -> int:
    """A step that an honest node has reached, where q of the nodes tell and the rest may lie.

    Of the claims that as many are above as nodes may be faulty: one of those above, or it itself,
    is an honest node's. Those a little slower than q are counted as well: a liar that is quick and
    claims to be far behind must not stand for one of them.
    """
    loop, claims = asyncio.get_running_loop(), list[int]()
    began_s = loop.time()

    async def claim(node: Readable) -> None:
        claims.append(await _claim(node))
        await asyncio.sleep(SLOWER_S + loop.time() - began_s)

    calls = {name: claim(node) for name, node in sorted(nodes.items())}
    await client.gather(calls, quorum=q, deadline_s=terms.patience_s)
    return sorted(claims, reverse=True)[min(len(nodes) - q, len(claims) - 1)]


def has_answered(error: QuorumNotReached) -> bool:
    """Whether a node is out for what it answered, and not for its silence."""
    answers = error.answers
    return isinstance(answers, client.Answers) and any(
        failure.error is not None for failure in answers.failures
    )


async def is_alive(node: Readable) -> bool:
    """Whether a node answers a question that it need not wait to answer, whatever it says."""
    try:
        await node.read(MODEL, FAR)
    except (ConnectFailed, ConnectionLost, DeadlineExceeded, WorkerStopping):
        return False
    except AxonError:
        # Too busy, say; but there.
        return True
    return True


async def _claim(node: Readable) -> int:
    # So far ahead that the answer is at once where the node really is.
    absent = await node.read(MODEL, FAR)
    if not isinstance(absent, Absent):
        raise ProtocolError("asked for a step that nobody can have reached, it gave one")
    return absent.newest


def judged(answer: object, size: int) -> Vector:
    """The answer, if it is a vector that a rule can take; raises `ProtocolError` otherwise."""
    if not isinstance(answer, np.ndarray) or answer.dtype != np.float32:
        kind = str(answer.dtype) if isinstance(answer, np.ndarray) else type(answer).__name__
        raise ProtocolError(f"a vector must be float32, got {shortened(kind)}")
    if answer.shape != (size,):
        raise ProtocolError(f"a vector must have {size} numbers, got shape {answer.shape}")
    if not is_finite(answer):
        bad = size - int(np.count_nonzero(np.isfinite(answer)))
        raise ProtocolError(f"{bad} of {size} numbers are not finite")
    return cast(Vector, answer)


def _told(error: AxonError) -> str:
    return shortened(f"{type(error).__name__}: {error.message}")


def _named(key: Key) -> str:
    kind, step, round = key
    return f"{kind} of step {step}" + (f", round {round}" if round else "")
