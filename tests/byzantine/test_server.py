"""A server by itself: rounds of contraction, and what it knows of its own accuracy."""

from __future__ import annotations

import numpy as np
import pytest

from axon.byzantine.board import AGGREGATED, Board
from axon.byzantine.computing import Charged
from axon.byzantine.server import Links, Server, Task
from axon.errors import ConfigurationError
from axon.learning.nets import initial
from axon.testbed import virtual
from axon.values import Vector
from tests.byzantine.worlds import DIGITS, SPEC, answering

START = initial(SPEC, 0)


def full(value: float) -> Vector:
    return np.full_like(START, value)


def server(other: Board | None = None) -> Server:
    links = Links(workers={"pi": answering(full(1))}, servers={"b": other or Board()})
    return Server("a", Task(spec=SPEC, test=DIGITS.test), links, Charged(), patience_s=2.0)


def test_each_gradient_that_is_set_is_the_next_round() -> None:
    async def main() -> None:
        other = Board()
        a = server(other)
        for step in range(2):
            await a.get_gradients(step, 1)
            assert a.latest_aggregated_gradient is None, "that of the step before is of no use"
            for round in range(3):
                other.post(AGGREGATED, step, full(10 * step + round), round)
                a.latest_aggregated_gradient = full(100)
                heard = await a.get_aggregated_gradients(2)
                assert [each[0] for each in heard] == [100, 10 * step + round]
                posted = await a.board.read(AGGREGATED, step, round)
                assert posted is a.latest_aggregated_gradient

    virtual.run(main())


def test_ones_own_comes_first() -> None:
    async def main() -> None:
        a = server()
        with pytest.raises(ConfigurationError, match="none has begun"):
            a.latest_aggregated_gradient = full(1)
        await a.get_gradients(0, 1)
        with pytest.raises(ConfigurationError, match="a has aggregated no gradient in step 0 yet"):
            await a.get_aggregated_gradients(1)

    virtual.run(main())


def test_it_is_tested_when_the_step_it_is_at_is() -> None:
    async def main() -> None:
        a = server()
        assert a.is_tested, "there is nothing to test yet"
        await a.get_gradients(0, 1)
        assert not a.is_tested
        await a.compute_accuracy()
        assert a.is_tested
        await a.get_gradients(1, 1)
        assert not a.is_tested

    virtual.run(main())
