"""Trials of every way over numbers of learners or of tasks, and what they come to."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from statistics import fmean
from typing import Literal, TypeAlias

from axon.experiments.med_trial import WAYS, Outcome, Way, learnt, tried
from axon.experiments.med_world import TABLE, Request, Trial, nano
from axon.experiments.parallel import spread
from axon.experiments.result import Row, line
from axon.experiments.runs import seeds
from axon.experiments.settings import Settings
from axon.intervals import Interval, mean_interval
from axon.report.figures import Figure, Panel
from axon.report.tables import Cell

Metric: TypeAlias = Literal["time_s", "satisfaction", "fulfilment", "dropped", "occupancy"]
LABELS: Mapping[Metric, str] = {
    "time_s": "training time [s]",
    "satisfaction": "satisfied [%]",
    "fulfilment": "fulfilled [%]",
    "dropped": "dropped [%]",
    "occupancy": "occupancy [%]",
}


@dataclass(frozen=True, slots=True, kw_only=True)
class Sweep:
    """What is varied, and what is not."""

    across: Literal["learners", "tasks"]
    places: tuple[int, ...]
    """The numbers of learners or tasks, ascending."""
    learners: int = 10
    budget: float
    longer_s: float = 0.0
    """What comes on top of every deadline."""

    def trial(self, seed: int, place: int) -> Trial:
        """One repeat with so many of what is varied."""
        learners, tasks = (place, 3) if self.across == "learners" else (self.learners, place)
        return Trial(
            seed=seed,
            requests=self._requests(tasks),
            learners=learners,
            budget=self.budget,
            device=nano(),
        )

    def _requests(self, count: int) -> tuple[Request, ...]:
        """The tasks in the order of the table; the fourth is the third again."""
        again = replace(TABLE[-1], name=f"{TABLE[-1].name}_2")
        return tuple(
            replace(request, deadline_s=request.deadline_s + self.longer_s)
            for request in (*TABLE, again)[:count]
        )


Repeat: TypeAlias = dict[tuple[int, Way], Outcome]


def repeat(work: tuple[Sweep, int]) -> Repeat:
    """Everything from one seed: every way at every place."""
    sweep, seed = work
    known = learnt(sweep.trial(seed, max(sweep.places)))
    return {
        (place, way): tried(sweep.trial(seed, place), way, known)
        for place in sweep.places
        for way in WAYS
    }


@dataclass(frozen=True, slots=True)
class Found:
    """All that was measured: a repeat for each seed."""

    sweep: Sweep
    repeats: tuple[Repeat, ...]

    def values(self, place: int, way: Way, metric: Metric) -> list[float]:
        """One for each repeat."""
        return [float(getattr(each[place, way], metric)) for each in self.repeats]

    def over_all(self, way: Way, metric: Metric) -> list[float]:
        """The mean over all places, one for each repeat."""
        columns = [self.values(place, way, metric) for place in self.sweep.places]
        return [fmean(each) for each in zip(*columns, strict=True)]

    def mean(self, place: int, way: Way, metric: Metric) -> Interval:
        """Over the repeats."""
        return mean_interval(self.values(place, way, metric))

    def relaxed(self, place: int, way: Way) -> float:
        """The plans that had to be relaxed, in per cent."""
        return fmean(each[place, way].relaxed for each in self.repeats)


def measure(sweep: Sweep, repeats: int, settings: Settings) -> Found:
    """All repeats, on all cores."""
    tasks = [(sweep, seed) for seed in seeds(settings, repeats)]
    found = []
    settings.progress(f"{sweep.places[0]} to {sweep.places[-1]} {sweep.across}, {repeats} repeats")
    for each in spread(repeat, tasks, workers=1 if settings.quick else None):
        found.append(each)
        settings.progress(f"repeat {len(found)} of {repeats} done")
    return Found(sweep, tuple(found))


def rows_of(found: Found) -> tuple[Row, ...]:
    """A line for each way at each place."""
    return tuple(
        _row(found, place, way, {found.sweep.across: place, "scheme": way})
        for place in found.sweep.places
        for way in WAYS
    )


def _row(found: Found, place: int, way: Way, cells: dict[str, Cell]) -> Row:
    for metric, label in LABELS.items():
        cells[label] = found.mean(place, way, metric)
    return cells | {"plans relaxed [%]": found.relaxed(place, way)}


def figure_of(found: Found, title: str) -> Figure:
    """A panel for each metric."""
    places: Sequence[float] = found.sweep.places
    panels = tuple(
        Panel(
            "",
            found.sweep.across,
            label,
            tuple(
                line(way, [found.mean(place, way, metric) for place in found.sweep.places], places)
                for way in WAYS
            ),
        )
        for metric, label in LABELS.items()
    )
    return Figure(title, panels)
