"""How good a model is, and what one sample costs to train on."""

from __future__ import annotations

import math
from functools import lru_cache

import torch
from torch import Tensor, nn

from axon.learning.loop import as_tensors, warm_net
from axon.learning.tasks import Blueprint, blueprint, build, own_randomness
from axon.values import Samples, TaskSpec, Vector, check_whole

_LAYERS = (nn.Linear, nn.Conv1d, nn.Conv2d, nn.Conv3d)
_COUNTED = 4
"""Samples in the batch whose operations are counted; more than one, because of BatchNorm."""


def evaluate(
    spec: TaskSpec, vector: Vector, samples: Samples, *, batch: int = 1000
) -> tuple[float, float]:
    """Accuracy and mean loss over samples; both NaN when there are none."""
    check_whole("batch", batch, least=1)
    if not len(samples):
        return math.nan, math.nan
    correct, total = 0, 0.0
    with warm_net(spec) as net, torch.no_grad():
        net.load(vector)
        net.module.eval()
        for inputs, labels in zip(
            *(torch.split(whole, batch) for whole in as_tensors(samples)), strict=True
        ):
            outputs = net.module(inputs)
            correct += int((outputs.argmax(dim=1) == labels).sum())
            # A loss in all counts as the mean of its batch.
            total += float(net.blueprint.loss(outputs, labels).mean()) * len(labels)
        net.module.train()
    return correct / len(samples), total / len(samples)


def flops_per_sample(spec: TaskSpec) -> float:
    """Floating-point operations to train on one sample, forward and backward.

    Multiplications with weights are counted, two operations each, and nothing else; elementwise
    work and the optimiser's step are small beside them in all but tiny nets.
    """
    return _flops(blueprint(spec.net), spec.inputs, spec.classes)


@lru_cache(maxsize=64)
def _flops(blueprint: Blueprint, inputs: tuple[int, ...], classes: int) -> float:
    module = build(TaskSpec(net=blueprint.name, inputs=inputs, classes=classes)).train()
    layers = [layer for layer in module.modules() if isinstance(layer, _LAYERS)]
    weights = sum(layer.weight.numel() for layer in layers)
    matrices = sum(entry.numel() for entry in module.parameters() if entry.dim() > 1)
    if weights != matrices:
        # Something multiplies that is no known layer.
        return _traced_flops(module, blueprint, inputs)
    total = 0

    def count(layer: nn.Module, given: tuple[Tensor, ...], made: Tensor) -> None:
        nonlocal total
        kernel = layer.weight
        assert isinstance(kernel, Tensor), "the layers that are hooked have weights"
        # Each weight once for every place of the output, and again for its own gradient; and for
        # the gradient of its input, which the first layer of a net does not need.
        places = made.numel() // kernel.shape[0]
        total += (6 if given[0].requires_grad else 4) * places * kernel.numel()

    for layer in layers:
        layer.register_forward_hook(count)
    with own_randomness(0), torch.enable_grad():
        module(torch.zeros(_COUNTED, *inputs))
    return total / _COUNTED


def _traced_flops(module: nn.Module, blueprint: Blueprint, inputs: tuple[int, ...]) -> float:
    """The same by watching every operation, for nets that are more than layers."""
    # Late: it takes a second to import.
    from torch.utils.flop_counter import FlopCounterMode

    labels = torch.zeros(_COUNTED, dtype=torch.int64)
    counter = FlopCounterMode(display=False)
    with own_randomness(0), torch.enable_grad(), counter:
        loss = blueprint.loss(module(torch.zeros(_COUNTED, *inputs)), labels).mean()
        # PyTorch has left this method without types.
        loss.backward()  # type: ignore[no-untyped-call]
    return counter.get_total_flops() / _COUNTED
