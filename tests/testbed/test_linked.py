"""Liars in the simulated world: what they do to a run, the same in every run of a seed."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from contextlib import closing
from pathlib import Path

import numpy as np
import pytest

from axon.aggregation import Krum, Median
from axon.aggregation.means import WeightedMean
from axon.allocation.equal import Equal
from axon.attacks import Attack, Drop, LabelFlip, Random, Reversed, SignFlip, Stale
from axon.data.datasets import load
from axon.errors import ConfigurationError
from axon.learning.tasks import default_spec
from axon.policies import Aggregator
from axon.report.records import to_line
from axon.rounds.checkpoint import Store, open_store
from axon.rounds.orchestrator import Orchestrator
from axon.rounds.settings import Run, Scheme
from axon.testbed.simulation import simulated
from axon.values import RoundRecord, Samples

DIGITS = load("digits")
SPEC = default_spec("twonn", DIGITS.shape, DIGITS.classes)
LIARS = ("jetson-nano-6", "jetson-nano-7")


def play(
    attacks: Mapping[str, Attack],
    aggregate: Aggregator | None = None,
    *,
    cycles: int = 4,
    seed: int = 7,
    store: Store | None = None,
) -> list[RoundRecord]:
    """Seven equal learners in a few cycles, some of which lie."""
    run = Run(spec=SPEC, cycles=cycles, deadline_s=5.0, shard_samples=50, seed=seed)
    scheme = Scheme(allocate=Equal(passes=4), aggregate=aggregate or WeightedMean())
    world = simulated("jetson-nano*7", seed=seed).lying(attacks)
    start_s = 0.0
    if store is not None and (saved := store.latest(run.name)) is not None:
        start_s = saved.clock_s
    return world.run(
        lambda fleet: Orchestrator(run, DIGITS, fleet, scheme, store=store).run(), start_s=start_s
    )


def accuracy(records: Sequence[RoundRecord]) -> float:
    assert records[-1].accuracy is not None
    return records[-1].accuracy


def lines(records: Sequence[RoundRecord]) -> list[str]:
    return [to_line(record) for record in records]


@pytest.mark.parametrize(
    ("attack", "rule"),
    [(Reversed(), Median()), (Reversed(), Krum(f=2)), (Random(), Median())],
    ids=["reversed, median", "reversed, krum", "random, median"],
)
def test_two_liars_of_seven_ruin_the_mean_and_not_a_robust_rule(
    attack: Attack, rule: Aggregator
) -> None:
    attacks = dict.fromkeys(LIARS, attack)
    # A little later nobody has a finite number left under the mean, and no cycle an answer.
    ruined, whole = play(attacks, cycles=4), play(attacks, rule, cycles=8)
    assert {device.status for record in ruined for device in record.devices} == {"used"}
    assert accuracy(ruined) < 0.2
    assert accuracy(whole) > 0.65


def test_a_run_with_liars_is_the_same_for_a_seed_and_another_for_another() -> None:
    attacks: dict[str, Attack] = {LIARS[0]: Random(scale=0.01), LIARS[1]: Stale(steps=2)}
    first = lines(play(attacks))
    assert lines(play(attacks)) == first
    assert lines(play(attacks, seed=8)) != first
    assert lines(play({LIARS[1]: Stale(steps=2)})) != first


def test_who_sends_nothing_is_waited_for_and_fails() -> None:
    (record,) = play({LIARS[0]: Drop()}, cycles=1)
    statuses = {device.device: device.status for device in record.devices}
    assert statuses.pop(LIARS[0]) == "failed"
    assert set(statuses.values()) == {"used"}
    assert record.duration_s >= 5.0


def test_what_a_stale_liar_goes_by_outlives_the_process(tmp_path: Path) -> None:
    attacks: dict[str, Attack] = {LIARS[0]: Stale(steps=2), LIARS[1]: SignFlip()}
    whole = play(attacks, cycles=4)
    with closing(open_store(tmp_path / "runs.db")) as store:
        store.begin("run", "{}")
        play(attacks, cycles=2, store=store)
        parts = play(attacks, cycles=4, store=store)
    assert lines(parts) == lines(whole[2:])


def test_data_of_its_own_are_poisoned_where_the_classes_are_known() -> None:
    own = Samples(np.zeros((4, 2), np.float32), np.array([0, 1, 2, 2]))
    world = simulated(["pi-1", "pi-2"], data={"pi-1": own, "pi-2": own})
    learners = world.lying({"pi-1": LabelFlip(classes=3)}).fleet.learners
    data = {name: one.learner._own.data for name, one in learners.items()}
    assert data["pi-2"] is own
    assert data["pi-1"] is not None
    assert data["pi-1"].labels.tolist() == [2, 1, 0, 0]
    with pytest.raises(ConfigurationError, match="how many classes there are"):
        world.lying({"pi-2": LabelFlip()})


def test_nobody_lies_who_is_not_there() -> None:
    with pytest.raises(ConfigurationError, match="attacks names 'pi-9'"):
        simulated("thesis").lying({"pi-9": Drop()})
