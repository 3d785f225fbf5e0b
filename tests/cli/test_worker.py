"""`axon worker`: a device's own samples, what it refuses, and a real one that is trained on."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from axon.cli.worker import own_samples
from axon.errors import ConfigurationError
from tests.cli.scenes import Shell

INPUTS = np.arange(24, dtype=np.uint8).reshape(6, 1, 2, 2)
LABELS = np.arange(6) % 3


def saved(path: Path, **arrays: object) -> Path:
    named: dict[str, Any] = {name: np.asarray(value) for name, value in arrays.items()}
    np.savez(path, **named)
    return path


def test_own_samples_are_read_with_their_scale(tmp_path: Path) -> None:
    samples = own_samples(saved(tmp_path / "a.npz", inputs=INPUTS, labels=LABELS, scale=0.5))
    assert (samples.inputs == INPUTS).all()
    assert (samples.labels == LABELS).all()
    assert samples.scale == 0.5
    assert own_samples(saved(tmp_path / "b.npz", inputs=INPUTS, labels=LABELS)).scale == 1.0


@pytest.mark.parametrize(
    ("arrays", "message"),
    [
        ({"inputs": INPUTS}, "has no array labels, only inputs"),
        ({}, "has no array inputs and labels"),
        ({"inputs": INPUTS, "labels": LABELS[:4]}, "6 inputs and 4 labels"),
        ({"inputs": INPUTS, "labels": LABELS / 2}, "a row of whole numbers"),
        ({"inputs": INPUTS, "labels": LABELS[:, None]}, "a row of whole numbers"),
        ({"inputs": np.array(["a"] * 6), "labels": LABELS}, "needs numbers"),
        ({"inputs": INPUTS, "labels": LABELS, "scale": [1.0, 2.0]}, "one finite number"),
        ({"inputs": INPUTS, "labels": LABELS, "scale": np.nan}, "one finite number"),
        ({"inputs": INPUTS[:0], "labels": LABELS[:0]}, "has no samples"),
        ({"inputs": np.array([object()] * 6), "labels": LABELS}, "plain arrays"),
    ],
)
def test_a_file_of_other_things_is_refused(
    tmp_path: Path, arrays: dict[str, object], message: str
) -> None:
    with pytest.raises(ConfigurationError, match=message):
        own_samples(saved(tmp_path / "a.npz", **arrays))


def test_what_is_no_npz_file_is_refused(tmp_path: Path) -> None:
    np.save(tmp_path / "a.npy", INPUTS)
    (tmp_path / "text.npz").write_text("inputs")
    (tmp_path / "torn.npz").write_bytes(saved(tmp_path / "a.npz", inputs=INPUTS).read_bytes()[:99])
    (tmp_path / "empty.npz").write_bytes(b"")
    for name in ("a.npy", "text.npz", "torn.npz", "empty.npz"):
        with pytest.raises(ConfigurationError, match=r"numpy\.savez"):
            own_samples(tmp_path / name)
    with pytest.raises(ConfigurationError, match="cannot read"):
        own_samples(tmp_path / "none.npz")


@pytest.mark.parametrize(
    ("words", "part"),
    [
        (["--host", "0.0.0.0"], "pass --key"),
        (["--memory", "0"], "above 0 MB"),
        (["--task", "no_such_module"], "cannot import 'no_such_module'"),
        (["--data", "none.npz"], "cannot read none.npz"),
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


def command(*words: object) -> list[str]:
    return [sys.executable, "-W", "error", "-m", "axon.cli", *map(str, words)]


@pytest.mark.system
@pytest.mark.parametrize("own", [False, True], ids=["their data", "own data"])
def test_a_real_worker_is_trained_on_and_stops_when_told(own: bool, tmp_path: Path) -> None:
    options: list[object] = ["--port", 0, "--name", "pi", "--threads", 1]
    if own:
        inputs = np.ones((64, 1, 8, 8), np.uint8)
        options += [
            "--data",
            saved(tmp_path / "own.npz", inputs=inputs, labels=LABELS.repeat(11)[:64]),
        ]
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
                *(["--own-data"] if own else []),
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
