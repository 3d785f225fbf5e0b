"""Runs in groups: those that differ in nothing but their seeds, with 95 % intervals of their means.

A group is named by the name of its runs and, where that does not tell groups apart, by the settings
in which they differ.
"""

from __future__ import annotations

import json
import math
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from axon.dashboard.course import Course
from axon.intervals import mean_interval

APART = ("seed", "name", "cycles")
"""Settings in which the runs of a group may differ."""

Measure = Callable[[Mapping[str, Any]], float | None]
MEASURES: dict[str, Measure] = {
    "accuracy": lambda totals: totals["accuracy"],
    "best accuracy": lambda totals: totals["best"],
    "loss": lambda totals: totals["loss"],
    "seconds in all": lambda totals: totals["clock_s"],
    "seconds per cycle": lambda totals: totals["cycle_s"],
    "deadlines held": lambda totals: totals["held"],
    "updates used": lambda totals: totals["used"],
}


def compared(courses: Sequence[Course]) -> list[dict[str, Any]]:
    """A row for each group, with mean, margin and number of runs for each measure."""
    if len(courses) < 2:
        return []
    groups: dict[str, list[int]] = {}
    for number, course in enumerate(courses):
        groups.setdefault(_kind(course), []).append(number)
    rows = []
    for name, members in zip(_names(courses, groups), groups.values(), strict=True):
        totals = [courses[number].curves.totals() for number in members]
        measures = {title: _mean(measure, totals) for title, measure in MEASURES.items()}
        seeds = [courses[number].about.seed for number in members]
        rows.append({"group": name, "runs": members, "seeds": seeds, "measures": measures})
    return rows


def _mean(measure: Measure, totals: Sequence[Mapping[str, Any]]) -> dict[str, Any]:
    known = [value for value in map(measure, totals) if value is not None and math.isfinite(value)]
    if not known:
        return {"mean": None, "half": None, "count": 0}
    found = mean_interval(known)
    # Of a single run nobody knows how far it can be trusted.
    return {
        "mean": found.value,
        "half": found.half if len(known) > 1 else None,
        "count": len(known),
    }


def _kind(course: Course) -> str:
    settings = {name: value for name, value in course.about.settings.items() if name not in APART}
    return json.dumps([course.about.name, settings], sort_keys=True, default=str)


def _names(courses: Sequence[Course], groups: Mapping[str, Sequence[int]]) -> list[str]:
    """What to call each group."""
    firsts = [courses[members[0]] for members in groups.values()]
    names = [course.about.name for course in firsts]
    if len(set(names)) == len(names):
        return names
    told: list[Mapping[str, Any]] = [course.about.settings for course in firsts]
    keys = {key for settings in told for key in settings if key not in APART}
    differing = [key for key in sorted(keys) if len({str(one.get(key)) for one in told}) > 1]
    named = []
    for course, settings in zip(firsts, told, strict=True):
        said = ", ".join(f"{key} {settings.get(key)}" for key in differing[:4])
        named.append(f"{course.about.name} ({said})" if said else course.about.label)
    return named
