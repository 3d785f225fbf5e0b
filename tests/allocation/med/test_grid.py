"""Changes of a group, valued all at once, beside one fill at a time."""

from __future__ import annotations

import numpy as np
import pytest

from axon.allocation.med.delays import Counts, Terms
from axon.allocation.med.grid import Grid
from tests.allocation.med.problems import drawn


def _terms(least: int) -> Terms:
    terms = Terms.of(drawn(3, learners=7, tasks=1, most_shards=20, least=least))
    return terms.changed(shards=(20,))


def _worth(terms: Terms, grid: Grid, members: Counts, multiplier: float) -> float | None:
    """The least of delay and priced cost over all places, by filling each; None for none."""
    fills = [(point, terms.fill(0, members, float(point))) for point in grid.points]
    values = [
        float(point + multiplier * (counts @ terms.price[members]))
        for point, counts in fills
        if counts is not None
    ]
    return min(values) if values else None


@pytest.mark.parametrize("multiplier", [0.0, 0.5])
@pytest.mark.parametrize("least", [0, 1, 3])
def test_values_are_those_of_filling(least: int, multiplier: float) -> None:
    terms = _terms(least)
    # So few points that every one of them is looked at where the budget has a price.
    grid = Grid(terms, 0, terms.breakpoints(0, terms.everyone, 0.0, 15.0, most=12))
    members = np.array([0, 2, 3, 6])
    grid.hold(members, multiplier)
    outs = np.array([7, 0, 2, 7, 7, 3, 6])
    ins = np.array([7, 7, 7, 1, 4, 5, 1])
    found = grid.values(outs, ins, multiplier)
    possible = 0
    for out, joined, value in zip(outs, ins, found, strict=True):
        changed = np.unique(np.r_[members[members != out], joined])
        wanted = _worth(terms, grid, changed[changed < 7], multiplier)
        if wanted is None:
            assert value > 10 * grid.points[-1]
        else:
            possible += 1
            assert value == pytest.approx(wanted)
    assert possible >= 3
    assert grid.value == pytest.approx(found[0])


@pytest.mark.parametrize("multiplier", [0.0, 0.5])
def test_the_more_shards_a_group_is_off_by_the_worse(multiplier: float) -> None:
    terms = _terms(3)
    grid = Grid(terms, 0, np.array([2.0]))
    grid.hold(np.array([0]), multiplier)
    assert grid.short
    # Whoever comes in takes as many shards off as it can do, the least or not.
    can = terms.within(0, terms.everyone, 2.0)[0]
    ins = np.arange(1, 7)
    change = grid.values(np.full(6, 7), ins, multiplier) - grid.value
    assert np.all((change < 0) == (can[ins] > 0))
    # Seven learners with 3 shards each are too many for 20, with time enough for all.
    wide = Grid(terms, 0, np.array([99.0]))
    wide.hold(np.arange(6), multiplier)
    assert not wide.short
    wide.hold(np.arange(7), multiplier)
    assert wide.short
