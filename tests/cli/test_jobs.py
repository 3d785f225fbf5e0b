"""`axon orchestrate`, `submit`, `tasks` and `cancel`: what they ask, print and refuse."""

from __future__ import annotations

import dataclasses
import json
from collections.abc import Iterator
from decimal import Decimal
from pathlib import Path
from typing import Any

import pytest

from axon.cli.jobs import TaskOptions
from axon.cli.orchestrate import prices_of
from axon.errors import ConfigurationError
from axon.jobs.submission import Submission
from axon.worker import Worker
from tests.cli.scenes import Shell

VIEW = {
    "name": "a",
    "state": "running",
    "cycle": 2,
    "cycles": 5,
    "accuracy": 0.8125,
    "learners": {"pi-1": 3, "nano": 9},
    "spent": "24.5",
    "reason": "",
}


class Canned:
    """An orchestrator of few words."""

    def __init__(self) -> None:
        self.asked: list[Any] = []
        self.answer: Any = {"verdict": "admitted", "reason": ""}

    def submit(self, table: dict[str, Any]) -> Any:
        self.asked.append(table)
        return self.answer

    def list(self) -> Any:
        return self.answer

    def cancel(self, name: str) -> Any:
        self.asked.append(name)
        return self.answer


@dataclasses.dataclass
class Served:
    """Where the canned orchestrator is, and what it is asked."""

    to: str
    service: Canned


@pytest.fixture(scope="module")
def served() -> Iterator[Served]:
    worker, service = Worker("orchestrator"), Canned()
    worker.service(service, "tasks", executor="inline")
    serving = worker.start(port=0, announce=False)
    yield Served(f"127.0.0.1:{serving.address.port}", service)
    serving.shutdown()


SUBMIT = ("submit", "--name", "a", "--shards", 60, "--deadline-s", 55)


def test_options_are_a_submissions_fields() -> None:
    wanted = {field.name: field.default for field in dataclasses.fields(Submission)}
    options = {field.name: field.default for field in dataclasses.fields(TaskOptions)}
    chosen = {"task": "twonn", "dataset": "digits", "cycles": 5, "shard_samples": None}
    assert options == wanted | chosen


def test_what_is_submitted_is_told(shell: Shell, served: Served) -> None:
    words = ("--task", "threenn", "--dataset", "mnist", "--cycles", 7, "--passes", 2)
    served.service.answer = {"verdict": "admitted", "reason": ""}
    ended = shell(*SUBMIT, *words, "--to", served.to)
    assert (ended.code, ended.out) == (0, "a is admitted\n")
    table = served.service.asked[-1]
    assert table["shard_samples"] == 500
    assert (table["task"], table["cycles"], table["passes"]) == ("threenn", 7, 2)
    assert Submission(**table).deadline_s == 55.0
    served.service.answer = {"verdict": "waiting", "reason": "its turn comes"}
    ended = shell(*SUBMIT, "--to", served.to)
    assert (ended.code, ended.out) == (0, "a is waiting: its turn comes\n")
    assert served.service.asked[-1]["shard_samples"] == 50


def test_what_is_refused_is_one_sentence_and_a_code(shell: Shell, served: Served) -> None:
    served.service.answer = {"verdict": "refused", "reason": "it would take a budget of 9"}
    ended = shell(*SUBMIT, "--to", served.to)
    assert (ended.code, ended.out) == (2, "")
    assert ended.err == "axon: a is refused: it would take a budget of 9\n"
    ended = shell(*SUBMIT, "--to", served.to, "--json")
    assert (ended.code, json.loads(ended.out)) == (2, served.service.answer)
    served.service.answer = {"verdict": "refused", "reason": "there is no task 'b'"}
    ended = shell("cancel", "b", "--to", served.to)
    assert (ended.code, ended.err) == (2, "axon: there is no task 'b'\n")


def test_tasks_are_a_table(shell: Shell, served: Served) -> None:
    failed = VIEW | {
        "name": "b",
        "state": "failed",
        "accuracy": None,
        "learners": {},
        "reason": "\x1b[31mred" + "x" * 200,
    }
    served.service.answer = {
        "verdict": "told",
        "tasks": [VIEW, failed],
        "spent": "49",
        "budget": "300",
        "sitting": {"pi-2": "it is private"},
    }
    lines = shell("tasks", "--to", served.to).out.splitlines()
    assert lines[0].split() == [
        "NAME", "STATE", "CYCLE", "ACCURACY", "LEARNERS", "SPENT", "REASON"
    ]  # fmt: skip
    assert lines[1].split() == ["a", "running", "2/5", "0.812", "pi-1:3", "nano:9", "24.5"]
    assert lines[2].split()[:6] == ["b", "failed", "2/5", "-", "-", "24.5"]
    assert "\x1b" not in lines[2]
    assert lines[2].endswith("…")
    assert lines[3] == "spent 49 in all; a cycle of all tasks may cost 300"
    assert lines[4] == "pi-2 sits out: it is private"
    told = shell("tasks", "--to", served.to, "--json").out
    assert json.loads(told) == served.service.answer


def test_a_task_is_cancelled(shell: Shell, served: Served) -> None:
    served.service.answer = {"verdict": "cancelled", "reason": ""}
    ended = shell("cancel", "a", "--to", served.to)
    assert (ended.code, ended.out, served.service.asked[-1]) == (0, "a is cancelled\n", "a")


@pytest.mark.parametrize(
    "answer", ["yes", {}, {"verdict": 3}, {"verdict": "told", "tasks": [{"name": "a"}]}]
)
def test_what_is_no_orchestrator_is_told(shell: Shell, served: Served, answer: Any) -> None:
    served.service.answer = answer
    ended = shell("tasks", "--to", served.to)
    assert ended.code == 1
    assert "does not answer like an orchestrator" in ended.err


def test_a_worker_that_takes_no_tasks_is_told(shell: Shell) -> None:
    serving = Worker("other").start(port=0, announce=False)
    try:
        ended = shell("tasks", "--to", f"127.0.0.1:{serving.address.port}")
    finally:
        serving.shutdown()
    assert ended.code == 2
    assert "takes no tasks (name the address that `axon orchestrate` printed)" in ended.err


def test_prices_are_of_one_device_or_of_all() -> None:
    assert prices_of(["pi-1=0.1", "2"]) == {"pi-1": Decimal("0.1"), "": Decimal(2)}
    for wrong in (["cheap"], ["pi-1="], ["pi-1=1", "pi-1=2"], ["-1"], ["nan"]):
        with pytest.raises(ConfigurationError):
            prices_of(wrong)


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (("--budget", "-1"), "amount of money"),
        (("--budget", "nan"), "amount of money"),
        (("--budget", "9", "--price", "x"), "--price takes a number"),
        (("--budget", "9", "--price", "nosuch=1"), "price for nosuch"),
        (("--budget", "9", "--world", "elsewhere"), "no world is called 'elsewhere'"),
        (("--budget", "9", "--devices", "no-such"), "no-such"),
        (("--budget", "9", "--hosts", "192.0.2.1"), "needs a key"),
        (("--budget", "9", "--listen", "0.0.0.0"), "has no key"),
    ],
)
def test_what_cannot_be_meant_is_one_sentence(
    shell: Shell, tmp_path: Path, words: tuple[str, ...], said: str
) -> None:
    ended = shell("orchestrate", "--store", tmp_path / "jobs.sqlite", *words)
    assert (ended.code, ended.out) == (2, "")
    assert said in ended.err
    assert ended.err.count("\n") == 1


def test_a_store_that_is_none_is_told(shell: Shell, tmp_path: Path) -> None:
    (tmp_path / "text").write_text("no database at all, whatever its name may be")
    ended = shell("orchestrate", "--budget", 9, "--store", tmp_path / "text")
    assert (ended.code, ended.err.count("\n")) == (2, 1)
    assert "it is not a SQLite database" in ended.err
