"""The search where plans are few."""

from __future__ import annotations

import numpy as np
import pytest

from axon.allocation.med.delays import Terms
from axon.allocation.med.search import Search
from axon.allocation.med.settled import Settled, settle
from tests.allocation.med.problems import drawn


def _planted(least: int) -> tuple[Terms, Settled]:
    """Twenty learners dealt out to four tasks, and no more time or money than that takes."""
    terms = Terms.of(drawn(2, learners=20, tasks=4, most_shards=40, least=least))
    shards = tuple(10 * least + 8 + 3 * task for task in range(4))
    free = terms.changed(shards=shards, deadline_s=np.full(4, 1e6), budget=1e6)
    plan = settle(free, [np.arange(task, 20, 4) for task in range(4)])
    assert plan is not None
    return free.changed(deadline_s=np.array(plan.delays), budget=plan.cost), plan


@pytest.mark.parametrize("least", [0, 1, 5])
def test_a_plan_that_just_keeps_to_the_limits_is_found(least: int) -> None:
    terms, _ = _planted(least)
    search = Search(terms, 0)
    search.rescue(100, lambda: False)
    assert search.best is not None
    assert search.best.cost <= terms.spendable
    assert np.all(np.array(search.best.delays) <= terms.deadline_s)
    assert search.best.shards.max(axis=0).min() >= least


def test_what_is_nearest_to_a_plan_is_kept_where_there_is_none() -> None:
    terms, plan = _planted(1)
    search = Search(terms.changed(budget=0.2 * plan.cost), 0)
    search.rescue(3, lambda: False)
    assert search.best is None
    assert sorted(np.concatenate(search.groups).tolist()) == list(range(20))


@pytest.mark.parametrize("least", [1, 4])
def test_it_begins_where_time_and_money_would_do(least: int) -> None:
    terms = Terms.of(drawn(2, learners=20, tasks=4, most_shards=40, least=least))
    # As many learners as there is room for, and a task that no more than one can serve.
    terms = terms.changed(shards=(2 * least - 1, 5 * least, 6 * least, 8 * least))
    free = terms.changed(deadline_s=np.full(4, 1e6), budget=1e6)
    assert sum(free.room) == 20
    assert settle(free, Search(free, 0).groups) is not None
