"""An experiment that takes no time, for what surrounds experiments."""

from __future__ import annotations

import sys
from collections.abc import Callable
from types import ModuleType

import pytest

from axon.experiments import registry
from axon.experiments.registry import Experiment
from axon.experiments.result import Claim, Result
from axon.experiments.settings import Settings
from axon.intervals import Interval
from axon.report.figures import Figure, Panel, Point, Series

SERIES = Series("measured", (Point(1, 2.0, 1.0, 3.0), Point(2, 3.0)))
HELD = Claim(
    claim="it is 2 & more",
    paper=2,
    measured=2.5,
    unit="s",
    holds=True,
    interval=(2.25, 2.75),
)
FAILED = Claim(claim="it is <small>", paper=None, measured="large", holds=False, why="it grew")


def result(name: str = "tiny", **changes: object) -> Result:
    """A result with a claim of each kind."""
    fields = {
        "name": name,
        "title": f"A {name} result",
        "claims": (HELD, FAILED),
        "rows": (
            {"K": 2, "time": Interval(2.5, 2.25, 2.75), "note": "none"},
            {"K": 4, "time": None, "note": "infeasible"},
        ),
        "figure": Figure("Tiny", (Panel("", "K", "s", (SERIES,)),)),
        "repeats": 3,
        "notes": ("Assumed: nothing.",),
    }
    return Result(**(fields | changes))  # type: ignore[arg-type]  # fields by their names


def install(
    patch: pytest.MonkeyPatch, run: Callable[[Settings], Result], *names: str, trains: bool = False
) -> None:
    """Let these be the only experiments there are."""
    found = {}
    for name in names:
        module = ModuleType(name)
        module.__dict__["run"] = run
        patch.setitem(sys.modules, f"axon.experiments.{name}", module)
        found[name] = Experiment(
            name=name,
            summary=f"what {name} does",
            source="A paper, Fig. 1",
            trains=trains,
            learns=trains,
        )
    patch.setattr(registry, "EXPERIMENTS", found)
