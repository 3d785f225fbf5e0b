"""What `dab-deadline` found as rows and as a figure."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

from axon.experiments.dab_deadline_claims import PUBLISHED, THESIS, USED, Found, part_done
from axon.experiments.dab_deadline_runs import (
    CYCLES,
    WAYS,
    done,
    shards,
    total_s,
    truancy,
    worst,
)
from axon.experiments.result import Row, line
from axon.experiments.runs import Measure, Records, accuracy, loss
from axon.experiments.thesis import LOSSES
from axon.intervals import mean_interval
from axon.report.figures import Figure, Panel, Point, Series
from axon.report.tables import Cell

MEASURES: Mapping[str, Callable[[Records], float]] = {
    "shards a cycle": shards,
    "time [s]": total_s,
    "late [%]": truancy,
    "worst cycle [%]": worst,
    "share done [%]": part_done,
}


def rows_of(found: Found, shard_samples: int) -> tuple[Row, ...]:
    """A row for each way at each deadline in each world; training was on shards of that size."""
    return tuple(
        _row(found, world, published_s, name)
        | _trained(found, world, published_s, name, shard_samples)
        for world, deadlines in found.deadlines.items()
        for published_s in deadlines
        for name in WAYS
    )


def _row(found: Found, world: str, published_s: float, name: str) -> dict[str, Cell]:
    cells: dict[str, Cell] = {
        "deadlines": world,
        "deadline [s]": CYCLES * found.deadlines[world][published_s],
        "scheme": name,
    }
    measures = MEASURES.items()
    return cells | {
        label: found.time(world, published_s, name, measure) for label, measure in measures
    }


def _trained(
    found: Found, world: str, published_s: float, name: str, shard_samples: int
) -> dict[str, Cell]:
    """What training came to, once for each deadline: it knows no owners, and one regime."""
    cells: dict[str, Cell] = {}
    for reading in LOSSES if world == PUBLISHED else ():
        if (repeats := found.trained.get((reading, published_s, name))) is not None:
            cells[f"accuracy [%], {reading}"] = repeats.last(accuracy)
            cells[f"loss, {reading}"] = repeats.last(loss)
            parts = mean_interval([done(run, shard_samples) for run in repeats.runs])
            cells[f"share trained [%], {reading}"] = parts
    return cells


def figure_of(found: Found) -> Figure:
    across = [CYCLES * each_s for each_s in found.deadlines[PUBLISHED].values()]
    label = "deadline of five cycles [s]"
    limit = Series("deadline", tuple(Point(each_s, each_s) for each_s in across), "dashed")
    times = _lines(found, across, total_s, {"": PUBLISHED})
    late = _lines(found, across, truancy, {"": PUBLISHED, ", devices in use": USED})
    ends = [
        Panel("", label, title, _ends(found, measure))
        for title, measure in (("accuracy [%]", accuracy), ("loss", loss))
    ]
    panels = (
        Panel("", label, "time of five cycles [s]", (*times, limit)),
        Panel("", label, "late [% of the deadline]", late),
        *ends,
    )
    return Figure("DAB and CSA against a deadline", panels)


def _lines(
    found: Found,
    across: Sequence[float],
    measure: Callable[[Records], float],
    worlds: Mapping[str, str],
) -> tuple[Series, ...]:
    return tuple(
        line(
            f"{name}{suffix}",
            [found.time(world, each_s, name, measure) for each_s in found.deadlines[world]],
            across,
        )
        for suffix, world in worlds.items()
        for name in WAYS
    )


def _ends(found: Found, measure: Measure) -> tuple[Series, ...]:
    """What training came to, with the thesis's loss."""
    series = []
    for name in WAYS:
        curve = {
            CYCLES * each_s: found.trained[THESIS, each_s, name].last(measure)
            for each_s in found.deadlines[PUBLISHED]
            if (THESIS, each_s, name) in found.trained
        }
        series.append(line(name, list(curve.values()), list(curve)))
    return tuple(series)
