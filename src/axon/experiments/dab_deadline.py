"""How DAB and CSA keep a deadline on four Jetson Nanos (DAB thesis, Fig. 3.6 to 3.8).

A convolutional net, one pass, five cycles. Time is measured in runs that train nothing, since the
simulated world charges for training whatever comes of it; accuracy and loss are trained for.

The published deadlines are 105 to 150 s in all, and CSA took 172 s. How long CSA takes on the Nano
of the catalogue is another number, so deadlines are tried that are to it as those are to 172 s.
"""

from __future__ import annotations

from collections.abc import Mapping

from axon.allocation.csa import StalenessAware
from axon.data.datasets import Dataset
from axon.experiments.dab_deadline_claims import PUBLISHED, RELATIVE, USED, Found, claims_of
from axon.experiments.dab_deadline_runs import (
    CYCLES,
    DEADLINES_S,
    FREE,
    PUBLISHED_CSA_S,
    WAYS,
    Nanos,
    Way,
    blank,
    relative,
    timed,
    total_s,
    trained,
)
from axon.experiments.dab_deadline_shown import figure_of, rows_of
from axon.experiments.mnist import shard_samples
from axon.experiments.result import Result
from axon.experiments.runs import Repeats, accelerated, part_of
from axon.experiments.settings import Settings, load_dataset
from axon.experiments.thesis import BELIEVED, SUMMED_UP, csa

NAME = "dab-deadline"
Deadlines = dict[str, Mapping[float, float]]
Times = dict[str, dict[tuple[float, str], Repeats]]
REPEATS, QUICK_REPEATS = 4, 2
USED_REPEATS, QUICK_USED_REPEATS = 12, 3
"""Of runs in use, of which only the time counts."""
IDLE_REPEATS = {PUBLISHED: 2, RELATIVE: 1}
"""Of runs of idle devices: nothing is left to chance in them, which a second one shows."""
WHOLE = 30_000
"""A data set of fewer samples is not trained with the published deadlines."""
CPU_PART = 5
"""A processor trains on one sample of so many; a graphics card on all."""
CPU_TEST = 2000
QUICK_TRAINED = 480
"""Samples of a quick look."""
READING = (
    "How it was read: CSA deals out all 120 shards, and DAB's learners ask for as many as they can "
    "do. Both are tried with so much grace that nobody is cut off, which shows the allocation "
    "alone and is what the thesis's numbers can be compared with, and both halted at the deadline, "
    "as Axon ships them; what is left of a share then is in the column `share done`. Time is that "
    "of the five cycles, without the benchmark before them, of runs that train nothing on data of "
    "MNIST's size. "
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
    school = _school(dataset, accelerator, settings)
    deadlines, times = _times(Nanos(blank()), settings)
    nanos, published = Nanos(school), deadlines[PUBLISHED]
    goals = published
    if len(school.train) < WHOLE:
        # With less data the published deadlines would leave time for everything. And a processor
        # trains for the two of which the thesis gives numbers.
        goals = relative(nanos, (min(published), max(published)))
    found = Found(deadlines, times, trained(nanos, goals, repeats, settings, trainer))
    return Result(
        name=NAME,
        title="DAB and CSA against a deadline, on four Jetson Nanos",
        claims=claims_of(found),
        rows=rows_of(found, shard_samples(len(school.train))),
        figure=figure_of(found),
        repeats=repeats,
        dataset=dataset.name,
        notes=tuple(filter(None, (READING, BELIEVED, _slack(), *_regime(found), SUMMED_UP, note)))
        + _cuts(dataset, school, accelerator, repeats),
    )


def _school(dataset: Dataset, accelerator: str, settings: Settings) -> Dataset:
    """What is trained on: a part of a large data set where only a processor trains."""
    if settings.quick:
        return part_of(dataset, QUICK_TRAINED)
    if accelerator != "cpu" or len(dataset.train) < WHOLE:
        return dataset
    return part_of(dataset, len(dataset.train) // CPU_PART, CPU_TEST)


def _times(nanos: Nanos, settings: Settings) -> tuple[Deadlines, Times]:
    chosen = (DEADLINES_S[0], DEADLINES_S[-1]) if settings.quick else DEADLINES_S
    published = {published_s: published_s for published_s in chosen}
    deadlines: Deadlines = {PUBLISHED: published, RELATIVE: relative(nanos, published)}
    times = {
        world: timed(nanos, deadlines[world], repeats, settings, used=False)
        for world, repeats in IDLE_REPEATS.items()
    }
    deadlines[USED] = published
    repeats = settings.repeated(USED_REPEATS, QUICK_USED_REPEATS)
    return deadlines, times | {USED: timed(nanos, published, repeats, settings, used=True)}


def _slack() -> str:
    """What the same CSA does as it is shipped, where that could make a difference."""
    slack = StalenessAware().slack
    nanos, ours = Nanos(blank()), FREE[1]
    as_shipped, as_published = (
        total_s(nanos.timed(way, DEADLINES_S[-1], seed=0))
        for way in (Way(csa(slack=slack), halts=False), WAYS[ours])
    )
    return (
        "CSA plans for the whole deadline here, as its paper does; as Axon ships it, it keeps a "
        f"slack of {100 * slack:g} %. With the longest deadline a run then takes {as_shipped:.4g} "
        f"s, and {as_published:.4g} s without: a slack matters only where a pass over everything "
        "fits into the deadline."
    )


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
