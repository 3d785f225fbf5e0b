"""Plain gradient descent for many stacked multi-layer perceptrons, backpropagated by hand.

It computes what PyTorch's autograd computes. What it saves is memory traffic: a layer's gradient is
never written down, its product goes straight into the weights; and activations lie features first,
(jobs, features, samples), which suits both products of a layer.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import torch
from torch import Tensor, nn

from axon.learning.stacks import Scratch
from axon.learning.tasks import Loss, cross_entropy
from axon.values import TaskSpec


@dataclass(frozen=True, slots=True)
class Dense:
    """One linear layer, by the names of its entries, and whether a ReLU follows."""

    weight: str
    bias: str | None
    rectified: bool


def dense_layers(module: nn.Module, spec: TaskSpec, loss: Loss) -> tuple[Dense, ...]:
    """The layers of a plain perceptron under cross-entropy and plain descent; none of others."""
    if loss is not cross_entropy or spec.optimiser != "sgd" or spec.momentum:
        return ()
    if type(module) is not nn.Sequential:
        return ()
    if any(each._forward_hooks or each._forward_pre_hooks for each in module.modules()):
        return ()
    if not all(each.requires_grad for each in module.parameters()):
        return ()
    # Not named_children(), which leaves out a layer that stands in two places.
    named = [(name, each) for name, each in module._modules.items() if each is not None]
    if named and _flattens(named[0][1]):
        named = named[1:]
    elif len(spec.inputs) != 1:
        return ()
    return _paired(named)


def _flattens(module: nn.Module) -> bool:
    return type(module) is nn.Flatten and (module.start_dim, module.end_dim) == (1, -1)


def _paired(named: list[tuple[str, nn.Module]]) -> tuple[Dense, ...]:
    layers: list[Dense] = []
    kinds = [type(each) for _, each in named]
    for at, (name, each) in enumerate(named):
        if type(each) is nn.Linear:
            bias = None if each.bias is None else f"{name}.bias"
            layers.append(Dense(f"{name}.weight", bias, nn.ReLU in kinds[at + 1 : at + 2]))
        elif not (type(each) is nn.ReLU and layers and kinds[at - 1] is nn.Linear):
            return ()
    return tuple(layers)


def cross_entropy_slope(outputs: Tensor, labels: Tensor, weights: Tensor) -> tuple[Tensor, Tensor]:
    """Each job's weighted cross-entropy and its derivative by the outputs, softmax - one-hot.

    Outputs lie (jobs, classes, samples), labels and weights (jobs, samples).
    """
    at = labels.unsqueeze(1)
    weights = weights.unsqueeze(1)
    logarithms = torch.log_softmax(outputs, 1)
    losses = (logarithms.gather(1, at) * -weights).sum((1, 2))
    slope = logarithms.exp_().mul_(weights).scatter_add_(1, at, -weights)
    return losses, slope


@dataclass(slots=True)
class DescendDense:
    """One step of gradient descent for a stack of perceptrons."""

    layers: tuple[Dense, ...]
    learning_rate: float
    params: Mapping[str, Tensor]
    memory: Scratch
    alike: bool = False
    """Whether all rows hold the same parameters, as they mostly do before the first step."""

    def __call__(self, inputs: Tensor, labels: Tensor, weights: Tensor) -> Tensor:
        """Step the first rows in place; their losses before the step."""
        with torch.no_grad():
            activations = self._forward(inputs.flatten(2).mT)
            losses, slope = cross_entropy_slope(activations[-1], labels, weights)
            self._descend(activations, slope)
        self.alike = False
        return losses

    def _forward(self, below: Tensor) -> list[Tensor]:
        activations = [below]
        for layer in self.layers:
            weight = self.params[layer.weight][: len(below)]
            room = self._room("out", layer, weight, 1, below)
            if self.alike and len(activations) == 1:
                below = self._shared_product(weight[0], below, room)
            else:
                below = torch.bmm(weight, below, out=room)
            if layer.bias is not None:
                below.add_(self.params[layer.bias][: len(below), :, None])
            if layer.rectified:
                below.relu_()
            activations.append(below)
        return activations

    def _shared_product(self, weight: Tensor, below: Tensor, room: Tensor) -> Tensor:
        # One large product: the weights are fetched once, not once for each job.
        samples = below.mT.flatten(0, 1)
        product = self.memory.room("shared", len(weight), len(samples))
        torch.mm(weight, samples.mT, out=product)
        return room.copy_(product.view(len(weight), len(below), -1).transpose(0, 1))

    def _descend(self, activations: list[Tensor], slope: Tensor) -> None:
        rate = -self.learning_rate
        for at, layer in reversed(list(enumerate(self.layers))):
            below, above = activations[at : at + 2]
            if layer.rectified:
                # What a ReLU lets through is positive or zero; a comparison takes longer.
                slope.mul_(above.sign())
            weight = self.params[layer.weight][: len(slope)]
            next_slope = slope
            if at:
                next_slope = self._room("slope", layer, weight, 2, slope)
                torch.bmm(weight.mT, slope, out=next_slope)
            weight.baddbmm_(slope, below.mT, alpha=rate)
            if layer.bias is not None:
                self.params[layer.bias][: len(slope)].add_(slope.sum(2), alpha=rate)
            slope = next_slope

    def _room(self, what: str, layer: Dense, weight: Tensor, side: int, like: Tensor) -> Tensor:
        name = f"{what} {layer.weight}"
        return self.memory.room(name, len(like), weight.shape[side], like.shape[2])
