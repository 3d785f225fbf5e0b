"""Fig. 3.6 and 3.7 again: what a step is charged with, and what its parts say."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import replace

import numpy as np
import pytest

from axon.aggregation import Median
from axon.errors import ConfigurationError
from axon.experiments import byz_cost, byz_cost_processes
from axon.experiments.byz_cost_claims import Found, claims_of, claims_of_processes
from axon.experiments.byz_cost_processes import Measured, in_processes
from axon.experiments.byz_cost_rules import Costs, Meter, Metered
from axon.experiments.byz_cost_world import (
    CRASH,
    EARLY,
    ETHERNET,
    MSMW,
    PEERS,
    SSMW,
    STAND_IN,
    SYSTEMS,
    VANILLA,
    Deployment,
    Taken,
    simulate,
)
from axon.experiments.byzantine_world import Counts
from axon.experiments.result import Claim, to_json
from axon.experiments.settings import Settings
from axon.values import Vector

FEW = Counts(workers=8, faulty_workers=1, servers=4, faulty_servers=1)
SIZE = 4_000_000
VECTOR_S = 4 * SIZE / ETHERNET.up_bytes_per_s
"""How long one takes over a link."""
STEPS: dict[str, float] = {VANILLA: 3.0, SSMW: 2.9, CRASH: 3.0, MSMW: 3.6, PEERS: 4.0}


def deployed(system: str) -> Deployment:
    return Deployment(name=system, size=SIZE, link=ETHERNET, counts=FEW, gradient_s=1.0 / SIZE)


def taken(step_s: float, aggregation_s: float = 0.1) -> Taken:
    return Taken(step_s=step_s, computation_s=1.6, aggregation_s=aggregation_s, gradients=15)


def made_up(aggregation_s: float = 0.1, **steps: float) -> Found:
    """One scene and two models, each with the same steps."""
    systems = {
        system: taken(steps.get(system.replace("-", "_"), step_s), aggregation_s)
        for system, step_s in STEPS.items()
    }
    return {"here": dict.fromkeys(("MNIST_CNN", "ResNet50"), systems)}


def failing(claims: Sequence[Claim]) -> list[str]:
    return [claim.claim.partition(",")[0] for claim in claims if not claim.holds]


def test_a_step_of_vanilla_is_its_vectors_and_its_gradient() -> None:
    found = simulate(deployed(VANILLA), steps=3)
    # The server sends 8 models one after the other; the last worker's gradient comes last.
    assert found.step_s == pytest.approx(1.0 + 9 * VECTOR_S, rel=0.02)
    assert found.communication_s == pytest.approx(9 * VECTOR_S, rel=0.05)
    assert (found.gradients, found.vectors) == (8, 16)
    assert found.aggregation_s == 0.0


def test_servers_that_exchange_models_wait_for_them_too() -> None:
    vanilla, crash, msmw = (simulate(deployed(each), steps=3) for each in (VANILLA, CRASH, MSMW))
    assert crash.step_s == pytest.approx(vanilla.step_s, rel=0.02)
    assert msmw.step_s > crash.step_s + 2 * VECTOR_S
    assert msmw.gradients == 7


def test_a_short_vector_on_a_slow_link_stands_for_a_long_one() -> None:
    """Where the vectors are the model's own, nothing stands for anything."""
    same = simulate(replace(deployed(SSMW), size=STAND_IN, gradient_s=0.0), steps=3)
    longer = simulate(replace(deployed(SSMW), size=100 * STAND_IN, gradient_s=0.0), steps=3)
    less_s = 2 * 4 * ETHERNET.latency_s
    assert longer.step_s == pytest.approx(100 * (same.step_s - less_s), rel=0.05)


def test_a_rule_is_charged_with_what_it_was_measured_to_take() -> None:
    class Fixed(Costs):
        def __call__(self, rule: object, count: int, size: int) -> float:
            return (100.0 if isinstance(rule, Median) else 1.0) * count

    bare = simulate(deployed(MSMW), steps=3)
    charged = simulate(replace(deployed(MSMW), costs=Fixed(), cores=10), steps=3)
    # 7 gradients by a server; 3 models by the server, and 3 by the workers before.
    assert charged.aggregation_s == pytest.approx((7 + 300 + 300) / 10)
    assert charged.step_s > bare.step_s + charged.aggregation_s - 0.1


def test_costs_are_measured_once_and_grow_with_the_size_from_there() -> None:
    calls: list[tuple[int, int]] = []

    def rule(vectors: Sequence[Vector], weights: Sequence[float]) -> Vector:
        calls.append((len(vectors), len(vectors[0])))
        return Median()(vectors, weights)

    costs = Costs(most=50_000)
    once = costs(rule, 5, 200_000)
    assert costs(rule, 5, 100_000) == pytest.approx(once / 2)
    assert set(calls) == {(5, 50_000)}
    assert len(calls) == 3
    assert costs.of(rule, 200_000, 4)(5) == pytest.approx(once / 4)


def test_a_metered_rule_is_the_rule() -> None:
    meter = Meter()
    rule = Metered(Median(1), meter, lambda count: float(count))
    vectors = [np.full(3, each, np.float32) for each in (1.0, 5.0, 2.0)]
    assert rule(vectors, [1.0] * 3).tolist() == [2.0] * 3
    assert (meter.seconds, rule.least, Metered(rule, meter).seconds(9)) == (3.0, 3, 0.0)


def test_an_unknown_system_is_told_the_known_ones() -> None:
    with pytest.raises(ConfigurationError, match="known are vanilla, SSMW"):
        _ = deployed("other").system


def test_what_the_paper_says_holds_of_numbers_like_its_own() -> None:
    assert failing(claims_of(made_up())) == []


@pytest.mark.parametrize(
    ("found", "fails"),
    [
        (made_up(MSMW=3.7), ["MSMW takes at most 22 % longer than crash tolerance"]),
        (made_up(SSMW=3.0), ["SSMW always costs less than crash tolerance"]),
        (made_up(decentralised=3.5), ["decentralised learning costs the most"]),
        (made_up(0.35), ["robust aggregation is less than 11 % of a step of ResNet50"]),
        (
            made_up(decentralised=9.0),
            ["communication is less of a step of ResNet50 than the paper's"],
        ),
    ],
)
def test_what_does_not_hold_says_so(found: Found, fails: list[str]) -> None:
    assert failing(claims_of(found)) == fails


def test_a_server_that_waits_for_fewer_is_told_of_beside_the_one_that_waits_for_all() -> None:
    scene = {
        model: {**systems, SSMW: taken(3.06), EARLY: taken(2.7)}
        for model, systems in made_up()["here"].items()
    }
    ssmw = claims_of({"here": scene})[1]
    assert not ssmw.holds
    assert ssmw.measured == pytest.approx(2.0)
    assert ssmw.why.endswith("if it waits for n - f workers only, it is -10 %")
    waited = [deployed(system).system.topology.gradients for system in (SSMW, EARLY)]
    assert waited == [8, 7]


def test_the_paper_s_network_is_the_first_scene() -> None:
    scene = made_up()["here"]
    assert len(claims_of({"one": scene, "two": scene})) == 6 + 4
    changed = {**scene, "ResNet50": {**scene["ResNet50"], MSMW: taken(3.3)}}
    assert failing(claims_of({"one": changed})) == [
        "the slowdown of MSMW stays as it is from a large model to a larger one"
    ]


def test_real_processes_are_judged_where_there_were_any() -> None:
    assert claims_of_processes({}) == ()
    measured = {
        system: Measured(taken=taken(step_s), cpu_s=1.0, busy=90.0)
        for system, step_s in (STEPS | {MSMW: 6.0}).items()
    }
    msmw, ssmw = claims_of_processes(measured)
    assert msmw.measured == pytest.approx(100.0)
    assert (msmw.holds, ssmw.holds) == (False, True)
    assert "share the cores" in msmw.why


@pytest.mark.slow
def test_a_quick_look_is_whole(monkeypatch: pytest.MonkeyPatch) -> None:
    here = {"here": byz_cost.Scene(ETHERNET, 20)}
    monkeypatch.setattr(byz_cost, "scenes", lambda _quick: here)
    settings = Settings(quick=True)
    result = byz_cost.run(settings)
    found = json.loads(json.dumps(to_json(result, settings), allow_nan=False))
    assert (found["name"], len(found["claims"])) == ("byz-cost", 6)
    assert len(found["rows"]) == 2 * len(SYSTEMS)
    assert {row["slowdown"] for row in found["rows"] if row["system"] == VANILLA} == {1.0}
    assert result.figure is not None
    assert [len(panel.series) for panel in result.figure.panels] == [len(SYSTEMS) - 1]


@pytest.mark.system
@pytest.mark.slow
def test_real_processes_run_one_system_after_the_other(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(byz_cost_processes, "SERVERS", 2)
    found = in_processes((VANILLA, CRASH), Settings(), steps=3, workers=2)
    for each in found.values():
        assert each.taken.gradients == 2
        assert 0.0 < each.taken.aggregation_s < each.taken.step_s
        assert each.taken.computation_s > 0.0
        assert each.cpu_s > 0.0
        assert each.busy > 0.0
