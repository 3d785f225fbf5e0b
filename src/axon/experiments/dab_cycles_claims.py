"""What the DAB thesis says of Fig. 3.4 and 3.5, held against what was found.

Gaps are DAB's number less CSA's from the same seed: of losses in per cent of CSA's, of accuracies
in points. Each repeat gives one number for the first half of its cycles, which are early, and one
for the second half: the mean over them. That was fixed before anything was looked at; the widest
gap of several cycles would be found below zero too often by chance.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from statistics import fmean

from axon.experiments.result import ABOVE_ZERO, BELOW_ZERO, Claim, Side, judged
from axon.experiments.runs import Measure, accuracy, loss
from axon.experiments.thesis import Pair
from axon.intervals import Interval, mean_interval
from axon.report.tables import shown
from axon.values import RoundRecord

NEAR = 2.0
"""Per cent, or points: a gap that counts as almost none."""
CLOSE = Side(-NEAR, NEAR)


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
    place, work = "with Pi1 and the Nano", _work(pair)
    early, late = _halves(pair, loss, relative=True)
    first, last = _halves(pair, accuracy)
    return [
        judged(
            f"early, DAB's loss is close to CSA's {place}",
            early,
            CLOSE,
            paper="almost 0",
            unit="% above CSA's on average",
            why=f"counted as close within {NEAR:g} %; {work}",
        ),
        judged(
            f"late, DAB's loss is at most 6 % above CSA's {place}",
            late,
            Side(most=6.0),
            paper=6,
            unit="% above CSA's on average",
            why=work,
        ),
        judged(
            f"early, DAB's accuracy is close to CSA's {place}",
            first,
            CLOSE,
            paper="almost 0",
            unit="points above CSA's on average",
            why=f"counted as close within {NEAR:g} points; {work}",
        ),
        judged(
            f"late, DAB's accuracy is at most 2 points below CSA's {place}",
            last,
            Side(least=-2.0),
            paper=-2,
            unit="points above CSA's on average",
            why=work,
        ),
        *_reached(pair, place),
    ]


def _reached(pair: Pair, place: str) -> list[Claim]:
    """Where the accuracy ends."""
    return [
        judged(
            f"{name} reaches an accuracy of {paper} % {place}",
            repeats.last(accuracy),
            Side(least=paper),
            paper=paper,
            unit="%",
            why=f"after {len(repeats.runs[0])} cycles; how many the thesis ran is not given, and "
            f"the repeats end between {_range([_end(run) for run in repeats.runs])} %",
        )
        for name, repeats, paper in (("DAB", pair.dab, 93), ("CSA", pair.csa, 95))
    ]


def _on_four(pair: Pair) -> list[Claim]:
    place, work = "with the three Pis and the Nano", _work(pair)
    early, late = _halves(pair, loss, relative=True)
    first, last = _halves(pair, accuracy)
    widest = "the thesis's number is the widest gap"
    return [
        judged(
            f"early, DAB's loss is below CSA's {place}",
            early,
            BELOW_ZERO,
            paper=-12,
            unit="% above CSA's on average",
            why=f"{widest}; {work}",
        ),
        judged(
            f"early, DAB's accuracy is above CSA's {place}",
            first,
            ABOVE_ZERO,
            paper=26,
            unit="points above CSA's on average",
            why=f"{widest}; {work}",
        ),
        judged(
            f"late, DAB's loss is at most 5 % above CSA's {place}",
            late,
            Side(most=5.0),
            paper=5,
            unit="% above CSA's on average",
            why=work,
        ),
        judged(
            f"late, DAB's accuracy is at most 8 points below CSA's {place}",
            last,
            Side(least=-8.0),
            paper=-8,
            unit="points above CSA's on average",
            why=work,
        ),
    ]


def _in_time(found: Mapping[str, Pair]) -> Claim:
    """What the thesis leaves out of these figures: who kept the deadline, counted in full."""
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


def _halves(pair: Pair, measure: Measure, *, relative: bool = False) -> tuple[Interval, Interval]:
    """The mean gap of the early and of the late cycles; the odd one in the middle is early."""
    gaps = pair.gaps(measure, relative=relative)
    middle = (len(gaps[0]) + 1) // 2
    early = mean_interval([fmean(each[:middle]) for each in gaps])
    return early, mean_interval([fmean(each[middle:] or each) for each in gaps])


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
