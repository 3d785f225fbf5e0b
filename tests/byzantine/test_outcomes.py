"""What came of a cluster: told in short, as a table, and as a frame."""

from __future__ import annotations

import math
from dataclasses import replace

import pytest

from axon.aggregation import Median
from axon.attacks import Reversed
from axon.byzantine.outcomes import Outcome, Trained, counted_in
from axon.topology import replicated_servers
from tests.byzantine.worlds import cluster, run, vector

MSMW = replicated_servers(4, 4, faulty_servers=1, faulty_workers=1)


@pytest.fixture(scope="module")
def outcome() -> Outcome:
    hostile = {"worker-1": Reversed(), "server-2": Reversed()}
    return run(cluster(MSMW, Median(1), steps=2, hostile=hostile))


def test_it_is_told_in_short(outcome: Outcome) -> None:
    assert repr(outcome) == (
        f"Outcome(accuracy={outcome.accuracy:.4g}, servers=3, steps=6, "
        "counted={'worker-1': 6, 'server-2': 6})"
    )
    assert repr(outcome.servers["server-0"]).startswith("Trained(steps=2, accuracy=0.")


def test_a_notebook_shows_servers_and_liars(outcome: Outcome) -> None:
    gave_up = replace(outcome.servers["server-0"], failure="<b>too few</b>")
    shown = replace(outcome, servers={"server-0": gave_up})._repr_html_()
    assert "&lt;b&gt;too few&lt;/b&gt;" in shown
    assert "<td>worker-1</td><td>6</td>" in shown
    assert "hostile" not in replace(outcome, counted={})._repr_html_()


def test_a_frame_has_a_row_for_each_step_of_each_server(outcome: Outcome) -> None:
    frame = outcome.to_pandas()
    assert list(frame["server"]) == ["server-0"] * 2 + ["server-1"] * 2 + ["server-3"] * 2
    assert frame["models_from"].str.contains("server-2").all()
    assert frame["accuracy"].isna().tolist() == [True, False] * 3


def test_a_server_that_did_no_step_has_no_accuracy(outcome: Outcome) -> None:
    idle = Trained(records=(), model=vector(0, 0))
    assert idle.accuracy is None
    assert math.isnan(replace(outcome, servers={**outcome.servers, "server-9": idle}).accuracy)


def test_a_node_counts_once_a_step(outcome: Outcome) -> None:
    first, *_ = outcome.servers["server-0"].records
    twice = replace(first, gradients_from=("a",), models_from=("a", "b"))
    assert counted_in([twice, first], ["a", "b", "c"]) == {"a": 1, "b": 1, "c": 0}
