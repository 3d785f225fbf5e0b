"""The nouns, in the order a round meets them.

A **task** says what is trained and costs what `TaskCost` says; a learner's **capability** says how
fast it is. A **plan** gives each learner a **share**, an **order** carries the share to it, a
**job** is what it trains, and its answer is an **update**, unless it **declined**. What became of
everybody is a **round record**. A **failure** is a call to a device that brought no answer, a value
among the answers of a `gather`.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal, TypeAlias

import numpy as np
from numpy.typing import NDArray

from axon.errors import ConfigurationError
from axon.failure import Failure as Failure  # noqa: PLC0414  (one of the nouns, told here)
from axon.seeds import Name
from axon.shown import Shown

Vector: TypeAlias = NDArray[np.float32]
"""A model's parameters, all of them, as one flat array."""

Payload: TypeAlias = dict[str, NDArray[Any]]
"""An update as a codec has packed it."""


@dataclass(frozen=True, slots=True)
class Samples:
    """Inputs and their labels, in any type that numpy holds; networks see floats.

    Images travel as they are stored, a byte a pixel; `scale` makes floats of them.
    """

    inputs: NDArray[Any]
    labels: NDArray[Any]
    scale: float = 1.0

    def __post_init__(self) -> None:
        if len(self.inputs) != len(self.labels):
            raise ConfigurationError(
                f"samples need a label each, got {len(self.inputs)} inputs "
                f"and {len(self.labels)} labels"
            )

    def __len__(self) -> int:
        return len(self.labels)

    @property
    def nbytes(self) -> int:
        """What they take on the wire and in memory."""
        return self.inputs.nbytes + self.labels.nbytes

    def take(self, indices: NDArray[np.intp] | slice) -> Samples:
        """Some of them, in that order."""
        return Samples(self.inputs[indices], self.labels[indices], self.scale)


@dataclass(frozen=True, slots=True, kw_only=True)
class TaskSpec(Shown):
    """What is trained, as it travels: the name of a net that the learner has, and numbers."""

    net: str
    inputs: tuple[int, ...]
    """The shape of one input."""
    classes: int
    optimiser: str = "sgd"
    learning_rate: float = 0.1
    momentum: float = 0.0
    batch_size: int = 32

    def __post_init__(self) -> None:
        # A list is what arrives from JSON, TOML and the wire.
        object.__setattr__(self, "inputs", tuple(self.inputs))
        if not isinstance(self.net, str) or not 0 < len(self.net) <= 200:
            raise ConfigurationError("net must be a name of at most 200 letters")
        if not self.inputs:
            raise ConfigurationError("inputs must be the shape of one input, got ()")
        for width in self.inputs:
            check_whole("inputs", width, least=1)
        check_whole("batch_size", self.batch_size, least=1)
        check_whole("classes", self.classes, least=1)
        check_positive("learning_rate", self.learning_rate)
        if not isinstance(self.momentum, (int, float)) or not 0.0 <= self.momentum < 1.0:
            raise ConfigurationError(
                f"momentum must be at least 0 and below 1, got {self.momentum!r}"
            )

    def batches(self, samples: int, passes: int = 1) -> int:
        """How many batches that many samples make; the last of a pass may be a small one."""
        return passes * -(-samples // self.batch_size)


@dataclass(frozen=True, slots=True, kw_only=True)
class TaskCost(Shown):
    """What one cycle of a task costs a learner, whoever it is."""

    model_bytes: int
    shard_bytes: int
    passes: int = 1

    def __post_init__(self) -> None:
        check_whole("model_bytes", self.model_bytes, least=0)
        check_whole("shard_bytes", self.shard_bytes, least=0)
        check_whole("passes", self.passes, least=1)


@dataclass(frozen=True, slots=True, kw_only=True)
class Capability(Shown):
    """What one learner can do for one task, as it measured itself.

    It is the learner's own business: nothing sends it anywhere unless the learner is asked and
    agrees.
    """

    shards_per_s: float
    """For one pass."""
    bytes_per_s: float

    def __post_init__(self) -> None:
        check_positive("shards_per_s", self.shards_per_s)
        check_positive("bytes_per_s", self.bytes_per_s)


@dataclass(frozen=True, slots=True, kw_only=True)
class Share(Shown):
    """What one learner is asked to do in a cycle."""

    shards: int | None
    """None leaves the number to the learner, which knows best what it can do by the deadline."""
    passes: int = 1

    def __post_init__(self) -> None:
        if self.shards is not None:
            check_whole("shards", self.shards, least=0)
        check_whole("passes", self.passes, least=1)


@dataclass(frozen=True, slots=True, kw_only=True)
class Plan(Shown):
    """Who does what in one cycle, and by when."""

    cycle: int
    deadline_s: float
    shares: Mapping[str, Share]


@dataclass(frozen=True, slots=True, kw_only=True)
class Order:
    """What a learner is told: its share, its deadline, and where the rest is to be had."""

    run: str
    cycle: int
    """From 1; an order to benchmark itself comes before all of them, in cycle 0."""
    device: str
    spec: TaskSpec
    share: Share
    cost: TaskCost
    shard_samples: int
    shards: int
    """How many there are to be drawn from."""
    deadline_s: float
    """From now; clocks of two devices never need to agree."""
    seed: int
    grace_s: float = 0.0
    """How long after the deadline an answer is still taken. Shares are reckoned for the deadline;
    training is cut short only where the grace ends."""
    codec: str = "plain"
    owner: str = ""
    """The run's own mark, since others may be called the same."""
    ticket: str = ""
    """What the learner shows when it fetches shards; without one, its name will do."""
    source: str = ""
    """Where the model and the shards are to be had: an address, or nothing for an own source."""
    epoch: int = 0
    """Of whoever leads the run: an order of a higher one takes the place of what is being done, one
    of a lower comes from somebody who was replaced. 0 for a run that nobody stands by."""
    previous_s: float | None = None
    """How long this learner's update took to come in the cycle before; infinite if it was given up,
    None if there was none to wait for."""

    def __post_init__(self) -> None:
        # It comes from another machine: whatever follows may count on these.
        for name, kind in (("spec", TaskSpec), ("share", Share), ("cost", TaskCost)):
            if not isinstance(getattr(self, name), kind):
                raise ConfigurationError(f"{name} of an order must be a {kind.__name__}")
        for name in ("run", "device", "codec", "owner", "ticket", "source"):
            text = getattr(self, name)
            if not isinstance(text, str) or len(text) > 1000:
                raise ConfigurationError(f"{name} of an order must be a short text")
        check_whole("cycle", self.cycle, least=0)
        check_whole("epoch", self.epoch, least=0)
        check_whole("shard_samples", self.shard_samples, least=1)
        check_whole("shards", self.shards, least=0)
        check_positive("deadline_s", self.deadline_s)
        check_amount("grace_s", self.grace_s)
        if self.previous_s is not None and not self.previous_s >= 0.0:
            raise ConfigurationError(f"previous_s must be at least 0, got {self.previous_s!r}")


@dataclass(frozen=True, slots=True, kw_only=True)
class Job:
    """One learner's training: where it starts, on what, and how long it may go on."""

    spec: TaskSpec
    start: Vector
    samples: Samples
    passes: int = 1
    stream: tuple[int, *tuple[Name, ...]] = (0, "batches")
    """The seed and names of the random stream that shuffles the samples before each pass."""
    limit: int | None = None
    """The most batches to train; None for all of them."""
    go_on: Callable[[int], bool] = lambda _: True
    """Asked before every batch, with the number of batches done; False halts."""

    @property
    def batches(self) -> int:
        """How many batches it comes to when nothing halts it."""
        whole = self.spec.batches(len(self.samples), self.passes)
        return whole if self.limit is None else min(whole, self.limit)


@dataclass(frozen=True, slots=True, kw_only=True)
class Trained:
    """What came of a job."""

    parameters: Vector
    batches: int
    """How many were really trained."""
    samples: int
    """How many were really seen, counted once for each pass."""
    loss: float
    """The mean over the batches trained; NaN when there were none."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Timings(Shown):
    """How long a learner took over each part, by its own clock."""

    download_s: float
    train_s: float


@dataclass(frozen=True, slots=True, kw_only=True)
class Update:
    """A learner's answer: its parameters, and how much training stands behind them."""

    run: str
    cycle: int
    device: str
    payload: Payload
    shards: int
    batches: int
    samples: int
    loss: float
    halted: bool = False
    """Whether the deadline ended it before its share was done."""
    timings: Timings | None = None
    """None from a learner that keeps its capability to itself."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Declined(Shown):
    """A learner's answer when it sits a cycle out, and why: no time, no memory, busy."""

    run: str
    cycle: int
    device: str
    reason: str


Status: TypeAlias = Literal["used", "late", "refused", "declined", "failed", "not needed"]
"""What became of a learner in a cycle.

used: its update is in the average · late: it came after the deadline and is not · refused: it was
not fit to be averaged · declined: the learner sat out · failed: no answer · not needed: the quorum
was there before it answered, or it was given nothing to do
"""


@dataclass(frozen=True, slots=True, kw_only=True)
class DeviceRecord(Shown):
    """What became of one learner in one cycle, as the orchestrator saw it."""

    device: str
    status: Status
    reason: str = ""
    planned_shards: int | None = None
    """None where the learner was left to decide."""
    shards: int = 0
    batches: int = 0
    samples: int = 0
    halted: bool = False
    loss: float | None = None
    fetched_s: float | None = None
    """When it had what it asked for, in seconds after the cycle began."""
    answered_s: float | None = None
    """When its answer arrived, in seconds after the cycle began."""
    timings: Timings | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class RoundRecord(Shown):
    """What happened in one cycle."""

    run: str
    cycle: int
    started_s: float
    """Since the run began, on the world's own clock."""
    ended_s: float
    deadline_s: float
    devices: tuple[DeviceRecord, ...]
    """In the order of their names, never of their arrival."""
    batches: int
    """Behind the average."""
    accuracy: float | None = None
    loss: float | None = None
    digest: str = ""
    """Of the parameters that came out: two runs that agree here agree in every bit."""
    epoch: int | None = None
    """Of whoever led the run in this cycle; None, and left out of files, where nobody stands by."""

    @property
    def duration_s(self) -> float:
        """How long the cycle took."""
        return self.ended_s - self.started_s

    @property
    def truancy(self) -> float:
        """By which part of the deadline the cycle overran it; negative when it ended early."""
        return (self.duration_s - self.deadline_s) / self.deadline_s

    def with_status(self, *statuses: Status) -> Sequence[DeviceRecord]:
        """The learners that ended so."""
        return [device for device in self.devices if device.status in statuses]


def check_positive(name: str, value: float) -> None:
    """Raise unless it is a finite number above zero."""
    if not _is_finite(value) or value <= 0:
        raise ConfigurationError(f"{name} must be a finite number above 0, got {_told(value)}")


def check_amount(name: str, value: float) -> None:
    """Raise unless it is a finite number of at least zero."""
    if not _is_finite(value) or value < 0:
        raise ConfigurationError(
            f"{name} must be a finite number of at least 0, got {_told(value)}"
        )


def check_whole(name: str, value: int, *, least: int) -> None:
    """Raise unless it is a whole number of at least that much."""
    if isinstance(value, bool) or not isinstance(value, int) or value < least:
        raise ConfigurationError(
            f"{name} must be a whole number of at least {least}, got {_told(value)}"
        )


def _is_finite(value: object) -> bool:
    if isinstance(value, bool) or not isinstance(value, (int, float)):
        return False
    # A whole number may be finite and yet too large for any arithmetic that follows.
    return abs(value) <= sys.float_info.max


def _told(value: object, most: int = 100) -> str:
    """A value in a message; Python does not write out whole numbers of thousands of digits."""
    if isinstance(value, int) and value.bit_length() > 400:
        return f"a number of {value.bit_length()} bits"
    text = repr(value)
    return text if len(text) <= most else f"{text[:most]}…"
