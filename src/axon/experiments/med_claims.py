"""What the DAB thesis says of Fig. 4.1 to 4.10, held against what was found.

Schemes are compared repeat by repeat, as they share their seeds. "Up to" is the largest difference
at any place; a place is a number of learners or of tasks.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field

from axon.experiments.med_sweep import Found, Metric
from axon.experiments.med_trial import Way
from axon.experiments.med_world import slowdown
from axon.experiments.paired import cut, difference
from axon.experiments.result import ABOVE_ZERO, BELOW_ZERO, Claim, Side, judged
from axon.intervals import Interval
from axon.report.tables import shown

SCHEMES: tuple[Way, ...] = ("MMTT-Ideal", "MED", "MMTT-Uncertain")
NAMES: Mapping[Metric, str] = {
    "time_s": "training time",
    "satisfaction": "satisfaction ratio",
    "fulfilment": "task fulfilment",
    "dropped": "data drop rate",
    "occupancy": "occupancy",
}
NEAR_PERFECT = 95.0
LEARNT_WITHIN = 10.0
Compare = Callable[[Sequence[float], Sequence[float]], Interval]


@dataclass(frozen=True, slots=True, kw_only=True)
class Published:
    """The thesis's numbers about one sweep, in per cent or points."""

    faster: float
    """MED's training time below MMTT-Uncertain's, at most."""
    slower: float
    """The same above MMTT-Ideal's."""
    fewer: float
    """Data that MED drops less than MMTT-Uncertain."""
    above: Mapping[Metric, float | None]
    """By how much MED is better than MMTT-Uncertain at most, by metric, in points; None where no
    number is given."""
    behind: Mapping[Metric, float]
    """By how much MMTT-Ideal is better than MED at most."""
    rising: Mapping[Metric, bool]
    """Whether a metric rises, or falls, with the number of learners or tasks."""
    reasons: Mapping[Metric, str] = field(default_factory=dict)
    """Why a metric may go another way here."""
    perfect: bool
    """Whether MMTT-Ideal's satisfaction ratio is said to be near perfect throughout."""


def claims_of(found: Found, published: Published) -> tuple[Claim, ...]:
    """Every sentence about the five figures of a sweep, and one of our own."""
    return (
        *_ahead(found, published),
        *_behind(found, published),
        *_directions(found, published),
        *([_perfect(found)] if published.perfect else []),
        _learnt(found),
    )


def lowered(ones: Sequence[float], others: Sequence[float]) -> Interval:
    """By how many per cent the first are below the second; 0 where there is nothing to lower."""
    return cut(ones, others) if any(others) else Interval(0.0, 0.0, 0.0)


def raised(ones: Sequence[float], others: Sequence[float]) -> Interval:
    """By how many per cent the first are above the second."""
    less = lowered(ones, others)
    return Interval(-less.value, -less.high, -less.low)


def _ahead(found: Found, published: Published) -> Iterator[Claim]:
    """MED against MMTT-Uncertain."""
    yield from _better(found, "time_s", published.faster, lowered, "% lower")
    yield from _better(found, "dropped", published.fewer, lowered, "% lower")
    for metric, points in published.above.items():
        yield from _better(found, metric, points, difference, "points higher")


def _better(
    found: Found, metric: Metric, paper: float | None, by: Compare, unit: str
) -> Iterator[Claim]:
    ours, theirs = (found.over_all(way, metric) for way in ("MED", "MMTT-Uncertain"))
    place, most = _largest(found, metric, "MED", "MMTT-Uncertain", by)
    better = "below" if metric in ("time_s", "dropped") else "above"
    yield judged(
        f"MED's {NAMES[metric]} is {better} MMTT-Uncertain's",
        by(ours, theirs),
        ABOVE_ZERO,
        paper="always",
        unit=f"{unit} on average",
        why=f"the mean over all numbers of {found.sweep.across}",
    )
    if paper is None:
        return
    yield judged(
        f"MED's {NAMES[metric]} is up to {paper:g} {unit} than MMTT-Uncertain's",
        most,
        Side(least=paper),
        paper=paper,
        unit=unit,
        why=f"with {_number(found, place)}, where it is most",
    )


def _behind(found: Found, published: Published) -> Iterator[Claim]:
    """MED against MMTT-Ideal."""
    place, most = _largest(found, "time_s", "MED", "MMTT-Ideal", raised)
    least, worst = slowdown()
    yield judged(
        f"MED's training time is at most {published.slower:g} % above MMTT-Ideal's",
        most,
        Side(most=published.slower),
        paper=published.slower,
        unit="% longer at most",
        why=f"with {_number(found, place)}, where it is most; an owner who trains makes a "
        f"Nano of the catalogue {least:.2g} to {worst:.2g} times slower, so that a single one "
        "holds up its task, and only who knows beforehand can give it less; the thesis does not "
        "say how far apart its states were",
    )
    for metric, points in published.behind.items():
        place, most = _largest(found, metric, "MMTT-Ideal", "MED", difference)
        yield judged(
            f"MED's {NAMES[metric]} is at most {points:g} points behind MMTT-Ideal's",
            most,
            Side(most=points),
            paper=points,
            unit="points at most",
            why=f"with {_number(found, place)}, where it is most",
        )


def _largest(
    found: Found, metric: Metric, one: Way, other: Way, by: Compare
) -> tuple[int, Interval]:
    """Where the first is furthest above (or below) the second, and by how much."""
    apart = {
        place: by(found.values(place, one, metric), found.values(place, other, metric))
        for place in found.sweep.places
    }
    place = max(apart, key=lambda each: apart[each].value)
    return place, apart[place]


def _number(found: Found, place: int) -> str:
    what = found.sweep.across
    return f"{place} {what.removesuffix('s') if place == 1 else what}"


def _directions(found: Found, published: Published) -> Iterator[Claim]:
    """How each figure goes, in all of the schemes."""
    first, last = found.sweep.places[0], found.sweep.places[-1]
    for metric, rises in published.rising.items():
        changes = {
            way: difference(found.values(last, way, metric), found.values(first, way, metric))
            for way in SCHEMES
        }
        # The claim is about all of them, so the one that supports it least decides.
        counted = [way for way in SCHEMES if not _at_bound(found, way, metric)]
        way = (min if rises else max)(
            counted or SCHEMES, key=lambda each: _end(changes[each], rises)
        )
        yield judged(
            f"the {NAMES[metric]} {'rises' if rises else 'falls'} with the number of "
            f"{found.sweep.across} in all schemes",
            changes[way],
            ABOVE_ZERO if rises else BELOW_ZERO,
            paper="rises" if rises else "falls",
            unit=f"{'s' if metric == 'time_s' else 'points'} from {first} to {last}",
            why="; ".join(
                [
                    *(
                        f"{each} {shown(found.mean(first, each, metric))} to "
                        f"{shown(found.mean(last, each, metric))}"
                        for each in SCHEMES
                    ),
                    *(["MMTT-Ideal is near perfect throughout"] if len(counted) < 3 else []),
                    *filter(None, [published.reasons.get(metric)]),
                ]
            ),
        )


def _at_bound(found: Found, way: Way, metric: Metric) -> bool:
    """Whether it is MMTT-Ideal, and so near perfect throughout that there is nowhere to go."""
    if way != "MMTT-Ideal" or metric not in ("satisfaction", "fulfilment", "dropped"):
        return False
    means = [found.mean(place, way, metric).value for place in found.sweep.places]
    return min(100.0 - each if metric == "dropped" else each for each in means) >= NEAR_PERFECT


def _end(change: Interval, rises: bool) -> float:
    return change.low if rises else change.high


def _perfect(found: Found) -> Claim:
    means = {place: found.mean(place, "MMTT-Ideal", "satisfaction") for place in found.sweep.places}
    place = min(means, key=lambda each: means[each].value)
    return judged(
        f"MMTT-Ideal's satisfaction ratio is near perfect with any number of {found.sweep.across}",
        means[place],
        Side(least=NEAR_PERFECT),
        paper="near perfect",
        unit="% at least",
        why=f"with {_number(found, place)}, where it is least; {NEAR_PERFECT:g} % counts as "
        "near perfect, and the devices are so fast that in as many cycles there is a plan",
    )


def _learnt(found: Found) -> Claim:
    """What the thesis takes for granted: that the states' probabilities are known."""
    times = [found.over_all(way, "time_s") for way in ("MED, learnt", "MED")]
    dropped = [found.over_all(way, "dropped") for way in ("MED, learnt", "MED")]
    return judged(
        f"MED with states that learners have learnt takes within {LEARNT_WITHIN:g} % of the time "
        "it takes with the true ones",
        raised(times[0], times[1]),
        Side(least=-LEARNT_WITHIN, most=LEARNT_WITHIN),
        unit="% longer on average",
        why=f"it drops {shown(difference(dropped[0], dropped[1]))} points more",
    )
