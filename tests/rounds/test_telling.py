"""Asking learners for their states: what is believed, how long is waited, what gets out."""

from __future__ import annotations

import asyncio
import math
from collections.abc import Callable, Sequence
from contextlib import AsyncExitStack
from dataclasses import dataclass
from typing import Any

import numpy as np
import pytest

from axon.allocation.equal import Equal
from axon.devices.states import StateEstimate
from axon.errors import ConnectionLost
from axon.learning.experience import kind_of
from axon.learning.learner import PRIVATE
from axon.rounds.collect import LINGER
from axon.rounds.settings import Scheme
from axon.rounds.telling import ASK_S, MOST_STATES, Telling, ask_states, judged
from axon.testbed import virtual
from axon.values import Declined, RoundRecord
from tests.rounds.test_privacy import DAB, Transcript, leaks
from tests.rounds.test_remote import Hostile, fit
from tests.rounds.worlds import NAMES, SHARD_SAMPLES, NetworkScene

KINDS = ("line", "net")


def state(probability: Any = 1.0, bytes_per_s: Any = 1e6, **rates: Any) -> StateEstimate:
    return StateEstimate(
        probability=probability, bytes_per_s=bytes_per_s, shards_per_s=rates or {"line": 2.0}
    )


def declined(reason: Any) -> Declined:
    return Declined(run="", cycle=0, device="a", reason=reason)


@pytest.mark.parametrize(
    "answer",
    [
        (),
        (state(),),
        (state(0.25), state(0.75)),
        [state(0.5, None), state(0.5, None)],
        (state(1, 7, line=1, net=1e15),),
        (state(0.0), state(1.0)),
    ],
)
def test_what_a_learner_may_tell(answer: Any) -> None:
    verdict, states = judged(answer, KINDS)
    assert verdict.status == "used"
    assert states == tuple(answer)


def test_probabilities_are_made_to_add_up() -> None:
    _, states = judged(tuple(state((1.0 + 5e-7) / 3) for _ in range(3)), KINDS)
    assert math.fsum(one.probability for one in states) == pytest.approx(1.0, abs=1e-15)


class Odd(StateEstimate):
    """Not quite a state."""


HOSTILE: dict[str, Any] = {
    "nothing": None,
    "a text": "quick",
    "a mapping": {"probability": 1.0},
    "an array": np.ones(3),
    "other things": ("state",),
    "a class of its own": (Odd(probability=1.0, bytes_per_s=1.0, shards_per_s={}),),
    "thousands of states": tuple(state(1e-4) for _ in range(10**4)),
    "more than some": tuple(state(1 / 17) for _ in range(MOST_STATES + 1)),
    "thousands of tasks": (state(**{f"t{number}": 1.0 for number in range(5000)}),),
    "a task not asked about": (state(secret=1.0),),
    "no name of a task": (StateEstimate(probability=1.0, bytes_per_s=1.0, shards_per_s={7: 1.0}),),  # type: ignore[dict-item]
    "a list of rates": (StateEstimate(probability=1.0, bytes_per_s=1.0, shards_per_s=[1.0]),),  # type: ignore[arg-type]
    "not a number": (state(math.nan),),
    "too likely": (state(2.0),),
    "unlikely": (state(0.5),),
    "less than nothing": (state(-0.5), state(1.5)),
    "a text for a number": (state("1.0"),),
    "true": (state(True),),
    "a rate of nothing": (state(line=0.0),),
    "a rate of no number": (state(line=math.nan),),
    "endless": (state(line=math.inf),),
    "1e300": (state(1.0, 1e300),),
    "a large whole number": (state(1.0, 10**5000),),
    "an array for a rate": (state(line=np.ones(2)),),
    "a rate of another kind": (state(line=None),),
    "only one has a bandwidth": (state(0.5), state(0.5, None)),
    "only one has a rate": (state(0.5), state(0.5, line=1.0, net=1.0)),
}


@pytest.mark.parametrize("kind", HOSTILE)
def test_anything_else_is_refused_with_the_reason(kind: str) -> None:
    verdict, states = judged(HOSTILE[kind], KINDS)
    assert (verdict.status, states) == ("refused", ())
    assert 0 < len(verdict.reason) < 400
    assert verdict.reason.isprintable()


def test_one_that_declines_does_so_in_few_words() -> None:
    verdict, states = judged(declined("\x1b[2J" + "x" * 10**6), KINDS)
    assert (verdict.status, states) == ("declined", ())
    assert len(verdict.reason) < 400


# --- asking ------------------------------------------------------------------------------------


@dataclass
class Teller:
    answer: Any
    after_s: float = 0.0

    async def states(self, kinds: Sequence[str]) -> object:
        await asyncio.sleep(self.after_s)
        if isinstance(self.answer, Exception):
            raise self.answer
        return self.answer


def asked(before: dict[str, Telling] | None = None, **tellers: Teller) -> Any:
    """What came of it, and how long it took."""

    async def main() -> tuple[dict[str, Telling], float]:
        found = await ask_states(tellers, KINDS, before or {}, 7)
        return found, asyncio.get_running_loop().time()

    return virtual.run(main())


def test_one_that_is_silent_is_waited_for_as_long_as_a_question_lasts() -> None:
    told, took_s = asked(a=Teller((state(),), 0.3), b=Teller((), math.inf))
    assert told["a"] == Telling(states=(state(),), cycle=7)
    assert told["b"] == Telling(reason="no answer by the deadline", cycle=7, misses=1)
    assert took_s <= ASK_S * (1 + 2 * LINGER)


def test_one_that_cannot_be_asked_is_taken_for_what_it_told_and_one_that_declines_is_not() -> None:
    before = {name: Telling(states=(state(),), cycle=2) for name in ("a", "b", "c")}
    told, _ = asked(
        before, a=Teller(ConnectionLost("gone")), b=Teller(declined("no")), c=Teller(())
    )
    assert (told["a"].states, told["a"].misses) == ((state(),), 1)
    assert told["b"] == Telling(reason="no", cycle=7, misses=1)
    assert told["c"] == Telling(cycle=7)
    again, _ = asked(told, a=Teller("lies"))
    assert (again["a"].states, again["a"].misses) == ((state(),), 2)


def test_one_is_asked_again_after_some_cycles_and_seldom_if_it_did_not_tell() -> None:
    due = [cycle for cycle in range(1, 60) if Telling(cycle=2).is_due(cycle, 5)]
    assert due[0] == 7
    missed = [cycle for cycle in range(1, 60) if Telling(cycle=2, misses=3).is_due(cycle, 5)]
    assert missed[0] == 42


# --- over the network ----------------------------------------------------------------------------


class Asking:
    """After a run, everybody is asked for its states."""

    told: dict[str, Telling]
    kinds: tuple[str, ...]

    async def main(self: Any, names: Sequence[str]) -> list[RoundRecord]:
        self.kinds = (kind_of(self.run.spec, SHARD_SAMPLES),)
        records: list[RoundRecord] = await super().main(names)  # type: ignore[misc]
        async with AsyncExitStack() as stack:
            for name in names:
                await stack.enter_async_context(self.served(name))
            tellers = await self.fleet().tellers([*NAMES, "stranger"], 1)
            self.told = await ask_states(tellers, self.kinds, {}, 1)
        return records


class AskedScene(Asking, NetworkScene):
    pass


class AskedTranscript(Asking, Transcript):
    pass


def test_learners_that_agree_tell_what_they_saw() -> None:
    transcript = AskedTranscript(Scheme(allocate=Equal(shards=6)))
    assert set(transcript.told) == set(NAMES)
    for telling in transcript.told.values():
        (one,) = telling.states
        assert one.probability == 1.0
        assert set(one.shards_per_s) == set(transcript.kinds)
    assert any("StateEstimate" in leak for leak in leaks(transcript))


def test_learners_that_do_not_agree_let_out_nothing_of_their_states() -> None:
    transcript = AskedTranscript(DAB, discloses=False)
    assert any("states" in message.target for message in transcript.kept)
    assert all(len(secrets.numbers()) > 40 for secrets in transcript.secrets.values())
    assert {telling.reason for telling in transcript.told.values()} == {PRIVATE}
    assert leaks(transcript) == []


class Telltale(Hostile):
    """Trains as it should, and tells of its states what the test says."""

    def __init__(self, name: str, answer: Callable[[Any], Any]) -> None:
        super().__init__({"name": name}, fit)
        self._answer = answer

    async def states(self, kinds: Any) -> Any:
        answer = self._answer(kinds)
        return await answer if asyncio.iscoroutine(answer) else answer


def boom(kinds: Any) -> Any:
    raise KeyError("\x1b[2J" + "x" * 10**5)


ANSWERS: dict[str, Callable[[Any], Any]] = {
    "thousands": lambda kinds: tuple(state(1e-4, **{kinds[0]: 1.0}) for _ in range(10**4)),
    "1e300": lambda kinds: (state(1.0, 1e300, **{kinds[0]: 1.0}),),
    "much": lambda kinds: np.zeros(1 << 20),
    "an error": boom,
    "silence": lambda kinds: asyncio.Event().wait(),
}


@pytest.mark.parametrize("kind", ANSWERS)
def test_a_hostile_answer_costs_its_sender_alone(kind: str) -> None:
    scene = AskedScene(cycles=1)
    scene.services["pi-1"] = Telltale("pi-1", ANSWERS[kind])
    scene.play()
    assert scene.told["pi-1"].states == ()
    assert 0 < len(scene.told["pi-1"].reason) < 400
    assert all(scene.told[name].misses == (name == "pi-1") for name in NAMES)


def test_a_worker_of_before_states_is_no_worse_off() -> None:
    scene = AskedScene(cycles=1)
    scene.services["pi-1"] = Hostile({"name": "pi-1"}, fit)
    scene.play()
    assert (scene.told["pi-1"].states, scene.told["pi-1"].misses) == ((), 1)
    assert "states" in scene.told["pi-1"].reason
