"""Fig. 3.8 to 3.10 again: what growth says, and a quick look."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import replace

import pytest

from axon.experiments import byz_scaling
from axon.experiments.byz_cost_world import MSMW, PEERS, SYSTEMS, VANILLA, Taken
from axon.experiments.byz_scaling import Plan
from axon.experiments.byz_scaling_claims import Found, Sweep, batches, claims_of
from axon.experiments.result import to_json
from axon.experiments.settings import Settings


def taken(step_s: float, gradients: float = 10.0, vectors: float = 0.0) -> Taken:
    return Taken(
        step_s=step_s, computation_s=0.0, aggregation_s=0.0, gradients=gradients, vectors=vectors
    )


def swept(*places: int, **step_s: Callable[[int], float]) -> Sweep:
    """Steps as functions of the place; peers send twice as many vectors as there are pairs."""
    return {
        system: {at: taken(made(at), at, 1.9 * at**2) for at in places}
        for system, made in step_s.items()
    }


def made_up() -> Found:
    """As the paper has it."""
    slower = {VANILLA: 1.0, "SSMW": 1.1, "crash-tolerant": 1.2, MSMW: 1.3}
    workers = {
        system: {n: taken(factor * (10 + n), n) for n in (8, 18)}
        for system, factor in slower.items()
    }
    workers[PEERS] = {n: taken(n * n / 10, n) for n in (8, 18)}
    growing = {VANILLA: lambda at: 1e-9 * at, PEERS: lambda at: 1e-9 * at}
    quadratic = {VANILLA: lambda n: 0.1 * n, PEERS: lambda n: 0.1 * n * n}
    return Found(
        workers=workers,
        peers=swept(4, 8, 16, **quadratic),
        sizes=swept(10**5, 10**6, **growing),
        faulty_workers={MSMW: {f: taken(1.0 + f / 50) for f in range(4)}},
        faulty_servers={MSMW: {f: taken(1.0 + f / 4) for f in range(4)}},
    )


def failing(found: Found) -> list[str]:
    return [claim.claim for claim in claims_of(found) if not claim.holds]


def test_what_the_paper_says_holds_of_numbers_like_its_own() -> None:
    assert failing(made_up()) == []


def test_batches_are_those_that_were_used() -> None:
    assert batches(taken(0.5, gradients=15)) == 30.0


def test_peers_on_links_of_their_own_scale() -> None:
    """Linear communication is not what the paper says, and is told so."""
    found = made_up()
    linear = replace(found, peers={**found.peers, PEERS: found.peers[VANILLA]})
    assert failing(linear) == ["the communication time of peers grows quadratically with n"]
    scaling = {**found.workers, PEERS: found.workers[VANILLA]}
    assert failing(replace(found, workers=scaling)) == [
        "decentralised learning does not process more batches with more peers"
    ]


@pytest.mark.parametrize(
    ("step_s", "fails"),
    [
        (
            {0: 1.0, 1: 1.4, 2: 1.5},
            ["the first faulty server costs MSMW at most 33 % more time"],
        ),
        (
            {0: 1.0, 1: 1.3, 2: 2.1},
            ["2 faulty servers cost MSMW less than 50 % of its throughput"],
        ),
    ],
)
def test_faulty_servers_cost_what_they_cost(step_s: dict[int, float], fails: list[str]) -> None:
    sweep = {MSMW: {faulty: taken(each) for faulty, each in step_s.items()}}
    assert failing(replace(made_up(), faulty_servers=sweep)) == fails


def test_a_system_that_slows_down_with_workers_does_not_scale() -> None:
    found = made_up()
    slow = {**found.workers, MSMW: {8: taken(20.0, 8), 18: taken(60.0, 18)}}
    assert failing(replace(found, workers=slow)) == [
        "all systems but the decentralised one process more batches with more workers",
        "with more workers the slowdown of SSMW, MSMW and crash tolerance is almost constant",
        "MSMW scales almost as well as crash tolerance",
    ]


@pytest.mark.slow
def test_a_short_run_is_whole(monkeypatch: pytest.MonkeyPatch) -> None:
    plan = Plan(
        workers=(8, 9),
        peers=(4, 5),
        sizes=(10**5, 10**6),
        faulty_workers=(0, 1),
        faulty_servers=(0, 1),
        steps=2,
    )
    monkeypatch.setattr(byz_scaling, "QUICK", plan)
    settings = Settings(quick=True)
    result = byz_scaling.run(settings)
    found = json.loads(json.dumps(to_json(result, settings), allow_nan=False))
    assert (found["name"], len(found["claims"])) == ("byz-scaling", 12)
    assert len(found["rows"]) == 2 * len(SYSTEMS) + 2 * 2 * 2 + 2 * 2
    vanilla = [row for row in found["rows"] if row["over"] == "nodes" and row["system"] == VANILLA]
    assert [row["vectors/step"] for row in vanilla] == [8, 10]
    assert result.figure is not None
    assert len(result.figure.panels) == 5
