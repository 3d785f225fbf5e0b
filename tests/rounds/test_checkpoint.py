"""The stores: one contract for all of them."""

from __future__ import annotations

import sys
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from axon.errors import AxonError, CheckpointConflict, ConfigurationError, RunExists
from axon.report.records import digest
from axon.rounds.checkpoint import Checkpoint, Store, open_store
from tests.rounds.stores import execute, made


def test_what_is_saved_is_there_when_the_store_is_opened_again(where: str, store: Store) -> None:
    store.begin("run", '{"cycles": 3}')
    assert (store.latest("run"), store.records("run")) == (None, [])
    pairs = [made(cycle) for cycle in (1, 2, 3)]
    for pair in pairs:
        store.save(*pair)
    store.close()
    with closing(open_store(where)) as again:
        assert again.runs() == ["run"]
        assert again.settings("run") == '{"cycles": 3}'
        assert again.records("run") == [record for _, record in pairs]
        latest, wanted = again.latest("run"), pairs[-1][0]
    assert latest is not None
    for name in ("run", "cycle", "clock_s", "members", "seed", "previous_s", "findings", "fleet"):
        assert getattr(latest, name) == getattr(wanted, name)
    assert list(latest.step_state) == ["velocity", "age"]
    assert latest.parameters.dtype == np.dtype(np.float32)
    assert latest.parameters.tolist() == [3.0, 3.0, 3.0]
    assert latest.step_state["velocity"].tolist() == [-3.0, -3.0]
    assert latest.step_state["age"].tolist() == []
    latest.parameters[0] = 0  # a trainer may work in place


def test_every_bit_of_the_parameters_comes_back(store: Store) -> None:
    store.begin("run", "{}")
    bits = np.array([0x7FC12345, 0x80000000, 1, 0x7F800000], np.uint32)  # odd NaN, -0, tiny, inf
    checkpoint, record = made(1)
    odd = Checkpoint(
        run="run", cycle=1, parameters=bits.view(np.float32), clock_s=0.0, members=(), seed=0
    )
    store.save(odd, replace(record, digest=""))
    latest = store.latest("run")
    assert latest is not None
    assert latest.parameters.view(np.uint32).tolist() == bits.tolist()
    assert (latest.step_state, latest.members) == ({}, ())
    assert checkpoint.parameters.tolist() != latest.parameters.tolist()


@pytest.mark.parametrize("cycle", [0, 1, 2, 4])
def test_only_the_next_cycle_is_saved(store: Store, cycle: int) -> None:
    store.begin("run", "{}")
    for saved in (1, 2):
        store.save(*made(saved))
    with pytest.raises(CheckpointConflict, match=f"2 cycles, so the next is 3, got {cycle}"):
        store.save(*made(cycle, size=9))
    latest = store.latest("run")
    assert latest is not None
    assert (latest.cycle, len(latest.parameters), len(store.records("run"))) == (2, 3, 2)
    store.save(*made(3))


def test_a_save_that_fails_half_way_leaves_nothing(where: str, store: Store) -> None:
    store.begin("run", "{}")
    store.save(*made(1))
    execute(where, "ALTER TABLE axon_vectors RENAME TO axon_elsewhere")
    with pytest.raises(AxonError, match="vectors"):
        store.save(*made(2))
    execute(where, "ALTER TABLE axon_elsewhere RENAME TO axon_vectors")
    assert len(store.records("run")) == 1
    store.save(*made(2))
    assert [record.cycle for record in store.records("run")] == [1, 2]


def test_a_run_may_begin_otherwise_until_it_has_a_cycle(store: Store) -> None:
    store.begin("run", '{"a": 1}')
    store.begin("run", '{"a": 2}')
    assert store.settings("run") == '{"a": 2}'
    store.save(*made(1))
    for settings in ('{"a": 2}', '{"a": 3}'):
        with pytest.raises(RunExists, match="with 1 cycles"):
            store.begin("run", settings)
    assert store.settings("run") == '{"a": 2}'


def test_settings_are_amended_and_nothing_else(where: str, store: Store) -> None:
    for run in ("run", "other"):
        store.begin(run, '{"a": 1}')
    store.save(*made(1))
    store.amend("run", '{"a": 2}')
    with closing(open_store(where)) as again:
        assert [again.settings(run) for run in again.runs()] == ['{"a": 1}', '{"a": 2}']
        assert [record.cycle for record in again.records("run")] == [1]
    with pytest.raises(ConfigurationError, match="no run 'none' to amend"):
        store.amend("none", "{}")
    with pytest.raises(ConfigurationError, match="JSON"):
        store.amend("run", "{a}")


def test_the_digest_of_a_record_is_that_of_the_parameters(store: Store) -> None:
    store.begin("run", "{}")
    checkpoint, record = made(1)
    store.save(checkpoint, replace(record, digest="of others"))
    with pytest.raises(AxonError, match=r"'parameters' is .* and should be of others"):
        store.latest("run")


def test_runs_do_not_touch_one_another(store: Store) -> None:
    for run in ("b", "é", "B"):
        store.begin(run, "{}")
    store.save(*made(1, run="b"))
    store.save(*made(1, run="é", size=5))
    store.save(*made(2, run="b"))
    assert store.runs() == ["B", "b", "é"]
    assert [len(store.records(run)) for run in store.runs()] == [0, 2, 1]
    latest = store.latest("é")
    assert latest is not None
    assert len(latest.parameters) == 5


def test_an_unknown_run_has_nothing_and_cannot_be_advanced(store: Store) -> None:
    assert (store.settings("x"), store.latest("x"), store.records("x")) == (None, None, [])
    with pytest.raises(ConfigurationError, match="no run 'run'"):
        store.save(*made(1))


def test_what_cannot_be_meant_is_refused(store: Store) -> None:
    for run in ("", "a\0", "a\n", "\ud800"):
        with pytest.raises(ConfigurationError, match="printable"):
            store.begin(run, "{}")
    with pytest.raises(ConfigurationError, match="JSON"):
        store.begin("run", "{a}")
    with pytest.raises(ConfigurationError, match="cycle 1 of 'run' and 2 of 'run'"):
        store.save(made(1)[0], made(2)[1])


@pytest.mark.parametrize(
    "damage",
    [
        "UPDATE axon_vectors SET data = (SELECT data FROM axon_vectors WHERE place = 1)",
        "DELETE FROM axon_vectors",
    ],
)
def test_damaged_parameters_are_never_used(where: str, store: Store, damage: str) -> None:
    store.begin("run", "{}")
    store.save(*made(1))
    execute(where, damage)
    with pytest.raises(AxonError, match="cannot be taken up after cycle 1: the ") as caught:
        store.latest("run")
    assert "backup" in str(caught.value)


def test_of_two_orchestrators_only_one_saves_each_cycle(where: str, store: Store) -> None:
    store.begin("run", "{}")
    last = 20

    def advance(mine: Store) -> int:
        saved = 0
        while (done := len(mine.records("run"))) < last:
            try:
                mine.save(*made(done + 1))
                saved += 1
            except CheckpointConflict:
                continue
        return saved

    with closing(open_store(where)) as other, ThreadPoolExecutor(4) as pool:
        assert sum(pool.map(advance, [store, other, store, other])) == last
    assert [record.cycle for record in store.records("run")] == list(range(1, last + 1))


def test_two_may_make_the_store_at_once(where: str) -> None:
    with ThreadPoolExecutor(8) as pool:
        stores = list(pool.map(open_store, [where] * 8))
    for number, store in enumerate(stores):
        store.begin(f"run{number}", "{}")
    assert len(stores[0].runs()) == 8
    for store in stores:
        store.close()


def test_a_newer_store_is_not_touched(where: str) -> None:
    open_store(where).close()
    postgres = where.startswith("postgresql:")
    execute(where, "UPDATE axon_store SET version = 3" if postgres else "PRAGMA user_version = 3")
    with pytest.raises(ConfigurationError, match="has version 3, and this Axon knows 2"):
        open_store(where)


@pytest.mark.slow
def test_a_hundred_megabytes_are_saved_and_read(store: Store) -> None:
    store.begin("run", "{}")
    for cycle in (1, 2):
        store.save(*made(cycle, size=25_000_000))
    latest = store.latest("run")
    assert latest is not None
    assert latest.parameters.shape == (25_000_000,)
    assert digest(latest.parameters) == store.records("run")[-1].digest


# --- addresses and values ------------------------------------------------------------------------


def test_a_path_and_an_address_open_the_same_file(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    with closing(open_store(Path("a.db"))) as store:
        store.begin("run", "{}")
    for where in ("a.db", "sqlite:///a.db", f"sqlite:///{tmp_path}/a.db"):
        with closing(open_store(where)) as store:
            assert store.runs() == ["run"]


@pytest.mark.parametrize("where", ["mysql://x", "sqlite://a.db", "sqlite:///", "postgresql://[x"])
def test_an_address_that_is_none_says_what_would_be(where: str) -> None:
    with pytest.raises(ConfigurationError, match=r"sqlite:///|postgresql://user@"):
        open_store(where)


def test_without_psycopg_the_extra_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "psycopg", None)
    with pytest.raises(ConfigurationError, match=r"axon-edge\[postgres\]"):
        open_store("postgresql:///x")


def test_a_server_that_is_not_there_is_an_error_without_the_password() -> None:
    with pytest.raises(AxonError, match="cannot connect to db on /nowhere") as caught:
        open_store("postgresql:///db?user=axon&password=secret&host=/nowhere")
    assert "secret" not in str(caught.value)


def test_a_checkpoint_holds_only_what_comes_back_unchanged() -> None:
    checkpoint, _ = made(1)
    for wrong in ({"clock_s": float("nan")}, {"cycle": -1}, {"parameters": np.zeros((2, 2), "f4")}):
        fields = {name: getattr(checkpoint, name) for name in checkpoint.__slots__}
        with pytest.raises(ConfigurationError):
            Checkpoint(**{**fields, **wrong})
    with pytest.raises(ConfigurationError, match="state must be a flat array of float32, got int8"):
        Checkpoint(**{**fields, "step_state": {"state": np.zeros(1, np.int8)}})
