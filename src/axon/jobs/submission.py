"""What a requester asks for: a task in names and numbers, and what it comes to when it is made."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, fields
from typing import Any

import msgspec

from axon.allocation.med import MedTask
from axon.data.datasets import Dataset, load
from axon.data.shards import Shards
from axon.errors import ConfigurationError
from axon.learning.experience import kind_of
from axon.learning.nets import initial
from axon.learning.optimisers import functional
from axon.learning.tasks import default_spec
from axon.rounds.settings import Run
from axon.values import Vector, check_positive, check_whole

MOST = 10**9
"""Of anything that is counted, and of seconds: beyond it lies a slip of the keyboard."""
LONGEST_NAME = 100


@dataclass(frozen=True, slots=True, kw_only=True)
class Submission:
    """A task to be trained beside others."""

    name: str
    task: str
    """A net by the name that learners know it by."""
    dataset: str
    shards: int
    """How many are trained on in every cycle, by all learners together (D_i)."""
    cycles: int
    deadline_s: float
    """Of each cycle (T_i)."""
    passes: int = 1
    shard_samples: int = 500
    batch_size: int = 32
    optimiser: str | None = None
    """As fits the task if left out."""
    learning_rate: float | None = None
    evaluate_every: int = 1
    seed: int = 0

    def __post_init__(self) -> None:
        fits = isinstance(self.name, str) and 1 <= len(self.name) <= LONGEST_NAME
        if not fits or not self.name.isprintable() or "/" in self.name or "\\" in self.name:
            raise ConfigurationError(
                f"a task's name must be 1 to {LONGEST_NAME} printable characters, "
                f"none of them / or \\, got {str(self.name)[:LONGEST_NAME]!r}"
            )
        for name in ("shards", "cycles", "passes", "shard_samples", "batch_size"):
            check_whole(name, getattr(self, name), least=1)
            _check_most(name, getattr(self, name))
        check_whole("evaluate_every", self.evaluate_every, least=0)
        check_whole("seed", self.seed, least=-(2**63))
        if self.seed >= 2**63:
            raise ConfigurationError(f"seed must be below 2**63, got {self.seed}")
        check_positive("deadline_s", self.deadline_s)
        _check_most("deadline_s", self.deadline_s)


@dataclass(frozen=True, slots=True, kw_only=True)
class Work:
    """What a cycle of a task is, in numbers: all that is needed to plan it, and to pay for it."""

    name: str
    kind: str
    """The same for tasks that a learner is equally quick at, as `kind_of` names it."""
    shards: int
    deadline_s: float
    model_bytes: int
    shard_bytes: int
    shard_samples: int
    passes: int

    @property
    def request(self) -> MedTask:
        """The task as the allocation sees it."""
        return MedTask(
            name=self.name,
            shards=self.shards,
            deadline_s=self.deadline_s,
            model_bytes=self.model_bytes,
            shard_bytes=self.shard_bytes,
            passes=self.passes,
        )


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Prepared:
    """A submission with its data loaded and its net built."""

    submission: Submission
    run: Run
    dataset: Dataset
    model: Vector
    """What the run starts from."""
    shard_bytes: int

    @property
    def work(self) -> Work:
        """What it comes to."""
        return Work(
            name=self.submission.name,
            kind=kind_of(self.run.spec, self.run.shard_samples),
            shards=self.submission.shards,
            deadline_s=self.run.deadline_s,
            model_bytes=self.model.nbytes,
            shard_bytes=self.shard_bytes,
            shard_samples=self.run.shard_samples,
            passes=self.submission.passes,
        )


def submission_from(table: Mapping[str, Any]) -> Submission:
    """From a table of JSON, as it comes over the network; a wrong entry is named."""
    if not isinstance(table, Mapping):
        raise ConfigurationError(
            f"a task is a table of settings, got {table!r:.100}", hint="for example {'name': 'a'}"
        )
    known = {item.name for item in fields(Submission)}
    unknown = sorted(set(map(str, table)) - known)
    if unknown:
        raise ConfigurationError(
            f"unknown setting {', '.join(unknown)}", hint=f"known are {', '.join(sorted(known))}"
        )
    try:
        return msgspec.convert(dict(table), Submission)
    except msgspec.ValidationError as error:
        if isinstance(error.__cause__, ConfigurationError):
            raise error.__cause__ from None
        raise ConfigurationError(f"a setting of the task is wrong: {error}") from error


def prepare(submission: Submission) -> Prepared:
    """Load the data and build the net; raises `ConfigurationError` for what cannot be trained."""
    dataset = load(submission.dataset, seed=submission.seed)
    chosen = {
        "batch_size": submission.batch_size,
        "optimiser": submission.optimiser,
        "learning_rate": submission.learning_rate,
    }
    changes = {key: value for key, value in chosen.items() if value is not None}
    spec = default_spec(submission.task, dataset.shape, dataset.classes, **changes)
    functional(spec)  # An optimiser that does not exist is one mistake, not one of every learner.
    stock = Shards(dataset.train, submission.shard_samples, seed=submission.seed)
    if submission.shards > len(stock):
        raise ConfigurationError(
            f"{submission.dataset} has {len(stock)} shards of {submission.shard_samples} samples, "
            f"got shards {submission.shards}",
            hint="ask for fewer, or for smaller ones",
        )
    run = Run(
        spec=spec,
        cycles=submission.cycles,
        deadline_s=submission.deadline_s,
        shard_samples=submission.shard_samples,
        name=submission.name,
        seed=submission.seed,
        evaluate_every=submission.evaluate_every,
    )
    return Prepared(
        submission=submission,
        run=run,
        dataset=dataset,
        model=initial(spec, submission.seed),
        shard_bytes=stock.shard_bytes,
    )


def _check_most(name: str, value: float) -> None:
    if value > MOST:
        raise ConfigurationError(f"{name} must be at most {MOST:g}, got {value!r}")
