"""Gradients and steps against PyTorch's own."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
import torch
from torch import nn

from axon.byzantine.gradients import Descent, batch, gradient
from axon.learning.nets import initial
from axon.learning.parameters import layout, pour, read
from axon.learning.tasks import build, define
from axon.values import TaskSpec, Vector
from tests.byzantine.worlds import DIGITS, TWONN

ROWS = np.arange(0, 64, 2)


@define("test-tied")
class Tied(nn.Module):
    """Two names for one weight."""

    def __init__(self, inputs: tuple[int, ...], classes: int) -> None:
        super().__init__()
        self.first = nn.Linear(64, 64)
        self.second = nn.Linear(64, 64)
        self.second.weight = self.first.weight
        self.last = nn.Linear(64, classes)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        hidden = torch.relu(self.first(x.flatten(1)))
        return self.last(torch.relu(self.second(hidden)))  # type: ignore[no-any-return]


@define("test-normed")
def normed(inputs: tuple[int, ...], classes: int) -> nn.Module:
    return nn.Sequential(
        nn.Flatten(), nn.Linear(64, 16), nn.BatchNorm1d(16), nn.ReLU(), nn.Linear(16, classes)
    )


@define("test-dropping")
def dropping(inputs: tuple[int, ...], classes: int) -> nn.Module:
    return nn.Sequential(nn.Flatten(), nn.Dropout(0.5), nn.Linear(64, classes))


def torch_step(
    spec: TaskSpec, model: Vector, optimiser: type, steps: int, **options: float
) -> Vector:
    """What PyTorch's own optimiser makes of a model on the same batch, some steps on."""
    net = build(spec).train()
    plan = layout(net)
    pour(model, plan, [net.state_dict()[name] for name in plan.names])
    stepping = optimiser(net.parameters(), lr=spec.learning_rate, **options)
    inputs = torch.from_numpy(DIGITS.train.inputs[ROWS].astype(np.float32) / 16)
    labels = torch.from_numpy(DIGITS.train.labels[ROWS].astype(np.int64))
    for _ in range(steps):
        stepping.zero_grad()
        loss = nn.functional.cross_entropy(net(inputs), labels)
        # PyTorch has left this method without types.
        loss.backward()  # type: ignore[no-untyped-call]
        stepping.step()
    return read(net, plan)


def own_step(spec: TaskSpec, model: Vector, steps: int) -> Vector:
    descent = Descent(spec)
    for _ in range(steps):
        model = descent(model, gradient(spec, model, DIGITS.train, ROWS))
    return model


@pytest.mark.parametrize("net", ["twonn", "test-tied", "test-normed"])
def test_three_steps_are_those_of_sgd_with_momentum(net: str) -> None:
    spec = replace(TWONN, net=net, momentum=0.9, learning_rate=0.1)
    model = initial(spec, 1)
    wanted = torch_step(spec, model, torch.optim.SGD, 3, momentum=0.9)
    assert not np.allclose(wanted, model, atol=1e-3)
    np.testing.assert_allclose(own_step(spec, model, 3), wanted, atol=2e-6)


def test_three_steps_are_those_of_adam() -> None:
    spec = replace(TWONN, optimiser="adam", learning_rate=1e-2)
    model = initial(spec, 1)
    wanted = torch_step(spec, model, torch.optim.Adam, 3)
    np.testing.assert_allclose(own_step(spec, model, 3), wanted, atol=1e-5)


def test_a_gradient_leaves_its_model_as_it_was_and_depends_on_its_seed_alone() -> None:
    spec = replace(TWONN, net="test-dropping")
    model = initial(spec, 1)
    before = model.copy()
    first, again, other = (
        gradient(spec, model, DIGITS.train, ROWS, seed=seed) for seed in (5, 5, 6)
    )
    assert np.array_equal(model, before)
    assert np.array_equal(first, again)
    assert not np.array_equal(first, other)


def test_batches_differ_by_step_and_worker_and_hold_no_sample_twice() -> None:
    drawn = batch(1, "pi", 0, 100, 32)
    assert len(set(drawn.tolist())) == 32
    assert np.array_equal(drawn, batch(1, "pi", 0, 100, 32))
    assert not np.array_equal(drawn, batch(1, "pi", 1, 100, 32))
    assert not np.array_equal(drawn, batch(1, "nano", 0, 100, 32))
    assert sorted(batch(1, "pi", 0, 10, 32).tolist()) == list(range(10))
