"""Commands that pages name in passing and no guide types, typed."""

from __future__ import annotations

import json
from contextlib import closing
from pathlib import Path

import pytest

from axon.rounds.checkpoint import open_store
from tests import forks
from tests.pages import typed

pytestmark = [pytest.mark.system, pytest.mark.timeout(120)]


def test_an_emulated_run_with_a_standby(tmp_path: Path) -> None:
    small = "--devices pair --allocator equal:2"
    # A standby wants the store to be there.
    open_store(tmp_path / "runs.sqlite").close()
    with (
        forks.command(
            f"train --world emulated --cycles 2 --store runs.sqlite --failover {small}", tmp_path
        ) as leading,
        forks.command("standby runs.sqlite", tmp_path) as standing_by,
    ):
        told = [leading.result(), standing_by.result()]
    assert [code for code, _, _ in told] == [0, 0], told
    assert all("after 2 cycles" in out for _, out, _ in told)
    assert "leading as epoch 1" in told[0][2]
    # One that comes back to a run that is over has nothing left to lead.
    again = "train --failover --resume --store runs.sqlite --cycles 2"
    assert "after 2 cycles" in typed(again, tmp_path)
    with closing(open_store(tmp_path / "runs.sqlite")) as store:
        assert [record.epoch for record in store.records("run")] == [1, 1]


def test_a_worker_that_lies_answers(tmp_path: Path) -> None:
    words = "worker --attack reversed --private --memory 100 --port 0 --no-announce --name liar"
    with forks.command(words, tmp_path) as lying:
        address = lying.line().rpartition(" ")[2]
        train = f"train --host {address} --cycles 1 --allocator equal:2 --deadline 20 --json"
        (device,) = json.loads(typed(train, tmp_path))["devices"]
        assert "THIS WORKER LIES" in lying.complaints()
    assert (device["device"], device["status"], device["shards"]) == ("liar", "used", 2)
