"""Fig. 3 again: learners that keep the radio model's time, and what is made of their accuracy."""

from __future__ import annotations

import json
import math
from dataclasses import replace

import numpy as np
import pytest

from axon.data.datasets import Dataset, load
from axon.experiments import async_accuracy, async_trial
from axon.experiments.async_claims import Found, claims_of, shown_cycles
from axon.experiments.async_trial import PERIOD_S, SCHEMES, Trial, conduct
from axon.experiments.result import Claim, Result, to_json
from axon.experiments.runs import Records, Repeats, untrained
from axon.experiments.settings import Settings
from axon.seeds import stream
from axon.values import DeviceRecord, RoundRecord, Samples

pytestmark = pytest.mark.slow  # All together they take seconds.

QUICK = Settings(quick=True)
SAMPLES = 60_000


def noise(count: int) -> Samples:
    """As many bytes as MNIST has for so many images; nobody learns from them here."""
    chance = stream(0, "noise")
    images = chance.integers(0, 256, (count, 1, 28, 28), np.uint8)
    return Samples(images, chance.integers(0, 10, count, np.uint8), 1 / 255)


@pytest.fixture(scope="module")
def images() -> Dataset:
    return Dataset("noise", noise(SAMPLES), noise(10), classes=10)


@pytest.mark.parametrize("learners", [10, 15, 20])
@pytest.mark.parametrize("scheme", SCHEMES)
def test_learners_take_as_long_as_the_model_says_and_nobody_longer_than_the_period(
    images: Dataset, scheme: str, learners: int
) -> None:
    trial = Trial(dataset=images, scheme=scheme, learners=learners, cycles=1, seed=3)
    (record,) = conduct(trial, untrained)
    assert [device.status for device in record.devices] == ["used"] * learners
    assert sum(device.shards for device in record.devices) * trial.shard_samples == SAMPLES
    for device, time in zip(record.devices, trial.times, strict=True):
        # t = C² τ d + C¹ d + C⁰, where a learner sees each of its d samples τ times.
        held = device.shards * trial.shard_samples
        model_s = time.per_sample_epoch_s * device.samples + time.per_sample_s * held + time.fixed_s
        assert device.answered_s is not None
        assert device.answered_s == pytest.approx(model_s, rel=1e-3)
        assert device.answered_s <= PERIOD_S
        # There is no time for another epoch, but for who must not do one more than others.
        if scheme == "ETA":
            assert model_s + time.per_sample_epoch_s * held > PERIOD_S


def test_each_scheme_deals_out_as_it_is_called(images: Dataset) -> None:
    epochs, shards = {}, {}
    for scheme in SCHEMES:
        trial = Trial(dataset=images, scheme=scheme, learners=10, cycles=1, seed=3)
        runs = {(10, scheme): Repeats((conduct(trial, untrained),))}
        found = Found(runs, trial.shard_samples, PERIOD_S)
        (epochs[scheme],) = found.epochs(10, scheme)
        shards[scheme] = {device.shards for device in found.firsts(10, scheme)[0].devices}
    assert len(set(epochs["synchronous"])) == 1
    assert len(shards["ETA"]) == 1
    assert max(epochs["asynchronous"]) - min(epochs["asynchronous"]) <= 1
    assert max(epochs["ETA"]) - min(epochs["ETA"]) >= 3


def test_a_smaller_data_set_takes_as_long_and_as_many_epochs() -> None:
    digits = load("digits")
    trial = Trial(dataset=digits, scheme="synchronous", learners=10, cycles=1, seed=3)
    (record,) = conduct(trial, untrained)
    assert trial.stands_for == 40.0
    assert {device.samples // device.shards for device in record.devices} == {3}
    assert 0.8 * PERIOD_S < record.duration_s <= PERIOD_S


@pytest.fixture(scope="module")
def result() -> Result:
    """The quick look without its mathematics."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(
            async_accuracy, "conduct", lambda trial: async_trial.conduct(trial, untrained)
        )
        patch.setattr(async_accuracy, "QUICK_CYCLES", 2)
        return async_accuracy.run(QUICK)


def test_its_json_has_every_claim(result: Result) -> None:
    found = json.loads(json.dumps(to_json(result, QUICK), allow_nan=False))
    claims = [claim["claim"] for claim in found["claims"]]
    assert len(claims) == len(set(claims)) == 11
    assert sum("sooner" in claim for claim in claims) == 7
    assert (found["name"], found["repeats"], found["dataset"]) == ("async-accuracy", 2, "digits")
    # Whoever learns nothing is never there, and that is no success of anybody.
    held = {claim["claim"] for claim in found["claims"] if claim["holds"]}
    assert held == {"every learner does all of its share within T = 15 s"}


def test_rows_figure_and_notes_say_what_was_run(result: Result) -> None:
    assert [(row["K"], row["scheme"]) for row in result.rows] == [
        (learners, scheme) for learners in (10, 15, 20) for scheme in SCHEMES
    ]
    assert result.figure is not None
    assert [panel.title for panel in result.figure.panels] == ["K = 10", "K = 15", "K = 20"]
    assert all(len(series.points) == 2 for series in result.figure.panels[0].series)
    assert "learning rate of 0.1 and batches of 32" in result.notes[1]
    assert "stands for 40 of MNIST's" in result.notes[1]


def course(*accuracies: float, answered_s: float = 10.0) -> Records:
    device = DeviceRecord(
        device="learner-01", status="used", shards=2, samples=20, answered_s=answered_s
    )
    return tuple(
        RoundRecord(
            run="run",
            cycle=cycle,
            started_s=0.0,
            ended_s=1.0,
            deadline_s=PERIOD_S,
            devices=(device,),
            batches=1,
            accuracy=accuracy,
        )
        for cycle, accuracy in enumerate(accuracies, 1)
    )


def claims(**runs: tuple[Records, ...]) -> dict[str, Claim]:
    """The claims where these are the runs of every scheme, whatever the number of learners."""
    found = {(count, name): Repeats(each) for count in (10, 15, 20) for name, each in runs.items()}
    return {claim.claim: claim for claim in claims_of(Found(found, 5, PERIOD_S))}


def test_sooner_means_sooner_in_more_runs_than_chance_explains() -> None:
    late, soon = course(0.9, 0.94, 0.971), course(0.95, 0.96, 0.98)
    held = claims(asynchronous=(soon,) * 6, synchronous=(late,) * 6, ETA=(late,) * 6)
    claim = held["K = 10: 95 % sooner than synchronous (4 cycles against 8)"]
    assert (claim.measured, claim.interval, claim.holds) == (2.0, (2.0, 2.0), True)
    assert claim.why.startswith("cycles of asynchronous: 1 (6/6), of synchronous: 3 (6/6)")
    assert not held["K = 20: 97 % sooner than ETA (7 cycles against 11)"].holds
    mixed = claims(asynchronous=(soon, late) * 3, synchronous=(late, soon) * 3, ETA=(late,) * 6)
    claim = mixed["K = 10: 95 % sooner than synchronous (4 cycles against 8)"]
    assert (claim.measured, claim.interval, claim.holds) == (0.0, (-2.0, 2.0), False)
    few = claims(asynchronous=(soon,) * 5, synchronous=(late,) * 5, ETA=(late,) * 5)
    claim = few["K = 10: 95 % sooner than synchronous (4 cycles against 8)"]
    assert (claim.measured, claim.interval, claim.holds) == (2.0, None, False)


def test_who_never_gets_there_is_later_by_nobody_knows_how_much() -> None:
    bad, good = course(0.9, 0.9), course(0.9, 0.96)
    name = "K = 10: ETA never reaches 95 %, and asynchronous does"
    found = claims(asynchronous=(good,) * 6, synchronous=(bad,) * 6, ETA=(bad,) * 6)
    assert found[name].holds
    claim = found["K = 15: 95 % sooner than ETA (3 cycles against 4)"]
    assert (claim.measured, claim.holds, claim.interval) == ("not known", True, (1.0, math.inf))
    both = claims(asynchronous=(bad,) * 6, synchronous=(bad,) * 6, ETA=(bad,) * 6)
    assert not both[name].holds
    claim = both["K = 15: 95 % sooner than ETA (3 cycles against 4)"]
    assert (claim.measured, claim.holds, claim.interval) == ("not known", False, None)
    assert claim.why == (
        "not shown: these repeats give no interval; cycles of asynchronous: never, of ETA: never"
    )
    assert not claims(asynchronous=(good,), synchronous=(bad,), ETA=(good,))[name].holds


def test_a_lead_is_one_number_for_each_seed_over_the_cycles_that_all_had() -> None:
    low, high, long = course(0.90), course(0.92), course(0.92, 0.5)
    found = claims(asynchronous=(high, long), synchronous=(low, low), ETA=(low, high))
    sure, unsure = (
        found[f"over the first 1 cycles it is more accurate than {other}, over all K"]
        for other in ("synchronous", "ETA")
    )
    assert (sure.holds, unsure.holds) == (True, False)
    assert sure.measured == pytest.approx(2.0)
    assert unsure.measured == pytest.approx(1.0)
    assert unsure.interval is not None
    # Two seeds, not six runs: Student's factor for one degree of freedom.
    assert unsure.interval[1] == pytest.approx(1.0 + 12.706205)
    assert unsure.why.endswith("ahead with 1 of 2 seeds")


def test_a_learner_that_is_late_is_told() -> None:
    late = (course(0.9, answered_s=15.1),)
    found = claims(asynchronous=late, synchronous=late, ETA=late)
    (claim,) = [each for text, each in found.items() if "within T" in text]
    assert (claim.measured, claim.holds) == (15.1, False)
    assert claim.why == "0 of 9 shares were done in time"


def test_cycles_are_a_median_beside_how_many_runs_got_there() -> None:
    assert shown_cycles([2, 4]) == "3 (2/2)"
    assert shown_cycles([2, None, 4]) == "4 (2/3)"
    assert shown_cycles([2, None]) == "not most (1/2)"
    assert shown_cycles([None, None]) == "never"


def test_a_run_ends_when_it_is_accurate_enough() -> None:
    trial = Trial(dataset=load("digits"), scheme="ETA", learners=10, cycles=3, seed=3, enough=1.0)
    assert len(conduct(trial, untrained)) == 1
    assert len(conduct(replace(trial, enough=100.0), untrained)) == 3
