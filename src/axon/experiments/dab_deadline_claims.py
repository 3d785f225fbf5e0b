"""What the DAB thesis says of Fig. 3.6 to 3.8, held against what was found.

The thesis's DAB ended 7 % after a deadline, so nobody was halted at it: its sentences are about
schemes with grace. Halted ones are held against one another in claims of our own.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass

from axon.experiments import paired
from axon.experiments.dab_deadline_runs import FREE, HALTED, Results, done, total_s, truancy, worst
from axon.experiments.mnist import SHARD_SAMPLES
from axon.experiments.result import ABOVE_ZERO, BELOW_ZERO, Claim, Side, judged
from axon.experiments.runs import Measure, Records, Repeats, accuracy, loss
from axon.experiments.thesis import LOSSES, Pair
from axon.intervals import Interval, mean_interval
from axon.report.tables import shown

THESIS, ONCE = LOSSES
PUBLISHED, RELATIVE, USED = "published", "relative", "in use"
"""The worlds that were timed; claims are held against the first."""


@dataclass(frozen=True, slots=True)
class Found:
    """Everything that was measured."""

    deadlines: Mapping[str, Mapping[float, float]]
    """Of one cycle, by the published one, in each of the worlds that were timed."""
    timed: Mapping[str, Mapping[tuple[float, str], Repeats]]
    trained: Results

    @property
    def ends(self) -> tuple[float, float]:
        """The tightest and the longest of the published deadlines."""
        published = self.deadlines[PUBLISHED]
        return min(published), max(published)

    def times(
        self, world: str, published_s: float, name: str, measure: Callable[[Records], float]
    ) -> list[float]:
        """What was measured of a scheme's time, repeat by repeat."""
        return [measure(run) for run in self.timed[world][published_s, name].runs]

    def time(
        self, world: str, published_s: float, name: str, measure: Callable[[Records], float]
    ) -> Interval:
        """The same on average."""
        return mean_interval(self.times(world, published_s, name, measure))

    def gap(
        self,
        reading: str,
        published_s: float,
        measure: Measure,
        names: tuple[str, str] = FREE,
        *,
        relative: bool = False,
    ) -> Interval:
        """By how much DAB's number is above CSA's at the end; relative in per cent of CSA's."""
        pair = Pair(*(self.trained[reading, published_s, name] for name in names))
        return mean_interval([each[-1] for each in pair.gaps(measure, relative=relative)])


def part_done(records: Records) -> float:
    """`done` of the runs that are timed, which are on shards of the thesis's size."""
    return done(records, SHARD_SAMPLES)


def claims_of(found: Found) -> tuple[Claim, ...]:
    """Every sentence of the thesis about the three figures, and some of our own."""
    return (
        *_of_time(found),
        *_in_use(found),
        *_of_accuracy(found),
        *_of_gaps(found),
        _halted(found),
    )


def _of_time(found: Found) -> list[Claim]:
    tight, _ = found.ends
    ours, theirs = (found.time(PUBLISHED, tight, name, truancy) for name in FREE)
    return [
        judged(
            "at the tightest deadline DAB is at most 7 % late, by its allocation alone",
            ours,
            Side(most=7.0),
            paper=7,
            unit="% late",
            why="with grace, and devices that nobody else uses",
        ),
        judged(
            "at the tightest deadline CSA is 63 % late, or more, by its allocation alone",
            theirs,
            Side(least=63.0),
            paper=63,
            unit="% late",
            why="no finding of its own: the Nano's rate was estimated from CSA's time in this "
            "figure, and what each batch costs besides comes on top of it",
        ),
        judged(
            "CSA takes at most 53 % longer than DAB, both with grace",
            _longer(found, PUBLISHED),
            Side(most=53.0),
            paper=53,
            unit="% longer at the worst deadline",
            why="the thesis's DAB ended 7 % after the deadline, ours ends before it, so CSA looks "
            f"worse beside it; with the relative deadlines it is {shown(_longer(found, RELATIVE))}"
            " %",
        ),
    ]


def _longer(found: Found, world: str) -> Interval:
    """By how many per cent CSA takes longer than DAB, at the deadline where that is the most."""
    ours, theirs = FREE
    longer = []
    for published_s in found.deadlines[world]:
        taken = [found.times(world, published_s, name, total_s) for name in (ours, theirs)]
        longer.append(
            mean_interval([100.0 * (csa / dab - 1.0) for dab, csa in zip(*taken, strict=True)])
        )
    return max(longer, key=lambda each: each.value)


def _in_use(found: Found) -> list[Claim]:
    """What the thesis did not try here: owners that use their devices meanwhile."""
    tight, _ = found.ends
    free = [found.times(USED, tight, name, truancy) for name in FREE]
    parts = [found.times(USED, tight, name, part_done) for name in HALTED]
    trained = "DAB trains {} % of its shares by then, CSA {} %".format(
        *(shown(mean_interval(each)) for each in parts)
    )
    return [
        judged(
            "in use, DAB is less late than CSA at the tightest deadline, both with grace",
            paired.difference(*free),
            BELOW_ZERO,
            unit="points of the deadline",
            why="{} % and {} % late".format(*(shown(mean_interval(each)) for each in free)),
        ),
        _kept(found, trained),
        judged(
            "in use, DAB does more of its shares than CSA at the tightest deadline, both halted",
            paired.difference(*parts),
            ABOVE_ZERO,
            unit="points of a share",
            why=trained,
        ),
    ]


def _kept(found: Found, trained: str) -> Claim:
    """That who is halted is in time, counted in full; it says nothing of what was done by then."""
    most = {
        name: max(
            max(found.times(USED, published_s, name, worst))
            for published_s in found.deadlines[USED]
        )
        for name in HALTED
    }
    ours, theirs = HALTED
    return Claim(
        claim="in use, DAB keeps every deadline where it is halted, as it is shipped",
        paper=None,
        measured=most[ours],
        unit="% late in the worst cycle",
        holds=most[ours] <= 0,
        why=f"{shown(most[theirs])} % with CSA halted; halting does that for either of them, and "
        f"what it costs is the rest of the share: at the tightest deadline {trained}",
    )


def _of_accuracy(found: Found) -> list[Claim]:
    tight, _ = found.ends
    return [
        judged(
            f"at the tightest deadline {scheme} reaches an accuracy of {paper} %, with grace",
            found.trained[THESIS, tight, name].last(accuracy),
            Side(least=paper),
            paper=paper,
            unit="%",
            why=f"{shown(found.trained[ONCE, tight, name].last(accuracy))} % where softmax is "
            "taken once",
        )
        for scheme, name, paper in zip(("DAB", "CSA"), FREE, (91, 95), strict=True)
    ]


def _of_gaps(found: Found) -> list[Claim]:
    tight, long = found.ends
    return [
        judged(
            "at the tightest deadline DAB is less accurate than CSA, both with grace",
            found.gap(THESIS, tight, accuracy),
            BELOW_ZERO,
            paper=-4,
            unit="points",
            why=f"{shown(found.gap(ONCE, tight, accuracy))} points where softmax is taken once",
        ),
        judged(
            "at the longest deadline DAB is as accurate as CSA, both with grace",
            found.gap(THESIS, long, accuracy),
            Side(-0.5, 0.5),
            paper=0,
            unit="points",
            why="counted as equal within half a point; "
            f"{shown(found.gap(ONCE, long, accuracy))} points where softmax is taken once",
        ),
        judged(
            "at the tightest deadline DAB's loss is at most 2 % above CSA's, both with grace",
            found.gap(THESIS, tight, loss, relative=True),
            Side(most=2.0),
            paper=2,
            unit="% above",
            why="the thesis has 1.53 and 1.50 and calls it 0.2 %",
        ),
    ]


def _halted(found: Found) -> Claim:
    """What the thesis did not try: CSA that is not given longer than DAB."""
    tight, _ = found.ends
    once = found.gap(ONCE, tight, accuracy, HALTED)
    return judged(
        "at the tightest deadline DAB is more accurate than CSA, both halted",
        found.gap(THESIS, tight, accuracy, HALTED),
        ABOVE_ZERO,
        unit="points",
        why=f"{shown(once)} points where softmax is taken once",
    )
