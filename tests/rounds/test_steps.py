"""Global steps, by hand."""

from __future__ import annotations

import math

import numpy as np
import pytest

from axon.policies import GlobalStep
from axon.rounds.steps import Momentum, Replace
from axon.values import Vector


def vector(*values: float) -> Vector:
    return np.array(values, dtype=np.float32)


def test_the_aggregate_replaces_the_model() -> None:
    model, state = Replace()(vector(1, 2), vector(3, 5), {"left": vector(0)})
    assert (model.tolist(), state) == ([3, 5], {})


def test_momentum_over_three_cycles() -> None:
    step = Momentum(rate=2.0, momentum=0.5)
    # m = 0.5 * m + (aggregate - current), then current + 2 * m; all exact in single precision.
    model, state = step(vector(0, 8), vector(1, 4), {})
    assert (model.tolist(), state["momentum"].tolist()) == ([2, 0], [1, -4])
    model, state = step(model, vector(3, 0), state)
    assert (model.tolist(), state["momentum"].tolist()) == ([5, -4], [1.5, -2])
    model, state = step(model, model, state)
    assert (model.tolist(), state["momentum"].tolist()) == ([6.5, -6], [0.75, -1])
    assert list(state) == ["momentum"]


def test_momentum_starts_at_the_aggregate_when_nothing_is_set() -> None:
    model, _ = Momentum()(vector(1, 2), vector(3, 5), {})
    assert model.tolist() == [3, 5]


@pytest.mark.parametrize("step", [Replace(), Momentum()])
def test_a_step_changes_no_argument_and_stays_in_single_precision(step: GlobalStep) -> None:
    current, aggregate, state = vector(1, 2), vector(3, 5), {"momentum": vector(1, -1)}
    model, after = step(current, aggregate, state)
    assert {array.dtype for array in (model, *after.values())} == {np.dtype(np.float32)}
    assert current.tolist() == [1, 2]
    assert aggregate.tolist() == [3, 5]
    assert state["momentum"].tolist() == [1, -1]


@pytest.mark.parametrize("momentum", [-0.1, 1.0, math.nan])
def test_a_momentum_that_cannot_be_meant(momentum: float) -> None:
    with pytest.raises(ValueError, match=f"momentum must be .* got {momentum}"):
        Momentum(momentum=momentum)


def test_a_rate_must_be_above_zero() -> None:
    with pytest.raises(ValueError, match=r"rate must be .* got 0.0"):
        Momentum(rate=0.0)
