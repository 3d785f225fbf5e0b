"""A device's own samples: what is read, and which files are refused."""

from __future__ import annotations

import zipfile
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from axon.cli import samples as samples_file
from axon.cli.samples import own_samples
from axon.errors import ConfigurationError

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
        ({"inputs": INPUTS, "labels": LABELS, "scale": b"1"}, "one finite number"),
        ({"inputs": 3.0, "labels": LABELS}, "got a single number"),
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


def test_a_member_that_is_no_array_is_refused(tmp_path: Path) -> None:
    path = saved(tmp_path / "a.npz", labels=LABELS)
    with zipfile.ZipFile(path, "a") as archive:
        archive.writestr("inputs.npy", b"not an array")
    with pytest.raises(ConfigurationError, match="bytes that are no array as inputs"):
        own_samples(path)


def test_a_file_that_claims_more_than_any_memory_is_refused(tmp_path: Path) -> None:
    header = b"{'descr': '<f8', 'fortran_order': False, 'shape': (1152921504606846975,), }"
    with zipfile.ZipFile(tmp_path / "a.npz", "w") as archive:
        archive.writestr("inputs.npy", b"\x93NUMPY\x01\x00" + bytes([len(header), 0]) + header)
    with pytest.raises(ConfigurationError, match=r"numpy\.savez"):
        own_samples(tmp_path / "a.npz")


def test_a_file_that_unpacks_to_more_than_is_free_is_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    np.savez_compressed(tmp_path / "a.npz", inputs=np.zeros((100, 10_000)), labels=np.zeros(100))
    monkeypatch.setattr(samples_file, "available_bytes", lambda: 5_000_000)
    with pytest.raises(ConfigurationError, match="unpacks to 8 MB, and 5 MB of memory are free"):
        own_samples(tmp_path / "a.npz")
