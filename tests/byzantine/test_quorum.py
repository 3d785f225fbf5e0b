"""The fastest valid answers: who counts, who is asked again, when to give up."""

from __future__ import annotations

import asyncio
from typing import Any

import numpy as np
import pytest

from axon.byzantine.board import MODEL, Absent
from axon.byzantine.quorum import (
    Quorum,
    Terms,
    fastest,
    is_overtaken,
    is_past,
    newest_step,
    refusals_of,
)
from axon.errors import ConfigurationError, ConnectFailed, Overloaded, QuorumNotReached
from axon.testbed import virtual
from axon.values import Vector
from tests.byzantine.worlds import Said, answering, vector

TERMS = Terms(size=2, patience_s=10.0)
KEY = (MODEL, 4, 0)


def read(nodes: dict[str, Said], q: int, own: dict[str, Vector] | None = None) -> Quorum:
    return virtual.run(fastest(nodes, KEY, q, TERMS, own=own))


def test_the_fastest_count_in_the_order_of_their_names() -> None:
    nodes = {
        "d": answering(vector(4, 4), after_s=0.1),
        "a": answering(vector(1, 1), after_s=0.3),
        "c": answering(vector(3, 3), after_s=0.4),
        "b": answering(vector(2, 2), after_s=0.2),
    }
    quorum = read(nodes, 3)
    assert {name: each.tolist() for name, each in quorum.vectors.items()} == {
        "a": [1, 1], "b": [2, 2], "d": [4, 4],
    }  # fmt: skip
    assert quorum.refusals == (), "to be slower than q others is no fault"


def test_ones_own_vector_is_one_of_the_q() -> None:
    slow = answering(vector(5, 5), after_s=3.0)
    quorum = read({"a": answering(vector(1, 1)), "z": slow}, 2, own={"me": vector(0, 0)})
    assert quorum.members == ("a", "me")
    assert read({"a": slow}, 1, own={"me": vector(0, 0)}).members == ("me",)


def test_those_not_needed_are_called_off() -> None:
    called_off: list[str] = []

    async def says(_kind: str, _step: int, _round: int) -> object:
        try:
            await asyncio.sleep(5.0)
        except asyncio.CancelledError:
            called_off.append("slow")
            raise
        return vector(0, 0)

    async def main() -> float:
        await fastest({"fast": answering(vector(1, 1)), "slow": Said(says)}, KEY, 1, TERMS)
        await asyncio.sleep(0)
        return asyncio.get_running_loop().time()

    assert virtual.run(main()) == 0.0
    assert called_off == ["slow"]


@pytest.mark.parametrize(
    ("answer", "reason"),
    [
        ("text", "float32, got str"),
        (None, "float32, got NoneType"),
        (np.zeros(2), "float32, got float64"),
        (vector(1), r"2 numbers, got shape \(1,\)"),
        (np.zeros((2, 1), np.float32), r"got shape \(2, 1\)"),
        (vector(1, np.nan), "1 of 2 numbers are not finite"),
        (vector(np.inf, np.nan), "2 of 2 numbers are not finite"),
    ],
)
def test_what_is_no_vector_costs_the_vote(answer: Any, reason: str) -> None:
    good = answering(vector(1, 1), after_s=0.1)
    quorum = read({"good": good, "bad": answering(answer), "other": good}, 2)
    assert quorum.members == ("good", "other")
    assert [one.node for one in quorum.refusals] == ["bad"]
    with pytest.raises(QuorumNotReached, match=f"wanted 3 answers, got 0.*bad: .*{reason}"):
        read({"good": good, "bad": answering(answer), "other": good}, 3)


def test_what_may_pass_is_asked_again() -> None:
    troubles = [ConnectFailed("nobody"), Overloaded("busy"), Absent("early", 4, 1)]

    async def says(_kind: str, _step: int, _round: int) -> object:
        trouble = troubles.pop(0) if troubles else vector(1, 1)
        if isinstance(trouble, BaseException):
            raise trouble
        return trouble

    assert read({"late": Said(says)}, 1).members == ("late",)


def test_patience_ends_and_tells_why() -> None:
    nodes = {
        "dead": answering(ConnectFailed("nobody listens")),
        "early": answering(Absent("early", 4, 1)),
        "good": answering(vector(1, 1)),
        "silent": answering(vector(1, 1), after_s=60.0),
    }

    async def main() -> tuple[QuorumNotReached, float]:
        with pytest.raises(QuorumNotReached) as caught:
            await fastest(nodes, KEY, 3, TERMS)
        return caught.value, asyncio.get_running_loop().time()

    error, ended_s = virtual.run(main())
    assert ended_s == TERMS.patience_s
    assert (error.wanted, error.got) == (3, 1)
    assert "model of step 4 within 10 s" in str(error)
    assert {one.node: one.reason for one in refusals_of(error)} == {
        "dead": "ConnectFailed: nobody listens",
        "early": "step 4 is early, its newest is 1",
        "silent": "deadline",
    }
    assert not is_overtaken(error)


def test_what_is_gone_says_that_others_have_gone_on() -> None:
    gone = answering(Absent("gone", 4, 30))
    with pytest.raises(QuorumNotReached) as caught:
        read({"a": gone, "b": gone, "c": answering(vector(1, 1), after_s=1.0)}, 2)
    assert is_overtaken(caught.value)


def test_a_bug_is_not_a_node_that_failed() -> None:
    with pytest.raises(ZeroDivisionError):
        read({"a": answering(ZeroDivisionError())}, 1)


def test_q_must_be_possible() -> None:
    with pytest.raises(ConfigurationError, match="q must be from 1 to 2 answers, got 3"):
        read({"a": answering(vector(1, 1))}, 3, own={"me": vector(0, 0)})


def test_liars_do_not_lead_beyond_where_honest_nodes_are() -> None:
    nodes = {
        "a": answering(Absent("early", 4, 20)),
        "b": answering(Absent("early", 4, 22)),
        "c": answering(Absent("early", 4, 1 << 50)),
        "d": answering(Absent("early", 4, 21)),
    }
    assert virtual.run(newest_step(nodes, 3, TERMS)) in (20, 21, 22)
    # One that claims nothing is not counted, and the others suffice.
    nodes["c"] = answering(vector(1, 1))
    assert virtual.run(newest_step(nodes, 3, TERMS)) == 21


def test_a_quick_liar_does_not_hold_back_one_that_rejoins() -> None:
    nodes = {
        "a": answering(Absent("early", 4, -1)),
        "b": answering(Absent("early", 4, 20), after_s=0.05),
        "c": answering(Absent("early", 4, 21), after_s=0.08),
    }
    assert virtual.run(newest_step(nodes, 2, TERMS)) == 20


def test_one_liar_alone_makes_nothing_past() -> None:
    gone, good = answering(Absent("gone", 4, 30)), answering(vector(1, 1))
    garbage, silent = answering("garbage"), answering(vector(1, 1), after_s=60.0)

    def fails(**nodes: Said) -> QuorumNotReached:
        with pytest.raises(QuorumNotReached) as caught:
            read(nodes, 3)
        return caught.value

    assert not is_past(fails(a=gone, b=silent, c=silent, d=good)), "they may still come"
    assert is_past(fails(a=gone, b=gone, c=silent, d=good))
    assert is_past(fails(a=garbage, b=gone, c=silent, d=good)), "two liars are one too many"
    assert not is_past(QuorumNotReached(wanted=3, got=0))
