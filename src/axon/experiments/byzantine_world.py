"""GARFIELD's systems in the simulated world, with its numbers of nodes and some of them lying.

A system is a topology with its rules; a trial trains one from a seed, in virtual time, and gives
its accuracy step by step. Trials that are compared share the seeds: the first model, who owns which
samples, and the batches.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TypeVar

from axon.aggregation import Bulyan, Mean, Median, MultiKrum
from axon.attacks import Attack
from axon.byzantine import Cluster, Outcome, Trained, Training, World, in_memory
from axon.data.datasets import Dataset
from axon.experiments.parallel import spread
from axon.experiments.runs import part_of
from axon.experiments.settings import Settings, load_dataset
from axon.intervals import Interval, mean_interval
from axon.learning.tasks import default_spec
from axon.policies import Aggregator
from axon.rpc.link import Link
from axon.rpc.memory.network import Network
from axon.testbed import virtual
from axon.topology import (
    Topology,
    crash_tolerant,
    decentralised,
    replicated_servers,
    single_server,
    vanilla,
)
from axon.values import TaskSpec

K = TypeVar("K", bound=tuple[object, ...])

NET, LEARNING_RATE, MOMENTUM = "twonn", 0.1, 0.9
BATCH = 100
"""Samples in a worker's batch, as in the paper's experiments with PyTorch."""
TRAIN, TEST = 20_000, 2_000
"""Samples of MNIST that are used, drawn at random once: more of them only take longer to read."""
LINK = Link(latency_s=0.001, jitter_s=0.004)
"""Of every node. By its jitter another quorum is the fastest in every step, at every server."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Counts:
    """How many nodes there are, and how many of them may be faulty."""

    workers: int
    faulty_workers: int
    servers: int
    faulty_servers: int


USUAL = Counts(workers=18, faulty_workers=3, servers=6, faulty_servers=1)
"""The paper's default, section 3.6.1."""
ATTACKED = Counts(workers=11, faulty_workers=1, servers=4, faulty_servers=1)
"""Of section 3.6.5, with a fourth server: one lying server takes 3f + 1."""


@dataclass(frozen=True, slots=True, kw_only=True)
class System:
    """A topology and its rules, under the name the tables have for it."""

    name: str
    topology: Topology
    rule: Aggregator
    """For gradients."""
    model_rule: Aggregator
    """For models, where servers exchange them."""
    told: str = "mean"
    """What the tables call the rule for gradients."""


def vanilla_system(counts: Counts) -> System:
    """One trusted server that averages."""
    return System(name="vanilla", topology=vanilla(counts.workers), rule=Mean(), model_rule=Mean())


def crash_tolerant_system(counts: Counts) -> System:
    """Replicas that average, of which workers follow the first that lives."""
    topology = crash_tolerant(counts.servers, counts.workers, faulty_servers=counts.faulty_servers)
    return System(name="crash-tolerant", topology=topology, rule=Mean(), model_rule=Mean())


def single_server_system(counts: Counts) -> System:
    """SSMW in an asynchronous network, by Bulyan."""
    f = counts.faulty_workers
    topology = single_server(counts.workers, faulty=f)
    return System(name="SSMW", topology=topology, rule=Bulyan(f), model_rule=Mean(), told="bulyan")


def replicated_system(counts: Counts, *, synchronous: bool = False) -> System:
    """MSMW in one of the paper's two variants.

    Bulyan in an asynchronous network, or Multi-Krum where all answers are waited for.
    """
    f = counts.faulty_workers
    topology = replicated_servers(
        counts.servers,
        counts.workers,
        faulty_servers=counts.faulty_servers,
        faulty_workers=f,
        synchronous=synchronous,
    )
    return System(
        name="MSMW synchronous" if synchronous else "MSMW",
        topology=topology,
        rule=MultiKrum(f) if synchronous else Bulyan(f),
        model_rule=Median(counts.faulty_servers),
        told="multi-krum" if synchronous else "bulyan",
    )


def decentralised_system(counts: Counts) -> System:
    """As many peers as there are workers elsewhere, in an asynchronous network."""
    f = counts.faulty_workers
    topology = decentralised(counts.workers, faulty=f)
    return System(
        name="decentralised",
        topology=topology,
        rule=Bulyan(f),
        model_rule=Median(f),
        told="bulyan",
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class Trial:
    """A system that trains from a seed, some of its nodes lying."""

    system: System
    dataset: Dataset
    steps: int
    seed: int = 0
    every: int = 5
    """Steps from one measurement of the accuracy to the next."""
    attack: Attack | None = None
    lying_workers: int = 0
    lying_servers: int = 0
    batch: int = BATCH

    @property
    def spec(self) -> TaskSpec:
        """What is trained."""
        return default_spec(
            NET,
            self.dataset.shape,
            self.dataset.classes,
            learning_rate=LEARNING_RATE,
            momentum=MOMENTUM,
            batch_size=self.batch,
        )

    @property
    def hostile(self) -> dict[str, Attack]:
        """The first of each party lie: among servers that may crash that is the one followed."""
        if self.attack is None:
            return {}
        topology = self.system.topology
        lying = topology.workers[: self.lying_workers] + topology.servers[: self.lying_servers]
        return dict.fromkeys(lying, self.attack)

    @property
    def training(self) -> Training:
        """How long, and by which rules."""
        return Training(
            steps=self.steps,
            rule=self.system.rule,
            model_rule=self.system.model_rule,
            accuracy_every=self.every,
        )

    def cluster(self) -> Cluster:
        """The nodes."""
        return Cluster(
            topology=self.system.topology,
            spec=self.spec,
            dataset=self.dataset,
            training=self.training,
            seed=self.seed,
            hostile=self.hostile,
        )


@dataclass(frozen=True, slots=True)
class Course:
    """What came of a trial: per cent of the test samples, of the honest server worst off."""

    steps: tuple[int, ...]
    accuracies: tuple[float, ...]
    """After so many steps; of a server that gave up, its last one from there on."""
    failure: str = ""
    """Why the first server that gave up did."""

    @property
    def last(self) -> float:
        """The accuracy in the end."""
        return self.accuracies[-1]

    def steps_to(self, level: float) -> float | None:
        """After how many steps it was that good for the first time, between two measurements."""
        before = (0.0, 0.0)
        for step, accuracy in zip(self.steps, self.accuracies, strict=True):
            if accuracy >= level:
                part = (level - before[1]) / (accuracy - before[1])
                return before[0] + part * (step - before[0])
            before = (step, accuracy)
        return None


def conduct(trial: Trial) -> Course:
    """Run it in virtual time."""
    cluster = trial.cluster()

    async def main() -> Outcome:
        links = dict.fromkeys(cluster.topology.nodes, LINK)
        return await in_memory(cluster, World(network=Network(seed=trial.seed), links=links))

    outcome = virtual.run(main())
    training = trial.training
    due = [step for step in range(trial.steps) if training.is_due(step)]
    servers = list(outcome.servers.values())
    return Course(
        tuple(step + 1 for step in due),
        tuple(100.0 * min(_known(each, step) for each in servers) for step in due),
        next((each.failure for each in servers if each.failure), ""),
    )


def _known(server: Trained, step: int) -> float:
    """The last accuracy known by then; a server that gave up before had one measured."""
    measured = [each for each in server.records if each.accuracy is not None]
    known = [each.accuracy or 0.0 for each in measured if each.step <= step]
    return known[-1] if known else measured[0].accuracy or 0.0


def measure(trials: Mapping[K, Sequence[Trial]], settings: Settings) -> dict[K, tuple[Course, ...]]:
    """The courses of all trials, by the same keys, on all cores; who listens is told of each."""
    flat = [(key, trial) for key, several in trials.items() for trial in several]
    found: dict[K, tuple[Course, ...]] = {}
    # A quick look is over before other processes have begun.
    courses = spread(conduct, [trial for _, trial in flat], 1 if settings.quick else None)
    for at, ((key, _), course) in enumerate(zip(flat, courses, strict=True), 1):
        settings.progress(f"{', '.join(map(str, key))}: {at} of {len(flat)} runs done")
        found[key] = (*found.get(key, ()), course)
    return found


def data(settings: Settings) -> tuple[Dataset, str]:
    """What is trained on, cut to what the experiments need, and what must be noted of it."""
    whole, note = load_dataset(settings)
    cut = part_of(whole, TRAIN, TEST)
    if len(cut.train) == len(whole.train):
        return cut, note
    told = (
        f"Of {whole.name}, {len(cut.train):,} samples drawn at random are trained on and "
        f"{len(cut.test):,} tested on."
    )
    return cut, " ".join(filter(None, (note, told)))


def repeats_of(trial: Trial, seeds: Sequence[int]) -> list[Trial]:
    """The same from several seeds."""
    return [replace(trial, seed=seed) for seed in seeds]


def last(courses: Iterable[Course]) -> list[float]:
    """The final accuracies, repeat by repeat."""
    return [course.last for course in courses]


def curve(courses: Sequence[Course]) -> tuple[Interval, ...]:
    """Step by step, the mean over the repeats."""
    return tuple(
        mean_interval(accuracies)
        for accuracies in zip(*(course.accuracies for course in courses), strict=True)
    )


SYSTEMS: Mapping[str, Callable[[Counts], System]] = {
    "vanilla": vanilla_system,
    "crash-tolerant": crash_tolerant_system,
    "SSMW": single_server_system,
    "MSMW": replicated_system,
    "MSMW synchronous": lambda counts: replicated_system(counts, synchronous=True),
    "decentralised": decentralised_system,
}
"""Every system by its name, to be made for some counts."""
