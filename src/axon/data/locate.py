"""Where MNIST and Fashion-MNIST are on this device, and how to get them when they are not.

Looked for, in this order: `$AXON_DATA/<name>`, `$AXON_DATA`, the user's cache folder, where the
operating system's package puts it, and at last the network. Whatever its origin, a file is used
only when its contents have the digest they should have.
"""

from __future__ import annotations

import hashlib
import http.client
import os
import tempfile
import urllib.request
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import IO

import numpy as np
from numpy.typing import NDArray

from axon.data import idx
from axon.errors import ConfigurationError

TRAIN_INPUTS = "train-images-idx3-ubyte"
TRAIN_LABELS = "train-labels-idx1-ubyte"
TEST_INPUTS = "t10k-images-idx3-ubyte"
TEST_LABELS = "t10k-labels-idx1-ubyte"
DIMENSIONS = {TRAIN_INPUTS: 3, TRAIN_LABELS: 1, TEST_INPUTS: 3, TEST_LABELS: 1}
PATIENCE_S = 30.0
"""How long an address may keep silent before the next one is tried."""
MAX_DOWNLOAD_BYTES = 1 << 26
"""More than this is not taken from an address; the largest packed file has 26 million."""
_STEP_BYTES = 1 << 16


@dataclass(frozen=True, slots=True, kw_only=True)
class Source:
    """A set of four idx files: how to recognise them, and where they are to be had."""

    name: str
    digests: Mapping[str, str]
    """SHA-256 of each file's contents once unpacked, so that packing makes no difference."""
    addresses: tuple[str, ...]
    """Where each file lies packed under its name and `.gz`; tried in this order."""
    package: str = ""
    """The Debian package that holds it, if one does."""
    folder: str = ""
    """Where that package puts it."""


# MNIST (LeCun, Cortes, Burges): the digests are of files whose MD5 is that of the originals
# (6bbc9ace898e44ae57da46a324031adb for the training images, unpacked).
_MNIST = Source(
    name="mnist",
    digests={
        TRAIN_INPUTS: "ba891046e6505d7aadcbbe25680a0738ad16aec93bde7f9b65e87a2fc25776db",
        TRAIN_LABELS: "65a50cbbf4e906d70832878ad85ccda5333a97f0f4c3dd2ef09a8a9eef7101c5",
        TEST_INPUTS: "0fa7898d509279e482958e8ce81c8e77db3f2f8254e26661ceb7762c4d494ce7",
        TEST_LABELS: "ff7bcfd416de33731a308c3f266cc351222c34898ecbeaf847f06e48f7ec33f2",
    },
    addresses=(
        "https://ossci-datasets.s3.amazonaws.com/mnist/",
        "https://storage.googleapis.com/cvdf-datasets/mnist/",
    ),
)
# Fashion-MNIST (Zalando Research, MIT licence): the digests are of the files in Debian's package
# dataset-fashion-mnist 0.0~git20200523.55506a9-1. The authors' bucket is better known by its
# website address, which speaks no https; the one below is the same bucket.
_FASHION_MNIST = Source(
    name="fashion-mnist",
    digests={
        TRAIN_INPUTS: "c59f468a2f672dc815687fe0f83887768d799fd8a3f3276145d20f83aa44d888",
        TRAIN_LABELS: "bad3541b69d912435c50bb6ba87bec294ff4f6a2e1246121d8633921760443d9",
        TEST_INPUTS: "5b4141f0afbad91edebe8549f8fcffe087ea10ca49f1dbef5c9a5cd8815ce37b",
        TEST_LABELS: "0402a96d92fd2663957122ceb108a494c5af83dab82d92729df917d7dec38c34",
    },
    addresses=(
        "https://raw.githubusercontent.com/zalandoresearch/fashion-mnist/master/data/fashion/",
        "https://fashion-mnist.s3.eu-central-1.amazonaws.com/",
    ),
    package="dataset-fashion-mnist",
    folder="/usr/share/datasets/fashion-mnist",
)
SOURCES: Mapping[str, Source] = {source.name: source for source in (_MNIST, _FASHION_MNIST)}


def read(source: Source, file: str) -> NDArray[np.uint8]:
    """The numbers of one of the four files, from the first place that has it.

    A file that is found and is not what it should be is an error, never passed over: what lies
    in its place is not what its owner believes.
    """
    path = find(source, file)
    data = _download(source, file) if path is None else _found(path, source, file)
    return idx.parse(data, dimensions=DIMENSIONS[file], origin=f"{source.name}'s {file}")


def find(source: Source, file: str) -> Path | None:
    """The file, packed or not, in the first folder that has it."""
    for folder in _folders(source):
        for path in (folder / file, folder / f"{file}.gz"):
            if path.is_file():
                return path
    return None


def cache_folder(source: Source) -> Path:
    """Where a download is kept, and where a person may put the files."""
    chosen = Path(os.environ.get("XDG_CACHE_HOME", ""))
    if chosen.is_absolute():
        return chosen / "axon" / source.name
    try:
        return Path.home() / ".cache" / "axon" / source.name
    except RuntimeError as error:
        raise ConfigurationError(
            f"there is no home folder to keep {source.name} in", hint="set XDG_CACHE_HOME"
        ) from error


def _folders(source: Source) -> Iterator[Path]:
    if chosen := os.environ.get("AXON_DATA"):
        yield Path(chosen).expanduser() / source.name
        yield Path(chosen).expanduser()
    yield cache_folder(source)
    if source.folder:
        yield Path(source.folder)


def _found(path: Path, source: Source, file: str) -> bytes:
    data = idx.content(path)
    hint = f"remove it, or keep each set in a folder of its own, such as $AXON_DATA/{source.name}"
    _check(data, str(path), source, file, hint)
    return data


def _check(data: bytes, origin: str, source: Source, file: str, hint: str = "") -> None:
    wanted, got = source.digests[file], hashlib.sha256(data).hexdigest()
    if got != wanted:
        raise ConfigurationError(
            f"{origin} is not {source.name}'s {file}: expected the SHA-256 {wanted}, got {got}",
            hint=hint,
        )


def _download(source: Source, file: str) -> bytes:
    """The contents from the first address that has the right ones, which go to the cache."""
    reasons = []
    for address in source.addresses:
        try:
            return _fetch(f"{address}{file}.gz", source, file)
        except (OSError, http.client.HTTPException, ConfigurationError) as error:
            reasons.append(f"from {address}: {error}")
    package = f"install the Debian package {source.package}, or " if source.package else ""
    raise ConfigurationError(
        f"{source.name}'s {file} is not on this device and could not be downloaded: "
        + "; ".join(reasons),
        hint=f"point AXON_DATA at a folder that has it, {package}"
        f"put the four files into {cache_folder(source)}, "
        "or try again with a network to have it downloaded",
    )


def _fetch(address: str, source: Source, file: str) -> bytes:
    folder = cache_folder(source)
    folder.mkdir(parents=True, exist_ok=True)
    # In the same folder, so that the renaming is one step: nobody ever sees half a file.
    with tempfile.TemporaryDirectory(dir=folder, prefix=".download-") as scratch:
        arrived = Path(scratch) / f"{file}.gz"
        # The addresses are our own, and the digest decides whether what came is used.
        with (
            urllib.request.urlopen(address, timeout=PATIENCE_S) as answer,  # noqa: S310
            arrived.open("wb") as out,
        ):
            _copy(answer, out)
        data = idx.content(arrived, origin="what came")
        _check(data, "what came", source, file)
        arrived.replace(folder / arrived.name)
    return data


def _copy(answer: IO[bytes], out: IO[bytes]) -> None:
    taken = 0
    while step := answer.read(_STEP_BYTES):
        taken += len(step)
        if taken > MAX_DOWNLOAD_BYTES:
            raise ConfigurationError(f"what came is larger than {MAX_DOWNLOAD_BYTES} bytes")
        out.write(step)
