"""The world of the MED experiments (DAB thesis, section 4.3.1): tasks, learners, and what they do.

The first learners of a repeat are the same whatever their number: habits, prices and states hang on
the repeat and a learner's name alone, so that a curve over the number adds learners and does not
exchange them, and schemes that are compared meet the same states.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import lru_cache

import numpy as np

from axon.allocation.equal import Fixed
from axon.allocation.med import LearnerState, MedLearner, MedProblem, MedTask
from axon.data.datasets import Dataset
from axon.experiments.mnist import SHARD_SAMPLES
from axon.experiments.runs import simulate, untrained
from axon.learning.nets import initial
from axon.rounds.settings import Run, Scheme
from axon.seeds import stream
from axon.testbed.activity import STATES, Activity, State, draw, heated
from axon.testbed.catalogue import Device, device
from axon.values import DeviceRecord, Samples, TaskSpec, Vector

BENCHMARK_SHARDS = 20
PATIENT_S = 1e6
"""A deadline that nobody meets with: benchmarks are not halted."""

FACTOR = 1.5
"""How many times as fast as the catalogue's Nano the devices are: the least number of quarters with
which MMTT-Ideal has a plan in 95 of 100 cycles of four learners."""
SURE = 0.95
"""The part of cycles that the rule asks for; the thesis calls MMTT-Ideal near perfect there."""


def nano(factor: float = FACTOR) -> Device:
    """A Nano whose training, with all that a batch costs, is so many times as fast."""
    known = device("jetson-nano")
    return replace(
        known,
        flops_per_s=known.flops_per_s * factor,
        batch_overhead_s=known.batch_overhead_s / factor,
    )


@dataclass(frozen=True, slots=True)
class Request:
    """One task of Table 4.1."""

    name: str
    net: str
    passes: int
    deadline_s: float
    shards: int

    @property
    def spec(self) -> TaskSpec:
        """What is trained; the batches are assumed, the rest is the thesis's."""
        return TaskSpec(
            net=self.net,
            inputs=(1, 28, 28),
            classes=10,
            optimiser="adam",
            learning_rate=0.0001,
        )

    @property
    def samples(self) -> int:
        """How many a cycle trains on, counted once for each pass."""
        return self.passes * self.shards * SHARD_SAMPLES

    @property
    def dataset(self) -> Dataset:
        """Data of its size with nothing in it."""
        return blank(self.shards)

    @property
    def shard_bytes(self) -> int:
        """What one shard takes."""
        return self.dataset.train.nbytes // self.shards

    def run(self, seed: int, cycles: int) -> Run:
        """Its cycles, with learners that halt at the deadline."""
        return Run(
            name=self.name,
            spec=self.spec,
            cycles=cycles,
            deadline_s=self.deadline_s,
            shard_samples=SHARD_SAMPLES,
            seed=seed,
            evaluate_every=0,
        )


TABLE = (
    Request("MNIST_FFN", "threenn", 2, 55.0, 60),
    Request("MNIST_CNN", "convnet", 1, 40.0, 60),
    Request("Fashion", "fashionnet", 1, 40.0, 20),
)


@lru_cache
def blank(shards: int) -> Dataset:
    """Images of MNIST's size, all black: none of the five metrics hangs on what is learnt."""
    count = shards * SHARD_SAMPLES
    samples = Samples(np.zeros((count, 1, 28, 28), np.uint8), np.zeros(count, np.uint8))
    return Dataset("blank", samples, samples.take(slice(1)), classes=10)


@lru_cache
def model_bytes(net: str) -> int:
    """What a model takes on its way."""
    return initial(Request(net, net, 1, 1.0, 1).spec, 0).nbytes


def unchanged(vectors: Sequence[Vector], weights: Sequence[float]) -> Vector:  # noqa: ARG001
    """An aggregate for runs that train nothing: every update is the model it began with."""
    return vectors[0]


@dataclass(frozen=True, slots=True)
class Rates:
    """How fast a learner is at one task: for one pass, and over its link."""

    shards_per_s: float
    bytes_per_s: float


def rates_of(request: Request, seen: DeviceRecord) -> Rates | None:
    """What a cycle tells of its learner; None where it tells nothing."""
    timings = seen.timings
    if timings is None or not seen.samples or timings.train_s <= 0.0 or timings.download_s <= 0.0:
        return None
    fetched = model_bytes(request.net) + seen.shards * request.shard_bytes
    return Rates(
        seen.samples / SHARD_SAMPLES / timings.train_s,
        fetched / timings.download_s,
    )


@lru_cache
def benchmarked(request: Request, kind: Device) -> Mapping[State, Rates]:
    """A benchmark of 20 shards in each of the states, known beforehand as in the thesis."""
    shards = min(BENCHMARK_SHARDS, request.shards)
    run = replace(request.run(0, 1), deadline_s=PATIENT_S)
    scheme = Scheme(allocate=Fixed(dict.fromkeys(STATES, shards)), aggregate=unchanged)
    (record,) = simulate(
        run,
        request.dataset,
        dict.fromkeys(STATES, kind),
        scheme,
        trainer=untrained,
        activity={state: Activity({state: 1.0}) for state in STATES},
    )
    found = {seen.device: rates_of(request, seen) for seen in record.devices}
    return {state: rates for state in STATES if (rates := found[state]) is not None}


def slowdown() -> tuple[float, float]:
    """How many times slower a learner is whose owner trains: at the task that feels it least, and
    at the one that feels it most."""
    found = [benchmarked(request, nano()) for request in TABLE]
    times = [each["idle"].shards_per_s / each["training"].shards_per_s for each in found]
    return min(times), max(times)


@dataclass(frozen=True, slots=True, kw_only=True)
class Trial:
    """One repeat with so many learners: what is to be trained, by whom, for how much."""

    seed: int
    requests: tuple[Request, ...]
    learners: int
    budget: float
    cycles: int = 5
    device: Device

    @property
    def names(self) -> tuple[str, ...]:
        """Of the learners."""
        return tuple(f"nano-{number:02}" for number in range(1, self.learners + 1))

    @property
    def devices(self) -> dict[str, Device]:
        """They are all alike."""
        return dict.fromkeys(self.names, self.device)

    def habit(self, name: str) -> Activity:
        """How likely its owner is to do what: a one-hot vector through a softmax of heat 0.5."""
        return heated(stream(self.seed, "habits", name))

    def price(self, name: str) -> float:
        """What it asks for a shard."""
        asked = stream(self.seed, "price", name).normal(1.0, math.sqrt(0.5))
        return float(np.clip(asked, 0.1, 1.5))

    def states(self, cycle: int) -> dict[str, int]:
        """The places of the states in which the learners are found in a cycle.

        Drawn as the world draws them. Cycle 0 is when they were benchmarked.
        """
        return {
            name: STATES.index(draw(self.habit(name), stream(self.seed, "activity", cycle, name)))
            for name in self.names
        }

    def problem(self, known: Mapping[str, Sequence[LearnerState]] | None = None) -> MedProblem:
        """What MED is asked, with the true states of the learners or with what is `known`."""
        learners = [
            MedLearner(name, self.price(name), (known or {}).get(name) or self._true(name))
            for name in self.names
        ]
        tasks = [
            MedTask(
                request.name,
                request.shards,
                request.deadline_s,
                model_bytes(request.net),
                request.shard_bytes,
                request.passes,
            )
            for request in self.requests
        ]
        return MedProblem(tasks, learners, self.budget)

    def _true(self, name: str) -> list[LearnerState]:
        chances = self.habit(name).probabilities
        return [self._in(state, chances.get(state, 0.0)) for state in STATES]

    def _in(self, state: State, probability: float) -> LearnerState:
        found = {each.name: benchmarked(each, self.device)[state] for each in self.requests}
        # A state has one bandwidth: that of the mean time for a byte.
        byte_s = math.fsum(1.0 / rates.bytes_per_s for rates in found.values()) / len(found)
        return LearnerState(
            probability, 1.0 / byte_s, {name: rates.shards_per_s for name, rates in found.items()}
        )
