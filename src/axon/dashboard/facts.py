"""A cycle in numbers: one array with a cell for each device, and a few numbers for all of them.

A record of a thousand devices is a megabyte of Python objects; its cells are 50 kB.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, get_args

import msgspec
import numpy as np
from numpy.typing import NDArray

from axon.dashboard.texts import visible
from axon.errors import ConfigurationError
from axon.values import RoundRecord, Status

STATUSES: tuple[Status, ...] = get_args(Status)
USED, LATE, REFUSED, DECLINED, FAILED, NOT_NEEDED = range(len(STATUSES))
_PLACES = {status: place for place, status in enumerate(STATUSES)}

CELL = np.dtype(
    [
        ("device", "<u4"),
        ("status", "u1"),
        ("halted", "?"),
        ("reason", "<u2"),
        ("planned", "<i8"),
        ("shards", "<i8"),
        ("batches", "<i8"),
        ("samples", "<i8"),
        ("fetched", "<f4"),
        ("answered", "<f4"),
        ("download", "<f4"),
        ("train", "<f4"),
    ]
)
"""Names and reasons by number; seconds after the cycle began; NaN and -1 for what nobody knows."""

MOST_REASONS = 60_000
_MANY_REASONS = "a reason that is one of too many to keep"
_MOST_COUNT = 2**53


class Parts(msgspec.Struct):
    """`Timings` as they stand in a line."""

    download_s: float | None
    train_s: float | None


class Part(msgspec.Struct):
    """A `DeviceRecord` as it stands in a line."""

    device: str
    status: Status
    reason: str = ""
    planned_shards: int | None = None
    shards: int = 0
    batches: int = 0
    samples: int = 0
    halted: bool = False
    loss: float | None = None
    fetched_s: float | None = None
    answered_s: float | None = None
    timings: Parts | None = None


class Line(msgspec.Struct):
    """A `RoundRecord` as it stands in a line, where null is a number that is not finite.

    Decoded into these, a long file is read several times as fast as into the values themselves.
    """

    run: str
    cycle: int
    started_s: float | None
    ended_s: float | None
    deadline_s: float | None
    devices: list[Part]
    batches: int
    accuracy: float | None = None
    loss: float | None = None
    digest: str = ""
    epoch: int | None = None


_decoder = msgspec.json.Decoder(Line)


def line_of(text: bytes) -> Line:
    """The record that a line holds; `ConfigurationError` where it holds none."""
    try:
        return _decoder.decode(text)
    except (msgspec.DecodeError, UnicodeDecodeError) as error:
        raise ConfigurationError(f"not a round record: {error}") from error


class Roll:
    """Texts by number, as they are shown, in the order in which they were first met; at most so
    many of them.
    """

    def __init__(self, most: int = 2**32 - 1, rest: str = "") -> None:
        self.texts: list[str] = []
        self._numbers: dict[str, int] = {}
        self._most = most
        self._rest = rest

    def number(self, text: str) -> int:
        """The text's number; from the last one on all texts are one."""
        found = self._numbers.get(text)
        if found is None:
            if len(self.texts) >= self._most - 1:
                text = self._rest
                if text in self._numbers:
                    return self._numbers[text]
            found = self._numbers[text] = len(self.texts)
            self.texts.append(visible(text))
        return found


class Rolls:
    """The names and reasons that the cells of one run tell by number."""

    def __init__(self) -> None:
        self.devices = Roll()
        self.reasons = Roll(MOST_REASONS, _MANY_REASONS)


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Facts:
    """One cycle."""

    cycle: int
    started_s: float
    ended_s: float
    deadline_s: float
    batches: int
    accuracy: float
    """NaN where the model was not tested."""
    loss: float
    cells: NDArray[np.void]

    @property
    def duration_s(self) -> float:
        """How long it took."""
        return self.ended_s - self.started_s


def facts_of(record: RoundRecord | Line, rolls: Rolls) -> Facts:
    """A record's numbers; its names and reasons are entered in the rolls."""
    return Facts(
        cycle=_count(record.cycle),
        started_s=_number(record.started_s),
        ended_s=_number(record.ended_s),
        deadline_s=_number(record.deadline_s),
        batches=_count(record.batches),
        accuracy=_number(record.accuracy),
        loss=_number(record.loss),
        cells=_cells(record.devices, rolls),
    )


def _cells(devices: Sequence[Any], rolls: Rolls) -> NDArray[np.void]:
    """Column by column, which is several times as fast as cell by cell."""
    cells = np.empty(len(devices), dtype=CELL)
    cells["device"] = [rolls.devices.number(one.device) for one in devices]
    cells["reason"] = [rolls.reasons.number(one.reason) for one in devices]
    cells["status"] = [_PLACES[one.status] for one in devices]
    cells["halted"] = [one.halted for one in devices]
    planned = [one.planned_shards for one in devices]
    cells["planned"] = _counts([-1 if number is None else number for number in planned])
    cells["shards"] = _counts([one.shards for one in devices])
    cells["batches"] = _counts([one.batches for one in devices])
    cells["samples"] = _counts([one.samples for one in devices])
    timings = [one.timings for one in devices]
    with np.errstate(over="ignore"):  # A number too large for a cell is an infinite one.
        cells["fetched"] = _numbers([one.fetched_s for one in devices])
        cells["answered"] = _numbers([one.answered_s for one in devices])
        cells["download"] = _numbers([each and each.download_s for each in timings])
        cells["train"] = _numbers([each and each.train_s for each in timings])
    return cells


def _numbers(values: Sequence[float | None]) -> NDArray[np.float64]:
    """NaN for what is not known."""
    return np.array(values, dtype=np.float64)


def _counts(values: Sequence[int]) -> NDArray[np.int64]:
    try:
        return np.array(values, dtype=np.int64).clip(-_MOST_COUNT, _MOST_COUNT)
    except OverflowError:
        return np.array([_count(value) for value in values], dtype=np.int64)


def _number(value: float | None) -> float:
    return math.nan if value is None else float(value)


def _count(value: int) -> int:
    # What stands in a file may be any number of digits.
    return max(-_MOST_COUNT, min(value, _MOST_COUNT))


def spans(cells: NDArray[np.void]) -> tuple[NDArray[np.float32], NDArray[np.float32]]:
    """When each device had its download, and when its training was done, after the cycle began.

    A device that keeps its times to itself is seen from outside only: it fetched, and it answered;
    its upload is then part of its training. NaN where nothing is known.
    """
    told = np.isfinite(cells["download"]) & np.isfinite(cells["train"])
    fetched = np.where(told, cells["download"], cells["fetched"])
    trained = np.where(told, cells["download"] + cells["train"], cells["answered"])
    # Two clocks may differ by a little: no part of a cycle ends after the answer is there.
    return np.minimum(fetched, _or_infinite(cells["answered"])), np.minimum(
        trained, _or_infinite(cells["answered"])
    )


def _or_infinite(values: NDArray[np.float32]) -> NDArray[np.float32]:
    return np.where(np.isnan(values), np.float32(np.inf), values)
