"""Waiting for answers: the quorum, the deadline, the linger, and peers that misbehave."""

from __future__ import annotations

import asyncio
from collections.abc import Coroutine
from typing import Any

import numpy as np
import pytest

from axon.errors import (
    AxonError,
    ConnectFailed,
    ConnectionLost,
    DeadlineExceeded,
    RemoteError,
)
from axon.rounds.collect import Arrival, Collector, reason_of
from axon.rounds.judge import Verdict
from axon.testbed import virtual
from tests.rounds.worlds import order_of, update_for

DEADLINE_S = 10.0
UPDATE = update_for(order_of(), np.zeros(1, np.float32))


def judged(name: str, answer: object) -> Verdict:
    if answer == "bad":
        return Verdict("refused", "bad")
    return Verdict("used", "", UPDATE, np.zeros(1, np.float32))


async def after(delay_s: float, answer: object = "good") -> object:
    await asyncio.sleep(delay_s)
    if isinstance(answer, BaseException):
        raise answer
    return answer


async def stubborn(for_s: float, answer: object = "good") -> object:
    """Never answers, and takes that long to obey when it is cancelled."""
    try:
        await asyncio.Event().wait()
    finally:
        await asyncio.sleep(for_s)
    return answer


class Scene:
    """What came of some calls, when it was over, and who was heard."""

    def __init__(self, quorum: int | None = None, grace_s: float = 0.0) -> None:
        self.quorum = quorum
        self.grace_s = grace_s
        self.took_s = 0.0
        self.heard: list[tuple[str, str]] = []
        self.left: set[asyncio.Task[Any]] = set()

    def run(self, **calls: Coroutine[Any, Any, object]) -> dict[str, Arrival]:
        return virtual.run(self._run(calls))

    async def _run(self, calls: dict[str, Coroutine[Any, Any, object]]) -> dict[str, Arrival]:
        loop = asyncio.get_running_loop()
        try:
            collector = Collector(calls, judged, quorum=self.quorum, heard=self.hear)
            return await collector.collect(DEADLINE_S, self.grace_s)
        finally:
            self.took_s = loop.time()
            self.left = asyncio.all_tasks() - {_this_task()}

    def hear(self, name: str, arrival: Arrival) -> None:
        self.heard.append((name, arrival.verdict.status))


def _this_task() -> asyncio.Task[Any]:
    task = asyncio.current_task()
    assert task is not None
    return task


def statuses(arrivals: dict[str, Arrival]) -> dict[str, str]:
    return {name: arrival.verdict.status for name, arrival in arrivals.items()}


def test_without_a_quorum_all_are_waited_for() -> None:
    scene = Scene()
    arrivals = scene.run(a=after(3), b=after(1), c=after(2, "bad"))
    assert statuses(arrivals) == {"a": "used", "b": "used", "c": "refused"}
    assert {name: arrival.answered_s for name, arrival in arrivals.items()} == {
        "a": 3.0,
        "b": 1.0,
        "c": 2.0,
    }
    assert scene.took_s == 3.0
    assert scene.heard == [("b", "used"), ("c", "refused"), ("a", "used")]


def test_nobody_is_waited_for_at_all() -> None:
    scene = Scene()
    assert scene.run() == {}
    assert scene.took_s == 0.0


def test_the_quorum_ends_a_cycle_at_once() -> None:
    scene = Scene(quorum=2)
    arrivals = scene.run(a=after(5), b=after(2), c=after(1), d=asyncio.Event().wait())
    assert statuses(arrivals) == {"a": "not needed", "b": "used", "c": "used", "d": "not needed"}
    assert arrivals["a"] == Arrival(Verdict("not needed", "the quorum was there"), None)
    assert scene.took_s == 2.0
    assert scene.heard[-2:] == [("a", "not needed"), ("d", "not needed")]
    assert scene.left == set()


def test_refused_and_failed_answers_are_no_part_of_a_quorum() -> None:
    scene = Scene(quorum=2)
    arrivals = scene.run(a=after(1, "bad"), b=after(1, AxonError("x")), c=after(2), d=after(3))
    assert statuses(arrivals) == {"a": "refused", "b": "failed", "c": "used", "d": "used"}
    assert scene.took_s == 3.0


def test_fewer_than_the_quorum_are_waited_for_until_they_have_all_answered() -> None:
    scene = Scene(quorum=5)
    assert statuses(scene.run(a=after(4), b=after(2))) == {"a": "used", "b": "used"}
    assert scene.took_s == 4.0


def test_an_answer_within_the_linger_is_late_and_not_used() -> None:
    scene = Scene()
    arrivals = scene.run(a=after(9.9), b=after(10.2), c=after(10.3, "bad"), d=after(11))
    assert statuses(arrivals) == {"a": "used", "b": "late", "c": "refused", "d": "failed"}
    assert arrivals["b"].verdict == Verdict("late", "came after the deadline", UPDATE, None)
    assert arrivals["b"].answered_s == 10.2
    assert arrivals["d"] == Arrival(Verdict("failed", "no answer by the deadline"), None)
    assert scene.took_s == pytest.approx(10.5)


@pytest.mark.parametrize(("at_s", "end"), [(10.0, "used"), (14.9, "used"), (15.4, "late")])
def test_with_a_grace_answers_are_used_until_it_ends_and_late_for_a_twentieth_more(
    at_s: float, end: str
) -> None:
    scene = Scene(grace_s=5.0)
    arrivals = scene.run(a=after(at_s), b=asyncio.Event().wait())
    assert statuses(arrivals) == {"a": end, "b": "failed"}
    assert scene.took_s == pytest.approx(15.5)


def test_late_answers_do_not_make_a_quorum() -> None:
    scene = Scene(quorum=2)
    arrivals = scene.run(a=after(1), b=after(10.1), c=after(10.2), d=asyncio.Event().wait())
    assert statuses(arrivals) == {"a": "used", "b": "late", "c": "late", "d": "failed"}


def test_the_linger_ends_when_the_last_has_come() -> None:
    scene = Scene()
    scene.run(a=after(1), b=after(10.2))
    assert scene.took_s == pytest.approx(10.2)


@pytest.mark.parametrize("for_s", [0.1, 0.49, 3.0, 1e6])
def test_a_cycle_ends_in_time_whatever_its_peers_do(for_s: float) -> None:
    scene = Scene()
    arrivals = scene.run(
        a=after(1), b=stubborn(for_s), c=stubborn(for_s, AxonError("too late")), d=after(1e9)
    )
    assert statuses(arrivals) == {"a": "used", "b": "failed", "c": "failed", "d": "failed"}
    assert scene.took_s <= 1.1 * DEADLINE_S + 1e-9
    assert (scene.left == set()) == (for_s < 0.5)


def test_a_stubborn_peer_holds_a_quorum_up_for_a_twentieth_at_most() -> None:
    scene = Scene(quorum=1)
    assert statuses(scene.run(a=after(1), b=stubborn(60))) == {"a": "used", "b": "not needed"}
    assert scene.took_s == pytest.approx(1.5)


def test_a_call_that_ends_badly_after_it_was_called_off_is_not_reported_as_lost() -> None:
    complaints: list[Any] = []

    async def main() -> None:
        asyncio.get_running_loop().set_exception_handler(lambda _, what: complaints.append(what))
        calls = {"a": after(1), "b": _raising_when_cancelled()}
        await Collector(calls, judged, quorum=1).collect(DEADLINE_S)
        await asyncio.sleep(1)

    virtual.run(main())
    assert complaints == []


async def _raising_when_cancelled() -> object:
    try:
        return await asyncio.Event().wait()
    except asyncio.CancelledError:
        raise LookupError("an error of its own") from None


def test_a_peer_that_cancels_itself_has_failed() -> None:
    arrivals = Scene().run(a=after(1, asyncio.CancelledError()), b=after(2))
    assert arrivals["a"] == Arrival(Verdict("failed", "the call was cancelled"), None)
    assert arrivals["b"].verdict.status == "used"


@pytest.mark.parametrize("quorum", [None, 1])
@pytest.mark.parametrize("when_s", [1.0, 10.2])
def test_a_bug_is_raised_and_leaves_nothing_behind(quorum: int | None, when_s: float) -> None:
    scene = Scene(quorum)
    with pytest.raises(ZeroDivisionError):
        scene.run(a=after(when_s, ZeroDivisionError()), b=after(9e9), c=stubborn(0.1))
    assert scene.took_s == pytest.approx(when_s + 0.1)
    assert scene.left == set()


def test_a_bug_at_the_moment_of_the_quorum_is_not_lost() -> None:
    with pytest.raises(ZeroDivisionError):
        Scene(quorum=1).run(a=after(1), b=after(1, ZeroDivisionError()), c=after(2))


@pytest.mark.parametrize("when_s", [1.0, 11.0])
def test_a_bug_of_the_judge_or_of_a_listener_ends_the_cycle(when_s: float) -> None:
    def bug(*_: object) -> Any:
        raise ZeroDivisionError

    async def main(**options: Any) -> None:
        options = {"judge": judged, **options}
        await Collector({"a": after(when_s)}, **options).collect(DEADLINE_S)

    with pytest.raises(ZeroDivisionError):
        virtual.run(main(heard=bug))
    if when_s < DEADLINE_S:
        with pytest.raises(ZeroDivisionError):
            virtual.run(main(judge=bug))


def test_cancelling_the_cycle_leaves_no_task_behind() -> None:
    scene = Scene()

    async def main() -> None:
        calls = {"a": after(50), "b": asyncio.Event().wait(), "c": stubborn(0.2), "d": after(0.5)}
        task = asyncio.ensure_future(scene._run(calls))
        await asyncio.sleep(1)
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
        assert asyncio.all_tasks() == {_this_task()}
        assert asyncio.get_running_loop().time() == pytest.approx(1.2)

    virtual.run(main())
    assert scene.heard == [("d", "used")]


@pytest.mark.parametrize(
    ("error", "reason"),
    [
        (DeadlineExceeded("no answer from x"), "no answer by the deadline"),
        (ConnectFailed("nobody listens"), "cannot be reached: nobody listens"),
        (ConnectionLost("reset"), "the connection was lost: reset"),
        (RemoteError("7", type_name="KeyError"), "its learner raised KeyError: 7"),
        (AxonError("odd"), "AxonError: odd"),
        (RemoteError("\x1b[2J\n", type_name="E\0"), "its learner raised E :  [2J "),
    ],
)
def test_why_a_call_failed(error: AxonError, reason: str) -> None:
    assert reason_of(error) == reason
    arrivals = Scene().run(a=after(1, error))
    assert arrivals["a"] == Arrival(Verdict("failed", reason), None)


def test_a_device_cannot_fill_the_record_with_its_error() -> None:
    assert len(reason_of(RemoteError("x" * 10**6))) < 250
