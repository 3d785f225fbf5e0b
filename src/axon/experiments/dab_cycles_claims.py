"""What the DAB thesis says of Fig. 3.4 and 3.5, held against what was found.

Gaps are DAB's number less CSA's from the same seed: of losses in per cent of CSA's, of accuracies
in points. Early are the cycles of the first half, late those of the second.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from axon.experiments.result import Claim, bounds
from axon.experiments.runs import accuracy, loss
from axon.experiments.thesis import Pair
from axon.intervals import Interval, mean_interval
from axon.report.tables import shown
from axon.values import RoundRecord

NEAR = 2.0
"""Per cent, or points: a gap that counts as almost none."""


def samples(record: RoundRecord) -> float:
    """How many were trained on in a cycle, once for each pass."""
    return float(sum(device.samples for device in record.devices))


def took_s(record: RoundRecord) -> float:
    """How long a cycle took."""
    return record.duration_s


def claims_of(found: Mapping[str, Pair]) -> tuple[Claim, ...]:
    """Every sentence of the thesis about the two figures, and one of our own, by the fleet."""
    return (*_on_the_pair(found["pair"]), *_on_four(found["thesis"]), _in_time(found))


def _on_the_pair(pair: Pair) -> list[Claim]:
    place = "with Pi1 and the Nano"
    early, late = _halves(pair.gaps(loss, relative=True))
    first, last = _halves(pair.gaps(accuracy))
    apart = _mean(early)
    return [
        _claim(
            f"early, DAB's loss is close to CSA's {place}",
            "almost 0",
            apart,
            "% above CSA's on average",
            abs(apart.value) <= NEAR,
            f"counted as close within {NEAR:g} %; {_work(pair)}",
        ),
        _claim(
            f"late, DAB's loss is at most 6 % above CSA's {place}",
            6,
            worst := _most(late),
            "% at most",
            worst.value <= 6,
            _ahead(worst) or _work(pair),
        ),
        _claim(
            f"early, DAB's accuracy is close to CSA's {place}",
            "almost 0",
            apart := _mean(first),
            "points above CSA's on average",
            abs(apart.value) <= NEAR,
            f"counted as close within {NEAR:g} points; {_work(pair)}",
        ),
        _claim(
            f"late, DAB's accuracy is at most 2 points below CSA's {place}",
            -2,
            worst := _least(last),
            "points at least",
            round(worst.value) >= -2,
            _ahead(worst, above=True) or _work(pair),
        ),
        *_reached(pair, place),
    ]


def _reached(pair: Pair, place: str) -> list[Claim]:
    """Where the accuracy ends."""
    claims = []
    for name, repeats, paper in (("DAB", pair.dab, 93), ("CSA", pair.csa, 95)):
        found = repeats.last(accuracy)
        claims.append(
            _claim(
                f"{name} reaches an accuracy of {paper} % {place}",
                paper,
                found,
                "%",
                round(found.value) >= paper,
                f"after {len(repeats.runs[0])} cycles; how many the thesis ran is not given, and "
                f"the repeats end between {_range([_end(run) for run in repeats.runs])} %",
            )
        )
    return claims


def _on_four(pair: Pair) -> list[Claim]:
    place = "with the three Pis and the Nano"
    early, late = _halves(pair.gaps(loss, relative=True))
    first, last = _halves(pair.gaps(accuracy))
    lead, gain = _least(early), _most(first)
    behind, below = _most(late), _least(last)
    return [
        _claim(
            f"early, DAB's loss is below CSA's {place}",
            -12,
            lead,
            "% of CSA's at the widest",
            lead.high < 0 or (bounds(lead) is None and lead.value < 0),
            _work(pair),
        ),
        _claim(
            f"early, DAB's accuracy is above CSA's {place}",
            26,
            gain,
            "points at the widest",
            gain.low > 0 or (bounds(gain) is None and gain.value > 0),
            _work(pair),
        ),
        _claim(
            f"late, DAB's loss is at most 5 % above CSA's {place}",
            5,
            behind,
            "% at most",
            behind.value <= 5,
            _ahead(behind) or _work(pair),
        ),
        _claim(
            f"late, DAB's accuracy is at most 8 points below CSA's {place}",
            -8,
            below,
            "points at least",
            below.value >= -8,
            _ahead(below, above=True) or _work(pair),
        ),
    ]


def _in_time(found: Mapping[str, Pair]) -> Claim:
    """What the thesis leaves out of these figures: who kept the deadline."""
    parts, kept = [], True
    for fleet, pair in found.items():
        over = [
            max(100.0 * record.truancy for run in repeats.runs for record in run)
            for repeats in (pair.dab, pair.csa)
        ]
        kept = kept and over[0] <= 0
        parts.append(f"{fleet}: DAB {over[0]:+.1f}, CSA {over[1]:+.1f}")
    return Claim(
        claim="DAB keeps the deadline in every cycle though nothing cuts it off",
        paper=None,
        measured="; ".join(parts),
        unit="% past the deadline at most",
        holds=kept,
        why="CSA reckons from a rate alone and leaves out what a request costs besides; both take "
        "the last batch of a pass for a part of one, though a small batch takes as long as a full "
        "one on these devices",
    )


def _claim(
    claim: str, paper: float | str, found: Interval, unit: str, holds: bool, why: str
) -> Claim:
    return Claim(
        claim=claim,
        paper=paper,
        measured=found.value,
        unit=unit,
        holds=holds,
        interval=bounds(found),
        why=why,
    )


def _halves(gaps: Sequence[Interval]) -> tuple[Sequence[Interval], Sequence[Interval]]:
    middle = (len(gaps) + 1) // 2
    return gaps[:middle], gaps[middle:] or gaps[-1:]


def _mean(gaps: Sequence[Interval]) -> Interval:
    """Over cycles, which are not independent of one another: without bounds."""
    return mean_interval([mean_interval([gap.value for gap in gaps]).value])


def _most(gaps: Sequence[Interval]) -> Interval:
    return max(gaps, key=lambda gap: gap.value)


def _least(gaps: Sequence[Interval]) -> Interval:
    return min(gaps, key=lambda gap: gap.value)


def _ahead(gap: Interval, *, above: bool = False) -> str:
    """A word where DAB is not behind at all."""
    ahead = gap.value > 0 if above else gap.value < 0
    return "DAB stays ahead, where the thesis has CSA ahead by then" if ahead else ""


def _work(pair: Pair) -> str:
    """How much each of them trained, which is what the thesis explains its curves with."""
    ours, theirs = (repeats.last(samples).value for repeats in (pair.dab, pair.csa))
    return (
        f"in a cycle DAB trains on {shown(round(ours))} samples and CSA on {shown(round(theirs))}"
    )


def _end(run: Sequence[RoundRecord]) -> float:
    return accuracy(run[-1]) or 0.0


def _range(values: Sequence[float]) -> str:
    return f"{shown(min(values))} and {shown(max(values))}"
