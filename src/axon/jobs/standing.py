"""Where tasks stand, and what they are run by: the values that a manager keeps."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass, field
from decimal import Decimal
from typing import Literal, TypeAlias

from axon.errors import ConfigurationError
from axon.jobs.ledger import Promise, money
from axon.jobs.submission import Submission, Work
from axon.values import check_positive, check_whole

State: TypeAlias = Literal["waiting", "running", "done", "cancelled", "failed"]
ENDED: tuple[State, ...] = ("done", "cancelled", "failed")

Shares: TypeAlias = Mapping[str, Promise]
"""What each learner of a task is to train in a cycle."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Rules:
    """What tasks are planned by."""

    budget: Decimal
    """What one cycle of all running tasks together may cost."""
    price: Decimal = Decimal(1)
    """What a learner asks for a shard that names no price."""
    prices: Mapping[str, Decimal] = field(default_factory=dict)
    least_shards: int = 0
    """What every free learner gets at least, as D_l in the thesis. From 1 on MED makes all of them
    serve, however slow they are and however small the tasks, so that one learner too many leaves no
    plan within the deadline; with 0 they may stay idle until a task comes that needs them."""
    benchmark_shards: int = 8
    """What a learner benchmarks itself on before it is planned for on a new kind of task."""
    replan_every: int | None = None
    """So many cycles after a task was planned it is planned anew, with what is told by then;
    None does it only when tasks or learners come or go."""
    time_limit_s: float = 1.0
    """For one plan. One that reaches it depends on how quick this machine is."""
    learns: bool = True
    """Whether plans go by the states that learners have found themselves in over their cycles, and
    not for ever by what they told before the first one."""
    ask_every: int = 5
    """A learner is asked for its states once in so many cycles, of all tasks together, at most."""
    attempts: int = 3
    """How many cycles in a row may bring nothing before the task has failed."""

    def __post_init__(self) -> None:
        object.__setattr__(self, "budget", money(self.budget))
        object.__setattr__(self, "price", money(self.price))
        prices = {name: money(price) for name, price in self.prices.items()}
        object.__setattr__(self, "prices", prices)
        check_whole("least_shards", self.least_shards, least=0)
        for name in ("benchmark_shards", "attempts", "ask_every"):
            check_whole(name, getattr(self, name), least=1)
        if self.replan_every is not None:
            check_whole("replan_every", self.replan_every, least=1)
        check_positive("time_limit_s", self.time_limit_s)

    def check_priced(self, learners: Collection[str]) -> None:
        """Raise for a price of a learner that is none of these, of which there are no others."""
        unknown = sorted(set(self.prices) - set(learners))
        if unknown:
            raise ConfigurationError(
                f"there is a price for {', '.join(unknown)}, which the fleet does not have",
                hint=f"its devices are {', '.join(sorted(learners))}",
            )

    def price_of(self, learner: str) -> Decimal:
        """What that learner asks for a shard."""
        return self.prices.get(learner, self.price)


@dataclass(frozen=True, slots=True, kw_only=True)
class Moment:
    """When something happened to a task, and after which of its cycles."""

    cycle: int
    at_s: float
    """On the manager's clock."""
    number: int
    """Among all that happened, since some of it happens at the same time."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Standing:
    """All that is kept of a task beside its records, its checkpoint and its plans."""

    submission: Submission
    work: Work
    place: int
    """In the order in which tasks came."""
    arrived_s: float
    state: State = "waiting"
    reason: str = ""
    """Why it waits, why it failed, or what is to be said of it though it is done."""
    zero_s: float = 0.0
    """The manager's time at which the clock of its records stood at 0."""
    seen: int = -1
    """The last change after which it was planned, or tried to be."""
    planned: int = 0
    """The first cycle of the plan in force."""
    tried: tuple[str, ...] = ()
    """The running tasks beside which it could not be placed since that change."""
    begun: Moment | None = None
    """When its last cycle began."""
    ended: Moment | None = None
    """When its last cycle ended, or all of it."""
    misses: int = 0
    """Cycles in a row that brought nothing."""
    fleet: str = ""
    """What the world must remember of its learners once it has ended."""

    @property
    def name(self) -> str:
        """Of the task, and of the run that it is kept as."""
        return self.submission.name


@dataclass(frozen=True, slots=True, kw_only=True)
class Planning:
    """When a plan was begun, after which change, and for which tasks beside those that run."""

    at_s: float
    version: int
    waiting: tuple[str, ...] = ()
    cycles: int = 0
    """How many had ended; others may end while learners are asked."""
    kinds: tuple[str, ...] = ()
    """What learners are asked about: the kinds of all tasks that have not ended."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Affairs:
    """What is kept of all tasks together."""

    version: int = 0
    """How often a task or a learner came or went."""
    changed_s: float = 0.0
    """When it last did."""
    numbered: int = 0
    """How many moments there were."""
    cycles: int = 0
    """How many cycles have ended."""
    available: tuple[str, ...] = ()
    """The learners that plans count on."""
    holding: bool = False
    """Whether all tasks wait at their boundaries to be planned together."""
    planning: Planning | None = None
    """The plan that is being made, for which learners may be benchmarking themselves."""
    rules: Rules | None = None
    """What was planned by."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Admission:
    """What a requester is told at once."""

    verdict: Literal["admitted", "waiting", "refused"]
    reason: str = ""
    """Why not yet, or why not, and what would make it possible."""


@dataclass(frozen=True, slots=True, kw_only=True)
class TaskView:
    """One task, for people who look at it."""

    name: str
    state: State
    cycle: int
    cycles: int
    accuracy: float | None
    learners: Mapping[str, int]
    """The shards that each is to train in a cycle."""
    spent: Decimal
    reason: str
