"""Runs in groups: those that differ in nothing but their seeds, with 95 % intervals of their means.

A run that has not come to its end is left out, and of several runs of one seed the longest counts.
A group is named by what the names of its runs begin with and, where that does not tell groups
apart, by the settings in which they differ.
"""

from __future__ import annotations

import json
import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any

from axon.dashboard.course import Course
from axon.dashboard.texts import visible
from axon.intervals import mean_interval

APART = ("seed", "name")
"""Settings in which the runs of a group may differ."""
MOST_NAMED = 4
"""Settings in the name of a group."""

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
    absent = left_out(courses)
    if len(courses) - len(absent) < 2:
        return []
    groups = _groups(courses, [at for at in range(len(courses)) if at not in absent])
    rows = []
    titles = [_common([courses[number].about.name for number in members]) for members in groups]
    names = _names([courses[members[0]] for members in groups], titles)
    for name, members in zip(names, groups, strict=True):
        totals = [courses[number].curves.totals() for number in members]
        measures = {title: _mean(measure, totals) for title, measure in MEASURES.items()}
        seeds = [courses[number].about.seed for number in members]
        rows.append({"group": name, "runs": members, "seeds": seeds, "measures": measures})
    return rows


def left_out(courses: Sequence[Course]) -> dict[int, str]:
    """The runs that no group counts, by number, each with the reason."""
    absent = {at: why for at, course in enumerate(courses) if (why := _unfinished(course))}
    for members in _groups(courses, [at for at in range(len(courses)) if at not in absent]):
        longest: dict[int, int] = {}
        for at in sorted(members, key=lambda at: -len(courses[at].curves)):
            seed = courses[at].about.seed
            if seed is None:
                continue  # Nobody knows whether it is the same as another.
            if seed in longest:
                other = courses[longest[seed]].about.label
                absent[at] = f"seed {seed} counts once, with {other}"
            else:
                longest[seed] = at
    return dict(sorted(absent.items()))


def _unfinished(course: Course) -> str:
    """Why a run cannot be compared yet, if it cannot."""
    wanted, done = course.about.cycles, len(course.curves)
    if wanted is not None:
        return f"{done} of {wanted} cycles" if done < wanted else ""
    if not done or course.state in ("running", "failed", "unreadable"):
        return f"{done} cycles, {course.state}"
    return ""


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


def _groups(courses: Sequence[Course], numbers: Iterable[int]) -> list[list[int]]:
    groups: dict[str, list[int]] = {}
    for number in numbers:
        course = courses[number]
        # Of a run whose settings are unknown the name is all there is to go by.
        name = "" if course.about.settings else course.about.name
        kind = json.dumps([name, _settings(course)], sort_keys=True, default=str)
        groups.setdefault(kind, []).append(number)
    return list(groups.values())


def _settings(course: Course) -> dict[str, Any]:
    """What makes a run what it is; nothing that is empty."""
    told = {
        name: value
        for name, value in course.about.settings.items()
        if name not in APART and value not in (None, "", [], {})
    }
    # Where nobody said how long it should be, it is as long as it is.
    return {**told, "cycles": course.about.cycles or len(course.curves)}


def _common(names: Sequence[str]) -> str:
    """What the names of a group begin with, without the number that tells its runs apart."""
    if len(set(names)) == 1:
        return names[0]
    alike = [letters[0] for letters in zip(*names, strict=False)]
    while not all(name.startswith("".join(alike)) for name in names):
        alike.pop()
    return "".join(alike).rstrip("0123456789-_. ") or names[0]


def _names(firsts: Sequence[Course], titles: Sequence[str]) -> list[str]:
    """What to call the groups, by one run of each and what its names have in common."""
    named = []
    for course, title in zip(firsts, titles, strict=True):
        alike = [other for other, its in zip(firsts, titles, strict=True) if its == title]
        said = _differing(course, alike) if len(alike) > 1 else ""
        named.append(f"{title} ({said})" if said else title)
    # What still has the name of another is called by its label.
    return [
        name if named.count(name) == 1 else course.about.label
        for name, course in zip(named, firsts, strict=True)
    ]


def _differing(course: Course, alike: Sequence[Course]) -> str:
    """The settings that tell a run from others."""
    if not course.about.settings:
        return "settings unknown"
    # One whose settings are unknown differs in everything, which tells nobody anything.
    others = [_settings(other) for other in alike if other.about.settings]
    own = _settings(course)
    differing = [key for key in sorted(own) if any(one.get(key) != own[key] for one in others)]
    said = [f"{key} {_value(own[key])}" for key in differing[:MOST_NAMED]]
    return visible(", ".join(said))


def _value(value: Any) -> str:
    return {True: "yes", False: "no"}[value] if isinstance(value, bool) else str(value)
