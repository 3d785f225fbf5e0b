"""Runs, repeated: what is averaged, what is cut, and a trainer that trains nothing."""

from __future__ import annotations

import math
from dataclasses import replace

import numpy as np
import pytest

from axon.data.synthetic import synthetic
from axon.experiments.runs import (
    Records,
    Repeats,
    accuracy,
    loss,
    part_of,
    repeated,
    seeds,
    simulate,
    untrained,
)
from axon.experiments.settings import Settings
from axon.learning.loop import LoopTrainer
from axon.learning.nets import initial
from axon.rounds.settings import Run, Scheme
from axon.values import Job, RoundRecord, TaskSpec
from tests.experiments.cycles import record

pytestmark = pytest.mark.slow  # All together they take seconds.

DATASET = synthetic(samples=250, seed=1)
SPEC = TaskSpec(net="twonn", inputs=DATASET.shape, classes=DATASET.classes, batch_size=8)
RUN = Run(spec=SPEC, cycles=2, deadline_s=2.0, shard_samples=20, seed=3)


TWO = Repeats(
    (
        (record(cycle=1), record(cycle=2, accuracy=0.5, loss=1.0)),
        (record(cycle=1), record(cycle=2, accuracy=0.7, loss=2.0)),
    )
)


def test_a_curve_leaves_out_cycles_that_were_not_measured() -> None:
    (found,) = TWO.curve(accuracy)
    assert found.value == pytest.approx(60.0)
    assert TWO.last(loss).value == pytest.approx(1.5)
    # Student's quantile for one degree of freedom is 12.7; the mean's deviation is 0.5.
    assert TWO.last(loss).half == pytest.approx(6.353, abs=1e-3)


def test_repeats_have_seeds_of_their_own_and_more_of_them_change_none() -> None:
    told: list[str] = []
    given: list[int] = []

    def once(seed: int) -> Records:
        given.append(seed)
        return (record(accuracy=0.1),)

    settings = Settings(seed=5, progress=told.append)
    assert len(repeated(once, 3, settings, "it").runs) == 3
    assert told == ["it, 1 of 3", "it, 2 of 3", "it, 3 of 3"]
    assert len(set(given)) == 3
    assert given == seeds(settings, 3) == seeds(settings, 7)[:3]
    assert given != seeds(Settings(seed=6), 3)


def test_a_run_without_training_takes_the_same_time_and_work() -> None:
    trained = simulate(RUN, DATASET, "pair", Scheme(), trainer=LoopTrainer())
    idle = simulate(RUN, DATASET, "pair", Scheme(), trainer=untrained)
    assert [each.ended_s for each in trained] == [each.ended_s for each in idle]
    assert [work(each) for each in trained] == [work(each) for each in idle]
    assert trained[-1].digest != idle[-1].digest == idle[0].digest


def work(found: RoundRecord) -> list[tuple[str, int, int, int]]:
    return [(each.device, each.shards, each.batches, each.samples) for each in found.devices]


@pytest.mark.parametrize("limit", [None, 0, 1, 4, 6, 9])
def test_what_trains_nothing_counts_as_training_does(limit: int | None) -> None:
    # 27 samples are 4 batches of a pass, the last of 3.
    job = Job(
        spec=SPEC,
        start=initial(SPEC, 0),
        samples=DATASET.train.take(slice(27)),
        passes=2,
        limit=limit,
    )
    (said,), (done,) = untrained([job]), LoopTrainer()([job])
    assert (said.batches, said.samples) == (done.batches, done.samples)
    assert said.parameters is job.start
    assert math.isnan(said.loss)


def test_the_seed_of_a_run_is_the_worlds() -> None:
    first, again, other = (
        simulate(replace(RUN, seed=seed), DATASET, "pair", Scheme(), trainer=LoopTrainer())
        for seed in (3, 3, 4)
    )
    assert [each.digest for each in first] == [each.digest for each in again]
    assert first[-1].digest != other[-1].digest


def test_a_part_of_a_data_set_is_drawn_from_all_of_it() -> None:
    part = part_of(DATASET, 50, 10)
    assert (len(part.train), len(part.test), part.classes) == (50, 10, DATASET.classes)
    assert len(set(part.train.labels.tolist())) == DATASET.classes
    assert not np.array_equal(part.train.inputs, DATASET.train.inputs[:50])
    assert np.array_equal(part.train.inputs, part_of(DATASET, 50).train.inputs)
    assert part_of(DATASET, 10_000).train is DATASET.train


def test_a_run_may_end_with_a_cycle_that_is_enough() -> None:
    whole, cut = (
        simulate(RUN, DATASET, "pair", Scheme(), trainer=untrained, until=until)
        for until in (None, lambda each: each.cycle == 1)
    )
    assert [each.cycle for each in whole] == [1, 2]
    assert cut == whole[:1]
