"""Training many jobs of one task together, because one large step is cheaper than many small ones.

The jobs' parameters are stacked, and `torch.func.vmap` steps them all at once; a plain perceptron
under gradient descent has a way of its own (`axon.learning.perceptron`). As many jobs are taken at
a time as stay in the processor's cache. What cannot be stacked is trained by `LoopTrainer`: nets
with buffers (BatchNorm) or randomness (dropout), nets that mix the samples of a batch, and losses
that give one number in all.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import lru_cache
from math import prod
from typing import Literal, Protocol

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from axon.learning.loop import LoopTrainer, WarmNet, warm_net
from axon.learning.mapped import MappedStep, stackable
from axon.learning.parameters import size
from axon.learning.perceptron import Dense, DescendDense, dense_layers
from axon.learning.stacks import Batches, Course, Parameters, Scratch, result_rows, scratch
from axon.learning.tasks import Blueprint, blueprint
from axon.seeds import stream
from axon.values import Job, Samples, TaskSpec, Trained, check_whole

CACHE_BYTES = 8 << 20
"""What perceptrons trained together may take, so that no step waits for memory."""

MAPPED_BYTES = 24 << 20
"""The same for nets under `vmap`, where a call costs more than memory does."""

MAPPED_LEAST = 8
"""Fewer nets than that go faster one after the other than under `vmap`, as do nets so large that
not even twice as many of them fit."""

MOST_TOGETHER = 128
"""More jobs than that save no more time, however small they are."""


@dataclass(frozen=True, slots=True)
class Way:
    """How jobs of one task are trained."""

    kind: Literal["dense", "mapped", "loop"]
    together: int = 1
    """How many are stepped at once."""
    layers: tuple[Dense, ...] = ()
    """Of a perceptron."""

    def pays(self, jobs: int) -> bool:
        """Whether stacking that many is quicker than a loop."""
        small = self.together >= 2 * MAPPED_LEAST
        return self.kind == "dense" or (small and jobs >= MAPPED_LEAST)


class Step(Protocol):
    """One optimiser step of stacked jobs."""

    def __call__(self, inputs: Tensor, labels: Tensor, weights: Tensor) -> Tensor:
        """Step as many first rows as there are inputs, in place; their losses before the step."""


@dataclass(frozen=True, slots=True)
class BatchedTrainer:
    """A `Trainer` that agrees with `LoopTrainer` to rounding, at a fraction of its cost."""

    together: int | None = None
    """How many jobs are stepped at once; None finds what is quickest, be it a loop."""

    def __post_init__(self) -> None:
        if self.together is not None:
            check_whole("together", self.together, least=1)

    def __call__(self, jobs: Sequence[Job]) -> list[Trained]:
        """What came of each job, in their order; jobs of one task and kind of samples together."""
        groups: dict[tuple[object, ...], list[int]] = {}
        for at, job in enumerate(jobs):
            groups.setdefault(_kind(job), []).append(at)
        results: dict[int, Trained] = {}
        for places in groups.values():
            # Longest first, so that those still running are always the first rows.
            places.sort(key=lambda at: -jobs[at].batches)
            group = [jobs[at] for at in places]
            results.update(zip(places, self._train_group(group), strict=True))
        return [results[at] for at in range(len(jobs))]

    def _train_group(self, jobs: Sequence[Job]) -> list[Trained]:
        spec = jobs[0].spec
        way = way_of(spec, blueprint(spec.net))
        if way.kind == "loop" or not (self.together or way.pays(len(jobs))):
            return LoopTrainer()(jobs)
        # Chunks of one size: a small one at the end would cost as many calls as a full one.
        chunks = -(-len(jobs) // (self.together or way.together))
        together = -(-len(jobs) // chunks)
        with warm_net(spec) as net, scratch() as memory:
            rows = result_rows(len(jobs), size(net.layout))
            courses = [Course(job) for job in jobs]
            trained: list[Trained] = []
            for first in range(0, len(jobs), together):
                chunk = slice(first, first + together)
                trained += _Chunk(courses[chunk], way.layers, net, memory).train(rows[chunk])
        return trained


@lru_cache(maxsize=64)
def way_of(spec: TaskSpec, plan: Blueprint) -> Way:
    """How jobs of a task are trained; found by trying, and remembered for the task and its net."""
    with warm_net(spec) as net:
        if not stackable(net, spec):
            return Way("loop")
        batch = spec.batch_size * prod(spec.inputs)
        layers = dense_layers(net.module, spec, plan.loss)
        if layers:
            way = Way("dense", _fit(CACHE_BYTES, size(net.layout) + batch), layers)
        else:
            # The gradient, and what the optimiser remembers, are as large as the parameters.
            copies = 2 + len(net.optimiser.init({}).moments)
            way = Way("mapped", _fit(MAPPED_BYTES, copies * size(net.layout) + batch))
    return way if _agrees(way, spec) else Way("loop")


def _agrees(way: Way, spec: TaskSpec) -> bool:
    """Whether a few steps come out as the loop's do, whatever was taken for granted of a net."""
    random = stream(0, "agreement")
    inputs = random.standard_normal((6, *spec.inputs), dtype=np.float32)
    samples = Samples(inputs, random.integers(spec.classes, size=6))
    small = replace(spec, batch_size=4)
    with warm_net(small) as net, scratch() as memory:
        start = random.standard_normal(size(net.layout), np.float32) * np.float32(0.1)
        jobs = [Job(spec=small, start=start, samples=samples, stream=(at,)) for at in range(2)]
        rows = result_rows(len(jobs), size(net.layout))
        ours = _Chunk([Course(job) for job in jobs], way.layers, net, memory).train(rows)
    return all(
        np.allclose(one.parameters, other.parameters, rtol=1e-3, atol=1e-5)
        for one, other in zip(ours, LoopTrainer()(jobs), strict=True)
    )


def _fit(room_bytes: int, floats: int) -> int:
    return max(1, min(room_bytes // (4 * floats), MOST_TOGETHER))


class _Chunk:
    """Jobs that are stepped together, longest first."""

    def __init__(
        self, courses: Sequence[Course], layers: tuple[Dense, ...], net: WarmNet, memory: Scratch
    ) -> None:
        self._courses = courses
        self._params = Parameters(net.layout, len(courses), memory)
        self._step = self._make_step(layers, net, memory)
        self._batches = Batches(self._courses, memory)
        self._running = [True] * len(courses)
        self._done = [0] * len(courses)
        self._loss = np.zeros(len(courses))

    def _make_step(self, layers: tuple[Dense, ...], net: WarmNet, memory: Scratch) -> Step:
        jobs = [course.job for course in self._courses]
        alike = self._params.load([job.start for job in jobs])
        if not layers:
            return MappedStep(net, self._params.entries)
        rate = jobs[0].spec.learning_rate
        return DescendDense(layers, rate, self._params.entries, memory, alike)

    def train(self, rows: NDArray[np.float32]) -> list[Trained]:
        """Step until nobody is left, and leave each job's parameters in its row."""
        results = torch.from_numpy(rows)
        done = 0
        while self._go_on(done, results):
            losses = self._step(*self._batches.gather(self._running))
            self._loss[: len(losses)] += np.where(self._running, losses.numpy(), 0.0)
            done += 1
        return [self._trained(at, row) for at, row in enumerate(rows)]

    def _go_on(self, done: int, results: Tensor) -> bool:
        halted = [
            at
            for at, (course, running) in enumerate(zip(self._courses, self._running, strict=False))
            if running and (course.total == done or not course.job.go_on(done))
        ]
        if halted:
            self._params.save(halted, results)
            for at in halted:
                self._running[at] = False
                self._done[at] = done
            while self._running and not self._running[-1]:
                self._running.pop()
        return bool(self._running)

    def _trained(self, at: int, row: NDArray[np.float32]) -> Trained:
        done = self._done[at]
        return Trained(
            parameters=row,
            batches=done,
            samples=self._courses[at].seen,
            loss=float(self._loss[at]) / done if done else math.nan,
        )


def _kind(job: Job) -> tuple[object, ...]:
    samples = job.samples
    shapes = samples.inputs.shape[1:], samples.labels.shape[1:]
    return job.spec, samples.inputs.dtype == np.uint8, samples.scale, shapes
