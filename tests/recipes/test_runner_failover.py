"""Recipes that are led: what a primary and a standby keep, and what cannot be led."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from contextlib import closing
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from axon.errors import ConfigurationError, RunExists, StoreSilent, Superseded
from axon.recipes import runner
from axon.recipes.keeping import MODEL, RECORDS, Keeping, begun_as, settings_of
from axon.recipes.runner import run_recipe
from axon.recipes.settings import Recipe
from axon.report.records import read
from axon.rounds.checkpoint import open_store
from axon.rounds.events import CycleEnded, Event, StandsBy, StoreLost, TookOver
from axon.rounds.sqlite import SqliteStore
from axon.rounds.standby import Candidacy
from axon.testbed import virtual
from axon.values import RoundRecord
from tests.rounds.worlds import FakeFleet, good

RECIPE = Recipe(
    dataset="synthetic", world="deployed", hosts=("pi",), own_data=True, cycles=4, seed=5
)
PRIMARY, SECOND = Candidacy(holder="one", eager=True), Candidacy(holder="two")


class Killed(BaseException):
    """What ends a process: nobody catches it."""


class World:
    """Real devices, as far as a recipe can tell, in virtual time."""

    def run(self, main: Callable[[Any], Awaitable[Any]]) -> Any:
        async def entered() -> Any:
            return await main(FakeFleet(a=good(0.1)))

        return virtual.run(entered())


@pytest.fixture(autouse=True)
def _world(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(runner, "world_of", lambda *_: World())


def kill_after(cycle: int) -> Callable[[Event], None]:
    def listen(event: Event) -> None:
        if isinstance(event, CycleEnded) and event.record.cycle == cycle:
            raise Killed

    return listen


def kept(folder: Path, name: str, candidacy: Candidacy | None, *, resume: bool = True) -> Keeping:
    store = str(folder / "runs.db")
    return Keeping(out=folder / name, store=store, resume=resume, candidacy=candidacy)


def test_a_standby_goes_on_where_the_primary_was_killed(tmp_path: Path) -> None:
    with pytest.raises(Killed):
        run_recipe(RECIPE, kept(tmp_path, "one", PRIMARY, resume=False), listen=kill_after(2))
    outcome = run_recipe(RECIPE, kept(tmp_path, "two", SECOND))
    assert [(record.cycle, record.epoch) for record in outcome.records] == [
        (1, 1), (2, 1), (3, 2), (4, 2)
    ]  # fmt: skip
    assert read(tmp_path / "two" / RECORDS) == outcome.records
    assert len(read(tmp_path / "one" / RECORDS)) == 2
    # The primary comes back to a run that is over, and keeps what others did.
    again = run_recipe(RECIPE, kept(tmp_path, "one", replace(PRIMARY, holder="back")))
    assert again.records == outcome.records == read(tmp_path / "one" / RECORDS)
    models = [(tmp_path / name / MODEL).read_bytes() for name in ("one", "two")]
    assert models[0] == models[1]


def test_a_store_that_is_silent_at_the_takeover_and_at_the_end_is_asked_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with pytest.raises(Killed):
        run_recipe(RECIPE, kept(tmp_path, "one", PRIMARY, resume=False), listen=kill_after(2))
    found, events = SqliteStore.records, list[Event]()
    silent = {2: 2, 4: 2}

    def records(store: SqliteStore, run: str) -> list[RoundRecord]:
        answer = found(store, run)
        # Not before it is stood by: what cannot be opened cannot be taken up either.
        if any(isinstance(event, StandsBy) for event in events) and silent.get(len(answer), 0):
            silent[len(answer)] -= 1
            raise StoreSilent("no answer")
        return answer

    monkeypatch.setattr(SqliteStore, "records", records)
    outcome = run_recipe(RECIPE, kept(tmp_path, "two", SECOND), listen=events.append)
    assert silent == {2: 0, 4: 0}
    assert [record.cycle for record in outcome.records] == [1, 2, 3, 4]
    assert read(tmp_path / "two" / RECORDS) == outcome.records
    told = [type(event) for event in events if isinstance(event, StandsBy | StoreLost | TookOver)]
    assert told == [StandsBy, StoreLost, TookOver, StoreLost]


def test_a_standby_changes_no_settings(tmp_path: Path) -> None:
    with pytest.raises(Killed):
        run_recipe(RECIPE, kept(tmp_path, "one", PRIMARY, resume=False), listen=kill_after(1))
    run_recipe(replace(RECIPE, cycles=2), kept(tmp_path, "two", SECOND))
    with closing(open_store(tmp_path / "runs.db")) as store:
        assert begun_as(store, "run") == RECIPE


def test_a_run_that_is_led_is_neither_begun_again_nor_advanced_by_others(tmp_path: Path) -> None:
    with closing(open_store(tmp_path / "runs.db")) as store:
        store.begin("run", "{}")
        store.lead("run", "one")
    for candidacy in (None, PRIMARY):
        with pytest.raises(RunExists, match="--resume"):
            run_recipe(RECIPE, kept(tmp_path, "a", candidacy, resume=False))
    with closing(open_store(tmp_path / "runs.db")) as store:
        store.amend("run", settings_of(RECIPE))
    with pytest.raises(Superseded, match="without leading it"):
        run_recipe(replace(RECIPE, cycles=9), kept(tmp_path, "a", None))
    with closing(open_store(tmp_path / "runs.db")) as store:
        assert begun_as(store, "run") == RECIPE, "whoever is refused has changed nothing"


def test_of_two_that_begin_one_run_differently_only_one_leads(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    class Slow(World):
        """Takes so long to start that another one begins the run meanwhile."""

        def run(self, main: Callable[[Any], Awaitable[Any]]) -> Any:
            with closing(open_store(tmp_path / "runs.db")) as store:
                store.begin("run", settings_of(replace(RECIPE, learning_rate=0.5)))
            return super().run(main)

    monkeypatch.setattr(runner, "world_of", lambda *_: Slow())
    with pytest.raises(ConfigurationError, match="with other settings by somebody else"):
        run_recipe(RECIPE, kept(tmp_path, "a", PRIMARY, resume=False))
    with closing(open_store(tmp_path / "runs.db")) as store:
        assert store.records("run") == []


def test_what_dies_with_its_process_cannot_be_led(tmp_path: Path) -> None:
    with pytest.raises(ConfigurationError, match=r"simulated world .* dies with it"):
        run_recipe(replace(RECIPE, world="simulated"), kept(tmp_path, "a", PRIMARY))
    with pytest.raises(ConfigurationError, match=r"needs a store .*--store"):
        run_recipe(RECIPE, Keeping(candidacy=PRIMARY))
