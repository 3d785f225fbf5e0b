"""`axon worker`: what it refuses, and a real one that is trained on."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

from axon.attacks import Reversed
from axon.cli.worker import WorkerOptions, _wearing, abilities_of
from axon.learning.learner import Learner
from axon.learning.loop import LoopTrainer
from axon.learning.lying import Lying
from axon.testbed.charged import ChargedCompute, JobPool
from tests.cli.scenes import Shell


@pytest.mark.parametrize(
    ("words", "part"),
    [
        (["--host", "0.0.0.0"], "pass --key"),
        (["--host", "foo bar"], "'foo bar' is no host"),
        (["--host", "256.1.1.1"], "'256.1.1.1' is no host"),
        (["--host", ""], "'' is no host"),
        (["--host", "localhost:8000"], "'localhost:8000' is no host"),
        (["--name", ""], "printable characters, got 0"),
        (["--name", "a\x1b[2J"], "printable characters, got 5"),
        (["--name", "x" * 201], "printable characters, got 201"),
        (["--memory", "0"], "above 0 MB"),
        (["--memory", "1e300"], "below 1e+12 MB, got 1e+300"),
        (["--accelerator", "abacus"], "cannot train on 'abacus'"),
        (["--accelerator", "meta"], "cannot train on 'meta'"),
        (["--task", "no_such_module"], "cannot import 'no_such_module'"),
        (["--task", ""], "'' names no module"),
        (["--data", "none.npz"], "cannot read none.npz"),
        (["--attack", "nobody"], "no attack is called 'nobody' (known are drop,"),
        (["--attack", "mimic"], "`axon reproduce byz-attacks`"),
        (["--port", "70000"], "port must be"),
        (["--key", "none.key"], "no key file"),
    ],
    ids=lambda value: " ".join(value) if isinstance(value, list) else "",
)
def test_what_cannot_be_meant_is_one_line(words: list[str], part: str, shell: Shell) -> None:
    ended = shell("worker", *words)
    assert (ended.code, ended.out) == (2, "")
    assert part in ended.err.splitlines()[-1]
    assert ended.err.splitlines()[-1].startswith("axon: ")


def test_nobody_has_that_many_threads(shell: Shell) -> None:
    ended = shell("worker", "--threads", "99999999999")
    assert (ended.code, ended.out) == (2, "")
    assert "4096" in ended.err


@pytest.mark.parametrize(("dynamic", "private"), [(False, False), (True, False), (False, True)])
def test_margins_and_secrets_are_the_devices_own(dynamic: bool, private: bool) -> None:
    abilities = abilities_of(WorkerOptions(memory=3.0, dynamic=dynamic, private=private), None)
    assert (abilities.dynamic, abilities.discloses) == (dynamic, not private)
    assert (abilities.memory_bytes, abilities.data) == (3_000_000, None)


def test_a_worker_that_lies_says_so(caplog: pytest.LogCaptureFixture) -> None:
    learner = Learner("pi", ChargedCompute(JobPool(LoopTrainer()), lambda spec, size: 0.01))
    assert _wearing(learner, None) is learner
    assert caplog.text == ""
    lying = _wearing(learner, Reversed())
    assert isinstance(lying, Lying)
    assert lying.name == "pi"
    (record,) = caplog.records
    assert record.levelname == "WARNING"
    assert "THIS WORKER LIES" in record.getMessage()
    assert "Reversed(factor=-100.0)" in record.getMessage()


def command(*words: object) -> list[str]:
    return [sys.executable, "-W", "error", "-m", "axon.cli", *map(str, words)]


@pytest.mark.system
@pytest.mark.parametrize("own", [False, True], ids=["their data", "own data"])
def test_a_real_worker_is_trained_on_and_stops_when_told(own: bool, tmp_path: Path) -> None:
    options: list[object] = ["--port", 0, "--name", "pi", "--threads", 1, "--dynamic"]
    if own:
        inputs = np.ones((64, 1, 8, 8), np.uint8)
        np.savez(tmp_path / "own.npz", inputs=inputs, labels=np.arange(64) % 3)
        options += ["--data", tmp_path / "own.npz"]
    worker = subprocess.Popen(
        command("worker", *options),
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        env=os.environ | {"PYTHONUNBUFFERED": "1", "OMP_NUM_THREADS": "1"},
        text=True,
    )
    try:
        assert worker.stdout is not None
        line = worker.stdout.readline()
        assert line.startswith("pi can be trained on at http://127.0.0.1:")
        trained = subprocess.run(
            command(
                *("train", "--hosts", line.split()[-1], "--cycles", 2, "--json", "--deadline", 3),
                *(["--own-data"] if own else ["--allocator", "dab"]),
            ),
            capture_output=True,
            text=True,
            timeout=50,
            check=False,
        )
        assert (trained.returncode, trained.stderr) == (0, "")
        for record in map(json.loads, trained.stdout.splitlines()):
            (device,) = record["devices"]
            assert (device["device"], device["status"]) == ("pi", "used")
            assert device["samples"] == (64 if own else device["shards"] * 50)
        assert len(trained.stdout.splitlines()) == 2
        worker.send_signal(signal.SIGTERM)
        out, err = worker.communicate(timeout=20)
        assert (worker.returncode, out) == (0, "")
        assert all(" info axon.worker " in line for line in err.splitlines())
    finally:
        worker.kill()
        worker.communicate()
