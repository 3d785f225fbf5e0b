"""MED and MMTT with four to ten learners (DAB thesis, Fig. 4.1 to 4.5)."""

from __future__ import annotations

from axon.experiments import med_emulated
from axon.experiments.med_claims import Published, claims_of
from axon.experiments.med_notes import READING, regime
from axon.experiments.med_sweep import Sweep, figure_of, measure, rows_of
from axon.experiments.result import Result
from axon.experiments.settings import Settings

NAME = "med-learners"
LEARNERS, QUICK_LEARNERS = tuple(range(4, 11)), (4, 7, 10)
REPEATS, QUICK_REPEATS = 40, 3
PUBLISHED = Published(
    faster=11.0,
    slower=32.0,
    fewer=41.0,
    above={"satisfaction": 10.0, "fulfilment": 4.3, "occupancy": 4.3},
    behind={"satisfaction": 10.0, "fulfilment": 4.0, "occupancy": 14.0},
    rising={
        "time_s": False,
        "satisfaction": True,
        "fulfilment": True,
        "dropped": False,
        "occupancy": False,
    },
    reasons={
        "time_s": "learners halt at the deadline, which hides how long MMTT-Uncertain would take "
        "with few of them"
    },
    perfect=True,
)


def run(settings: Settings) -> Result:
    """Try every scheme with every number of learners."""
    repeats = settings.repeated(REPEATS, QUICK_REPEATS)
    places = QUICK_LEARNERS if settings.quick else LEARNERS
    found = measure(Sweep(across="learners", places=places, budget=300.0), repeats, settings)
    checked = None if settings.quick else med_emulated.check(settings)
    return Result(
        name=NAME,
        title="MED and MMTT with four to ten learners, on Nanos 1.5 times as fast",
        claims=claims_of(found, PUBLISHED) + (() if checked is None else (checked.claim,)),
        rows=rows_of(found) + (() if checked is None else checked.rows),
        figure=figure_of(found, "MED and MMTT over the number of learners"),
        repeats=repeats,
        notes=(*READING, regime(found)),
    )
