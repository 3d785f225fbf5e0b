"""One step of many stacked nets at once, with `torch.func.vmap`, and which nets it is right for."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
import torch
from torch import Tensor
from torch.func import functional_call, grad_and_value, vmap

from axon.learning.loop import WarmNet
from axon.learning.optimisers import State
from axon.learning.parameters import size
from axon.seeds import stream
from axon.values import TaskSpec

TRIAL_SAMPLES = 4


class MappedStep:
    """One step of the task's optimiser for a stack of any nets."""

    def __init__(self, net: WarmNet, params: Mapping[str, Tensor]) -> None:
        self._net = net
        self._trained = {name: params[name] for name in net.trained}
        self._frozen = {name: each for name, each in params.items() if name not in net.trained}
        self._state = net.optimiser.init(self._trained)
        self._slopes: Any = vmap(grad_and_value(self._loss))

    def __call__(self, inputs: Tensor, labels: Tensor, weights: Tensor) -> Tensor:
        """Step the first rows in place; their losses before the step."""
        self._narrow(len(inputs))
        slopes, losses = self._slopes(self._trained, self._frozen, inputs, labels, weights)
        self._net.optimiser.step(self._trained, slopes, self._state)
        found: Tensor = losses.detach()
        return found

    def _loss(
        self,
        trained: dict[str, Tensor],
        frozen: dict[str, Tensor],
        inputs: Tensor,
        labels: Tensor,
        weights: Tensor,
    ) -> Tensor:
        outputs = functional_call(self._net.module, (trained, frozen), (inputs,))
        return (self._net.blueprint.loss(outputs, labels) * weights).sum()

    def _narrow(self, count: int) -> None:
        self._trained, self._frozen, *moments = (
            {name: each[:count] for name, each in stack.items()}
            for stack in (self._trained, self._frozen, *self._state.moments)
        )
        self._state = State(self._state.steps, tuple(moments))


def stackable(net: WarmNet, spec: TaskSpec) -> bool:
    """Whether nets of a task can be stepped as a stack, found by trying it on made-up samples.

    No: buffers, parameters that are tied or no float32, randomness, one loss in all, samples of a
    batch that change one another's loss, and whatever `vmap` cannot trace.
    """
    parameters = dict(net.module.named_parameters())
    if any(True for _ in net.module.buffers()) or tuple(parameters) != net.layout.names:
        return False
    if net.draws or any(each.dtype != torch.float32 for each in parameters.values()):
        return False
    # A warm net holds what its last job left, and that may be no numbers at all.
    drawn = stream(0, "trial").standard_normal(size(net.layout), np.float32)
    net.load(drawn * np.float32(0.1))
    try:
        _try_step(net, spec)
        return _independent(net, spec)
    except (RuntimeError, TypeError, ValueError, LookupError):
        # What is raised depends on what the net does; a fault of its own shows again in the loop.
        return False


def _trial(spec: TaskSpec) -> tuple[Tensor, Tensor]:
    random = torch.Generator().manual_seed(0)
    inputs = torch.rand(TRIAL_SAMPLES, *spec.inputs, generator=random)
    return inputs, torch.arange(TRIAL_SAMPLES) % spec.classes


def _independent(net: WarmNet, spec: TaskSpec) -> bool:
    inputs, labels = _trial(spec)
    with torch.no_grad():
        both = [
            net.blueprint.loss(net.module(inputs[:count]), labels[:count])
            for count in (TRIAL_SAMPLES, TRIAL_SAMPLES - 1)
        ]
    if both[0].shape != (TRIAL_SAMPLES,) or both[1].shape != (TRIAL_SAMPLES - 1,):
        return False
    return torch.allclose(both[0][:-1], both[1], rtol=1e-4, atol=1e-6)


def _try_step(net: WarmNet, spec: TaskSpec) -> None:
    inputs, labels = _trial(spec)
    params = {
        name: each.detach().expand(2, *each.shape).clone()
        for name, each in net.module.named_parameters()
    }
    weights = torch.full((2, TRIAL_SAMPLES), 1 / TRIAL_SAMPLES)
    MappedStep(net, params)(inputs.expand(2, *inputs.shape), labels.expand(2, -1), weights)
