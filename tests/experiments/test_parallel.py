"""Work spread over processes: nothing lost, everything in order, and nothing left behind."""

from __future__ import annotations

import math
import time
from collections.abc import Iterator
from multiprocessing import active_children

import pytest

from axon.experiments.parallel import spread


def test_a_single_worker_works_here_and_only_as_asked() -> None:
    done: list[int] = []
    results = spread(done.append, [1, 2, 3], 1)
    assert isinstance(results, Iterator)
    next(results)
    assert done == [1]
    assert list(spread(abs, [], 4)) == []


@pytest.mark.system
def test_results_come_in_the_order_of_the_tasks() -> None:
    assert list(spread(math.sqrt, [9.0, 4.0, 1.0], 2)) == [3.0, 2.0, 1.0]


@pytest.mark.system
def test_an_error_is_told_at_once_and_stops_the_others() -> None:
    began_s, before = time.monotonic(), set(active_children())
    with pytest.raises(ValueError, match="non-negative"):
        list(spread(time.sleep, [-1.0, 50.0], 2))
    assert time.monotonic() - began_s < 40.0
    assert not set(active_children()) - before
