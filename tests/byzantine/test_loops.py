"""Whole clusters in virtual time: they learn, and attacks that ruin a mean do not ruin them."""

from __future__ import annotations

import asyncio
from collections.abc import Callable

import numpy as np
import pytest

from axon.aggregation import Krum, Mean, Median, MultiKrum
from axon.attacks import (
    Attack,
    Drop,
    InnerProduct,
    LabelFlip,
    LittleIsEnough,
    Mimic,
    Random,
    Reversed,
    SignFlip,
    Stale,
)
from axon.byzantine.behaviours import Stalling
from axon.byzantine.cluster import Cluster
from axon.byzantine.computing import Work
from axon.byzantine.loops import Training
from axon.byzantine.outcomes import Outcome
from axon.byzantine.running import World, in_memory
from axon.data.partitions import Dirichlet
from axon.errors import ConfigurationError
from axon.rpc.link import Link
from axon.testbed import virtual
from axon.topology import (
    Topology,
    crash_tolerant,
    decentralised,
    replicated_servers,
    single_server,
    vanilla,
)
from tests.byzantine.worlds import TWONN, Faulty, cluster, failures, often_counted, refused, run

CHANCE = 0.2
"""Ten digits: a guess is right in a tenth, and a constant answer in little more."""

MSMW = replicated_servers(4, 6, faulty_servers=1, faulty_workers=1)


def test_every_topology_learns() -> None:
    outcomes = {
        topology.kind: run(cluster(topology, rule, Median(topology.faulty_servers), steps=15))
        for topology, rule in (
            (vanilla(5), Mean()),
            (single_server(6, faulty=1), Krum(1)),
            (MSMW, Median(1)),
            (decentralised(4, faulty=1), Median(1)),
            (crash_tolerant(2, 5, faulty_servers=1), Mean()),
        )
    }
    for kind, outcome in outcomes.items():
        assert not failures(outcome), kind
        assert outcome.accuracy > 0.4, kind
        assert not refused(outcome), kind


def test_replicas_that_hear_the_same_are_the_same() -> None:
    outcome = run(cluster(crash_tolerant(3, 4, faulty_servers=2), Mean(), steps=5))
    first, *others = (each.model for each in outcome.servers.values())
    assert all(np.array_equal(first, other) for other in others)


def test_what_a_step_tells() -> None:
    world = World(
        links={"worker-2": Link(latency_s=0.5)},
        charge=lambda node, work: {"gradient": 0.1, "aggregation": 0.02}.get(work, 0.0),
    )
    outcome = run(cluster(MSMW, Median(1), steps=2), world)
    record = outcome.servers["server-1"].records[1]
    assert (record.server, record.step) == ("server-1", 1)
    assert record.gradients_from == ("worker-0", "worker-1", "worker-3", "worker-4", "worker-5")
    assert "server-1" in record.models_from
    assert len(record.models_from) == 3
    assert record.gradients_s == pytest.approx(0.12), "the worker's aggregation of models included"
    assert record.aggregation_s == pytest.approx(0.04)
    assert record.duration_s == pytest.approx(0.16)
    assert outcome.computing_s["worker-0"] == {0: pytest.approx(0.1), 1: pytest.approx(0.1)}


def test_one_seed_gives_one_run_to_the_bit() -> None:
    def once(seed: int) -> Outcome:
        links = {
            name: Link(latency_s=0.01, jitter_s=0.02, up_bytes_per_s=1e7) for name in MSMW.nodes
        }
        hostile: dict[str, Attack] = {"worker-1": Random(), "server-2": Random()}
        return run(
            cluster(MSMW, Median(1), steps=6, seed=seed, hostile=hostile), World(links=links)
        )

    first, again, other = once(3), once(3), once(4)
    for name, each in first.servers.items():
        assert each.model.tobytes() == again.servers[name].model.tobytes()
        assert each.records == again.servers[name].records
        assert each.model.tobytes() != other.servers[name].model.tobytes()


@pytest.mark.parametrize("attack", [Random(), Reversed(-100.0)], ids=["random", "reversed"])
def test_an_attack_that_ruins_the_mean_does_not_ruin_a_rule(attack: Attack) -> None:
    ruined = run(cluster(vanilla(6), Mean(), steps=20, hostile={"worker-3": attack}))
    assert ruined.accuracy < CHANCE
    hostile = {"worker-3": attack, "server-2": attack}
    borne = run(cluster(MSMW, Median(1), steps=20, hostile=hostile))
    assert not failures(borne)
    assert borne.accuracy > 0.4
    assert borne.counted == {"worker-3": 60, "server-2": 60}


@pytest.mark.parametrize(
    "attack",
    [Random(), SignFlip(), Stale(2), LittleIsEnough(), InnerProduct(), Mimic(1)],
    ids=lambda one: type(one).__name__,
)
@pytest.mark.parametrize(
    ("topology", "liars"),
    [
        (single_server(6, faulty=1), ["worker-5"]),
        (MSMW, ["worker-5", "server-3"]),
        (decentralised(4, faulty=1), ["peer-3"]),
    ],
    ids=["SSMW", "MSMW", "decentralised"],
)
def test_every_liar_is_heard_in_every_step(
    topology: Topology, liars: list[str], attack: Attack
) -> None:
    """Even the last by name, who is asked last, and whoever first looks at what others send."""
    hostile = dict.fromkeys(liars, attack)
    outcome = run(cluster(topology, Median(1), steps=3, contractions=1, hostile=hostile))
    assert not failures(outcome)
    assert outcome.counted == dict.fromkeys(liars, outcome.steps)
    assert outcome.steps == 3 * len(outcome.servers)


@pytest.mark.slow
def test_eleven_workers_and_four_servers_lose_nothing_to_one_of_each() -> None:
    topology = replicated_servers(4, 11, faulty_servers=1, faulty_workers=1)

    def accuracy(hostile: dict[str, Attack]) -> float:
        chosen = cluster(topology, MultiKrum(1), Median(1), steps=120, spec=TWONN, hostile=hostile)
        outcome = run(chosen)
        assert not failures(outcome)
        assert often_counted(outcome)
        return outcome.accuracy

    honest = accuracy({})
    assert honest > 0.8
    for attack in (Random(), Reversed(-100.0)):
        assert accuracy({"worker-03": attack, "server-2": attack}) > honest - 0.02
        alone = {"worker-03": attack}
        ruined = run(cluster(vanilla(11), Mean(), steps=120, spec=TWONN, hostile=alone))
        assert ruined.accuracy < CHANCE


def test_three_servers_do_where_everybody_answers_in_time() -> None:
    topology = replicated_servers(3, 5, faulty_servers=1, faulty_workers=1, synchronous=True)
    hostile = {"worker-3": Reversed(), "server-1": Random()}
    outcome = run(cluster(topology, Krum(1), Median(1), steps=12, hostile=hostile))
    assert not failures(outcome)
    assert often_counted(outcome)
    assert outcome.accuracy > 0.4
    record = outcome.servers["server-0"].records[-1]
    assert (len(record.gradients_from), len(record.models_from)) == (5, 3)


def test_crash_tolerance_is_none_against_lies() -> None:
    topology = crash_tolerant(3, 6, faulty_servers=1)
    for liar in ("server-0", "worker-0"):
        hostile = {liar: Reversed()}
        outcome = run(cluster(topology, Mean(), steps=15, spec=TWONN, hostile=hostile))
        assert outcome.accuracy < CHANCE, liar


def test_a_quiet_attack_that_knows_the_others_is_heard_over_links_too() -> None:
    hostile = {"worker-1": LittleIsEnough(), "server-3": LittleIsEnough()}
    # What it goes by it has without a link; what it says has one as long as that of the others.
    links = {name: Link(latency_s=0.1) for name in MSMW.nodes}
    outcome = run(cluster(MSMW, Median(1), steps=5, hostile=hostile), World(links=links))
    assert not failures(outcome)
    assert outcome.counted == dict.fromkeys(hostile, 15)


@pytest.mark.parametrize("liar", ["worker-2", "server-1"])
def test_a_mistake_in_an_attack_is_no_attack_that_was_borne(liar: str) -> None:
    with pytest.raises(ZeroDivisionError, match="in step 2"):
        run(cluster(MSMW, Median(1), steps=4, hostile={liar: Faulty()}))


def test_contraction_brings_peers_with_different_data_together() -> None:
    topology = decentralised(7, faulty=2)

    def apart(contractions: int) -> float:
        chosen = cluster(
            topology,
            Median(2),
            steps=3,
            contractions=contractions,
            partition=Dirichlet(0.3),
            hostile={"peer-0": Random()},
        )
        # Who answers in another order is heard by others.
        links = {name: Link(jitter_s=0.5) for name in topology.nodes}
        outcome = run(chosen, World(links=links))
        assert not failures(outcome)
        assert often_counted(outcome)
        models = np.stack([each.model for each in outcome.servers.values()])
        return float(np.ptp(models, axis=0).mean())

    assert apart(contractions=3) < 0.7 * apart(contractions=0)


# Faults


def slow(_node: str, work: Work) -> float:
    return 1.0 if work == "gradient" else 0.0


async def faulted(chosen: Cluster, fault: Callable[[World], None]) -> Outcome:
    world = World(charge=slow)
    fault(world)
    return await in_memory(chosen, world)


@pytest.mark.parametrize("away_s", [3.0, 9.0])
def test_a_server_that_was_away_catches_up(away_s: float) -> None:
    """Within the window it does every step; beyond it, it goes on from where the others are."""

    def fault(world: World) -> None:
        loop = asyncio.get_running_loop()
        loop.call_later(2.5, world.network.partition, "server-1")
        loop.call_later(2.5 + away_s, world.network.heal, "server-1")

    outcome = virtual.run(faulted(cluster(MSMW, Median(1), steps=16, window=5), fault))
    assert not failures(outcome)
    away, other = outcome.servers["server-1"], outcome.servers["server-0"]
    steps = [record.step for record in away.records]
    assert [record.step for record in other.records] == list(range(16))
    assert (steps == list(range(16))) == (away_s < 5)
    assert steps[-1] == 15
    assert away.records[-1].ended_s == pytest.approx(other.records[-1].ended_s, abs=1.0)
    assert away.accuracy == pytest.approx(other.accuracy, abs=0.05)


def test_a_vector_may_take_as_long_over_a_slow_link_as_the_cluster_waits() -> None:
    world = World(links={"worker-2": Link(up_bytes_per_s=20.0)})
    topology = single_server(3, faulty=0, synchronous=True)
    outcome = run(cluster(topology, Mean(), steps=2, patience_s=1000.0), world)
    assert not failures(outcome)
    assert all(record.gradients_s > 100.0 for record in outcome.servers["server"].records)


def test_the_next_server_takes_over_from_a_primary_that_crashed() -> None:
    topology = crash_tolerant(3, 4, faulty_servers=1)

    def fault(world: World) -> None:
        asyncio.get_running_loop().call_later(4.5, world.network.partition, "server-0")

    outcome = virtual.run(faulted(cluster(topology, Mean(), steps=12), fault))
    assert set(failures(outcome)) == {"server-0"}
    survivor = outcome.servers["server-1"].records
    durations = [record.duration_s for record in survivor]
    assert len(durations) == 12
    assert sum(duration > 1.5 for duration in durations) == 1, "the search happens once"
    assert max(durations) < 5.0


def test_who_waits_for_all_gives_up_when_one_is_silent() -> None:
    topology = single_server(5, faulty=1, synchronous=True)
    silent = {"worker-2": Drop()}
    outcome = run(cluster(topology, Median(1), steps=3, hostile=silent, patience_s=7.0))
    assert "wanted 5 answers, got 4" in failures(outcome)["server"]
    assert "worker-2: deadline" in failures(outcome)["server"]
    record = outcome.servers["server"].records[0]
    assert record.gradients_s == 0.0
    assert [one.node for one in record.refusals] == ["worker-2"]
    patient = run(cluster(single_server(5, faulty=1), Median(1), steps=3, hostile=silent))
    assert not failures(patient)


# What cannot hold is said before the first step


@pytest.mark.parametrize(
    ("topology", "settings", "message"),
    [
        (single_server(5, faulty=1), {"rule": Krum(1)}, r"gradients needs at least 5, .* for 4"),
        (MSMW, {"model_rule": Krum(1)}, r"models needs at least 5, .* waits for 3"),
        (vanilla(2), {"hostile": {"worker-9": Drop()}}, r"nobody is called worker-9 .*worker-0"),
        (
            crash_tolerant(3, 2, faulty_servers=1),
            {"patience_s": 5.0},
            r"above 3 servers x primary_patience_s = 6, got 5",
        ),
        (vanilla(2), {"hostile": {"server": Drop()}}, "one of server must be honest, got 1"),
        (vanilla(4), {"hostile": {"worker-1": "drop"}}, "worker-1 does must be .* got 'drop'"),
        (vanilla(4), {"hostile": {"worker-1": Drop}}, "must be an attack or a behaviour, got <cl"),
        (vanilla(4), {"hostile": {"worker-1": Stalling}}, "must be an attack or a behaviour"),
        (vanilla(4), {"hostile": {"worker-1": Mimic(3)}}, "honest vector 3, and knows 3, from 0"),
        (MSMW, {"hostile": {"server-1": Mimic(2)}}, "server-1 is to copy honest vector 2, .* 2,"),
        (MSMW, {"hostile": {"server-1": LabelFlip()}}, "an attack on data, and server-1 has none"),
        (vanilla(1), {"patience_s": 0.0}, "patience_s must be a finite number above 0"),
    ],
)
def test_preconditions(topology: Topology, settings: dict[str, object], message: str) -> None:
    rule = settings.pop("rule", Mean())
    with pytest.raises(ConfigurationError, match=message):
        cluster(topology, rule, settings.pop("model_rule", Mean()), **settings)  # type: ignore[arg-type]


def test_training_needs_steps() -> None:
    with pytest.raises(ConfigurationError, match="steps must be a whole number of at least 1"):
        Training(steps=0, rule=Mean(), model_rule=Mean())
