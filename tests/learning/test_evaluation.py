"""Accuracy, loss and cost, against numbers counted by hand."""

from __future__ import annotations

import math

import numpy as np
import pytest
import torch
from torch import Tensor, nn

from axon.errors import ConfigurationError
from axon.learning.evaluation import evaluate, flops_per_sample
from axon.learning.tasks import default_spec, define
from axon.values import Samples, TaskSpec


@define("as-it-is")
def as_it_is(inputs: tuple[int, ...], classes: int) -> nn.Module:
    return nn.Sequential(nn.Dropout(0.5), nn.Linear(inputs[0], classes))


def mean_in_all(outputs: Tensor, labels: Tensor) -> Tensor:
    return nn.functional.cross_entropy(outputs, labels)


define("as-it-is-in-all", loss=mean_in_all)(as_it_is)

IDENTITY = np.array([1, 0, 0, 1, 0, 0], np.float32)
SAMPLES = Samples(np.array([[9, 0], [0, 9], [9, 0], [0, 0], [9, 0]]), np.array([0, 1, 1, 0, 0]))


@pytest.mark.parametrize("batch", [1, 2, 1000])
@pytest.mark.parametrize("net", ["as-it-is", "as-it-is-in-all"])
def test_accuracy_and_loss_by_hand(net: str, batch: int) -> None:
    spec = TaskSpec(net=net, inputs=(2,), classes=2)
    before = torch.random.get_rng_state()
    accuracy, loss = evaluate(spec, IDENTITY, SAMPLES, batch=batch)
    # Four of five, a tie going to the first class; the wrong one costs ln(1 + e^9), the tie ln 2,
    # and three right ones ln(1 + e^-9) each.
    assert accuracy == pytest.approx(0.8)
    expected = math.log1p(math.exp(9)) + math.log(2) + 3 * math.log1p(math.exp(-9))
    assert loss == pytest.approx(expected / 5, rel=1e-5)
    assert torch.equal(before, torch.random.get_rng_state())


def test_nothing_to_evaluate() -> None:
    spec = TaskSpec(net="as-it-is", inputs=(2,), classes=2)
    accuracy, loss = evaluate(spec, IDENTITY, SAMPLES.take(slice(0)))
    assert math.isnan(accuracy)
    assert math.isnan(loss)


def test_a_batch_has_a_sample_at_least() -> None:
    spec = TaskSpec(net="as-it-is", inputs=(2,), classes=2)
    with pytest.raises(ConfigurationError, match="batch"):
        evaluate(spec, IDENTITY, SAMPLES, batch=0)


def test_flops_by_hand() -> None:
    # Each weight is used once forward, once for its own gradient and once for its input's, at two
    # operations each; the first layer's input needs no gradient.
    dense = default_spec("twonn", (784,), 10)
    assert flops_per_sample(dense) == 4 * 784 * 50 + 6 * (50 * 20 + 20 * 10)
    convolutional = default_spec("convnet", (1, 28, 28), 10)
    first, second = 26 * 26 * 6 * 9, 11 * 11 * 16 * 6 * 9
    linear = 400 * 200 + 200 * 100 + 100 * 10
    assert flops_per_sample(convolutional) == 4 * first + 6 * (second + linear)


@define("by-hand")
class ByHand(nn.Module):
    def __init__(self, inputs: tuple[int, ...], classes: int) -> None:
        super().__init__()
        self.weight = nn.Parameter(torch.zeros(inputs[0], classes))

    def forward(self, inputs: Tensor) -> Tensor:
        return inputs @ self.weight


def test_flops_of_a_net_that_is_more_than_layers() -> None:
    assert flops_per_sample(TaskSpec(net="by-hand", inputs=(5,), classes=3)) == 4 * 5 * 3


def test_flops_are_near_six_times_the_weights_of_a_deep_net() -> None:
    deep = default_spec("threenn", (64,), 10)
    weights = 64 * 500 + 500 * 300 + 300 * 100 + 100 * 10
    assert flops_per_sample(deep) == pytest.approx(6 * weights, rel=0.2)
