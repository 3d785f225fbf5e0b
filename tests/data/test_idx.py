"""The idx format, right and wrong."""

from __future__ import annotations

import gzip
import struct
import tracemalloc
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra.numpy import array_shapes, arrays
from numpy.typing import NDArray

from axon.data import idx
from axon.errors import ConfigurationError

SIX = struct.pack(">BBBBII", 0, 0, 8, 2, 2, 3) + bytes([1, 2, 3, 4, 5, 6])


def encoded(array: NDArray[np.uint8]) -> bytes:
    return struct.pack(f">BBBB{array.ndim}I", 0, 0, 8, array.ndim, *array.shape) + array.tobytes()


@given(arrays(np.uint8, array_shapes(min_dims=1, max_dims=4, max_side=5)))
@settings(max_examples=50)
def test_what_is_written_is_read(array: NDArray[np.uint8]) -> None:
    read = idx.parse(encoded(array), dimensions=array.ndim, origin="it")
    np.testing.assert_array_equal(read, array)


@given(st.binary(max_size=40))
@settings(max_examples=50)
def test_any_bytes_are_read_or_refused(data: bytes) -> None:
    try:
        read = idx.parse(b"\0\0\x08\x01" + data, dimensions=1, origin="it")
    except ConfigurationError:
        return
    assert len(read) == len(data) - 4


@pytest.mark.parametrize("packed", [False, True])
def test_a_file_is_read_packed_or_not_whatever_its_name(tmp_path: Path, packed: bool) -> None:
    path = tmp_path / "six"
    path.write_bytes(gzip.compress(SIX) if packed else SIX)
    read = idx.read(path, dimensions=2)
    assert read.tolist() == [[1, 2, 3], [4, 5, 6]]
    assert not read.flags.writeable


@pytest.mark.parametrize("packed", [False, True])
@pytest.mark.parametrize(
    ("data", "problem"),
    [
        (b"", "truncated: 0 bytes are no idx header"),
        (SIX[:3], "truncated: 3 bytes are no idx header"),
        (SIX[:9], "truncated: its header takes 12 bytes, and only 9"),
        (SIX[:-1], "truncated: its header announces 6 bytes of numbers, and only 5"),
        (SIX + b"\0", "trailing bytes: its header announces 6 bytes of numbers, and at least 7"),
        (b"\x89PNG" + SIX, "no idx file of bytes: it starts with 89 50 4e 47"),
        (b"\0\0\x0d\x02" + SIX[4:], "no idx file of bytes: it starts with 00 00 0d 02"),
        (b"\0\0\x08\0", "no idx file of bytes: it starts with 00 00 08 00"),
        (SIX[:3] + b"\x01" + SIX[4:], "has 1 dimensions, expected 2"),
        (struct.pack(">BBBB2I", 0, 0, 8, 2, 2**31, 2), "announces 4294967308 bytes, more than"),
    ],
)
def test_a_wrong_file_is_named_with_its_problem(
    tmp_path: Path, data: bytes, problem: str, packed: bool
) -> None:
    path = tmp_path / "wrong-file"
    path.write_bytes(gzip.compress(data) if packed else data)
    with pytest.raises(ConfigurationError, match=f"wrong-file .*{problem}"):
        idx.read(path, dimensions=2)


@pytest.mark.parametrize("damage", ["cut", "flipped", "followed"])
def test_a_damaged_package_is_named(tmp_path: Path, damage: str) -> None:
    data = bytearray(gzip.compress(SIX))
    if damage == "cut":
        del data[-9:]
    elif damage == "flipped":
        data[-8] ^= 1  # the checksum of the contents
    else:
        data += b"more"
    path = tmp_path / "six.gz"
    path.write_bytes(data)
    with pytest.raises(ConfigurationError, match=r"six\.gz is damaged"):
        idx.read(path, dimensions=2)


@pytest.mark.parametrize("kind", ["none", "folder"])
def test_a_file_that_cannot_be_read_is_named_with_the_reason(tmp_path: Path, kind: str) -> None:
    if kind == "folder":
        (tmp_path / "here").mkdir()
    with pytest.raises(
        ConfigurationError, match=r"cannot read .*here: (No such|Is a dir).* take it"
    ):
        idx.content(tmp_path / "here")


def test_a_package_that_grows_is_unpacked_no_further_than_its_header_announces(
    tmp_path: Path,
) -> None:
    path = tmp_path / "bomb.gz"
    path.write_bytes(gzip.compress(SIX + bytes(64 << 20), compresslevel=1))
    tracemalloc.start()
    try:
        assert len(idx.content(path)) == len(SIX) + 1
        peak = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    assert peak < 1 << 20
