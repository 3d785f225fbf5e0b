"""Asking learners before their first cycle: what is believed, what it costs, who is recorded."""

from __future__ import annotations

import asyncio
import math
from collections.abc import Callable, Mapping, Sequence
from contextlib import closing
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from axon.errors import AxonError, ConnectFailed, QuorumNotReached, RemoteError
from axon.learning.pace import FASTEST
from axon.policies import Situation
from axon.rounds.checkpoint import open_store
from axon.rounds.events import CycleBegan, Event, LearnerSettled, SurveyBegan, SurveyEnded
from axon.rounds.fleet import Peer
from axon.rounds.orchestrator import Orchestrator
from axon.rounds.settings import Run, Scheme, Survey
from axon.rounds.survey import SLOWEST, Finding, judged
from axon.testbed import virtual
from axon.values import Capability, Declined, Order, RoundRecord, Share
from tests.rounds.worlds import (
    CAPABILITY,
    DATASET,
    SHARDS,
    FakeFleet,
    Surveyed,
    good,
    run_of,
    telling,
)

TELL = Survey(shards=4, disclosed=True)
KEEP = Survey(shards=4)


def by_capability(members: Sequence[str], situation: Situation) -> dict[str, Share]:
    """An allocator that deals only to those whose capability it knows."""
    return {name: Share(shards=2) for name in members if name in situation.capabilities}


class Scene:
    """A run of fake learners with a survey, and what could be seen of it."""

    def __init__(self, *names: str, survey: Survey = TELL, **surveyed: Surveyed) -> None:
        self.fleet = FakeFleet(**{name: good(1.0) for name in names or ("a", "b", "c")})
        self.fleet.surveyed = surveyed
        self.survey = survey
        self.events: list[Event] = []
        self.capabilities: list[Mapping[str, Capability]] = []
        self.there: Callable[[str, int], bool] = lambda name, cycle: True
        self.fleet.muster = self._muster  # type: ignore[method-assign]  # Not always everybody.

    async def _muster(self, cycle: int) -> Mapping[str, Peer]:
        return {n: peer for n, peer in self.fleet.peers.items() if self.there(n, cycle)}

    def play(self, run: Run | None = None, **options: Any) -> list[RoundRecord]:
        async def main() -> list[RoundRecord]:
            allocate = self._plan if self.survey.disclosed else Scheme().allocate
            scheme = Scheme(allocate=allocate, survey=self.survey)
            orchestrator = Orchestrator(
                run or run_of(), DATASET, self.fleet, scheme, listen=self.events.append, **options
            )
            return await orchestrator.run()

        return virtual.run(main())

    def _plan(self, members: Sequence[str], situation: Situation) -> dict[str, Share]:
        self.capabilities.append(situation.capabilities)
        return by_capability(members, situation)

    @property
    def asked(self) -> list[str]:
        return [order.device for order, _ in self.fleet.asked]


def answering(answer: object, after_s: float = 0.0) -> Surveyed:
    async def answers(order: Order, disclose: bool) -> object:
        await asyncio.sleep(after_s)
        if isinstance(answer, BaseException):
            raise answer
        return answer

    return answers


async def refusing(order: Order, disclose: bool) -> object:
    return Declined(run=order.run, cycle=0, device=order.device, reason="keeps it\nto itself")


async def silent(order: Order, disclose: bool) -> object:
    return await asyncio.Event().wait()


def gaps(records: Sequence[RoundRecord]) -> list[tuple[RoundRecord, float]]:
    """Each cycle with the time that passed before it, since the one before."""
    ended_s = [0.0, *(record.ended_s for record in records)]
    return [
        (record, record.started_s - before_s)
        for record, before_s in zip(records, ended_s, strict=False)
    ]


def ends(record: RoundRecord) -> dict[str, tuple[str, str]]:
    return {device.device: (device.status, device.reason) for device in record.devices}


# --- what is asked, and what is made of it -----------------------------------------------------


def test_everybody_is_asked_once_and_the_allocator_knows_what_they_told() -> None:
    quick = replace(CAPABILITY, shards_per_s=99.0)
    scene = Scene(b=answering(quick))
    records = scene.play()
    assert scene.asked == ["a", "b", "c"]
    assert scene.capabilities == [{"a": CAPABILITY, "b": quick, "c": CAPABILITY}] * 3
    assert [set(ends(record).values()) for record in records] == [{("used", "")}] * 3
    order, disclose = scene.fleet.asked[0]
    assert (order.cycle, order.share, order.deadline_s, disclose) == (0, Share(shards=4), 1.0, True)
    assert (order.shards, order.previous_s, len(order.ticket)) == (SHARDS, None, 16)


def test_the_shards_of_a_survey_are_capped_by_those_there_are() -> None:
    scene = Scene("a", survey=Survey(shards=1000))
    scene.play()
    assert scene.fleet.asked[0][0].share == Share(shards=SHARDS)


def test_a_survey_is_served_by_the_depot_and_is_no_part_of_a_cycle() -> None:
    drawn: list[int] = []

    async def fetching(order: Order, disclose: bool) -> object:
        await asyncio.sleep(0.75)
        assert scene.fleet.depot is not None
        drawn.append(len(scene.fleet.depot.model("run", 0)))
        drawn.append(len(scene.fleet.depot.shards("run", 0, order.ticket, 4)))
        return CAPABILITY

    scene = Scene(a=fetching)
    first, second, _ = scene.play()
    assert drawn == [10, 32]
    assert (first.started_s, first.duration_s, second.started_s) == (0.75, 0.0, 0.75)


def test_whoever_keeps_it_to_himself_is_only_told_to_benchmark() -> None:
    scene = Scene(survey=KEEP, b=answering(AxonError("gone")), c=refusing)
    records = scene.play(run_of(cycles=1))
    assert {disclose for _, disclose in scene.fleet.asked} == {False}
    # Who failed finds out in its first cycle.
    assert ends(records[0]) == dict.fromkeys("abc", ("used", ""))
    assert scene.events[:1] == [SurveyBegan(("a", "b", "c"))]
    ended = scene.events[1]
    assert isinstance(ended, SurveyEnded)
    assert ended.findings == {
        "a": Finding(status="benchmarked", cycle=1),
        "b": Finding(status="failed", reason="AxonError: gone", cycle=1),
        "c": Finding(status="declined", reason="keeps it to itself", cycle=1),
    }


def test_whoever_does_not_tell_is_recorded_and_the_run_goes_on() -> None:
    scene = Scene(a=refusing, b=answering(ConnectFailed("nobody listens")))
    records = scene.play()
    for record in records:
        assert ends(record) == {
            "a": ("declined", "survey: keeps it to itself"),
            "b": ("failed", "survey: cannot be reached: nobody listens"),
            "c": ("used", ""),
        }
        assert [(device.planned_shards, device.shards) for device in record.devices] == [
            (0, 0),
            (0, 0),
            (2, 1),
        ]
    began = next(place for place, e in enumerate(scene.events) if isinstance(e, CycleBegan))
    told = [event.record for event in scene.events[began:] if isinstance(event, LearnerSettled)]
    assert [record.device for record in told[:3]] == ["a", "b", "c"]


def test_nobody_telling_is_a_quorum_not_reached_with_the_reasons() -> None:
    with pytest.raises(QuorumNotReached, match="a: survey: keeps it to itself"):
        Scene("a", a=refusing).play()


# --- hostile answers ---------------------------------------------------------------------------


def forged(**values: object) -> Capability:
    """What no constructor would let through."""
    capability = Capability(shards_per_s=1.0, bytes_per_s=1.0)
    for name, value in values.items():
        object.__setattr__(capability, name, value)
    return capability


NOT_POSSIBLE = (0.0, -1.0, 1e300, 1e-300, 2 * FASTEST, SLOWEST / 2, math.nan, math.inf, 10**400)
NO_NUMBERS = (True, "9", None, np.ones(3), [1.0])


@pytest.mark.parametrize("value", [*NOT_POSSIBLE, *NO_NUMBERS])
@pytest.mark.parametrize("name", ["shards_per_s", "bytes_per_s"])
def test_an_absurd_capability_is_not_believed(name: str, value: object) -> None:
    verdict, capability = judged(forged(**{name: value}), disclosed=True)
    assert (verdict.status, capability) == ("refused", None)
    assert verdict.reason.startswith(f"{name} must be a number from 1e-09 to 1e+15, got ")
    assert len(verdict.reason) < 300


@pytest.mark.parametrize("value", [SLOWEST, 1, 1e6, FASTEST])
def test_a_possible_capability_is_believed(value: float) -> None:
    told = Capability(shards_per_s=value, bytes_per_s=value)
    assert judged(told, disclosed=True) == (judged(CAPABILITY, disclosed=True)[0], told)


@pytest.mark.parametrize("answer", ["x" * 10**6, 7, {"shards_per_s": 1.0}, np.zeros(9), object()])
@pytest.mark.parametrize("disclosed", [True, False])
def test_anything_else_is_refused(answer: object, disclosed: bool) -> None:
    verdict, capability = judged(answer, disclosed=disclosed)
    assert (verdict.status, capability) == ("refused", None)
    assert verdict.reason.startswith(f"answered with {type(answer).__name__}")


def test_what_was_not_asked_for_is_not_kept_and_what_was_is_missed() -> None:
    assert judged(CAPABILITY, disclosed=False)[0].reason == (
        "answered with Capability, and was asked to tell nothing"
    )
    assert judged(None, disclosed=True)[0].reason == "does not tell what it can do"
    scene = Scene("a", "b", survey=KEEP, a=answering(CAPABILITY))
    scene.play()
    ended = scene.events[1]
    assert isinstance(ended, SurveyEnded)
    assert ended.findings["a"].capability is None


def test_a_decliner_cannot_fill_the_record() -> None:
    words = Declined(run="run", cycle=0, device="a", reason="\x1b[2J" + "x" * 10**6)
    verdict, _ = judged(words, disclosed=True)
    assert verdict.reason.startswith(" [2Jxxx")
    assert len(verdict.reason) < 250


# --- time, and asking again --------------------------------------------------------------------


def test_a_silent_learner_costs_a_little_more_than_the_deadline_and_only_now_and_then() -> None:
    scene = Scene(a=silent)
    records = scene.play(run_of(cycles=30))
    assert scene.asked == ["a", "b", "c", "a", "a", "a", "a"]
    begun = [record.cycle for record, before_s in gaps(records) if before_s > 0.0]
    # Of those surveys before each of which it was more cycles: 1, 2, 4 and 8 at least.
    assert begun == [1, 6, 11, 16, 26]
    assert records[-1].ended_s == pytest.approx(5 * 1.05)
    assert {record.duration_s for record in records} == {0.0}
    assert ends(records[0])["a"] == ("failed", "survey: no answer by the deadline")


def test_a_survey_is_over_when_the_last_has_answered_even_a_little_late() -> None:
    scene = Scene(a=answering(CAPABILITY, 0.25), b=answering(CAPABILITY, 1.04))
    (record,) = scene.play(run_of(cycles=1))
    assert record.started_s == 1.04
    assert set(scene.capabilities[0]) == {"a", "b", "c"}


def test_a_run_may_give_grace_but_a_survey_has_none() -> None:
    scene = Scene(a=silent)
    assert scene.play(run_of(cycles=1, grace_s=60.0))[0].started_s == 1.05


def test_whoever_tells_at_last_takes_part_from_then_on() -> None:
    calls: list[int] = []

    async def late(order: Order, disclose: bool) -> object:
        calls.append(order.cycle)
        return CAPABILITY if len(calls) == 3 else await refusing(order, disclose)

    records = Scene(a=late).play(run_of(cycles=12))
    assert [ends(record)["a"][0] for record in records] == ["declined"] * 10 + ["used"] * 2
    assert calls == [0, 0, 0]


@pytest.mark.parametrize(
    ("survey", "meanwhile"),
    [(KEEP, ("used", "")), (TELL, ("not needed", "survey: not yet asked what it can do"))],
)
def test_whoever_joins_later_is_asked_in_the_next_survey_and_not_again_when_he_comes_back(
    survey: Survey, meanwhile: tuple[str, str]
) -> None:
    scene = Scene("a", "b", survey=survey)
    scene.there = lambda name, cycle: name == "a" or cycle in (3, 6, 11)
    records = scene.play(run_of(cycles=11))
    assert scene.asked == ["a", "b"]
    assert [len(record.devices) for record in records] == [1, 1, 2, 1, 1, 2, 1, 1, 1, 1, 2]
    assert ends(records[2])["b"] == meanwhile
    assert ends(records[5])["b"] == ends(records[10])["b"] == ("used", "")


@pytest.mark.parametrize("survey", [KEEP, TELL])
def test_mute_newcomers_hold_up_every_fifth_cycle_at_most(survey: Survey) -> None:
    names = [f"mute-{cycle:02}" for cycle in range(1, 21)]
    scene = Scene("a", "b", *names, survey=survey, **dict.fromkeys(names, silent))
    scene.there = lambda name, cycle: name in ("a", "b", f"mute-{cycle:02}")
    records = scene.play(run_of(cycles=20))
    asked_before = [record.cycle for record, before_s in gaps(records) if before_s > 0.0]
    assert asked_before == [1, 6, 11, 16]
    assert records[-1].ended_s == pytest.approx(4 * 1.05)


def test_whom_a_cycle_cannot_do_without_is_asked_at_once() -> None:
    scene = Scene("a", "b", "c", "d")
    scene.there = lambda name, cycle: name in ("ab" if cycle < 3 else "bcd")
    records = scene.play(run_of(cycles=4, quorum=2))
    # In cycle 3 only b has told, and two have to answer.
    assert scene.asked == ["a", "b", "c", "d"]
    assert [len(record.with_status("used", "not needed")) for record in records] == [2, 2, 3, 3]
    with pytest.raises(QuorumNotReached, match="wanted 3 answers, got 2"):
        Scene("a", "b", "c", c=refusing).play(run_of(quorum=3))


def test_a_bug_of_a_peer_is_a_bug_and_no_finding() -> None:
    with pytest.raises(ZeroDivisionError):
        Scene(a=answering(ZeroDivisionError())).play()
    scene = Scene(a=answering(RemoteError("1/0", type_name="ZeroDivisionError")))
    assert ends(scene.play()[0])["a"] == (
        "failed",
        "survey: its learner raised ZeroDivisionError: 1/0",
    )


# --- taking up ---------------------------------------------------------------------------------


def test_what_was_found_is_known_after_a_restart(tmp_path: Path) -> None:
    odd = Capability(shards_per_s=1 / 3, bytes_per_s=12345678)
    with closing(open_store(tmp_path / "runs.db")) as store:
        Scene(a=answering(odd), b=refusing).play(run_of(cycles=1), store=store)
        saved = store.latest("run")
        assert saved is not None
        assert saved.findings == {
            "a": Finding(status="told", capability=odd, cycle=1),
            "b": Finding(status="declined", reason="keeps it to itself", cycle=1),
            "c": Finding(status="told", capability=CAPABILITY, cycle=1),
        }
        again = Scene(a=silent, b=telling, c=silent)
        again.play(run_of(cycles=6), store=store)
        assert again.asked == ["b"]
        before = {"a": odd, "c": CAPABILITY}
        assert again.capabilities == [before] * 4 + [before | {"b": CAPABILITY}]


def test_a_scheme_that_asks_for_nothing_knows_nothing_even_of_those_who_once_told(
    tmp_path: Path,
) -> None:
    seen: list[Mapping[str, Capability]] = []

    def look(members: Sequence[str], situation: Situation) -> Mapping[str, Share]:
        seen.append(situation.capabilities)
        return Scheme().allocate(members, situation)

    with closing(open_store(tmp_path / "runs.db")) as store:
        told = Scene()
        told.play(run_of(cycles=1), store=store)
        for cycles, survey in ((2, KEEP), (3, None)):
            scheme = Scheme(allocate=look, survey=survey)
            run = run_of(cycles=cycles)
            virtual.run(Orchestrator(run, DATASET, told.fleet, scheme, store=store).run())
    assert seen == [{}, {}]
