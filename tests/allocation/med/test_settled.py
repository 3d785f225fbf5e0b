"""An assignment made into a plan: one budget over several trade-offs."""

from __future__ import annotations

import itertools

import numpy as np
import pytest

from axon.allocation.med.delays import Terms, pareto
from axon.allocation.med.settled import Front, hull, settle, split
from axon.seeds import stream
from tests.allocation.med.problems import drawn


def _front(random: np.random.Generator, points: int) -> Front:
    return pareto(np.sort(random.uniform(1, 9, points)), random.uniform(1, 9, points))


@pytest.mark.parametrize("tasks", [1, 2, 4])
def test_no_combination_is_better(tasks: int) -> None:
    random = stream(3, "split", tasks)
    met = 0
    for _ in range(60):
        fronts = [_front(random, 9) for _ in range(tasks)]
        budget = float(random.uniform(1, 5)) * tasks
        sums = [
            sum(front[0][place] for front, place in zip(fronts, places, strict=True))
            for places in itertools.product(*(range(len(front[0])) for front in fronts))
            if sum(f[1][place] for f, place in zip(fronts, places, strict=True)) <= budget
        ]
        found = split(fronts, budget)
        assert (found is None) == (not sums)
        if found is not None:
            met += 1
            assert found.delay == pytest.approx(min(sums))
            cost = sum(f[1][place] for f, place in zip(fronts, found.points, strict=True))
            assert cost <= budget
    assert met > 20


def test_a_multiplier_is_what_money_is_worth() -> None:
    fronts = [
        (np.array([1.0, 3.0]), np.array([5.0, 1.0])),
        (np.array([1.0, 2.0]), np.array([9.0, 8.0])),
    ]
    assert split(fronts, 14.0) is not None
    loose, tight = split(fronts, 14.0), split(fronts, 13.0)
    assert loose is not None
    assert tight is not None
    assert loose.multiplier == 0.0
    assert tight.points == (0, 1) or tight.points == (1, 0)
    assert tight.delay == 3.0
    assert split(fronts, 8.9) is None


def test_a_hull_leaves_out_what_lies_above() -> None:
    front = (np.array([0.0, 1.0, 2.0, 3.0]), np.array([9.0, 8.0, 3.0, 2.0]))
    assert hull(front).tolist() == [0, 2, 3]


@pytest.mark.parametrize("least", [0, 1, 2])
def test_every_member_has_what_it_must_have_and_no_more_is_spent_than_there_is(least: int) -> None:
    terms = Terms.of(drawn(4, learners=6, tasks=2, most_shards=20, least=least))
    terms = terms.changed(shards=(14, 19), deadline_s=np.full(2, 99.0), budget=99.0)
    groups = [np.arange(0, 6, 2), np.arange(1, 6, 2)]
    free = settle(terms, groups)
    assert free is not None
    tight = settle(terms.changed(budget=0.97 * free.cost), groups)
    assert tight is not None
    assert tight.cost <= 0.97 * free.cost
    assert tight.objective > free.objective
    for plan in (free, tight):
        assert plan.shards.sum(axis=1).tolist() == list(terms.shards)
        assert plan.shards.max(axis=0).min() >= least
