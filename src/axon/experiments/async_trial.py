"""One run of the asynchronous experiment: learners by radio, an allocation, cycles of one length.

The learners are those of `axon.experiments.placements`, as devices of the simulated world: they
benchmark themselves, tell what they found, and are given shards and passes by what they told.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, replace

from axon.allocation.csa import Method, StalenessAware
from axon.allocation.margin import MARGIN
from axon.allocation.staleness import EpochTime
from axon.data.datasets import Dataset
from axon.experiments.mnist import BENCHMARK_SHARDS
from axon.experiments.placements import Setup, placed
from axon.experiments.runs import Records, accuracy, simulate
from axon.learning.evaluation import flops_per_sample
from axon.learning.nets import initial
from axon.learning.tasks import default_spec
from axon.policies import Trainer
from axon.rounds.settings import Run, Scheme, Survey
from axon.rpc.link import Link
from axon.testbed.catalogue import GIB, Device
from axon.values import TaskSpec

PERIOD_S = 15.0
NET = "mohammad"
SETUP = Setup()
"""The same learners and bounds as in the experiment on staleness."""
PARTS = 3000
"""Shards of the data set: of MNIST 20 samples each. Finer ones would fill the time little better,
and every learner's draw goes over all of them."""

SLACK = 1e-4
"""The part of a period for what the model of a cycle leaves out: the heads of messages."""

SCHEMES: Mapping[str, Method] = {
    "asynchronous": "exact",
    "synchronous": "synchronous",
    "ETA": "eta",
}
"""The allocations that are compared, as `StalenessAware` calls them."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Trial:
    """A scheme, the number of its learners, and what it trains; its seed places the learners."""

    dataset: Dataset
    scheme: str
    learners: int
    cycles: int
    seed: int
    enough: float = math.inf
    """Per cent: the run ends with the cycle that is so accurate, or after all of them."""
    learning_rate: float | None = None
    """None for what the catalogue of nets gives."""
    setup: Setup = SETUP

    @property
    def shard_samples(self) -> int:
        """How many samples a shard has."""
        return max(1, len(self.dataset.train) // PARTS)

    @property
    def shards(self) -> int:
        """How many shards there are."""
        return len(self.dataset.train) // self.shard_samples

    @property
    def stands_for(self) -> float:
        """How many samples of the paper's data set each stands for, taking as long as they would.

        So the learners do as many epochs with a smaller set in the same time.
        """
        return self.setup.samples / (self.shards * self.shard_samples)

    @property
    def spec(self) -> TaskSpec:
        """What is trained."""
        rate = self.learning_rate
        changes = {} if rate is None else {"learning_rate": rate}
        return default_spec(NET, self.dataset.shape, self.dataset.classes, **changes)

    @property
    def times(self) -> tuple[EpochTime, ...]:
        """What the radio model says of each learner, in the order of their names."""
        return placed(self.setup, self.learners, self.seed, 0)

    def devices(self) -> dict[str, Device]:
        """The learners, by name."""
        spec = self.spec
        model_bytes = initial(spec, 0).nbytes
        flops = flops_per_sample(spec) / self.stands_for
        return {
            f"learner-{at:02}": _device(time, flops, model_bytes)
            for at, time in enumerate(self.times, 1)
        }


def _device(time: EpochTime, flops: float, model_bytes: int) -> Device:
    """A device that takes as long for a sample, and for the model both ways, as that learner."""
    bytes_per_s = 2 * model_bytes / time.fixed_s
    return Device(
        kind="by radio",
        flops_per_s=flops / time.per_sample_epoch_s,
        batch_overhead_s=0.0,
        memory_bytes=GIB,
        link=Link(up_bytes_per_s=bytes_per_s, down_bytes_per_s=bytes_per_s),
    )


def conduct(trial: Trial, trainer: Trainer | None = None) -> Records:
    """Run it in virtual time.

    Even where there is a GPU, the world's own trainer is the quickest: steps of so small a net take
    less time on a core than it takes to start them elsewhere.
    """
    lower, upper = replace(trial.setup, samples=trial.shards).bounds(trial.learners)
    run = Run(
        spec=trial.spec,
        cycles=trial.cycles,
        deadline_s=PERIOD_S,
        # Plans fill the period; without it a learner would keep a part of it back and halt early.
        grace_s=2 * MARGIN * PERIOD_S,
        shard_samples=trial.shard_samples,
        seed=trial.seed,
    )
    scheme = Scheme(
        allocate=StalenessAware(
            lower=lower, upper=upper, slack=SLACK, method=SCHEMES[trial.scheme]
        ),
        survey=Survey(shards=BENCHMARK_SHARDS, disclosed=True),
    )
    return simulate(
        run,
        trial.dataset,
        trial.devices(),
        scheme,
        trainer=trainer,
        until=lambda record: (accuracy(record) or 0.0) >= trial.enough,
    )
