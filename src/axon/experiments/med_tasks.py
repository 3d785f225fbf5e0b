"""MED and MMTT with one to four tasks on ten learners (DAB thesis, Fig. 4.6 to 4.10)."""

from __future__ import annotations

from axon.experiments.med_claims import Published, claims_of
from axon.experiments.med_notes import READING, regime
from axon.experiments.med_sweep import Sweep, figure_of, measure, rows_of
from axon.experiments.result import Result
from axon.experiments.settings import Settings

NAME = "med-tasks"
TASKS, QUICK_TASKS = (1, 2, 3, 4), (1, 4)
REPEATS, QUICK_REPEATS = 40, 3
PUBLISHED = Published(
    faster=16.0,
    slower=33.0,
    fewer=32.0,
    above={"satisfaction": 4.0, "fulfilment": 3.0, "occupancy": None},
    behind={"satisfaction": 6.0, "fulfilment": 2.0, "occupancy": 15.0},
    rising={
        "time_s": True,
        "satisfaction": False,
        "fulfilment": False,
        "dropped": True,
        "occupancy": True,
    },
    reasons={
        "time_s": "with few tasks each has many learners, and that an owner trains on one of them "
        "is more likely than their smaller shares can make up for, unless it is known beforehand"
    },
    perfect=False,
)


def run(settings: Settings) -> Result:
    """Try every scheme with every number of tasks."""
    repeats = settings.repeated(REPEATS, QUICK_REPEATS)
    places = QUICK_TASKS if settings.quick else TASKS
    sweep = Sweep(across="tasks", places=places, budget=200.0, longer_s=5.0)
    found = measure(sweep, repeats, settings)
    return Result(
        name=NAME,
        title="MED and MMTT with one to four tasks on ten learners, on Nanos 1.5 times as fast",
        claims=claims_of(found, PUBLISHED),
        rows=rows_of(found),
        figure=figure_of(found, "MED and MMTT over the number of tasks"),
        repeats=repeats,
        notes=(*READING, regime(found)),
    )
