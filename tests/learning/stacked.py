"""Nets that can and cannot be stacked, and jobs of unequal length, for tests of trainers."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import replace

import numpy as np
from torch import Tensor, nn

from axon.learning.nets import initial
from axon.learning.tasks import define
from axon.values import Job, Samples, TaskSpec, Trained

CLASSES = 3


@define("batched-dense")
def dense(inputs: tuple[int, ...], classes: int) -> nn.Module:
    width = math.prod(inputs)
    return nn.Sequential(
        nn.Flatten(), nn.Linear(width, 6), nn.ReLU(), nn.Linear(6, 5, bias=False), nn.ReLU(),
        nn.Linear(5, classes),
    )  # fmt: skip


class Wrapped(nn.Module):
    """A net that is no plain `nn.Sequential`, so that only `vmap` can stack it."""

    def __init__(self, inner: nn.Module) -> None:
        super().__init__()
        self.inner = inner

    def forward(self, inputs: Tensor) -> Tensor:
        found: Tensor = self.inner(inputs)
        return found


@define("batched-wrapped")
def wrapped(inputs: tuple[int, ...], classes: int) -> nn.Module:
    return Wrapped(dense(inputs, classes))


@define("batched-frozen")
def frozen(inputs: tuple[int, ...], classes: int) -> nn.Module:
    net = dense(inputs, classes)
    net[1].requires_grad_(requires_grad=False)  # type: ignore[index]
    return net


@define("batched-norm")
def norm(inputs: tuple[int, ...], classes: int) -> nn.Module:
    return nn.Sequential(nn.Linear(inputs[0], 4), nn.BatchNorm1d(4), nn.Linear(4, classes))


class Centred(nn.Linear):
    """Each output less the mean of the batch, so that samples change one another's."""

    def forward(self, inputs: Tensor) -> Tensor:
        outputs = super().forward(inputs)
        return outputs - outputs.mean(0)


@define("batched-mixing")
def mixing(inputs: tuple[int, ...], classes: int) -> nn.Module:
    return Centred(inputs[0], classes)


@define("batched-dropout")
def dropout(inputs: tuple[int, ...], classes: int) -> nn.Module:
    return nn.Sequential(nn.Linear(inputs[0], 4), nn.Dropout(0.5), nn.Linear(4, classes))


@define("batched-scalar", loss=nn.functional.cross_entropy)
def scalar(inputs: tuple[int, ...], classes: int) -> nn.Module:
    return nn.Linear(inputs[0], classes)


class Branching(nn.Linear):
    """What it computes depends on a number, which a traced net does not have."""

    def forward(self, inputs: Tensor) -> Tensor:
        outputs = super().forward(inputs)
        return outputs if float(self.weight[0, 0]) > -100 else -outputs


@define("batched-branching")
def branching(inputs: tuple[int, ...], classes: int) -> nn.Module:
    return Branching(inputs[0], classes)


def squared(outputs: Tensor, labels: Tensor) -> Tensor:
    return (outputs.gather(1, labels.unsqueeze(1)).squeeze(1) - 1) ** 2


@define("batched-squared", loss=squared)
def squares(inputs: tuple[int, ...], classes: int) -> nn.Module:
    return nn.Sequential(nn.Linear(inputs[0], classes))


FALL_BACK = ["batched-norm", "batched-mixing", "batched-dropout", "batched-scalar"]
FALL_BACK += ["batched-branching"]


def spec_of(net: str, **changes: object) -> TaskSpec:
    settings = {"net": net, "inputs": (4,), "classes": CLASSES, "batch_size": 4} | changes
    return TaskSpec(**settings)  # type: ignore[arg-type]


def samples_of(count: int, seed: int = 0, shape: tuple[int, ...] = (4,)) -> Samples:
    random = np.random.default_rng((seed, count))
    inputs = random.standard_normal((count, *shape)).astype(np.float32)
    return Samples(inputs, random.integers(0, CLASSES, count))


def until(batches: int) -> Callable[[int], bool]:
    return lambda done: done < batches


def ragged(spec: TaskSpec) -> list[Job]:
    """Unequal in samples, passes, limit, start and the moment they are told to halt."""
    start, other = initial(spec, 1), initial(spec, 2)

    def job(at: int, count: int, **changes: object) -> Job:
        data = samples_of(count, at, spec.inputs)
        made = Job(spec=spec, start=start, samples=data, stream=(5, "batches", at))
        return replace(made, **changes)  # type: ignore[arg-type]

    return [
        job(0, 9),
        job(1, 4, passes=3),
        job(2, 13, passes=2, limit=5),
        job(3, 1, start=other),
        job(4, 0),
        job(5, 16, passes=3, go_on=until(2), start=other),
        job(6, 8, go_on=until(0)),
        job(7, 7, passes=2, start=other),
        job(8, 11, limit=0),
        job(9, 3, passes=4, go_on=until(3)),
    ]


def check_same(got: Sequence[Trained], wanted: Sequence[Trained], tolerance: float = 2e-6) -> None:
    assert len(got) == len(wanted)
    for one, other in zip(got, wanted, strict=True):
        assert (one.batches, one.samples) == (other.batches, other.samples)
        np.testing.assert_allclose(one.parameters, other.parameters, rtol=0, atol=tolerance)
        np.testing.assert_allclose(one.loss, other.loss, rtol=1e-5)
        assert one.parameters.dtype == np.float32
        assert one.parameters.flags.c_contiguous


OPTIMISERS = [
    {},
    {"momentum": 0.9, "learning_rate": 0.05},
    {"optimiser": "adam", "learning_rate": 0.01},
]
