"""How DAB and CSA keep a deadline on four Jetson Nanos (DAB thesis, Fig. 3.6 to 3.8).

A convolutional net, one pass, five cycles. Time is measured in runs that train nothing, since the
simulated world charges for training whatever comes of it; accuracy and loss are trained for.

The published deadlines are 105 to 150 s in all, and CSA took 172 s. How long CSA takes on the Nano
of the catalogue is another number, so deadlines are tried that are to it as those are to 172 s.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

from axon.data.datasets import Dataset
from axon.experiments.dab_deadline_claims import PUBLISHED, RELATIVE, THESIS, USED, Found, claims_of
from axon.experiments.dab_deadline_runs import (
    CYCLES,
    DEADLINES_S,
    PUBLISHED_CSA_S,
    TRAINED,
    WAYS,
    Bench,
    blank,
    relative,
    shards,
    timed,
    total_s,
    trained,
    truancy,
    worst,
)
from axon.experiments.result import Result, Row
from axon.experiments.runs import (
    Measure,
    Records,
    Repeats,
    accelerated,
    accuracy,
    line,
    loss,
    part_of,
)
from axon.experiments.settings import Settings, load_dataset
from axon.experiments.thesis import LOSSES, SUMMED_UP
from axon.report.figures import Figure, Panel, Point, Series
from axon.report.tables import Cell

NAME = "dab-deadline"
Deadlines = dict[str, Mapping[float, float]]
Times = dict[str, dict[tuple[float, str], Repeats]]
MEASURES: Mapping[str, Callable[[Records], float]] = {
    "shards a cycle": shards,
    "time [s]": total_s,
    "late [%]": truancy,
    "worst cycle [%]": worst,
}
REPEATS, QUICK_REPEATS = 2, 1
TIMED = 4
"""Runs of which only the time counts, for each that is trained."""
WHOLE = 30_000
"""A data set of fewer samples is not trained with the published deadlines."""
CPU_PART = 5
"""A processor trains on one sample of so many; a graphics card on all."""
CPU_TEST = 2000
READING = (
    "How it was read: CSA deals out all 120 shards and does them whatever that takes; DAB stops at "
    "the deadline, as Axon ships it, or not, which shows the allocation alone. Time is that of the "
    "five cycles, without the benchmark before them, of runs that train nothing on data of MNIST's "
    "size. "
    "Idle Nanos on a wire take the same time in every repeat; in the rows `in use`, owners "
    "interfere as in chapter 4 of the thesis (habits of heat 0.5). Filters of 3 x 3, batches of "
    "32 and a learning rate of 0.1 are assumed."
)
CIRCULAR = (
    "The Nano's rate in the catalogue was estimated from CSA's 172 s in this very figure, so by "
    "how much CSA misses a deadline is no finding of its own; what DAB does is."
)


def run(settings: Settings) -> Result:
    """Time and train both schemes, and hold the thesis's sentences against it."""
    dataset, note = load_dataset(settings)
    trainer, accelerator = accelerated()
    repeats = settings.repeated(REPEATS, QUICK_REPEATS)
    school = _school(dataset, accelerator)
    deadlines, times = _times(Bench(blank()), repeats * TIMED, settings)
    bench, published = Bench(school), deadlines[PUBLISHED]
    goals = published
    if len(school.train) < WHOLE:
        # With less data the published deadlines would leave time for everything. And a processor
        # trains for the two of which the thesis gives numbers.
        goals = relative(bench, (min(published), max(published)))
    found = Found(deadlines, times, trained(bench, goals, repeats, settings, trainer))
    return Result(
        name=NAME,
        title="DAB and CSA against a deadline, on four Jetson Nanos",
        claims=claims_of(found),
        rows=tuple(
            _row(found, world, published_s, name)
            for world in deadlines
            for published_s in deadlines[world]
            for name in WAYS
        ),
        figure=_figure(found),
        repeats=repeats,
        dataset=dataset.name,
        notes=tuple(filter(None, (READING, *_regime(found), SUMMED_UP, note)))
        + _cuts(dataset, school, accelerator, repeats),
    )


def _school(dataset: Dataset, accelerator: str) -> Dataset:
    """What is trained on: a part of a large data set where only a processor trains."""
    if accelerator != "cpu" or len(dataset.train) < WHOLE:
        return dataset
    return part_of(dataset, len(dataset.train) // CPU_PART, CPU_TEST)


def _times(bench: Bench, repeats: int, settings: Settings) -> tuple[Deadlines, Times]:
    chosen = (DEADLINES_S[0], DEADLINES_S[-1]) if settings.quick else DEADLINES_S
    published = {published_s: published_s for published_s in chosen}
    deadlines: Deadlines = {PUBLISHED: published, RELATIVE: relative(bench, published)}
    # Idle Nanos leave nothing to chance.
    times = {
        world: timed(bench, each, 1, settings, used=False) for world, each in deadlines.items()
    }
    deadlines[USED] = published
    return deadlines, times | {USED: timed(bench, published, repeats, settings, used=True)}


def _row(found: Found, world: str, published_s: float, name: str) -> Row:
    cells: dict[str, Cell] = {
        "deadlines": world,
        "deadline [s]": CYCLES * found.deadlines[world][published_s],
        "scheme": name,
    }
    for label, measure in MEASURES.items():
        cells[label] = found.time(world, published_s, name, measure)
    for reading in LOSSES:
        repeats = found.trained.get((reading, published_s, name))
        # Once for each deadline: training knows no owners, and one regime.
        if world == PUBLISHED and repeats is not None:
            cells[f"accuracy [%], {reading}"] = repeats.last(accuracy)
            cells[f"loss, {reading}"] = repeats.last(loss)
    return cells


def _figure(found: Found) -> Figure:
    across = [CYCLES * each_s for each_s in found.deadlines[PUBLISHED].values()]
    label = "deadline of five cycles [s]"
    limit = Series("deadline", tuple(Point(each_s, each_s) for each_s in across), "dashed")
    times = _lines(found, across, total_s, {"": PUBLISHED})
    late = _lines(found, across, truancy, {"": PUBLISHED, ", devices in use": USED})
    ends = [
        Panel("", label, title, _ends(found, measure))
        for title, measure in (("accuracy [%]", accuracy), ("loss", loss))
    ]
    panels = (
        Panel("", label, "time of five cycles [s]", (*times, limit)),
        Panel("", label, "late [% of the deadline]", late),
        *ends,
    )
    return Figure("DAB and CSA against a deadline", panels)


def _lines(
    found: Found,
    across: Sequence[float],
    measure: Callable[[Records], float],
    worlds: Mapping[str, str],
) -> tuple[Series, ...]:
    return tuple(
        line(
            f"{name}{suffix}",
            [found.time(world, each_s, name, measure) for each_s in found.deadlines[world]],
            across,
        )
        for suffix, world in worlds.items()
        for name in TRAINED
    )


def _ends(found: Found, measure: Measure) -> tuple[Series, ...]:
    """What training came to, with the thesis's loss."""
    series = []
    for name in TRAINED:
        curve = {
            CYCLES * each_s: found.trained[THESIS, each_s, name].last(measure)
            for each_s in found.deadlines[PUBLISHED]
            if (THESIS, each_s, name) in found.trained
        }
        series.append(line(name, list(curve.values()), list(curve)))
    return tuple(series)


def _regime(found: Found) -> tuple[str, ...]:
    """How the deadlines lie to what CSA takes."""
    takes_s = min(found.deadlines[RELATIVE].values()) / min(DEADLINES_S) * PUBLISHED_CSA_S
    sentence = (
        f"Everything in equal shares takes these Nanos {CYCLES * takes_s:.4g} s, against the 172 s "
        "of CSA in the thesis. In the rows `relative`, deadlines are to the one as the published "
        "ones are to the other, so that there CSA is as late as in the thesis by construction."
    )
    return (sentence, CIRCULAR)


def _cuts(dataset: Dataset, school: Dataset, accelerator: str, repeats: int) -> tuple[str, ...]:
    """What was cut, and where it was trained."""
    where = f"trained on {accelerator}, from {repeats} seed{'s' * (repeats > 1)}"
    if len(school.train) >= WHOLE:
        return (f"Accuracy and loss are of all of {dataset.name}, {where}.",)
    return (
        f"Accuracy and loss are of {len(school.train):,} samples of {dataset.name}, in 120 shards "
        f"that are as much smaller and with relative deadlines, tested on {len(school.test):,}; "
        f"{where}. With less data they are worse than with all of MNIST.",
    )
