"""Leadership in the stores: one contract for all of them."""

from __future__ import annotations

import time
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing
from dataclasses import replace

import pytest

from axon.errors import AxonError, ConfigurationError, Superseded
from axon.report.records import from_line, to_line
from axon.rounds.checkpoint import Store, open_store
from axon.rounds.leadership import Leadership
from tests.rounds.stores import execute, made


@pytest.fixture
def begun(store: Store) -> Store:
    store.begin("run", "{}")
    return store


def led(store: Store) -> Leadership:
    found = store.leadership("run")
    assert found is not None
    return found


def test_each_that_leads_has_the_next_epoch_and_the_same_owner(where: str, begun: Store) -> None:
    assert led(begun) == Leadership()
    first = begun.lead("run", "one", heartbeat_s=0.25)
    second = begun.lead("run", "zwei ü")
    assert [first.epoch, second.epoch] == [1, 2]
    assert [first.holder, second.holder] == ["one", "zwei ü"]
    assert [first.heartbeat_s, second.heartbeat_s] == [0.25, 1.0]
    assert first.owner == second.owner != ""
    with closing(open_store(where)) as again:
        assert led(again) == second


def test_an_unknown_run_is_led_by_nobody(store: Store) -> None:
    assert store.leadership("run") is None
    with pytest.raises(ConfigurationError, match="no run 'run' to lead"):
        store.lead("run", "one")
    with pytest.raises(ConfigurationError, match="no run 'run' to lead"):
        store.beat("run", 1)


def test_beats_are_counted_and_a_cycle_is_one(begun: Store) -> None:
    begun.lead("run", "one")
    begun.beat("run", 1)
    begun.beat("run", 1)
    assert (led(begun).beats, led(begun).cycles) == (2, 0)
    begun.save(*made(1), 1)
    assert (led(begun).beats, led(begun).cycles) == (3, 1)
    assert led(begun).mark == (1, 3)


def test_one_that_was_replaced_neither_beats_nor_saves(begun: Store) -> None:
    begun.lead("run", "one")
    begun.save(*made(1), 1)
    begun.lead("run", "two")
    with pytest.raises(Superseded, match=r"'run' is led by two as epoch 2.*as epoch 1") as caught:
        begun.beat("run", 1)
    assert (caught.value.run, caught.value.epoch, caught.value.by) == ("run", 1, 2)
    for epoch in (1, None, 3):
        with pytest.raises(Superseded):
            begun.save(*made(2), epoch)
    assert (led(begun).beats, led(begun).cycles, len(begun.records("run"))) == (0, 1, 1)
    begun.save(*made(2), 2)
    latest = begun.latest("run")
    assert latest is not None
    assert latest.cycle == 2


def test_nobody_leads_a_run_by_claiming_an_epoch(begun: Store) -> None:
    with pytest.raises(Superseded, match="led by nobody as epoch 0"):
        begun.save(*made(1), 1)
    with pytest.raises(Superseded):
        begun.beat("run", 1)
    begun.save(*made(1))


def test_who_saw_a_leader_that_has_beaten_since_does_not_replace_it(begun: Store) -> None:
    first = begun.lead("run", "one", after=led(begun))
    begun.beat("run", 1)
    assert begun.lead("run", "two", after=first).holder == "one"
    begun.save(*made(1), 1)
    assert begun.lead("run", "two", after=replace(first, beats=1)).holder == "one"
    assert begun.lead("run", "two", after=led(begun)).epoch == 2


def test_of_those_who_saw_the_same_one_leads(where: str, begun: Store) -> None:
    with closing(open_store(where)) as other, ThreadPoolExecutor(4) as pool:
        for epoch in range(1, 6):
            seen = led(begun)
            claims = [
                (store, f"{epoch}/{number}") for number, store in enumerate([begun, other] * 2)
            ]
            found = list(
                pool.map(lambda claim: claim[0].lead("run", claim[1], after=seen), claims)  # noqa: B023
            )
            assert len({(each.epoch, each.holder) for each in found}) == 1
            assert found[0].epoch == epoch


def test_saving_and_replacing_at_once_never_lets_an_older_one_save_last(
    where: str, begun: Store
) -> None:
    def save_on(store: Store, epoch: int) -> int:
        saved = 0
        try:
            while True:
                store.save(*made(led(store).cycles + 1), epoch)
                saved += 1
        except Superseded:
            return saved

    with closing(open_store(where)) as other, ThreadPoolExecutor(1) as pool:
        for _ in range(7):
            mine = begun.lead("run", "one")
            saving = pool.submit(save_on, other, mine.epoch)
            while led(begun).cycles < mine.cycles + 3 and not saving.done():
                time.sleep(0.001)
            begun.lead("run", "other")
            cycles = led(begun).cycles
            assert saving.result() == cycles - mine.cycles >= 3
            assert led(begun).cycles == cycles, "nothing was saved after it was replaced"


def test_a_store_of_before_there_were_leaders_is_brought_up_to_date(where: str) -> None:
    with closing(open_store(where)) as store:
        store.begin("run", "{}")
        store.save(*made(1))
    postgres = where.startswith("postgresql:")
    execute(where, "DROP TABLE axon_leaders")
    back = "DELETE FROM axon_store WHERE version = 2" if postgres else "PRAGMA user_version = 1"
    execute(where, back)
    for _ in range(2):
        with closing(open_store(where)) as store:
            assert [record.cycle for record in store.records("run")] == [1]
            assert led(store).cycles == 1
    with closing(open_store(where)) as store:
        store.lead("run", "one")
        store.save(*made(2), 1)


@pytest.mark.parametrize("holder", ["", "a\nb", "x" * 201])
def test_a_name_that_cannot_be_shown_leads_nothing(begun: Store, holder: str) -> None:
    with pytest.raises(ConfigurationError, match="printable"):
        begun.lead("run", holder)
    with pytest.raises(ConfigurationError, match="heartbeat_s"):
        begun.lead("run", "one", heartbeat_s=0.0)
    assert led(begun).epoch == 0


def test_a_damaged_leader_is_said_to_be_damage(where: str, begun: Store) -> None:
    if where.startswith("postgresql:"):
        pytest.skip("PostgreSQL keeps only numbers in a column of numbers")
    begun.lead("run", "one")
    execute(where, "UPDATE axon_leaders SET epoch = 'many'")
    with pytest.raises(AxonError, match=r"who leads run 'run' cannot be read: .*many"):
        begun.leadership("run")


def test_a_line_tells_the_epoch_of_a_run_that_was_led_and_of_no_other() -> None:
    _, record = made(1)
    assert '"epoch"' not in to_line(record)
    assert from_line(to_line(replace(record, epoch=3))).epoch == 3
