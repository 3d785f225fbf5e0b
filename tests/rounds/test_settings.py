"""How many updates a cycle needs: what the run wants, and what its rule can work with."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import pytest

from axon.aggregation.means import Mean
from axon.errors import ConfigurationError, QuorumNotReached
from axon.rounds.orchestrator import Orchestrator
from axon.rounds.settings import Scheme
from axon.testbed import virtual
from axon.values import RoundRecord, Vector
from tests.rounds.worlds import DATASET, FakeFleet, good, run_of


@dataclass(frozen=True)
class Middle:
    """A rule that needs a number of vectors, and would break with fewer."""

    least: int

    def __call__(self, vectors: Sequence[Vector], weights: Sequence[float]) -> Vector:
        assert len(vectors) >= self.least
        middle: Vector = np.median(np.stack(vectors), axis=0).astype(np.float32)
        return middle


def play(least: int, fleet: FakeFleet, **run: Any) -> list[RoundRecord]:
    scheme = Scheme(aggregate=Middle(least))

    async def main() -> list[RoundRecord]:
        return await Orchestrator(run_of(cycles=1, **run), DATASET, fleet, scheme).run()

    return virtual.run(main())


@pytest.mark.parametrize(
    ("least", "quorum", "needed"), [(1, None, 1), (1, 3, 3), (5, None, 5), (5, 5, 5), (5, 8, 8)]
)
def test_the_run_and_the_rule_both_have_enough(least: int, quorum: int | None, needed: int) -> None:
    assert Scheme(aggregate=Middle(least)).needed(quorum) == needed


def test_a_rule_that_says_nothing_needs_one() -> None:
    assert Scheme(aggregate=Mean()).least == 1
    assert Scheme().needed(None) == 1


def test_a_quorum_below_what_the_rule_needs_is_refused_before_the_first_cycle() -> None:
    with pytest.raises(ConfigurationError, match=r"Middle\(least=3\) needs at least 3 .* of 2 "):
        play(3, FakeFleet(a=good(1.0), b=good(1.0), c=good(1.0)), quorum=2)


async def garbage(*_: object) -> object:
    return "garbage"


def test_too_few_for_the_rule_are_too_few_for_the_cycle() -> None:
    fleet = FakeFleet(a=good(1.0), b=good(1.0), c=garbage)
    with pytest.raises(QuorumNotReached, match="wanted 3 answers, got 2") as caught:
        play(3, fleet)
    assert (caught.value.wanted, caught.value.got) == (3, 2)
    assert "Middle(least=3) works with 3 updates at least; c: answered with" in str(caught.value)


def test_a_fleet_too_small_for_the_rule_is_told_so() -> None:
    with pytest.raises(QuorumNotReached, match=r"got 2 \(Middle\(least=3\) works with 3 updates"):
        play(3, FakeFleet(a=good(1.0), b=good(1.0)))


def test_enough_for_the_rule_are_enough() -> None:
    (record,) = play(3, FakeFleet(a=good(1.0), b=good(1.0), c=good(1.0), d=garbage))
    assert [device.status for device in record.devices] == ["used", "used", "used", "refused"]
