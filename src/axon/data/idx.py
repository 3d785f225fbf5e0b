"""The idx format of MNIST and its relatives, read strictly.

Two zero bytes, a byte for the type of the numbers, a byte for how many dimensions there are, each
dimension in four bytes with the highest first, then the numbers. Files may be packed with gzip.
"""

from __future__ import annotations

import gzip
import math
import struct
import zlib
from pathlib import Path
from typing import IO

import numpy as np
from numpy.typing import NDArray

from axon.errors import ConfigurationError

MAX_BYTES = 1 << 28
"""A file whose header announces more than this is not read; MNIST's largest has 47 million."""
_UNSIGNED_BYTES = b"\x00\x00\x08"
_GZIP = b"\x1f\x8b"
_STEP_BYTES = 1 << 20


def read(path: Path, *, dimensions: int) -> NDArray[np.uint8]:
    """The numbers of a file, packed or not; they cannot be written to."""
    return parse(content(path), dimensions=dimensions, origin=str(path))


def content(path: Path, *, origin: str = "") -> bytes:
    """A file's unpacked bytes, and never more than one above what its own header announces.

    That is what stops a small packed file from filling the memory. What is packed is told by its
    first bytes, not by its name. Where the file is wrong it is called `origin`, or by its path.
    """
    origin = origin or str(path)
    try:
        with path.open("rb") as file:
            packed = file.read(2) == _GZIP
            file.seek(0)
            if not packed:
                return _announced(file, origin)
            with gzip.GzipFile(fileobj=file) as unpacked:
                return _announced(unpacked, origin)
    except (EOFError, gzip.BadGzipFile, zlib.error) as error:
        raise ConfigurationError(f"{origin} is damaged: {error}") from error
    except OSError as error:
        raise ConfigurationError(
            f"cannot read {origin}: {error.strerror or error}",
            hint="make it a file that may be read, or take it away",
        ) from error


def parse(data: bytes, *, dimensions: int, origin: str) -> NDArray[np.uint8]:
    """The numbers in an idx file's unpacked bytes; `origin` names it where it is wrong."""
    shape = _shape(data, origin)
    if len(shape) != dimensions:
        raise ConfigurationError(f"{origin} has {len(shape)} dimensions, expected {dimensions}")
    start = 4 + 4 * dimensions
    wanted, got = math.prod(shape), len(data) - start
    if got != wanted:
        problem = "is truncated" if got < wanted else "has trailing bytes"
        raise ConfigurationError(
            f"{origin} {problem}: its header announces {wanted} bytes of numbers, "
            f"and {'only ' if got < wanted else 'at least '}{got} follow"
        )
    return np.frombuffer(data, dtype=np.uint8, offset=start).reshape(shape)


def _announced(file: IO[bytes] | gzip.GzipFile, origin: str) -> bytes:
    data = bytearray(file.read(4))
    data += file.read(4 * data[3]) if len(data) == 4 else b""
    # One byte more than announced, so that `parse` can tell that something trails.
    end = len(data) + math.prod(_shape(data, origin)) + 1
    if end > MAX_BYTES:
        raise ConfigurationError(
            f"{origin} announces {end - 1} bytes, more than the limit of {MAX_BYTES}"
        )
    # In steps, because the header of a damaged file may announce far more than there is.
    while len(data) < end and (step := file.read(min(_STEP_BYTES, end - len(data)))):
        data += step
    return bytes(data)


def _shape(data: bytes | bytearray, origin: str) -> tuple[int, ...]:
    if len(data) < 4:
        raise ConfigurationError(f"{origin} is truncated: {len(data)} bytes are no idx header")
    if data[:3] != _UNSIGNED_BYTES or data[3] == 0:
        raise ConfigurationError(
            f"{origin} is no idx file of bytes: it starts with {bytes(data[:4]).hex(' ')}, "
            "expected 00 00 08 and the number of dimensions"
        )
    end = 4 + 4 * data[3]
    if len(data) < end:
        raise ConfigurationError(
            f"{origin} is truncated: its header takes {end} bytes, and only {len(data)} are there"
        )
    return struct.unpack(f">{data[3]}I", data[4:end])
