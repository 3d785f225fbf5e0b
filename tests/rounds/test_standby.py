"""Standbys in virtual time: deaths, partitions and pauses, and one leader at a time throughout."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Awaitable, Callable, Iterator
from itertools import count

import pytest

from axon.errors import (
    AxonError,
    ConfigurationError,
    QuorumNotReached,
    StoreSilent,
    Superseded,
)
from axon.learning.nets import initial
from axon.rounds.events import CycleBegan, StandsBy, StoreLost, TookOver
from axon.rounds.leadership import Leadership
from axon.rounds.lease import AGAIN
from axon.rounds.orchestrator import Orchestrator
from axon.rounds.standby import UNLED, Candidacy, own_name
from axon.testbed import virtual
from tests.rounds.leaders import HEARTBEAT_S, STEP, Actor, Scene
from tests.rounds.stores import made
from tests.rounds.worlds import DATASET, SPEC, FakeFleet, good


def play(play_out: Callable[[Scene, Actor, Actor], Awaitable[None]], **changes: int) -> Scene:
    """One that leads and one that stands by."""
    scene = Scene(**changes)

    async def main() -> None:
        first = Actor("first", scene, eager=True)
        await asyncio.sleep(0.1)
        await play_out(scene, first, Actor("second", scene))

    virtual.run(main())
    return scene


@pytest.mark.parametrize("after_s", [0.1 * tick for tick in range(1, 25)])
def test_whenever_the_leader_dies_the_run_goes_on_within_two_heartbeats(after_s: float) -> None:
    async def play_out(scene: Scene, first: Actor, second: Actor) -> None:
        await asyncio.sleep(after_s)
        first.kill()
        died_s = asyncio.get_running_loop().time()
        records = await second.task
        (led_s,) = scene.ledger.when(TookOver, "second")
        assert led_s - died_s <= 2 * HEARTBEAT_S
        began_s = scene.ledger.when(CycleBegan, "second")[0]
        assert began_s == led_s, "nothing is left to prepare"
        assert [record.cycle for record in records] == [1, 2, 3, 4, 5, 6]
        assert second.standby.parameters == pytest.approx(initial(SPEC, 7) + 6 * STEP)

    scene = play(play_out)
    scene.check()
    assert {epoch for epoch, _ in scene.ledger.saved} <= {1, 2}


def test_a_standby_disturbs_nobody_and_ends_with_the_run() -> None:
    async def play_out(scene: Scene, first: Actor, second: Actor) -> None:
        mine, theirs = await asyncio.gather(first.task, second.task)
        assert mine == theirs == scene.store.records("run")
        assert second.standby.parameters.tolist() == first.standby.parameters.tolist()

    scene = play(play_out)
    scene.check()
    assert scene.ledger.when(TookOver, "second") == []


def test_a_standby_that_comes_first_waits_for_the_first_sign_of_a_leader() -> None:
    async def main() -> None:
        scene = Scene(cycles=2)
        early = Actor("early", scene)
        await asyncio.sleep((UNLED - 1) * HEARTBEAT_S)
        told = [event for _, _, event in scene.ledger.events]
        assert told == [StandsBy(Leadership())], "that nobody leads is said at once"
        first = Actor("first", scene, eager=True)
        await asyncio.gather(early.task, first.task)
        assert scene.ledger.when(TookOver, "early") == []
        assert {epoch for epoch, _ in scene.ledger.saved} == {1}

    virtual.run(main())


def test_a_run_whose_first_leader_died_before_it_led_is_led_all_the_same() -> None:
    async def main() -> None:
        scene = Scene(cycles=2)
        others = [Actor(f"other-{number}", scene) for number in range(3)]
        await asyncio.gather(*(actor.task for actor in others))
        (led_s,) = (at_s for each in others for at_s in scene.ledger.when(TookOver, each.name))
        assert UNLED <= led_s / HEARTBEAT_S < UNLED + 1
        scene.check()

    virtual.run(main())


def test_a_run_that_goes_on_without_a_leader_is_left_alone() -> None:
    async def main() -> None:
        scene = Scene(cycles=2)
        scene.store.save(*made(1))
        early = Actor("early", scene)
        await asyncio.sleep(10 * UNLED * HEARTBEAT_S)
        assert scene.ledger.when(TookOver, "early") == []
        early.kill()

    virtual.run(main())


def test_what_is_prepared_before_leading_outlasts_a_silent_store() -> None:
    scene, tries = Scene(cycles=2), list[float]()

    def prepare() -> None:
        tries.append(asyncio.get_running_loop().time())
        if len(tries) < 4:
            raise StoreSilent("no answer")

    async def main() -> None:
        first = Actor("first", scene, eager=True, prepare=prepare)
        assert len(await first.task) == 2
        (led_s,) = scene.ledger.when(TookOver, "first")
        assert led_s == tries[-1] == pytest.approx(3 * AGAIN * HEARTBEAT_S)
        assert scene.ledger.when(StoreLost, "first")[0] == tries[0]

    virtual.run(main())
    scene.check()


def test_who_comes_to_a_run_that_is_over_gets_its_records() -> None:
    async def play_out(scene: Scene, first: Actor, second: Actor) -> None:
        records = await first.task
        late = Actor("late", scene, eager=True)
        assert await late.task == records
        assert late.standby.parameters.tolist() == first.standby.parameters.tolist()

    assert play(play_out, cycles=2).ledger.when(TookOver, "late") == []


def test_one_that_was_paused_steps_down_when_it_wakes() -> None:
    async def play_out(scene: Scene, first: Actor, second: Actor) -> None:
        await asyncio.sleep(1.0)
        first.pause()
        await asyncio.sleep(3.0)
        assert scene.ledger.when(TookOver, "second")
        first.resume()
        with pytest.raises(Superseded, match=r"led by second as epoch 2, .* as epoch 1") as caught:
            await first.task
        assert (caught.value.epoch, caught.value.by) == (1, 2)
        await second.task

    play(play_out).check()


def test_one_without_its_store_advances_nothing_and_steps_down_when_it_is_back() -> None:
    async def play_out(scene: Scene, first: Actor, second: Actor) -> None:
        await asyncio.sleep(1.0)
        first.link("cut")
        await asyncio.sleep(3.0)
        begun = scene.ledger.when(CycleBegan, "first")
        assert max(begun) <= 1.0 + 0.7, "the cycle under way was its last"
        assert not first.task.done(), "it keeps trying"
        first.link("whole")
        with pytest.raises(Superseded):
            await first.task
        await second.task

    play(play_out, cycles=8).check()


def test_a_store_that_nobody_reaches_for_a_while_changes_no_leader() -> None:
    async def play_out(scene: Scene, first: Actor, second: Actor) -> None:
        await asyncio.sleep(1.0)
        for state in ("cut", "whole"):
            for actor in (first, second):
                actor.link(state)
            await asyncio.sleep(20.0)
        await asyncio.gather(first.task, second.task)

    scene = play(play_out)
    scene.check()
    assert scene.ledger.when(TookOver, "second") == []


def test_a_standby_without_the_store_leaves_the_leader_alone() -> None:
    async def play_out(scene: Scene, first: Actor, second: Actor) -> None:
        second.link("cut")
        await asyncio.sleep(2.5)
        second.link("whole")
        await asyncio.gather(first.task, second.task)

    scene = play(play_out)
    scene.check()
    assert scene.ledger.when(TookOver, "second") == []


def test_a_standby_that_slept_gives_the_leader_time_to_be_seen() -> None:
    async def play_out(scene: Scene, first: Actor, second: Actor) -> None:
        await asyncio.sleep(0.5)
        # Both at once, as when a whole machine is suspended.
        for actor in (first, second):
            actor.pause()
        await asyncio.sleep(50.0)
        for actor in (second, first):
            actor.resume()
        await asyncio.gather(first.task, second.task)

    scene = play(play_out)
    scene.check()
    assert scene.ledger.when(TookOver, "second") == []


def test_answers_that_are_lost_save_nothing_twice() -> None:
    async def play_out(scene: Scene, first: Actor, second: Actor) -> None:
        await asyncio.sleep(0.3)
        first.link("deaf")
        await asyncio.sleep(0.4)
        assert len(scene.ledger.saved) == 1, "it was kept, and nobody knows"
        assert scene.ledger.when(StoreLost, "first")
        first.link("whole")
        await asyncio.gather(first.task, second.task)

    scene = play(play_out)
    scene.check()
    assert {epoch for epoch, _ in scene.ledger.saved} == {1}


def test_of_many_standbys_one_leads() -> None:
    async def play_out(scene: Scene, first: Actor, second: Actor) -> None:
        others = [second, *(Actor(f"other-{number}", scene) for number in range(5))]
        await asyncio.sleep(1.0)
        first.kill()
        ended = await asyncio.gather(*(actor.task for actor in others))
        assert all(len(records) == 6 for records in ended)
        assert len([actor for actor in others if scene.ledger.when(TookOver, actor.name)]) == 1

    play(play_out).check()


def test_no_clock_on_the_wall_matters(monkeypatch: pytest.MonkeyPatch) -> None:
    jumps: Iterator[int] = count()
    monkeypatch.setattr(time, "time", lambda: 1e9 * (-1) ** next(jumps))

    async def play_out(scene: Scene, first: Actor, second: Actor) -> None:
        await asyncio.sleep(1.3)
        first.kill()
        await second.task

    scene = play(play_out)
    scene.check()
    assert scene.ledger.when(TookOver, "second") <= [1.4 + 2 * HEARTBEAT_S]


def test_a_leader_whose_learners_are_gone_is_replaced_by_one_that_reaches_them() -> None:
    async def play_out(scene: Scene, first: Actor, second: Actor) -> None:
        await asyncio.sleep(1.0)
        first.fleet.peers = {}
        with pytest.raises(QuorumNotReached):
            await first.task
        assert len(await second.task) == 6

    play(play_out).check()


def test_a_run_that_is_led_is_not_advanced_beside_its_leader() -> None:
    async def play_out(scene: Scene, first: Actor, second: Actor) -> None:
        await asyncio.sleep(0.7)
        alone = Orchestrator(scene.run, DATASET, FakeFleet(a=good(1.0)), store=scene.store)
        with pytest.raises(Superseded, match=r"without leading it .*stand by"):
            await alone.run()
        await asyncio.gather(first.task, second.task)

    play(play_out).check()


def test_a_damaged_store_is_an_error_and_not_a_silence() -> None:
    async def play_out(scene: Scene, first: Actor, second: Actor) -> None:
        await asyncio.sleep(1.0)
        first.kill()
        scene.store._connection.execute("UPDATE vectors SET digest = 'of others'")
        with pytest.raises(AxonError, match="cannot be taken up after cycle 1"):
            await second.task

    play(play_out)


def test_one_that_is_started_again_under_its_name_does_not_take_itself_for_the_other() -> None:
    scene = Scene()

    async def main() -> None:
        first = Actor("desk", scene, eager=True)
        await asyncio.sleep(1.0)
        first.pause()
        again = Actor("desk", scene, eager=True)
        await asyncio.sleep(HEARTBEAT_S)
        assert len(scene.ledger.when(TookOver, "desk")) == 1
        assert len(await again.task) == 6
        first.resume()
        with pytest.raises(Superseded, match="epoch 2"):
            await first.task

    virtual.run(main())
    scene.check()
    assert {epoch for epoch, _ in scene.ledger.saved} == {1, 2}


def test_names_are_checked_and_own_ones_differ() -> None:
    assert own_name() != own_name()
    for wrong in ("", "a\n", "x" * 201):
        with pytest.raises(ConfigurationError, match="printable"):
            Candidacy(holder=wrong)
    with pytest.raises(ConfigurationError, match="heartbeat_s"):
        Candidacy(heartbeat_s=0.0)
