"""Gradients as flat vectors, and models that step along them.

A gradient lies as its model does, entry by entry. In the place of a running statistic, such as
BatchNorm's, stands by how much this batch would lower it; a server takes that as it is, without a
learning rate.
"""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import nullcontext

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from axon.learning.loop import WarmNet, as_tensors, warm_net
from axon.learning.optimisers import functional
from axon.learning.tasks import own_randomness
from axon.seeds import derive, stream
from axon.values import Samples, TaskSpec, Vector


def batch(seed: int, name: str, step: int, samples: int, size: int) -> NDArray[np.intp]:
    """The rows of a worker's batch for one step: different ones, the same for everybody who asks.

    All of them where there are fewer than a batch has.
    """
    random = stream(seed, "batch", step, name)
    return random.choice(samples, min(size, samples), replace=False).astype(np.intp, copy=False)


def gradient(
    spec: TaskSpec, model: Vector, samples: Samples, rows: NDArray[np.intp], seed: int = 0
) -> Vector:
    """The gradient of the mean loss over some of the samples, at a model.

    `seed` is for nets that draw by chance, as dropout does.
    """
    inputs, labels = as_tensors(samples)
    places = torch.from_numpy(rows)
    with warm_net(spec) as net, torch.enable_grad():
        net.load(model)
        with own_randomness(derive(seed, "torch")) if net.draws else nullcontext():
            loss = net.blueprint.loss(net.module(inputs[places]), labels[places]).mean()
        found = torch.autograd.grad(loss, list(net.trained.values()), allow_unused=True)
        # By where they lie: tied parameters have several names in a state and one among the
        # parameters, and each of its places must move alike.
        slopes = {
            parameter.data_ptr(): slope
            for parameter, slope in zip(net.trained.values(), found, strict=True)
        }
        return _joined(net, model, slopes)


def _joined(net: WarmNet, model: Vector, slopes: Mapping[int, Tensor | None]) -> Vector:
    joined = np.zeros_like(model)
    at = 0
    for tensor in net.tensors:
        part = slice(at, at + tensor.numel())
        at = part.stop
        if tensor.data_ptr() not in slopes:
            joined[part] = model[part] - tensor.detach().reshape(-1).numpy()
        elif (slope := slopes[tensor.data_ptr()]) is not None:
            joined[part] = slope.detach().reshape(-1).numpy()
    return joined


class Descent:
    """Steps a model along gradients with its task's optimiser, whose memory it keeps."""

    def __init__(self, spec: TaskSpec) -> None:
        self._optimiser = functional(spec)
        self._trained = _trained(spec)
        size = int(self._trained.sum())
        self._state = self._optimiser.init({"": torch.zeros(size)})

    def __call__(self, model: Vector, gradient: Vector) -> Vector:
        """The next model, a fresh vector."""
        trained = self._trained
        stepped = torch.from_numpy(model[trained])
        self._optimiser.step({"": stepped}, {"": torch.from_numpy(gradient[trained])}, self._state)
        after = model - gradient
        after[trained] = stepped.numpy()
        return after


def _trained(spec: TaskSpec) -> NDArray[np.bool_]:
    """Which places of a model are trained; the others are statistics."""
    with warm_net(spec) as net:
        trained = {parameter.data_ptr() for parameter in net.trained.values()}
        places = [np.full(each.numel(), each.data_ptr() in trained) for each in net.tensors]
    return np.concatenate(places)
