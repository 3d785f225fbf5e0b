"""What a requester may ask for, and what it comes to."""

from __future__ import annotations

from dataclasses import asdict
from typing import Any

import pytest

from axon.errors import ConfigurationError
from axon.jobs.submission import Submission, prepare, submission_from

TABLE = {
    "name": "a",
    "task": "twonn",
    "dataset": "digits",
    "shards": 20,
    "cycles": 2,
    "deadline_s": 5.0,
    "passes": 2,
    "shard_samples": 50,
}


def test_a_table_becomes_work() -> None:
    prepared = prepare(submission_from(TABLE))
    work = prepared.work
    assert (work.name, work.shards, work.passes, work.shard_samples) == ("a", 20, 2, 50)
    assert work.model_bytes == prepared.model.nbytes == 4 * (64 * 50 + 50 + 50 * 20 + 20 + 210)
    assert work.shard_bytes == prepared.dataset.train.nbytes * 50 // 1500
    assert work.request.deadline_s == 5.0
    assert prepared.run.name == "a"


def test_tasks_that_are_alike_to_a_learner_are_of_one_kind() -> None:
    def kind(**changes: Any) -> str:
        return prepare(submission_from(TABLE | changes)).work.kind

    assert kind() == kind(name="b", seed=3, cycles=9, deadline_s=1.0, shards=3, learning_rate=0.3)
    kinds = [kind(), kind(task="threenn"), kind(shard_samples=25), kind(batch_size=16)]
    assert len({*kinds, kind(optimiser="adam")}) == 5


@pytest.mark.parametrize(
    ("changes", "said"),
    [
        ({"name": "a/b"}, "name must be"),
        ({"name": ""}, "name must be"),
        ({"name": "x" * 101}, "name must be"),
        ({"shards": 0}, "shards must be a whole number"),
        ({"cycles": -1}, "cycles must be a whole number"),
        ({"deadline_s": 0.0}, "deadline_s must be"),
        ({"deadline_s": 1e10}, "deadline_s must be at most"),
        ({"passes": 10**10}, "passes must be at most"),
        ({"seed": 2**63}, "seed must be below"),
        ({"shards": "many"}, "setting of the task is wrong"),
        ({"code": "import os"}, "unknown setting code"),
    ],
)
def test_what_cannot_be_meant_is_named(changes: dict[str, Any], said: str) -> None:
    with pytest.raises(ConfigurationError, match=said):
        submission_from(TABLE | changes)


@pytest.mark.parametrize(
    ("changes", "said"),
    [
        ({"task": "no-net"}, "no net is called"),
        ({"dataset": "no-data"}, "no data set"),
        ({"optimiser": "no-way"}, "no-way"),
        ({"shards": 31}, "digits has 30 shards of 50 samples, got shards 31"),
    ],
)
def test_what_cannot_be_trained_is_named(changes: dict[str, Any], said: str) -> None:
    with pytest.raises(ConfigurationError, match=said):
        prepare(submission_from(TABLE | changes))


def test_it_survives_as_a_table() -> None:
    asked = submission_from(TABLE)
    assert submission_from(asdict(asked)) == asked
    assert isinstance(asked, Submission)
