"""A node that misbehaves on the wire costs its own vote and nothing else."""

from __future__ import annotations

import numpy as np
import pytest

from axon.aggregation import Median
from axon.byzantine.behaviours import (
    Behaviour,
    Flooding,
    Garbage,
    Oversized,
    Replaying,
    Stalling,
)
from axon.byzantine.computing import Work
from axon.byzantine.running import World
from axon.topology import decentralised, replicated_servers
from tests.byzantine.worlds import cluster, failures, often_counted, refused, run

MSMW = replicated_servers(4, 6, faulty_servers=1, faulty_workers=1)
NEVER_HEARD = (Stalling, Garbage, Oversized)


def charge(_node: str, work: Work) -> float:
    return 0.1 if work == "gradient" else 0.0


@pytest.mark.parametrize("bad", ["worker-1", "server-1"])
@pytest.mark.parametrize(
    "behaviour",
    [Stalling(), Garbage(), Oversized(), Replaying(), Flooding(at_once=80, every_s=0.3)],
    ids=lambda one: type(one).__name__,
)
def test_it_costs_its_own_vote(bad: str, behaviour: Behaviour) -> None:
    outcome = run(cluster(MSMW, Median(1), steps=8, hostile={bad: behaviour}), World(charge=charge))
    assert not failures(outcome)
    assert refused(outcome) <= {bad}
    for trained in outcome.servers.values():
        assert trained.accuracy is not None
        assert trained.accuracy > 0.4
        # It keeps nobody waiting: eight steps of a tenth of a second, and little more.
        assert trained.records[-1].ended_s < 1.5
        for record in trained.records:
            assert len(record.gradients_from) == 5
            assert len(record.models_from) == 3
    if isinstance(behaviour, NEVER_HEARD):
        assert outcome.counted == {bad: 0}
    else:
        assert often_counted(outcome)


def test_what_is_replayed_is_kept_at_the_node_and_not_in_the_cluster() -> None:
    chosen = cluster(MSMW, Median(1), steps=3, hostile={"worker-1": Replaying()})
    first, again = run(chosen), run(chosen)
    assert all(
        np.array_equal(each.model, again.servers[name].model)
        for name, each in first.servers.items()
    )
    assert Replaying() == Replaying()


def test_a_peer_that_misbehaves_costs_its_own_votes() -> None:
    hostile = {"peer-2": Garbage()}
    outcome = run(cluster(decentralised(4, faulty=1), Median(1), steps=9, hostile=hostile))
    assert not failures(outcome)
    assert refused(outcome) == {"peer-2"}
