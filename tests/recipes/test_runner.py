"""Recipes done in the simulated world, kept in a folder, broken off and taken up again."""

from __future__ import annotations

import fcntl
import os
from contextlib import closing
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from axon.data.datasets import load
from axon.errors import ConfigurationError, RunExists
from axon.learning.parameters import layout, read
from axon.learning.tasks import build
from axon.recipes.keeping import CHECKPOINT, CONFIGURATION, MODEL, RECORDS, Keeping
from axon.recipes.runner import Outcome, run_recipe, spec_of
from axon.recipes.settings import Recipe, read_recipe
from axon.report.records import digest, to_line
from axon.report.records import read as read_records
from axon.rounds.checkpoint import open_store
from axon.rounds.events import CycleBegan, CycleEnded, Event
from axon.values import RoundRecord

SMALL = Recipe(dataset="synthetic", devices="pi-1,jetson-nano", cycles=3, deadline_s=1.0, seed=5)


class Killed(BaseException):
    """What ends a process: nobody catches it."""


def lines(records: list[RoundRecord]) -> bytes:
    return "".join(to_line(record) + "\n" for record in records).encode()


def kept(out: Path, recipe: Recipe = SMALL, *, resume: bool = False, **changes: Any) -> Outcome:
    return run_recipe(replace(recipe, **changes), Keeping(out=out, resume=resume))


def state_of(out: Path) -> tuple[float, str]:
    """The clock, to its last bit, and what the learners know of themselves."""
    with closing(open_store(out / CHECKPOINT)) as store:
        latest = store.latest("run")
    assert latest is not None
    return latest.clock_s, latest.fleet


@pytest.fixture(scope="module")
def whole(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Outcome]:
    """A run that nobody disturbed."""
    out = tmp_path_factory.mktemp("whole") / "run"
    return out, kept(out)


def test_the_folder_holds_the_run(whole: tuple[Path, Outcome]) -> None:
    out, outcome = whole
    assert {path.name for path in out.iterdir()} >= {RECORDS, CONFIGURATION, CHECKPOINT, MODEL}
    assert [record.cycle for record in outcome.records] == [1, 2, 3]
    assert (out / RECORDS).read_bytes() == lines(outcome.records)
    assert read_recipe(out / CONFIGURATION) == SMALL
    assert not list(out.glob("*.partial"))
    assert digest(outcome.parameters) == outcome.records[-1].digest


def test_the_model_loads_into_the_net_and_is_as_good_as_recorded(
    whole: tuple[Path, Outcome],
) -> None:
    out, outcome = whole
    net = build(outcome.spec, seed=9).eval()
    with np.load(out / MODEL) as arrays:
        net.load_state_dict({name: torch.from_numpy(arrays[name]) for name in arrays.files})
    assert read(net, layout(net)).tobytes() == outcome.parameters.tobytes()
    test = load(SMALL.dataset, seed=SMALL.seed).test
    with torch.no_grad():
        guesses = net(torch.from_numpy(test.inputs * np.float32(test.scale))).argmax(1).numpy()
    accuracy = float((guesses == test.labels).mean())
    assert accuracy == pytest.approx(outcome.records[-1].accuracy, abs=1e-6)
    assert accuracy > 0.5


def test_nothing_need_be_kept_and_the_same_comes_of_it(whole: tuple[Path, Outcome]) -> None:
    events: list[Event] = []
    outcome = run_recipe(SMALL, listen=events.append)
    assert lines(outcome.records) == lines(whole[1].records)
    assert [type(event) for event in events if isinstance(event, CycleBegan | CycleEnded)] == [
        CycleBegan,
        CycleEnded,
    ] * 3


def test_a_second_run_in_the_folder_is_refused_and_harms_nothing(
    whole: tuple[Path, Outcome],
) -> None:
    out, _ = whole
    before = {path.name: path.read_bytes() for path in out.iterdir()}
    for recipe in (SMALL, replace(SMALL, seed=6)):
        with pytest.raises(RunExists, match=r"run run is there already .*--resume"):
            kept(out, recipe)
    assert (out / RECORDS).read_bytes() == before[RECORDS]
    assert (out / CONFIGURATION).read_bytes() == before[CONFIGURATION]
    assert (out / MODEL).read_bytes() == before[MODEL]


def test_to_resume_what_is_done_does_nothing(whole: tuple[Path, Outcome]) -> None:
    out, outcome = whole
    records = (out / RECORDS).read_bytes()
    again = kept(out, resume=True)
    assert lines(again.records) == lines(outcome.records) == records
    assert again.parameters.tobytes() == outcome.parameters.tobytes()
    assert (out / RECORDS).read_bytes() == records


def test_a_resumed_run_goes_on_as_it_began_for_more_cycles(
    tmp_path: Path, whole: tuple[Path, Outcome]
) -> None:
    kept(tmp_path, cycles=1)
    # What it began with counts, whatever the recipe says now.
    outcome = kept(tmp_path, resume=True, allocator="equal", seed=99)
    assert lines(outcome.records) == lines(whole[1].records)
    assert (tmp_path / RECORDS).read_bytes() == lines(whole[1].records)
    assert (tmp_path / MODEL).read_bytes() == (whole[0] / MODEL).read_bytes()
    assert state_of(tmp_path) == state_of(whole[0])
    assert read_recipe(tmp_path / CONFIGURATION) == SMALL


@pytest.mark.parametrize("stop", [1, 2, 3])
def test_a_run_that_is_killed_after_a_commit_loses_and_doubles_nothing(
    tmp_path: Path, whole: tuple[Path, Outcome], stop: int
) -> None:
    """The record is in the store, and the line was never written, or only half of it."""

    def kill(event: Event) -> None:
        if isinstance(event, CycleEnded) and event.record.cycle == stop:
            raise Killed

    with pytest.raises(Killed):
        run_recipe(SMALL, Keeping(out=tmp_path), listen=kill)
    file = tmp_path / RECORDS
    complete = file.read_bytes()
    last = complete.rstrip(b"\n").rfind(b"\n") + 1
    for torn in (complete[:last], complete[: last + 40], complete + b'{"run":"r'):
        file.write_bytes(torn)
        kept(tmp_path, resume=True, cycles=stop)
        assert file.read_bytes() == complete
    assert lines(kept(tmp_path, resume=True).records) == lines(whole[1].records)
    assert file.read_bytes() == lines(whole[1].records)
    assert [record.cycle for record in read_records(file)] == [1, 2, 3]


def test_a_run_that_is_killed_before_its_first_commit_begins_anew(
    tmp_path: Path, whole: tuple[Path, Outcome]
) -> None:
    def kill(event: Event) -> None:
        raise Killed

    with pytest.raises(Killed):
        run_recipe(SMALL, Keeping(out=tmp_path), listen=kill)
    assert (tmp_path / RECORDS).read_bytes() == b""
    assert lines(kept(tmp_path).records) == lines(whole[1].records)


def test_one_run_at_a_time_writes_to_a_folder(tmp_path: Path) -> None:
    lock = os.open(tmp_path / ".lock", os.O_CREAT | os.O_RDWR)
    fcntl.flock(lock, fcntl.LOCK_EX)
    with pytest.raises(ConfigurationError, match=r"another run is writing to .*wait for it"):
        kept(tmp_path)
    assert [path.name for path in tmp_path.iterdir()] == [".lock"]
    os.close(lock)
    kept(tmp_path, cycles=1)
    # It was let go of, too, by a run that ended well and by one that did not.
    with pytest.raises(RunExists):
        kept(tmp_path)
    kept(tmp_path, resume=True, cycles=1)


def test_the_checkpoint_may_be_kept_elsewhere(tmp_path: Path) -> None:
    out, store = tmp_path / "out", tmp_path / "runs.sqlite"
    recipe = replace(SMALL, cycles=1)
    outcome = run_recipe(recipe, Keeping(out=out, store=str(store)))
    assert not (out / CHECKPOINT).exists()
    run_recipe(replace(recipe, name="other"), Keeping(store=str(store)))
    with closing(open_store(store)) as opened:
        assert opened.runs() == ["other", "run"]
        assert lines(opened.records("run")) == lines(outcome.records)


def test_there_must_be_something_to_resume_from() -> None:
    with pytest.raises(ConfigurationError, match=r"nothing to resume from .*--out or --store"):
        run_recipe(SMALL, Keeping(resume=True))


@pytest.mark.parametrize(
    ("changes", "complaint"),
    [
        ({"allocator": "fair"}, "no allocator is called 'fair'"),
        ({"codec": "zip"}, "no codec 'zip'"),
        ({"allocator": "csa", "benchmark_shards": 0}, "csa goes by .* benchmark"),
        ({"private": ("nobody",)}, "private names 'nobody'"),
        ({"optimiser": "adam", "momentum": 0.5}, "adam .* takes no momentum"),
        ({"task": "threehundrednn"}, "no net is called 'threehundrednn'"),
        ({"dataset": "nothing"}, "no data set 'nothing'"),
        ({"devices": "nobody"}, "no device or fleet is called 'nobody'"),
        ({"world": "deployed", "hosts": ("pi",), "partition": "iid"}, "bring their own data"),
    ],
)
def test_a_mistake_in_a_recipe_does_not_take_the_folder(
    tmp_path: Path, changes: dict[str, Any], complaint: str
) -> None:
    with pytest.raises(ConfigurationError, match=complaint):
        kept(tmp_path, **changes)
    assert not (tmp_path / RECORDS).exists()
    assert len(kept(tmp_path, cycles=1).records) == 1


def test_a_device_with_an_endless_link_survives_the_store(tmp_path: Path) -> None:
    link = {"up_bytes_per_s": float("inf"), "down_bytes_per_s": float("inf")}
    recipe = replace(SMALL, device={"mine": {"like": "pi-1", "link": link}}, cycles=1)
    kept(tmp_path, recipe)
    assert len(kept(tmp_path, recipe, resume=True, cycles=2).records) == 2


def test_a_task_of_ones_own_is_trained(tmp_path: Path) -> None:
    file = tmp_path / "tasks.py"
    file.write_text(
        "from torch import nn\n"
        "from axon.learning import define\n\n\n"
        "@define('runner-line')\n"
        "def line(inputs, classes):\n"
        "    return nn.Sequential(nn.Flatten(), nn.Linear(inputs[0], classes))\n"
    )
    recipe = replace(SMALL, task=f"{file}:runner-line", cycles=1)
    outcome = kept(tmp_path / "out", recipe)
    assert outcome.spec.net == "runner-line"
    assert len(outcome.parameters) == 20 * 4 + 4
    resumed = kept(tmp_path / "out", recipe, resume=True, cycles=2)
    assert [record.cycle for record in resumed.records] == [1, 2]


def test_the_task_is_sized_to_the_data_and_changed_by_the_recipe() -> None:
    data = load(SMALL.dataset, seed=SMALL.seed)
    assert spec_of(SMALL, data).inputs == (20,)
    assert spec_of(SMALL, data).learning_rate == 0.1
    changed = replace(SMALL, optimiser="adam", batch_size=7)
    spec = spec_of(changed, data)
    assert (spec.optimiser, spec.learning_rate, spec.batch_size) == ("adam", 1e-4, 7)
    assert spec_of(replace(changed, learning_rate=0.3), data).learning_rate == 0.3


def test_learners_with_data_of_their_own_train_on_them() -> None:
    (record,) = run_recipe(replace(SMALL, partition="iid", cycles=1, passes=1)).records
    owned = {device.device: device.shards for device in record.devices}
    # 1600 samples dealt out among two, in shards of 50.
    assert owned == {"jetson-nano": 16, "pi-1": 16}


def test_a_bug_in_a_listener_is_not_swallowed(tmp_path: Path) -> None:
    def broken(event: Event) -> None:
        raise ZeroDivisionError("its own")

    with pytest.raises(ZeroDivisionError):
        run_recipe(SMALL, Keeping(out=tmp_path), listen=broken)
