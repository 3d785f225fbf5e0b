"""Optimisers by name, written out element by element.

So they step the parameters of one net and the stacked parameters of many clients alike. They
compute what PyTorch's own do, which is what they are tested against.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Protocol

import torch
from torch import Tensor

from axon.errors import ConfigurationError
from axon.values import TaskSpec

ADAM_BETAS = (0.9, 0.999)
ADAM_EPSILON = 1e-8


@dataclass(slots=True)
class State:
    """What an optimiser remembers: the steps made and, of each parameter, its moments."""

    steps: int
    moments: tuple[dict[str, Tensor], ...]


class Functional(Protocol):
    """An optimiser over tensors by name, whose leading dimensions it does not look at."""

    def init(self, params: Mapping[str, Tensor]) -> State:
        """What it remembers before the first step."""

    def step(self, params: Mapping[str, Tensor], grads: Mapping[str, Tensor], state: State) -> None:
        """One step, in place, of the parameters that have a gradient."""


@dataclass(frozen=True, slots=True)
class FunctionalSGD:
    """θ ← θ - ηb, where b ← μb + g; without momentum b is the gradient and nothing is kept."""

    learning_rate: float
    momentum: float = 0.0

    def init(self, params: Mapping[str, Tensor]) -> State:
        """Velocities of zero, where there is momentum."""
        return State(0, (_zeros(params),) if self.momentum else ())

    def step(self, params: Mapping[str, Tensor], grads: Mapping[str, Tensor], state: State) -> None:
        """Along the gradient, or along the velocity it has changed."""
        state.steps += 1
        with torch.no_grad():
            for name, grad in grads.items():
                direction = grad
                if self.momentum:
                    direction = state.moments[0][name].mul_(self.momentum).add_(grad)
                params[name].add_(direction, alpha=-self.learning_rate)


@dataclass(frozen=True, slots=True)
class FunctionalAdam:
    """Kingma and Ba's Adam, in the order of operations that PyTorch has."""

    learning_rate: float

    def init(self, params: Mapping[str, Tensor]) -> State:
        """First and second moments of zero."""
        return State(0, (_zeros(params), _zeros(params)))

    def step(self, params: Mapping[str, Tensor], grads: Mapping[str, Tensor], state: State) -> None:
        """Along the first moment over the root of the second, both freed of their bias."""
        state.steps += 1
        first_beta, second_beta = ADAM_BETAS
        rate = self.learning_rate / (1 - first_beta**state.steps)
        root_bias = math.sqrt(1 - second_beta**state.steps)
        firsts, seconds = state.moments
        with torch.no_grad():
            for name, grad in grads.items():
                first = firsts[name].lerp_(grad, 1 - first_beta)
                second = seconds[name].mul_(second_beta).addcmul_(grad, grad, value=1 - second_beta)
                scale = second.sqrt().div_(root_bias).add_(ADAM_EPSILON)
                params[name].addcdiv_(first, scale, value=-rate)


def functional(spec: TaskSpec) -> Functional:
    """The task's optimiser for tensors of any leading dimensions."""
    if spec.optimiser not in _OPTIMISERS:
        raise ConfigurationError(
            f"no optimiser is called {spec.optimiser!r}; known are {', '.join(_OPTIMISERS)}"
        )
    return _OPTIMISERS[spec.optimiser](spec)


def _functional_sgd(spec: TaskSpec) -> Functional:
    return FunctionalSGD(spec.learning_rate, spec.momentum)


def _functional_adam(spec: TaskSpec) -> Functional:
    _check_no_momentum(spec)
    return FunctionalAdam(spec.learning_rate)


_OPTIMISERS: dict[str, Callable[[TaskSpec], Functional]] = {
    "sgd": _functional_sgd,
    "adam": _functional_adam,
}
OPTIMISERS = tuple(_OPTIMISERS)
"""The names that a task may choose from."""


def _check_no_momentum(spec: TaskSpec) -> None:
    if spec.momentum:
        raise ConfigurationError(
            f"adam has moments of its own and takes no momentum, got {spec.momentum}",
            hint="leave momentum at 0, or choose sgd",
        )


def _zeros(params: Mapping[str, Tensor]) -> dict[str, Tensor]:
    return {name: torch.zeros_like(param) for name, param in params.items()}
