"""What came of a cluster and of each of its servers."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, fields
from typing import TYPE_CHECKING

from axon.byzantine.records import StepRecord
from axon.report.frames import rows_frame
from axon.report.tables import Cell
from axon.shown import table
from axon.values import Vector

if TYPE_CHECKING:
    import pandas as pd


@dataclass(frozen=True, slots=True, kw_only=True, repr=False)
class Trained:
    """What came of one server."""

    records: tuple[StepRecord, ...]
    model: Vector
    failure: str = ""
    """Why it gave up before its last step."""

    @property
    def accuracy(self) -> float | None:
        """Of the last model that was tested; None for a server that did no step."""
        tested = [record.accuracy for record in self.records if record.accuracy is not None]
        return tested[-1] if tested else None

    def __repr__(self) -> str:
        steps = len(self.records)
        return f"Trained(steps={steps}, accuracy={self.accuracy}, failure={self.failure!r})"


@dataclass(frozen=True, slots=True, kw_only=True, repr=False)
class Outcome:
    """What came of a cluster; in a notebook a table of its servers."""

    servers: Mapping[str, Trained]
    """The honest ones, by name."""
    computing_s: Mapping[str, Mapping[int, float]]
    """By worker and step: how long its gradient took to compute."""
    counted: Mapping[str, int] = field(default_factory=dict)
    """By hostile node: in how many of the `steps` a vector of its was aggregated. An attack that
    hardly ever counts has shown nothing."""

    @property
    def accuracy(self) -> float:
        """Of the honest server that is worst off; NaN if one did no step."""
        found = [math.nan if one.accuracy is None else one.accuracy for one in self.trained]
        return math.nan if any(map(math.isnan, found)) else min(found)

    @property
    def steps(self) -> int:
        """Of all honest servers together."""
        return sum(len(one.records) for one in self.trained)

    @property
    def trained(self) -> tuple[Trained, ...]:
        """What came of each honest server, in the order of names."""
        return tuple(self.servers.values())

    def to_pandas(self) -> pd.DataFrame:
        """A frame with a row for each step of each server; raises without pandas."""
        records = [record for one in self.trained for record in one.records]
        return rows_frame(_row(record) for record in records)

    def __repr__(self) -> str:
        told = f"accuracy={self.accuracy:.4g}, servers={len(self.servers)}, steps={self.steps}"
        return f"Outcome({told}, counted={dict(self.counted)})"

    def _repr_html_(self) -> str:
        rows = [(n, len(one.records), one.accuracy, one.failure) for n, one in self.servers.items()]
        shown = table([("server", "steps", "accuracy", "gave up"), *rows])
        if not self.counted:
            return shown
        return shown + table([("hostile", f"counted in, of {self.steps}"), *self.counted.items()])


def _row(record: StepRecord) -> dict[str, Cell]:
    row: dict[str, Cell] = {each.name: getattr(record, each.name) for each in fields(record)}
    return row | {
        "duration_s": record.duration_s,
        "gradients_from": " ".join(record.gradients_from),
        "models_from": " ".join(record.models_from),
        "refusals": len(record.refusals),
    }


def counted_in(records: Iterable[StepRecord], hostile: Iterable[str]) -> dict[str, int]:
    """In how many steps each hostile node's gradient or model was among those aggregated."""
    heard = [{*record.gradients_from, *record.models_from} for record in records]
    return {name: sum(name in each for each in heard) for name in hostile}
