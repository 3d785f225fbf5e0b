"""GARFIELD's systems with its counts, and what a trial of one tells."""

from __future__ import annotations

import pickle
from dataclasses import replace

import pytest

from axon.attacks import Drop, Reversed
from axon.data.datasets import load
from axon.experiments import byzantine_world
from axon.experiments.byzantine_world import (
    ATTACKED,
    SYSTEMS,
    USUAL,
    Course,
    Trial,
    conduct,
    curve,
    data,
    measure,
    repeats_of,
)
from axon.experiments.settings import Settings

DIGITS = load("digits")


def trial(system: str, **changes: object) -> Trial:
    made = Trial(system=SYSTEMS[system](ATTACKED), dataset=DIGITS, steps=4, every=2, seed=3)
    return replace(made, **changes)  # type: ignore[arg-type]  # fields by their names


def test_every_system_waits_for_as_many_as_its_rules_need() -> None:
    waited = {}
    for name, made in SYSTEMS.items():
        system = made(USUAL)
        assert system.name == name
        # A cluster refuses rules that would hear too few.
        cluster = Trial(system=system, dataset=DIGITS, steps=1).cluster()
        waited[name] = (cluster.topology.gradients, cluster.topology.models)
    assert waited == {
        "vanilla": (18, 0),
        "crash-tolerant": (18, 0),
        "SSMW": (15, 0),
        "MSMW": (15, 5),
        "MSMW synchronous": (18, 6),
        "decentralised": (15, 15),
    }


def test_the_first_of_each_party_lie_and_nobody_without_an_attack() -> None:
    lying = trial("MSMW", attack=Reversed(), lying_workers=2, lying_servers=1)
    assert list(lying.hostile) == ["worker-00", "worker-01", "server-0"]
    assert set(lying.cluster().honest_servers) == {"server-1", "server-2", "server-3"}
    assert replace(lying, attack=None).hostile == {}


def test_a_trial_travels_between_processes_and_comes_to_the_same() -> None:
    first = conduct(trial("vanilla"))
    again = conduct(pickle.loads(pickle.dumps(trial("vanilla"))))
    assert first == again
    assert first.steps == (2, 4)
    assert first.failure == ""
    assert conduct(trial("vanilla", seed=4)) != first


def test_a_server_that_gave_up_keeps_its_last_accuracy() -> None:
    course = conduct(trial("vanilla", attack=Drop(), lying_workers=1))
    assert course.steps == (2, 4)
    assert len(set(course.accuracies)) == 1
    assert course.failure.startswith("wanted 11 answers, got 10")


def test_steps_to_a_level_are_counted_between_two_measurements() -> None:
    course = Course((10, 20, 30), (50.0, 80.0, 60.0))
    assert course.last == 60.0
    assert course.steps_to(25.0) == pytest.approx(5.0)
    assert course.steps_to(65.0) == pytest.approx(15.0)
    assert course.steps_to(80.0) == pytest.approx(20.0)
    assert course.steps_to(80.1) is None


def test_a_curve_is_the_mean_of_the_repeats() -> None:
    found = curve([Course((1, 2), (10.0, 20.0)), Course((1, 2), (30.0, 20.0))])
    assert [each.value for each in found] == [20.0, 20.0]
    assert (found[1].low, found[1].high) == (20.0, 20.0)


def test_repeats_come_back_under_their_keys_and_are_told_of() -> None:
    told: list[str] = []
    settings = Settings(quick=True, progress=told.append)
    short = trial("vanilla", steps=1, every=1)
    found = measure({("a", 1): repeats_of(short, [3, 4]), ("b", 2): [short]}, settings)
    assert found["a", 1] == (conduct(short), conduct(replace(short, seed=4)))
    assert found["b", 2] == found["a", 1][:1]
    assert told == ["a, 1: 1 of 3 runs done", "a, 1: 2 of 3 runs done", "b, 2: 3 of 3 runs done"]


def test_a_large_data_set_is_cut_and_that_is_noted(monkeypatch: pytest.MonkeyPatch) -> None:
    whole, note = data(Settings(dataset="digits"))
    assert (len(whole.train), note) == (1500, "")
    monkeypatch.setattr(byzantine_world, "TRAIN", 1000)
    monkeypatch.setattr(byzantine_world, "TEST", 100)
    cut, note = data(Settings(dataset="digits"))
    assert (len(cut.train), len(cut.test)) == (1000, 100)
    assert note == ("Of digits, 1,000 samples drawn at random are trained on and 100 tested on.")
