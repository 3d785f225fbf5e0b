"""Whatever befalls orchestrators that stand by one run: each cycle is saved once, in order."""

from __future__ import annotations

import asyncio
from itertools import pairwise

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from axon.errors import Superseded
from axon.learning.nets import initial
from axon.rounds.events import TookOver
from axon.testbed import virtual
from tests.rounds.leaders import HEARTBEAT_S, STEP, Actor, Scene
from tests.rounds.worlds import SPEC

NAMES = ("a", "b", "c")
CYCLES = 8

Fault = tuple[float, str, str]
"""After so many seconds of quiet, this befalls whoever has that name by then."""

FAULTS = st.lists(
    st.tuples(
        st.floats(0.0, 3.0),
        st.sampled_from(NAMES),
        st.sampled_from(["kill", "start", "pause", "resume", "cut", "deaf", "whole"]),
    ),
    max_size=12,
)


def befall(scene: Scene, actors: dict[str, Actor], name: str, what: str) -> None:
    actor = actors[name]
    if what == "start":
        if actor.task.done():
            actors[name] = Actor(f"{name}{len(scene.ledger.events)}", scene, eager=True)
    elif what in ("kill", "pause", "resume"):
        getattr(actor, what)()
    else:
        actor.link(what)


async def played(scene: Scene, faults: list[Fault]) -> None:
    """The faults one after the other; then one more comes, and nothing happens to it."""
    actors = {name: Actor(name, scene, eager=True) for name in NAMES}
    everybody = list(actors.values())
    for quiet_s, name, what in faults:
        await asyncio.sleep(quiet_s)
        befall(scene, actors, name, what)
        everybody += [actor for actor in actors.values() if actor not in everybody]
    last = Actor("last", scene, eager=True)
    # One that is paused or cut off for good must not keep the others from ending the run.
    records = await asyncio.wait_for(last.task, 200.0)
    assert [record.cycle for record in records] == list(range(1, CYCLES + 1))
    assert last.standby.parameters == pytest.approx(initial(SPEC, 7) + CYCLES * STEP)
    for actor in everybody:
        actor.link("whole")
        actor.resume()
    ended = await asyncio.gather(*(actor.task for actor in everybody), return_exceptions=True)
    for outcome in ended:
        assert isinstance(outcome, (list, Superseded, asyncio.CancelledError)), outcome


@settings(max_examples=25, deadline=None, derandomize=True)
@given(FAULTS, st.sampled_from([0.3, 0.9]))
@example([(0.5, "a", "deaf"), (0.5, "a", "whole"), (1.0, "a", "kill")], 0.3)
@example([(0.7, "a", "pause"), (2.5, "a", "resume"), (0.1, "b", "pause")], 0.3)
def test_every_cycle_is_saved_once_by_whoever_leads(faults: list[Fault], took_s: float) -> None:
    scene = Scene(CYCLES, took_s)
    virtual.run(played(scene, faults))
    scene.check()
    leads = [event for _, _, event in scene.ledger.events if isinstance(event, TookOver)]
    assert all(one.epoch < other.epoch for one, other in pairwise(leads))
    assert all(one.cycles <= other.cycles for one, other in pairwise(leads))


@pytest.mark.slow
@settings(max_examples=120, deadline=None, derandomize=True)
@given(FAULTS, st.floats(0.01, 0.95))
def test_the_same_for_many_more_schedules(faults: list[Fault], took_s: float) -> None:
    scene = Scene(CYCLES, took_s)
    virtual.run(played(scene, faults))
    scene.check()


def test_twenty_deaths_in_one_run() -> None:
    async def main(scene: Scene) -> None:
        leader = Actor("0", scene, eager=True)
        for number in range(1, 21):
            standby = Actor(str(number), scene)
            await asyncio.sleep(0.37 * number % 1.7)
            leader.kill()
            await asyncio.sleep(2 * HEARTBEAT_S)
            assert len(scene.ledger.when(TookOver, str(number))) == 1
            leader = standby
        await leader.task

    scene = Scene(80)
    virtual.run(main(scene))
    scene.check()
    assert scene.ledger.saved[-1][0] == 21
