"""Sums over all groups, and the proof that they make."""

from __future__ import annotations

import math
from dataclasses import replace

import numpy as np
import pytest

from axon.allocation.med import allocate
from axon.allocation.med.delays import Terms
from axon.allocation.med.settled import Settled, settle
from axon.allocation.med.subsets import (
    Groups,
    chained,
    closed,
    combined,
    divide,
    prove,
    roughly,
    thriftiest,
)
from axon.seeds import stream
from tests.allocation.med.problems import drawn


def test_combined_is_the_least_over_all_divisions() -> None:
    random = stream(5, "subsets")
    first, second = random.random(16), random.random(16)
    wanted = [
        min(first[part] + second[group ^ part] for part in range(16) if part & ~group == 0)
        for group in range(16)
    ]
    assert combined(first, second).tolist() == wanted


def test_closed_is_the_least_over_all_parts() -> None:
    values = stream(6, "subsets").random(16)
    wanted = [min(values[part] for part in range(16) if part & ~group == 0) for group in range(16)]
    assert closed(values).tolist() == wanted


def test_a_division_is_what_its_sum_is_made_of() -> None:
    values = list(stream(7, "subsets").random((3, 32)))
    chain = chained(values)
    parts = divide(values, chain, 31)
    assert parts[0] | parts[1] | parts[2] == 31
    assert parts[0] + parts[1] + parts[2] == 31
    assert sum(each[part] for each, part in zip(values, parts, strict=True)) == pytest.approx(
        chain[0][31]
    )


@pytest.mark.parametrize("least", [0, 1, 2])
def test_costs_are_those_of_filling(least: int) -> None:
    terms = Terms.of(drawn(4, learners=4, tasks=2, most_shards=9, least=least))
    groups = Groups(terms)
    points = terms.breakpoints(0, np.arange(4), 0.0, 20.0)
    shut = groups.covering(groups.costs(0, points))
    for group in range(1, 16):
        members = groups.members(group)
        for column in range(0, len(points), 5):
            counts = terms.fill(0, members, float(points[column]))
            wanted = math.inf if counts is None else float(counts @ terms.price[members])
            assert shut[group, column] == pytest.approx(wanted)


def _tight() -> Terms:
    """Seven learners, three tasks, and less money than the learners cost as they are dealt out."""
    terms = Terms.of(drawn(8, learners=7, tasks=3, most_shards=15, least=0))
    free = terms.changed(deadline_s=np.full(3, 99.0), budget=99.0)
    return free.changed(budget=0.95 * _dealt(free).cost)


def _dealt(terms: Terms) -> Settled:
    tasks, learners = terms.fixed_s.shape
    found = settle(terms, [np.arange(i, learners, tasks) for i in range(tasks)])
    assert found is not None
    return found


def test_a_proof_starts_from_any_plan_and_ends_at_the_best() -> None:
    terms = _tight()
    first = _dealt(terms)
    proof = prove(terms, first, lambda: False)
    assert proof is not None
    assert proof.done
    assert proof.bound == proof.best.objective < first.objective
    assert proof.best.cost <= terms.spendable
    again = prove(terms, proof.best, lambda: False)
    assert again is not None
    assert again.best is proof.best


def test_an_unfinished_proof_still_has_a_bound() -> None:
    terms = _tight()
    whole = prove(terms, _dealt(terms), lambda: False)
    cut = prove(terms, _dealt(terms), lambda: True)
    assert whole is not None
    assert cut is not None
    assert not cut.done
    assert 0 < cut.bound <= whole.bound


def test_too_much_to_write_is_left() -> None:
    terms = Terms.of(drawn(8, learners=13, tasks=3, most_shards=15))
    terms = terms.changed(shards=(9, 10, 15), deadline_s=np.full(3, 99.0), budget=99.0)
    assert prove(terms, _dealt(terms), lambda: False) is None


@pytest.mark.slow
@pytest.mark.parametrize("tasks", [3, 4])
def test_ten_learners_are_proven_in_time(tasks: int) -> None:
    problem = drawn(9, learners=10, tasks=tasks, most_shards=60)
    wide = [replace(each, deadline_s=300.0) for each in problem.tasks]
    for budget in (0.55, 0.75, 2.0):
        money = budget * sum(each.shards for each in wide)
        plan = allocate(replace(problem, tasks=wide, budget=money), time_limit_s=20.0)
        assert plan.proven
        assert not plan.limit_reached


def test_a_rough_plan_is_better_than_the_cheapest() -> None:
    terms = _tight()
    first = thriftiest(Groups(terms), terms.deadline_s)
    assert first is not None
    assert roughly(terms, first, lambda: True) is first
    found = roughly(terms, first, lambda: False)
    assert found.objective < first.objective
    assert terms.affords(found.shards)
