"""Records for a notebook: a list that shows itself as a table and becomes a pandas frame.

records = read("runs/a/records.jsonl")
records.to_pandas().plot("ended_s", "accuracy")
records.to_pandas(each="device").groupby("device")["batches"].sum()

Rows of a table become one too, such as those of a published result that was measured again.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import asdict
from typing import TYPE_CHECKING, Any, Literal, TypeAlias

from axon.errors import ConfigurationError
from axon.intervals import Interval
from axon.report.tables import Cell
from axon.shown import table
from axon.values import RoundRecord

if TYPE_CHECKING:
    import pandas as pd

Each: TypeAlias = Literal["cycle", "device"]


class Records(list[RoundRecord]):
    """What happened in each cycle of a run; a list, and in a notebook a table."""

    def to_pandas(self, *, each: Each = "cycle") -> pd.DataFrame:
        """See `to_frame`."""
        return to_frame(self, each=each)

    def _repr_html_(self) -> str:
        heading = ["cycle", "seconds", "batches", "accuracy", "loss", "used", "others"]
        return table([heading, *map(_shown, self)])


def to_frame(records: Iterable[RoundRecord], *, each: Each = "cycle") -> pd.DataFrame:
    """A frame with a row for each cycle, or for each device in each cycle.

    Numbers that are not there are NaN. Raises `ConfigurationError` without pandas.
    """
    rows = {"cycle": _cycles, "device": _devices}
    if each not in rows:
        raise ConfigurationError(f"each must be 'cycle' or 'device', got {each!r}")
    return _framed(rows[each](records))


def rows_frame(rows: Iterable[Mapping[str, Cell]]) -> pd.DataFrame:
    """A frame of a table's rows; an interval is three columns: itself, its `low` and its `high`."""
    return _framed(_spread(row) for row in rows)


def _framed(rows: Iterable[Mapping[str, Any]]) -> pd.DataFrame:
    try:
        # Late, because it takes a while to import and not every installation has it.
        import pandas as pd
    except ImportError as error:
        raise ConfigurationError(
            "a frame needs pandas", hint="pip install 'axon-edge[notebook]'"
        ) from error
    return pd.DataFrame.from_records(list(rows))


def _spread(row: Mapping[str, Cell]) -> dict[str, Any]:
    flat: dict[str, Any] = {}
    for name, cell in row.items():
        if isinstance(cell, Interval):
            flat |= {name: cell.value, f"{name} low": cell.low, f"{name} high": cell.high}
        else:
            flat[name] = cell
    return flat


def _cycles(records: Iterable[RoundRecord]) -> Iterator[dict[str, Any]]:
    for record in records:
        row = asdict(record)
        del row["devices"]
        yield row | {
            "duration_s": record.duration_s,
            "used": len(record.with_status("used")),
            "asked": len(record.devices),
        }


def _devices(records: Iterable[RoundRecord]) -> Iterator[dict[str, Any]]:
    for record in records:
        for device in record.devices:
            row = asdict(device)
            timings = row.pop("timings") or {}
            yield (
                {"run": record.run, "cycle": record.cycle}
                | row
                | {
                    "download_s": timings.get("download_s"),
                    "train_s": timings.get("train_s"),
                }
            )


def _shown(record: RoundRecord) -> list[object]:
    others = [each for each in record.devices if each.status != "used"]
    return [
        record.cycle,
        record.duration_s,
        record.batches,
        record.accuracy,
        record.loss,
        f"{len(record.devices) - len(others)}/{len(record.devices)}",
        ", ".join(f"{each.device} {each.status}" for each in others),
    ]
