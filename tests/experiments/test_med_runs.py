"""Fig. 4.1 to 4.10 again: a short run of each, and the spot check in real processes."""

from __future__ import annotations

import json
from types import ModuleType

import pytest

from axon.experiments import med_emulated, med_learners, med_tasks
from axon.experiments.med_trial import WAYS, tried
from axon.experiments.med_world import Request, Trial, nano
from axon.experiments.result import to_json
from axon.experiments.settings import Settings

pytestmark = pytest.mark.slow  # All together they take seconds.

SHORT = Settings(quick=True, repeats=1)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("module", "claims", "places"), [(med_learners, 21, 2), (med_tasks, 19, 2)]
)
def test_a_short_run_is_whole(
    module: ModuleType, claims: int, places: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(med_learners, "QUICK_LEARNERS", (4, 5))
    monkeypatch.setattr(med_tasks, "QUICK_TASKS", (1, 2))
    result = module.run(SHORT)
    found = json.loads(json.dumps(to_json(result, SHORT), allow_nan=False))
    assert (found["name"], found["repeats"]) == (module.NAME, 1)
    assert len(result.claims) == claims
    assert len(result.rows) == places * len(WAYS)
    assert any("1.5 times as fast" in note for note in result.notes)
    ideal = [row for row in found["rows"] if row["scheme"] == "MMTT-Ideal"]
    med = [row for row in found["rows"] if row["scheme"] == "MED"]
    for best, other in zip(ideal, med, strict=True):
        assert best["training time [s]"]["value"] <= other["training time [s]"]["value"]


@pytest.mark.alone
@pytest.mark.system
@pytest.mark.slow
def test_real_processes_take_what_the_simulated_world_says() -> None:
    requests = (Request("one", "twonn", 1, 4.0, 4),)
    trial = Trial(seed=1, requests=requests, learners=2, budget=300.0, cycles=1, device=nano(0.5))
    real = med_emulated.in_processes(trial)
    reckoned = tried(trial, "MED")
    assert real.time_s == pytest.approx(reckoned.time_s, rel=0.25)
    assert real.fulfilment == pytest.approx(reckoned.fulfilment, abs=15.0)
