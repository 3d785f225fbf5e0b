"""Training one job after the other, with a plain PyTorch loop.

The nets stay warm between jobs: built once for a task, they are lent to a job, overwritten with its
start, and taken back. Two threads that train at once get two of them.
"""

from __future__ import annotations

import math
import threading
import weakref
from collections.abc import Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager, nullcontext
from copy import deepcopy
from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor, nn

from axon.learning.optimisers import Functional, State, functional
from axon.learning.parameters import Layout, entries, join, layout, pour
from axon.learning.tasks import Blueprint, blueprint, build, own_randomness
from axon.seeds import derive, stream
from axon.values import Job, Samples, TaskSpec, Trained, Vector

WARM_NETS = 8
"""How many nets that nobody uses are kept; the one unused for longest goes first."""


@dataclass(frozen=True, slots=True)
class LoopTrainer:
    """The `Trainer` that every other must agree with: each job alone, batch by batch."""

    accelerator: str = "cpu"
    """What it trains on, as torch names it: `cpu`, `cuda`, `mps`. What comes out is on the CPU."""

    def __call__(self, jobs: Sequence[Job]) -> list[Trained]:
        """What came of each job, in their order."""
        return [train(job, self.accelerator) for job in jobs]


def best_accelerator() -> str:
    """The fastest that torch finds on this machine."""
    if torch.cuda.is_available():
        return "cuda"
    return "mps" if torch.backends.mps.is_available() else "cpu"


@dataclass(frozen=True, slots=True)
class WarmNet:
    """A built net with what is worth finding only once."""

    module: nn.Module
    blueprint: Blueprint
    layout: Layout
    tensors: list[Tensor]
    local: list[tuple[Tensor, Tensor]]
    """Buffers that do not travel, each with the value it had when the net was built."""
    trained: dict[str, Tensor]
    optimiser: Functional
    draws: bool
    """Whether training it draws random numbers, as dropout does."""

    def load(self, vector: Vector) -> None:
        """Begin anew from a vector, with nothing left of an earlier job."""
        pour(vector, self.layout, self.tensors)
        for buffer, value in self.local:
            buffer.copy_(value)

    def vector(self) -> Vector:
        """The state it is in now."""
        return join(self.tensors)


def train(job: Job, accelerator: str = "cpu") -> Trained:
    """Train one job until its batches are done, its limit is reached or it is told to halt."""
    inputs, labels = (each.to(accelerator) for each in as_tensors(job.samples))
    with warm_net(job.spec, accelerator) as net, _randomness(net, job), torch.enable_grad():
        net.load(job.start)
        state = net.optimiser.init(net.trained)
        losses: list[float] = []
        seen = 0
        for rows in batches(job):
            if len(losses) == job.limit or not job.go_on(len(losses)):
                break
            losses.append(_step(net, state, inputs[rows], labels[rows]))
            seen += len(rows)
        return Trained(
            parameters=net.vector(),
            batches=len(losses),
            samples=seen,
            loss=sum(losses) / len(losses) if losses else math.nan,
        )


def batches(job: Job) -> Iterator[Tensor]:
    """The rows of each batch: every pass shuffled anew from the job's one stream."""
    random = stream(*job.stream)
    for _ in range(job.passes):
        order = torch.from_numpy(random.permutation(len(job.samples)))
        yield from torch.split(order, job.spec.batch_size) if len(order) else ()


def _step(net: WarmNet, state: State, inputs: Tensor, labels: Tensor) -> float:
    loss = net.blueprint.loss(net.module(inputs), labels).mean()
    found = torch.autograd.grad(loss, list(net.trained.values()), allow_unused=True)
    grads = {name: grad for name, grad in zip(net.trained, found, strict=True) if grad is not None}
    # Not an optimiser of torch.optim: the first use of one imports PyTorch's compiler, which takes
    # a second on a fast machine, and a step of a small net takes longer.
    net.optimiser.step(net.trained, grads, state)
    return loss.item()


def _randomness(net: WarmNet, job: Job) -> AbstractContextManager[None]:
    # Only for nets that draw: the stream belongs to one thread at a time.
    return own_randomness(derive(*job.stream, "torch")) if net.draws else nullcontext()


_Key = tuple[TaskSpec, Blueprint, str]
_idle: list[tuple[_Key, WarmNet]] = []
_idle_lock = threading.Lock()


@contextmanager
def warm_net(spec: TaskSpec, accelerator: str = "cpu") -> Iterator[WarmNet]:
    """A net of that task, nobody else's for the while; it may hold anything until it is loaded."""
    key = (spec, blueprint(spec.net), accelerator)
    with _idle_lock:
        place = next((at for at, (idle, _) in enumerate(_idle) if idle == key), None)
        net = None if place is None else _idle.pop(place)[1]
    net = _warm(spec, accelerator) if net is None else net
    yield net
    # A net that an error has passed through is not used again: nobody knows what state it is in.
    with _idle_lock:
        _idle.append((key, net))
        del _idle[:-WARM_NETS]


def _warm(spec: TaskSpec, accelerator: str) -> WarmNet:
    module = build(spec)
    module.train()
    draws = _draws(module, spec)
    module.to(accelerator)
    plan = layout(module)
    tensors = entries(module, plan)
    travelling = {tensor.data_ptr() for tensor in tensors}
    return WarmNet(
        module=module,
        blueprint=blueprint(spec.net),
        layout=plan,
        tensors=tensors,
        local=[
            (buffer, buffer.clone())
            for buffer in module.buffers()
            if buffer.data_ptr() not in travelling
        ],
        trained={name: each for name, each in module.named_parameters() if each.requires_grad},
        optimiser=functional(spec),
        draws=draws,
    )


def _draws(module: nn.Module, spec: TaskSpec) -> bool:
    # Asked of the net and not of its layers' types: dropout is often called as a function.
    with own_randomness(0), torch.no_grad():
        before = torch.random.get_rng_state()
        # Two inputs, because BatchNorm cannot train on one.
        deepcopy(module)(torch.zeros(2, *spec.inputs))
        return not torch.equal(before, torch.random.get_rng_state())


_Tensors = tuple[Tensor, Tensor]
_converted: dict[tuple[int, int, float], _Tensors] = {}


def as_tensors(samples: Samples) -> _Tensors:
    """Inputs as floats, scaled, and labels as whole numbers.

    The same arrays are converted once for as long as they live, so they must not be changed after
    they were first used.
    """
    key = (id(samples.inputs), id(samples.labels), samples.scale)
    found = _converted.get(key)
    if found is None:
        found = _converted[key] = _convert(samples)
        for array in (samples.inputs, samples.labels):
            weakref.finalize(array, _converted.pop, key, None).atexit = False
    return found


def _convert(samples: Samples) -> _Tensors:
    inputs = torch.empty(samples.inputs.shape, dtype=torch.float32)
    inputs.numpy()[...] = samples.inputs
    if samples.scale != 1.0:
        inputs.mul_(samples.scale)
    return inputs, torch.from_numpy(samples.labels.astype(np.int64))
