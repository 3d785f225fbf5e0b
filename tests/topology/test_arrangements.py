"""Who reads from whom, how many answers are waited for, and which numbers cannot hold."""

from __future__ import annotations

import pytest

from axon.errors import ConfigurationError
from axon.topology import (
    Topology,
    crash_tolerant,
    decentralised,
    replicated_servers,
    single_server,
    vanilla,
)


def test_answers_waited_for_in_each_topology() -> None:
    waited = {
        topology.kind: (topology.gradients, topology.models)
        for topology in (
            vanilla(11),
            single_server(11, faulty=3),
            replicated_servers(4, 11, faulty_servers=1, faulty_workers=3),
            decentralised(7, faulty=2),
            crash_tolerant(3, 11, faulty_servers=2),
        )
    }
    assert waited == {
        "vanilla": (11, 0),
        "single-server": (8, 0),
        "replicated-servers": (8, 3),
        "decentralised": (5, 5),
        "crash-tolerant": (11, 0),
    }


def test_a_synchronous_network_waits_for_all_and_needs_fewer_nodes() -> None:
    topology = replicated_servers(3, 11, faulty_servers=1, faulty_workers=1, synchronous=True)
    assert (topology.gradients, topology.models) == (11, 3)
    with pytest.raises(ConfigurationError, match=r"f = 1 .* 3f \+ 1 = 4 are needed, got 3"):
        replicated_servers(3, 11, faulty_servers=1, faulty_workers=1)
    with pytest.raises(ConfigurationError, match=r"2f \+ 1 = 3 are needed, got 2"):
        replicated_servers(2, 11, faulty_servers=1, faulty_workers=1, synchronous=True)


def test_too_few_nodes_for_so_many_faults() -> None:
    with pytest.raises(ConfigurationError, match=r"3f \+ 1 = 7 are needed, got 6"):
        decentralised(6, faulty=2)
    with pytest.raises(ConfigurationError, match=r"f = 3 faulty servers .* = 4 are needed, got 3"):
        crash_tolerant(3, 5, faulty_servers=3)
    with pytest.raises(ConfigurationError, match=r"f = 5 faulty workers .* got 5"):
        single_server(5, faulty=5)
    with pytest.raises(ConfigurationError, match="at least 0, got -1"):
        decentralised(6, faulty=-1)


def test_names_sort_as_they_count() -> None:
    assert vanilla(11).workers[-1] == "worker-10"
    assert vanilla(11).workers == tuple(sorted(vanilla(11).workers))
    assert single_server(["pi", "nano"], faulty=0).workers == ("nano", "pi")
    with pytest.raises(ConfigurationError, match="different names"):
        vanilla(["pi", "pi"])
    with pytest.raises(ConfigurationError, match="workers must be a whole number of at least 1"):
        vanilla(0)


def test_who_reads_from_whom() -> None:
    replicated = replicated_servers(4, 2, faulty_servers=1, faulty_workers=0)
    assert replicated.read_by("server-1") == (
        "worker-0", "worker-1", "server-0", "server-2", "server-3",
    )  # fmt: skip
    assert replicated.read_by("worker-0") == replicated.servers
    crash = crash_tolerant(2, 2, faulty_servers=1)
    assert crash.read_by("server-0") == ("worker-0", "worker-1")
    peers = decentralised(4, faulty=1)
    assert peers.read_by("peer-2") == ("peer-0", "peer-1", "peer-3")
    assert peers.nodes == peers.servers


def test_a_rule_that_needs_more_than_is_waited_for() -> None:
    topology = replicated_servers(4, 11, faulty_servers=1, faulty_workers=2)
    topology.check_rules(9, 3)
    with pytest.raises(ConfigurationError, match=r"gradients needs at least 10, .* waits for 9"):
        topology.check_rules(10, 3)
    with pytest.raises(ConfigurationError, match=r"models needs at least 4, .* waits for 3"):
        topology.check_rules(9, 4)
    vanilla(3).check_rules(1, 4)  # Where no models are exchanged their rule is not asked.


def test_any_topology_can_be_written_out() -> None:
    odd = Topology(kind="vanilla", servers=("s",), workers=("a", "b"), gradients=2)
    assert odd.nodes == ("s", "a", "b")
