"""Round records as lines of JSON: one line a cycle, the same bytes for the same record.

Keys stand in the order of their declaration and floats as Python prints them, so two runs can be
compared with `cmp`. JSON knows no NaN and no infinity: both become null, which comes back as None
where the field may be None and as NaN where it is a float.
"""

from __future__ import annotations

import errno
import hashlib
import json
import math
import os
import tempfile
from collections.abc import Iterable
from concurrent.futures import ThreadPoolExecutor
from io import FileIO
from pathlib import Path
from typing import Any, get_type_hints

import msgspec
import numpy as np

from axon.errors import ConfigurationError
from axon.report.frames import Records
from axon.values import RoundRecord, Timings, Vector

DIGEST_BYTES = 16
_PIECE_BYTES = 8 << 20


def digest(vector: Vector) -> str:
    """The `digest_of` the vector's little-endian float32 bytes."""
    return digest_of(np.ascontiguousarray(vector, dtype="<f4").reshape(-1).data.cast("B"))


def digest_of(data: memoryview | bytes) -> str:
    """The SHA-256 of the SHA-256 digests of every 8 MiB, cut to 32 hex digits.

    In pieces, because all cores hash those of a large model at once.
    """
    data = memoryview(data)
    pieces = [data[at : at + _PIECE_BYTES] for at in range(0, len(data), _PIECE_BYTES)]
    whole = hashlib.sha256()
    if len(pieces) < 2:
        found = [_hashed(piece) for piece in pieces]
    else:
        with ThreadPoolExecutor(os.cpu_count()) as threads:
            found = list(threads.map(_hashed, pieces))
    whole.update(b"".join(found))
    return whole.hexdigest()[: 2 * DIGEST_BYTES]


def _hashed(piece: memoryview) -> bytes:
    return hashlib.sha256(piece).digest()


def to_line(record: RoundRecord) -> str:
    """The record as one line of JSON in ASCII, without the newline."""
    plain = _plain(record)
    if record.epoch is None:
        del plain["epoch"]
    return _told(plain)


def to_json(value: Any) -> str:
    """A record, one of its parts, or plain values around them, as records are written."""
    return _told(_plain(value))


def _plain(value: Any) -> Any:
    return _finite(msgspec.to_builtins(value, enc_hook=_unwrap))


def _told(plain: Any) -> str:
    # Not msgspec's own encoder: it prints 1e16 where Python prints 1e+16.
    return json.dumps(plain, separators=(",", ":"), allow_nan=False)


def from_line(line: str) -> RoundRecord:
    """The record that a line holds; `ConfigurationError` where it holds none."""
    try:
        plain = json.loads(line)
        if isinstance(plain, dict):
            _restore(plain)
        return msgspec.convert(plain, RoundRecord)
    except (ValueError, RecursionError) as error:
        raise ConfigurationError(f"not a round record: {error}") from error


def read(path: str | Path) -> Records:
    """The records of a file, in its order.

    A last line without its newline is what a killed writer leaves; it is no record.
    """
    records = Records()
    *lines, _unfinished = Path(path).read_bytes().split(b"\n")
    for number, line in enumerate(lines, start=1):
        try:
            records.append(from_line(line.decode()))
        except ValueError as error:
            raise ConfigurationError(
                f"{path}, line {number}: {error}",
                hint="rewrite the file from the run's store, or take the line out",
            ) from error
    return records


def write_whole(path: Path, data: bytes) -> None:
    """Replace a file, so that whatever happens meanwhile either the old or the new one is there."""
    # Beside the file, because a rename is atomic within one file system only, and under a name that
    # nobody else can have put something at.
    handle, name = tempfile.mkstemp(prefix=f".{path.name[:100]}.", dir=path.parent)
    temporary = Path(name)
    try:
        with open(handle, "wb") as file:
            file.write(data)
            file.flush()
            os.fsync(file.fileno())
        # mkstemp makes files for their owner alone; what a run leaves is no secret.
        temporary.chmod(0o644)
        temporary.replace(path)
    except BaseException:
        temporary.unlink(missing_ok=True)
        raise
    _sync_folder(path.parent)


class RecordFile:
    """A file of record lines with one writer, which may be killed at any instant."""

    def __init__(self, path: str | Path) -> None:
        self.path = Path(path)

    def rewrite(self, records: Iterable[RoundRecord]) -> None:
        """Replace the whole file: a reader finds the old one or the new one, never a mixture."""
        write_whole(self.path, "".join(to_line(each) + "\n" for each in records).encode())

    def append(self, record: RoundRecord) -> None:
        """Add one record, with one unbuffered write of its whole line."""
        line = f"{to_line(record)}\n".encode()
        with open(self.path, "a+b", buffering=0) as file:
            end = _end_of_whole_lines(file)
            file.truncate(end)
            if file.write(line) != len(line):
                file.truncate(end)
                problem = f"no room for a record of {len(line)} bytes"
                raise OSError(errno.ENOSPC, problem, str(self.path))


def _end_of_whole_lines(file: FileIO) -> int:
    """Where the next line belongs: after the last newline, so that a torn line is written over."""
    size = file.seek(0, os.SEEK_END)
    file.seek(max(0, size - 1))
    if file.read(1) in (b"", b"\n"):
        return size
    file.seek(0)
    return file.readall().rfind(b"\n") + 1


def _sync_folder(folder: Path) -> None:
    # The rename itself lives in the folder; without this a power cut may undo it. Windows neither
    # needs this nor lets a folder be opened.
    if os.name == "nt":
        return
    handle = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)


def _unwrap(value: Any) -> Any:
    # A mean or a count straight from numpy is a number all the same.
    if isinstance(value, np.generic):
        return value.item()
    raise TypeError(f"a round record cannot hold {type(value).__name__}: {value!r}")


def _finite(value: Any) -> Any:
    """The same without NaN and infinities."""
    if isinstance(value, dict):
        return {key: _finite(item) for key, item in value.items()}
    if isinstance(value, (list, tuple)):
        return [_finite(item) for item in value]
    if isinstance(value, float) and not math.isfinite(value):
        return None
    return value


def _float_fields(kind: type) -> tuple[str, ...]:
    return tuple(name for name, hint in get_type_hints(kind).items() if hint is float)


_RECORD_FLOATS = _float_fields(RoundRecord)
_TIMING_FLOATS = _float_fields(Timings)


def _restore(record: dict[str, Any]) -> None:
    """Put NaN back where null stands for a float."""
    _fill(record, _RECORD_FLOATS)
    devices = record.get("devices")
    for device in devices if isinstance(devices, list) else ():
        timings = device.get("timings") if isinstance(device, dict) else None
        if isinstance(timings, dict):
            _fill(timings, _TIMING_FLOATS)


def _fill(fields: dict[str, Any], names: tuple[str, ...]) -> None:
    fields.update({name: math.nan for name in names if fields.get(name, 0) is None})
